"""The Cramér distance of two distributions, and the CRPS of a linear pool that follows from it."""

import numpy as np
import pytest

from skuq.distributions import Empirical, Mixture, Normal, Quantiles, SharedEmpirical, StudentT, affine
from skuq.distributions._cramer import cramer_distances
from skuq.distributions._numerics.cdf_quadrature import value_distances
from tests.distributions.families import ALL, EMPIRICAL, LOC, NORMAL, POINT, QUANTILES, SCALE

every = pytest.mark.parametrize("dist", ALL.values(), ids=ALL.keys())
STEPS = Empirical(LOC[:, np.newaxis] + np.arange(4.0), [0.0, 0.2, 0.5, 0.3])
ONE_SORT = {
    "quantiles": (QUANTILES, Quantiles([0.1, 0.9], QUANTILES.values[:, [1, 3]] + 0.2)),
    "quantiles far apart": (QUANTILES, affine(QUANTILES, 9.0, -1.0)),
    "quantiles whose outer ones are tied": (
        QUANTILES,
        Quantiles([0.2, 0.4, 0.7], LOC[:, np.newaxis] + [0, 0, 1]),
    ),
    "members and quantiles": (EMPIRICAL, QUANTILES),
    "members and weighted members": (EMPIRICAL, STEPS),
    "members of one shape": (SharedEmpirical(LOC, SCALE, [-1.0, 0.0, 3.0]), QUANTILES),
}


def by_mixture(first, second):
    """The distance, from the scores of both and of their mixture."""
    y = first.ppf(0.3)
    return 2 * (first.crps(y) + second.crps(y)) - 4 * Mixture([first, second]).crps(y)


@every
def test_the_crps_of_a_pool_follows_from_scores_and_distances(dist):
    parts, weights = [dist[:2], NORMAL[:2]], np.array([0.3, 0.7])
    y = dist[:2].ppf(0.3)
    distances = cramer_distances(parts)
    scores = np.column_stack([part.crps(y) for part in parts])
    pooled = scores @ weights - distances @ weights @ weights / 2
    np.testing.assert_allclose(pooled, Mixture(parts, weights).crps(y), rtol=1e-4, atol=1e-6)


@every
def test_a_distribution_has_no_distance_from_itself_and_the_same_both_ways(dist):
    distances = cramer_distances([dist[:2], EMPIRICAL[:2], dist[:2]])
    np.testing.assert_allclose(distances[:, 0, 2], 0.0, atol=1e-12)
    np.testing.assert_allclose(distances, distances.transpose(0, 2, 1))
    assert (distances[:, 0, 1] >= 0).all()


@pytest.mark.parametrize(("first", "second"), ONE_SORT.values(), ids=ONE_SORT.keys())
def test_one_sort_integrates_pieces_and_tails_exactly(first, second):
    distance = cramer_distances([first, second])[:, 0, 1]
    np.testing.assert_allclose(distance, value_distances([first, second])[:, 0, 1], rtol=1e-4)
    np.testing.assert_allclose(distance, by_mixture(first, second), rtol=1e-8)
    moved = [affine(part, LOC, 1000 * SCALE) for part in (first, second)]
    np.testing.assert_allclose(cramer_distances(moved)[:, 0, 1], 1000 * SCALE * distance, rtol=1e-9)


def test_tails_of_any_ratio_of_lengths_are_integrated():
    rng = np.random.default_rng(0)
    for ratio in (1e-9, 1e-4, 0.99, 1.0, 1e4):
        values = np.sort(rng.normal(size=(50, 3)), axis=1)
        narrow = Quantiles([0.2, 0.5, 0.8], rng.normal(size=(50, 1)) + ratio * values)
        wide = Quantiles([0.3, 0.5, 0.6], values)
        np.testing.assert_allclose(
            cramer_distances([narrow, wide])[:, 0, 1], value_distances([narrow, wide])[:, 0, 1], rtol=1e-4
        )


def test_distances_of_normal_distributions_and_point_masses_have_closed_forms():
    other = Normal(LOC + 2.0, 0.0)
    np.testing.assert_allclose(cramer_distances([POINT, other])[POINT.scale == 0, 0, 1], 2.0)
    np.testing.assert_allclose(cramer_distances([NORMAL, other])[:, 0, 1], by_mixture(NORMAL, other))
    student = StudentT(LOC, SCALE, 1e9)
    np.testing.assert_allclose(cramer_distances([NORMAL, student])[:, 0, 1], 0.0, atol=1e-12)


def test_blocks_of_rows_change_nothing():
    rows = np.tile(np.arange(len(QUANTILES)), 300)
    for other in (EMPIRICAL, ALL["Recalibrated StudentT"]):
        many = cramer_distances([QUANTILES[rows], other[rows]])[:, 0, 1]
        np.testing.assert_allclose(many, cramer_distances([QUANTILES, other])[rows, 0, 1], rtol=1e-12)
