"""Hurdle distributions: oracles, both sides of the atom, bad arguments."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skuq.distributions import (
    ConformalPredictive,
    Empirical,
    Hurdle,
    Mixture,
    Normal,
    ScipyDistribution,
    Truncated,
)


@pytest.mark.parametrize(("y", "expected"), [(0.0, 0.3270197318648), (4.0, 2.1825055812635)])
def test_the_crps_of_zero_inflated_counts(y, expected):
    dist = Hurdle(0.6, ScipyDistribution(stats.poisson([3.0])))
    assert_allclose(dist.crps(y), expected, rtol=1e-12)


@pytest.mark.parametrize("at", [0.0, 1.3, -2.0])
def test_it_is_a_mixture_with_a_point_mass(at):
    rest = Normal([0.5, 2.0, -1.0], [1.0, 2.0, 0.5])
    p = np.array([0.1, 0.5, 0.9])
    dist = Hurdle(p, rest, at)
    peer = Mixture([Normal(np.full(3, at), 0.0), rest], np.column_stack([p, 1 - p]))
    for y in (-3.0, at, 0.4, 5.0):
        assert_allclose(dist.cdf(y), peer.cdf(y), rtol=1e-12)
        assert_allclose(dist.crps(y), peer.crps(y), rtol=1e-9)
        assert_allclose(dist._mean_distance(np.full(3, y)), peer._mean_distance(np.full(3, y)), rtol=1e-9)
    for level in (0.01, 0.3, 0.5, 0.72, 0.999):
        assert_allclose(dist.ppf(level), peer.ppf(level), rtol=1e-9, atol=1e-12)
        assert_allclose(dist._isf(np.asarray(level)), peer._isf(np.asarray(level)), rtol=1e-9, atol=1e-12)
    assert_allclose([dist.mean(), dist.std()], [peer.mean(), peer.std()], rtol=1e-12)


def test_certain_rows():
    dist = Hurdle([0.0, 1.0], Truncated(Normal([1.0, 1.0], 1.0), 0.0))
    assert_array_equal(dist.ppf(0.99)[1], 0.0)
    assert_array_equal(dist.crps(2.0)[1], 2.0)
    assert dist.ppf(0.0)[0] >= 0.0
    assert_allclose(dist.crps(2.0)[0], Truncated(Normal([1.0], 1.0), 0.0).crps(2.0)[0])


def test_levels_at_the_ends_of_the_atom():
    dist = Hurdle(0.25, ScipyDistribution(stats.uniform([1.0], [1.0])))
    assert_array_equal([dist.ppf(0.25), dist.ppf(0.1), dist._isf(np.asarray(0.75))], 0.0)
    assert_allclose(dist.ppf(0.25 + 0.75 * 0.5), 1.5)


def test_masses():
    dist = Hurdle([0.6], Normal([3.0], 1.0).clip(1.0, integer=True))
    assert dist.has_mass
    assert_allclose(np.exp([dist.logpmf(0.0)[0], dist.logpmf(3.0)[0]]), [0.6, 0.4 * 0.38292492], rtol=1e-6)
    mixed = Hurdle([0.6], Truncated(Normal([3.0], 1.0), 0.0))
    assert not mixed.has_mass
    assert_array_equal(mixed.logpmf(2.0), -np.inf)
    assert_allclose(mixed.logpmf(0.0), np.log(0.6))


def test_tail_mass_at_infinity_is_excluded():
    dist = Hurdle([0.5], ConformalPredictive([2.0], [1.0], [-1.0, 0.0, 1.0]))
    assert_array_equal(dist.interval(0.9), [[0.0, 3.0]])


def test_an_ensemble_with_members_at_the_atom():
    dist = Hurdle([0.5], Empirical([[0.0, 1.0, 2.0, 3.0]]))
    assert_allclose(dist.cdf(0.0), 0.625)
    assert_array_equal([dist.ppf(0.6), dist.ppf(0.64)], [[0.0], [1.0]])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1.2, Normal(0.0, 1.0)), ValueError, r"`p` must lie in \[0, 1\], got 1.2"),
        (
            ([0.1, 0.2], Normal(0.0, 1.0)),
            ValueError,
            r"`p` must be a number or have shape \(1,\), got \(2,\)",
        ),
        ((0.1, Normal(0.0, 1.0), np.nan), ValueError, "`at` must be finite, got nan"),
        ((0.1, 3.0), TypeError, "`dist` must be a Distribution, got float"),
        (("a", Normal(0.0, 1.0)), TypeError, "`p` must hold real numbers"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        Hurdle(*arguments)
