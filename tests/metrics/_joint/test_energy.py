"""Energy score: values of scoringrules, and laws."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skuq.distributions import CopulaJoint, EmpiricalJoint, Normal, NormalJoint, concat, rank_template
from skuq.metrics import crps_loss, energy_score_loss
from tests.distributions._joint.families import ALL, D, N
from tests.metrics._joint.oracle import ENSEMBLE, MEMBERS, WEIGHTED, Y, of_rows, positive

CASES = [
    (ENSEMBLE, {}, (1.174739684903, 0.586974572892)),
    (ENSEMBLE, {"estimator": "fair"}, (0.983444807705, 0.371037094160)),
    (WEIGHTED, {}, (1.094182881485, 0.955188127178)),
    (ENSEMBLE, {"chain": positive}, (0.741524180520, 0.387255063971)),
]


@pytest.mark.parametrize(("dist", "options", "expected"), CASES)
def test_values_of_scoringrules_0_10(dist, options, expected):
    assert_allclose(of_rows(energy_score_loss, dist, **options), expected, rtol=0, atol=1e-10)


def test_values_of_the_installed_scoringrules():
    scoringrules = pytest.importorskip("scoringrules")
    rng = np.random.RandomState(0)
    members, y = rng.normal(size=(6, 12, 3)), rng.normal(size=(6, 3))
    for estimator in ("nrg", "fair"):
        expected = scoringrules.es_ensemble(y, members, estimator=estimator, backend="numpy").mean()
        found = energy_score_loss(y, EmpiricalJoint(members), estimator=estimator)
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("estimator", ["nrg", "fair"])
def test_one_target_is_the_crps(estimator):
    rng = np.random.RandomState(1)
    members, y = rng.normal(size=(30, 15, 1)), rng.normal(size=(30, 1))
    for weights in (None, rng.uniform(size=(30, 15))):
        dist = EmpiricalJoint(members, weights)
        expected = crps_loss(y[:, 0], dist.marginal(0), estimator=estimator)
        chained = energy_score_loss(y, dist, estimator=estimator, chain=lambda values: values)
        assert energy_score_loss(y, dist, estimator=estimator) == pytest.approx(expected, rel=1e-13)
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
    for options in ({}, {"estimator": "fair"}, {"chain": positive}, {"scale": [1.0, 2.0, 3.0]}):
        expected = energy_score_loss(y, copies, **options)
        assert energy_score_loss(y, shared, **options) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("name", ALL)
def test_laws_for_every_family(name):
    dist, rng = ALL[name], np.random.RandomState(3)
    y = dist.mean() + rng.normal(size=(N, D))
    score = energy_score_loss(y, dist)
    order = rng.permutation(N)
    assert energy_score_loss(y[order], dist[order]) == pytest.approx(score, rel=1e-12)
    weight = rng.randint(0, 3, size=N)
    repeated = np.repeat(np.arange(N), weight)
    assert energy_score_loss(y, dist, sample_weight=weight) == pytest.approx(
        energy_score_loss(y[repeated], dist[repeated]), rel=1e-12
    )
    assert energy_score_loss(y, dist, scale=2.0) == pytest.approx(score / 2, rel=1e-12)
    frame = pd.DataFrame(y, columns=list(dist.names))
    assert energy_score_loss(frame, dist) == score
    assert 0 < score < energy_score_loss(dist.mean() + 50.0, dist)


def test_the_true_distribution_has_the_best_expected_score():
    covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    y = np.random.RandomState(4).multivariate_normal([0.0, 0.0], covariance, size=600)
    zeros = np.zeros((600, 2))
    true = energy_score_loss(y, NormalJoint(zeros, covariance))
    for other in (np.eye(2), 1.4 * covariance, 0.7 * covariance, 2 * np.eye(2) - covariance):
        assert true < energy_score_loss(y, NormalJoint(zeros, other))


def test_fair_scores_have_the_same_mean_for_ensembles_of_all_sizes():
    rng = np.random.RandomState(5)
    y = rng.normal(size=(4000, 2))
    scores = {
        estimator: [
            energy_score_loss(y, EmpiricalJoint(rng.normal(size=(4000, m, 2))), estimator=estimator)
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


def test_rows_of_several_families():
    both = concat([ENSEMBLE, NormalJoint(Y, np.eye(3))])
    first, second = energy_score_loss(Y, ENSEMBLE), energy_score_loss(Y, NormalJoint(Y, np.eye(3)))
    assert energy_score_loss(np.concatenate([Y, Y]), both) == pytest.approx((first + second) / 2, rel=1e-12)


@pytest.mark.parametrize(
    ("y", "dist", "options", "error", "message"),
    [
        (Y, Normal([0.0, 0.0], 1.0), {}, TypeError, "univariate Normal.*`crps_loss`"),
        (Y, MEMBERS, {}, TypeError, r"EmpiricalJoint\(members\)"),
        (None, ENSEMBLE, {}, ValueError, "`y_true` must hold observed values"),
        (Y[:, :2], ENSEMBLE, {}, ValueError, "`y_true` must have shape"),
        (Y[:1], ENSEMBLE, {}, ValueError, "`y_true` must have 2 rows"),
        (Y * np.nan, ENSEMBLE, {}, ValueError, "`y_true` must be finite"),
        (Y, ENSEMBLE, {"estimator": "akr"}, ValueError, "`estimator` must be one of"),
        (Y, ENSEMBLE, {"scale": [1.0, 0.0, 1.0]}, ValueError, "`scale` must be positive"),
        (Y, ENSEMBLE, {"scale": [1.0]}, ValueError, "`scale` must be a number or have shape"),
        (Y, ENSEMBLE, {"scale": "range"}, ValueError, "`scale` must be one of 'std'"),
        (Y * [1, 0, 1], ENSEMBLE, {"scale": "std"}, ValueError, "column 1 is constant"),
        (Y, ENSEMBLE, {"chain": 3}, TypeError, "`chain` must be callable"),
        (Y, ENSEMBLE, {"chain": lambda y: y[..., 0]}, ValueError, "`chain` must map points"),
        (Y, ENSEMBLE, {"sample_weight": [1.0]}, ValueError, "`sample_weight` must have 2 rows"),
        (Y, EmpiricalJoint(MEMBERS[:, :1]), {"estimator": "fair"}, ValueError, "at least two points"),
    ],
)
def test_bad_input(y, dist, options, error, message):
    with pytest.raises(error, match=message):
        energy_score_loss(y, dist, **options)
