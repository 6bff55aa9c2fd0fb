"""Rank histograms of joint distributions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skuq.distributions import CopulaJoint, EmpiricalJoint, NormalJoint, normal_template
from skuq.metrics import joint_rank_histogram
from skuq.metrics._joint.rank_histogram import rank_ranges

COVARIANCE = np.array([[1.0, 0.8], [0.8, 1.0]])
ZEROS = np.zeros((600, 2))
Y = np.random.RandomState(0).multivariate_normal([0.0, 0.0], COVARIANCE, size=600)


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
        histogram = joint_rank_histogram(Y, dist, kind=kind)
        assert histogram.proportions.sum() == pytest.approx(1.0)
        assert histogram.reliability_index < 0.2
    assert joint_rank_histogram(Y, NormalJoint(ZEROS, np.eye(2)), kind=kind).reliability_index > 0.3


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


def test_weak_dependence_gives_high_bins_at_both_ends():
    shares = joint_rank_histogram(Y, NormalJoint(ZEROS, np.eye(2)), n_bins=5).proportions
    assert min(shares[0], shares[-1]) > 0.22
    assert shares[1:-1].max() < 0.18


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


def test_ties_are_spread_evenly():
    same = EmpiricalJoint(np.zeros((4, 6, 2)))
    assert_allclose(joint_rank_histogram(np.zeros((4, 2)), same, n_bins=4).proportions, 0.25)
    weighted = EmpiricalJoint(np.zeros((4, 6, 2)), [1, 2, 3, 4, 5, 6])
    for kind in ("average_rank", "band_depth"):
        shares = joint_rank_histogram(np.zeros((4, 2)), weighted, kind=kind, n_bins=4).proportions
        assert_allclose(shares, 0.25)


def test_the_order_of_weighted_points_does_not_matter():
    rng = np.random.RandomState(4)
    points, y = (
        rng.randint(0, 3, size=(30, 6, 2)).astype(float),
        rng.randint(0, 3, size=(30, 2)).astype(float),
    )
    weight, order = rng.randint(1, 4, size=6).astype(float), rng.permutation(6)
    for kind in ("average_rank", "band_depth"):
        first, second = (
            joint_rank_histogram(y, EmpiricalJoint(points[:, of], weight[of]), kind=kind, n_bins=5)
            for of in (np.arange(6), order)
        )
        assert_allclose(first.proportions, second.proportions, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"kind": "minimum"}, "`kind` must be one of"), ({"n_bins": 1}, "`n_bins` must be at least 2")],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        joint_rank_histogram(Y, NormalJoint(ZEROS, COVARIANCE), **options)
