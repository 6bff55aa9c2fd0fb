"""Scores and rank histograms of joint distributions: values of scoringrules, and laws."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skuq.distributions import Normal, concat
from skuq.metrics import crps_loss
from skuq.multivariate import (
    CopulaJoint,
    EmpiricalJoint,
    NormalJoint,
    dawid_sebastiani_loss,
    energy_score_loss,
    joint_rank_histogram,
    linear_crps_loss,
    mean_crps_loss,
    normal_template,
    rank_template,
    variogram_score_loss,
)
from skuq.multivariate._rank_histogram import rank_ranges
from tests.multivariate.families import ALL, D, N

# two rows with five members and three targets, whose scores were computed with scoringrules 0.10.0
_I = np.arange(5.0)
MEMBERS = np.array(
    [
        np.column_stack([np.sin(_I + 1), np.cos(2 * _I), _I / 2]),
        np.column_stack([_I - 2, (_I - 2) ** 2 / 4, -_I / 5]),
    ]
)
Y = np.array([[0.5, -1.0, 2.0], [0.0, 0.0, 0.0]])
ENSEMBLE = EmpiricalJoint(MEMBERS)
WEIGHTED = EmpiricalJoint(MEMBERS, [[1.0, 2.0, 3.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0, 4.0]])


def positive(values):
    """Chaining function of a score of positive values."""
    return np.maximum(values, 0.0)


def of_rows(metric, dist, **options):
    """Return the metric of each row."""
    return [metric(Y[[row]], dist[[row]], **options) for row in range(len(Y))]


CASES = [
    (ENSEMBLE, {}, (1.174739684903, 0.586974572892)),
    (ENSEMBLE, {"crps_estimator": "fair"}, (0.983444807705, 0.371037094160)),
    (WEIGHTED, {}, (1.094182881485, 0.955188127178)),
    (ENSEMBLE, {"chain": positive}, (0.741524180520, 0.387255063971)),
]
PAIRS = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.25], [0.5, 0.25, 0.0]])
VARIOGRAM_CASES = [
    ({}, (1.015220035980, 6.213159863610)),
    ({"crps_estimator": "fair"}, (0.852956866819, 5.956449829512)),
    ({"p": 1}, (6.699534133729, 9.1208)),
    ({"p": 1, "crps_estimator": "fair"}, (5.922507573726, 8.136)),
    ({"p": 2}, (104.603862606294, 32.5129)),
    ({"p": 2, "crps_estimator": "fair"}, (97.229876213855, 22.5112825)),
    ({"pair_weight": PAIRS}, (0.387043277515, 3.579121505199)),
    ({"chain": positive}, (0.527533925464, 2.092684331493)),
]


@pytest.mark.parametrize(("dist", "options", "expected"), CASES)
def test_values_of_scoringrules_0_10(dist, options, expected):
    assert_allclose(of_rows(energy_score_loss, dist, **options), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("options", "expected"), VARIOGRAM_CASES)
def test_variogram_scores_of_scoringrules_0_10(options, expected):
    assert_allclose(of_rows(variogram_score_loss, ENSEMBLE, **options), expected, rtol=0, atol=1e-10)


def test_values_of_the_installed_scoringrules():
    scoringrules = pytest.importorskip("scoringrules")
    rng = np.random.RandomState(0)
    members, y = rng.normal(size=(6, 12, 3)), rng.normal(size=(6, 3))
    for estimator in ("nrg", "fair"):
        expected = scoringrules.es_ensemble(y, members, estimator=estimator, backend="numpy").mean()
        found = energy_score_loss(y, EmpiricalJoint(members), crps_estimator=estimator)
        assert found == pytest.approx(expected, rel=1e-12)
    for p in (0.5, 1.0):
        expected = scoringrules.vs_ensemble(y, members, p=p, backend="numpy").mean()
        assert variogram_score_loss(y, EmpiricalJoint(members), p=p) == pytest.approx(expected, rel=1e-12)


def test_the_variogram_score_ignores_a_constant_added_to_all_targets():
    moved = EmpiricalJoint(ENSEMBLE.members + 7.0)
    assert variogram_score_loss(Y, moved) == pytest.approx(variogram_score_loss(Y, ENSEMBLE), rel=1e-12)
    assert variogram_score_loss(Y[:, :1], EmpiricalJoint(ENSEMBLE.members[..., :1])) == 0.0


@pytest.mark.parametrize("estimator", ["nrg", "fair"])
def test_one_target_is_the_crps(estimator):
    rng = np.random.RandomState(1)
    members, y = rng.normal(size=(30, 15, 1)), rng.normal(size=(30, 1))
    for weights in (None, rng.uniform(size=(30, 15))):
        dist = EmpiricalJoint(members, weights)
        expected = crps_loss(y[:, 0], dist.marginal(0), crps_estimator=estimator)
        chained = energy_score_loss(y, dist, crps_estimator=estimator, chain=lambda values: values)
        assert energy_score_loss(y, dist, crps_estimator=estimator) == pytest.approx(expected, rel=1e-13)
        assert chained == pytest.approx(expected, rel=1e-13)
    template = CopulaJoint([Normal(np.zeros(30), 1.0)], rank_template(np.arange(99.0)[:, np.newaxis]))
    assert energy_score_loss(y, template) == crps_loss(y[:, 0], template.marginal(0))


def test_tight_clusters_far_apart_are_exact():
    """The expansion of squared distances into products has an error of the size of the spread."""
    spread = 2.0**-30
    offset = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    members = np.concatenate([spread * offset, 1.0 + spread * offset])
    tight = EmpiricalJoint((members[4:] - 1.0) / spread)
    both = EmpiricalJoint(members[4:])
    y = np.ones((1, 2))
    assert energy_score_loss(y, both) / spread == pytest.approx(energy_score_loss(y - 1.0, tight), rel=1e-14)


def test_common_members_with_row_weights_equal_their_copies():
    rng = np.random.RandomState(2)
    members, weights, y = rng.normal(size=(20, 3)), rng.uniform(size=(7, 20)), rng.normal(size=(7, 3))
    shared, copies = EmpiricalJoint(members, weights), EmpiricalJoint(np.tile(members, (7, 1, 1)), weights)
    for options in ({}, {"crps_estimator": "fair"}, {"chain": positive}, {"scale": [1.0, 2.0, 3.0]}):
        expected = energy_score_loss(y, copies, **options)
        assert energy_score_loss(y, shared, **options) == pytest.approx(expected, rel=1e-13)
    # rows of several families
    parts = [ENSEMBLE, NormalJoint(Y, np.eye(3))]
    expected = np.mean([energy_score_loss(Y, part) for part in parts])
    assert energy_score_loss(np.concatenate([Y, Y]), concat(parts)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("metric", [energy_score_loss, variogram_score_loss])
def test_laws_for_every_family(name, metric):
    dist, rng = ALL[name], np.random.RandomState(3)
    y = dist.mean() + rng.normal(size=(N, D))
    score = metric(y, dist)
    order = rng.permutation(N)
    assert metric(y[order], dist[order]) == pytest.approx(score, rel=1e-12)
    weight = rng.randint(0, 3, size=N)
    repeated = np.repeat(np.arange(N), weight)
    weighted = metric(y, dist, sample_weight=weight)
    assert weighted == pytest.approx(metric(y[repeated], dist[repeated]), rel=1e-12)
    powers = [{}] if metric is energy_score_loss else [{"p": 0.5}, {"p": 1.0}]
    for options in powers:
        expected = metric(y, dist, **options) / 2 ** (2 * options.get("p", 0.5))
        assert metric(y, dist, scale=2.0, **options) == pytest.approx(expected, rel=1e-12)
    assert metric(pd.DataFrame(y, columns=list(dist.names)), dist) == score
    if metric is energy_score_loss:
        assert 0 < score < metric(dist.mean() + 50.0, dist)
    else:
        assert score > 0


BOTH = [pytest.param(energy_score_loss, marks=pytest.mark.laws), variogram_score_loss]


@pytest.mark.parametrize("metric", BOTH)
def test_the_true_distribution_has_the_best_expected_score(metric):
    covariance, independent = np.array([[1.0, 0.8], [0.8, 1.0]]), np.eye(2)
    y = np.random.RandomState(4).multivariate_normal([0.0, 0.0], covariance, size=600)
    zeros = np.zeros((600, 2))
    true = metric(y, NormalJoint(zeros, covariance))
    for other in (independent, 1.4 * covariance, 0.7 * covariance, 2 * independent - covariance):
        assert true < metric(y, NormalJoint(zeros, other))
    if metric is variogram_score_loss:  # A wrong dependence costs much.
        assert true < 0.6 * metric(y, NormalJoint(zeros, independent))


def test_fair_scores_have_the_same_mean_for_ensembles_of_all_sizes():
    rng = np.random.RandomState(5)
    y = rng.normal(size=(4000, 2))
    scores = {
        estimator: [
            energy_score_loss(y, EmpiricalJoint(rng.normal(size=(4000, m, 2))), crps_estimator=estimator)
            for m in (3, 30)
        ]
        for estimator in ("nrg", "fair")
    }
    assert abs(np.diff(scores["fair"])) < 0.03
    assert abs(np.diff(scores["nrg"])) > 0.15


def test_std_scale_does_not_depend_on_the_units():
    dist, y = ENSEMBLE, np.array([[0.5, -1.0, 2.0], [0.3, 0.2, 0.1]])
    units = np.array([1.0, 1e6, 1e-3])
    moved = EmpiricalJoint(MEMBERS * units)
    expected = energy_score_loss(y, dist, scale="std")
    assert energy_score_loss(y * units, moved, scale="std") == pytest.approx(expected, rel=1e-9)
    weight = np.array([1.0, 3.0])
    std = np.sqrt(np.average((y - np.average(y, axis=0, weights=weight)) ** 2, axis=0, weights=weight))
    assert energy_score_loss(y, dist, scale="std", sample_weight=weight) == pytest.approx(
        energy_score_loss(y, dist, scale=std, sample_weight=weight), rel=1e-12
    )


def test_bad_input():
    for y, dist, options, error, message in (
        (Y, Normal([0.0, 0.0], 1.0), {}, TypeError, "univariate Normal.*`crps_loss`"),
        (Y, MEMBERS, {}, TypeError, r"EmpiricalJoint\(members\)"),
        (None, ENSEMBLE, {}, ValueError, "`y_true` must hold observed values"),
        (Y[:, :2], ENSEMBLE, {}, ValueError, "`y_true` must have shape"),
        (Y[:1], ENSEMBLE, {}, ValueError, "`y_true` must have 2 rows"),
        (Y * np.nan, ENSEMBLE, {}, ValueError, "`y_true` must be finite"),
        (Y, ENSEMBLE, {"crps_estimator": "akr"}, ValueError, "`crps_estimator` must be one of"),
        (Y, ENSEMBLE, {"scale": [1.0, 0.0, 1.0]}, ValueError, "`scale` must be positive"),
        (Y, ENSEMBLE, {"scale": [1.0]}, ValueError, "`scale` must be a number or have shape"),
        (Y, ENSEMBLE, {"scale": "range"}, ValueError, "`scale` must be one of 'std'"),
        (Y * [1, 0, 1], ENSEMBLE, {"scale": "std"}, ValueError, "column 1 is constant"),
        (Y, ENSEMBLE, {"chain": 3}, TypeError, "`chain` must be callable"),
        (Y, ENSEMBLE, {"chain": lambda y: y[..., 0]}, ValueError, "`chain` must map points"),
        (Y, ENSEMBLE, {"sample_weight": [1.0]}, ValueError, "`sample_weight` must have 2 rows"),
        (Y, EmpiricalJoint(MEMBERS[:, :1]), {"crps_estimator": "fair"}, ValueError, "at least two points"),
    ):
        with pytest.raises(error, match=message):
            energy_score_loss(y, dist, **options)
    for options, error, message in (
        ({"p": 0}, ValueError, "`p` must be positive"),
        ({"p": "half"}, TypeError, "`p` must be a number"),
        ({"pair_weight": np.ones((2, 2))}, ValueError, r"`pair_weight` must have shape \(3, 3\)"),
        ({"pair_weight": -PAIRS}, ValueError, "`pair_weight` must be non-negative"),
        ({"crps_estimator": "akr"}, ValueError, "`crps_estimator` must be one of"),
    ):
        with pytest.raises(error, match=message):
            variogram_score_loss(Y, ENSEMBLE, **options)


VARIED = np.array(MEMBERS)
VARIED[1, :, 0], VARIED[1, :, 2] = [-2, 1, 0, -1, 3], [0.3, -0.1, 0.4, 0.2, -0.6]


def test_dawid_sebastiani_of_scoringrules_0_10():
    found = of_rows(dawid_sebastiani_loss, EmpiricalJoint(VARIED), crps_estimator="fair")
    assert_allclose(found, (134.4985977062, 0.9936695196), rtol=0, atol=1e-10)


def test_dawid_sebastiani_is_the_log_score_of_normals():
    dist, loss = ALL["row covariances"], dawid_sebastiani_loss
    y = dist.mean() + 0.3
    log_score = -dist.logpdf(y).mean()
    assert 2 * log_score - D * np.log(2 * np.pi) == pytest.approx(loss(y, dist), rel=1e-12)
    assert loss(y, dist, crps_estimator="fair") == loss(y, dist)
    moved = NormalJoint(3 * dist.loc, 9 * dist.covariance)
    assert loss(3 * y, moved) == pytest.approx(loss(y, dist) + 2 * D * np.log(3), rel=1e-12)
    # rows of several families
    parts = [EmpiricalJoint(VARIED), NormalJoint(Y, np.eye(3))]
    both, y = concat(parts)[[0, 3, 1, 2]], np.concatenate([Y, Y])[[0, 3, 1, 2]]
    expected = np.mean([loss(Y, part, crps_estimator="fair") for part in parts])
    assert loss(y, both, crps_estimator="fair") == pytest.approx(expected, rel=1e-12)
    for singular in (ENSEMBLE, NormalJoint(Y, np.ones((3, 3))), NormalJoint(Y, np.diag([1.0, 0.0, 1.0]))):
        with pytest.raises(ValueError, match=r"positive definite covariance.*at row [01]"):
            loss(Y, singular)


@pytest.mark.parametrize("name", ALL)
def test_mean_crps_and_crps_of_a_sum(name):
    dist, rng = ALL[name], np.random.RandomState(3)
    y, weight = dist.mean() + rng.normal(size=(N, D)), rng.randint(0, 3, size=N)
    given = {"sample_weight": weight}
    columns = [crps_loss(y[:, j], dist.marginal(j), **given) / 2**j for j in range(3)]
    assert mean_crps_loss(y, dist, **given, scale=[1.0, 2.0, 4.0]) == pytest.approx(
        np.mean(columns), rel=1e-12
    )
    total = crps_loss(y.sum(axis=1), dist.linear(np.ones(D)), **given)
    assert linear_crps_loss(y, dist, **given) == pytest.approx(total, rel=1e-9)
    one = linear_crps_loss(y, dist, w=[0.0, 1.0, 0.0])
    assert one == pytest.approx(crps_loss(y[:, 1], dist.marginal(1)), rel=1e-12)
    for w in ([1.0], [1.0, np.nan, 0.0]):
        with pytest.raises(ValueError, match="`w` must"):
            linear_crps_loss(y, dist, w=w)


COVARIANCE = np.array([[1.0, 0.8], [0.8, 1.0]])
ZEROS = np.zeros((600, 2))
TARGETS = np.random.RandomState(0).multivariate_normal([0.0, 0.0], COVARIANCE, size=600)


def band_depth(ranks, m):
    """Definition of Thorarinsdottir et al. (2016), with m vectors."""
    return ((m - ranks) * (ranks - 1)).mean(axis=-1) + m - 1


def test_ranks_by_their_definition():
    rng = np.random.RandomState(1)
    members, y = rng.normal(size=(5, 9, 3)), rng.normal(size=(5, 3))
    pooled = np.concatenate([y[:, np.newaxis], members], axis=1)
    ranks = pooled.argsort(axis=1).argsort(axis=1) + 1.0
    for kind, values in (("average_rank", ranks.mean(axis=2)), ("band_depth", band_depth(ranks, 10))):
        lower, upper = rank_ranges(y, EmpiricalJoint(members), kind)
        rounded = values.round(9)
        assert_allclose(lower, (rounded < rounded[:, :1]).mean(axis=1))
        assert_allclose(upper, (rounded <= rounded[:, :1]).mean(axis=1))


@pytest.mark.parametrize("kind", ["average_rank", "band_depth"])
def test_calibrated_forecasts_are_uniform_and_others_are_not(kind):
    members = np.random.RandomState(2).multivariate_normal([0.0, 0.0], COVARIANCE, size=(600, 20))
    for dist in (
        NormalJoint(ZEROS, COVARIANCE),
        EmpiricalJoint(members),
        CopulaJoint(NormalJoint(ZEROS, COVARIANCE).marginals(), normal_template(COVARIANCE)),
    ):
        histogram = joint_rank_histogram(TARGETS, dist, kind=kind)
        assert histogram.proportions.sum() == pytest.approx(1.0)
        assert histogram.reliability_index < 0.2
    assert joint_rank_histogram(TARGETS, NormalJoint(ZEROS, np.eye(2)), kind=kind).reliability_index > 0.3


@pytest.mark.laws
def test_the_two_kinds_detect_different_errors():
    """Correlations of opposite signs cancel in the mean of the ranks."""
    correlation = np.array([[1.0, 0.6, -0.6], [0.6, 1.0, 0.0], [-0.6, 0.0, 1.0]])
    y = np.random.RandomState(6).multivariate_normal(np.zeros(3), correlation, size=3000)
    independent = NormalJoint(np.zeros((3000, 3)), np.eye(3))
    average, depth = (
        joint_rank_histogram(y, independent, kind=kind).reliability_index
        for kind in ("average_rank", "band_depth")
    )
    assert average < 0.12
    assert depth > 0.2


def test_equal_weights_of_points_and_repeated_rows():
    rng = np.random.RandomState(3)
    members, y = rng.normal(size=(40, 11, 2)), rng.normal(size=(40, 2))
    plain = joint_rank_histogram(y, EmpiricalJoint(members), n_bins=5)
    weighted = joint_rank_histogram(y, EmpiricalJoint(members, np.ones(11)), n_bins=5)
    assert_allclose(weighted.proportions, plain.proportions, rtol=1e-12)
    weight = rng.randint(0, 3, size=40)
    rows = np.repeat(np.arange(40), weight)
    found = joint_rank_histogram(y, EmpiricalJoint(members), n_bins=5, sample_weight=weight)
    repeated = joint_rank_histogram(y[rows], EmpiricalJoint(members)[rows], n_bins=5)
    assert_allclose(found.proportions, repeated.proportions, rtol=1e-12)
    assert found.n_rows == repeated.n_rows


def test_the_order_of_weighted_points_does_not_matter():
    rng = np.random.RandomState(4)
    points, y = (rng.randint(0, 3, size=shape).astype(float) for shape in ((30, 6, 2), (30, 2)))
    weight, order = rng.randint(1, 4, size=6).astype(float), rng.permutation(6)
    for kind in ("average_rank", "band_depth"):
        first, second = (
            joint_rank_histogram(y, EmpiricalJoint(points[:, of], weight[of]), kind=kind, n_bins=5)
            for of in (np.arange(6), order)
        )
        assert_allclose(first.proportions, second.proportions, rtol=1e-12)


def test_ties_are_spread_evenly_and_bad_options_are_refused():
    same = EmpiricalJoint(np.zeros((4, 6, 2)))
    assert_allclose(joint_rank_histogram(np.zeros((4, 2)), same, n_bins=4).proportions, 0.25)
    weighted = EmpiricalJoint(np.zeros((4, 6, 2)), [1, 2, 3, 4, 5, 6])
    for kind in ("average_rank", "band_depth"):
        shares = joint_rank_histogram(np.zeros((4, 2)), weighted, kind=kind, n_bins=4).proportions
        assert_allclose(shares, 0.25)
    kind, bins = "`kind` must be one of", "`n_bins` must be at least 2"
    for options, message in (({"kind": "minimum"}, kind), ({"n_bins": 1}, bins)):
        with pytest.raises(ValueError, match=message):
            joint_rank_histogram(TARGETS, NormalJoint(ZEROS, COVARIANCE), **options)
