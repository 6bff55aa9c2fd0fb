"""Truncated distributions: a peer, both tails, rows without mass, bad arguments."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from skuq.distributions import Empirical, Mixture, Normal, ScipyDistribution, StudentT, Truncated

LOC, SCALE = np.array([0.3, -2.0, 5.0]), np.array([1.0, 1.5, 0.7])


def peer(lower, upper):
    return stats.truncnorm((lower - LOC) / SCALE, (upper - LOC) / SCALE, LOC, SCALE)


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1.5), (0.0, np.inf), (-np.inf, 1.5), (4.0, np.inf)])
def test_normal_against_scipy(lower, upper):
    dist, expected = Truncated(Normal(LOC, SCALE), lower, upper), peer(lower, upper)
    y = expected.ppf(0.35)
    assert_allclose(dist.cdf(y), 0.35, rtol=1e-9)
    for level in (1e-9, 0.2, 0.97):
        assert_allclose(dist.ppf(level), expected.ppf(level), rtol=1e-7, atol=1e-12)
        assert_allclose(dist._isf(np.asarray(level)), expected.isf(level), rtol=1e-7, atol=1e-12)
    assert_allclose(dist.logpdf(y), expected.logpdf(y), rtol=1e-8)
    assert_allclose(dist.mean(), expected.mean(), rtol=1e-7)
    assert_allclose(dist.std(), expected.std(), rtol=1e-6)


def test_the_crps_is_that_of_scoringrules():
    sr = pytest.importorskip("scoringrules")
    dist = Truncated(Normal(LOC, SCALE), 0.0, 1.5)[:2]
    for y in (0.0, 0.7, 1.4):
        assert_allclose(dist.crps(y), sr.crps_tnormal(np.full(2, y), LOC[:2], SCALE[:2], 0.0, 1.5), rtol=1e-7)
    assert_allclose(dist.crps(0.7)[0], 0.1173787877294501, rtol=1e-8)


def test_the_crps_in_a_tail_of_the_base():
    dist, expected = Truncated(Normal(LOC, SCALE), 0.0, 1.5)[2], peer(0.0, 1.5)

    def integral(low, high, power):
        return integrate.quad(lambda x: abs(expected.cdf(x)[2] - power) ** 2, low, high, epsabs=1e-13)[0]

    assert_allclose(dist.crps(1.4), integral(0.0, 1.4, 0) + integral(1.4, 1.5, 1), rtol=1e-8)


def test_a_far_tail_is_precise():
    dist = Truncated(Normal([0.0, 0.0], 1.0), [20.0, -np.inf], [np.inf, -20.0])
    excess = stats.norm.isf(0.5 * stats.norm.sf(20.0))
    assert_allclose(dist.median(), [excess, -excess], rtol=1e-12)
    assert_allclose(dist.cdf(dist.median()), 0.5, rtol=1e-9)


def test_a_row_without_mass_is_a_point_mass_at_the_nearer_bound():
    dist = Truncated(Normal([0.0, 0.0], 0.1), [50.0, -np.inf], [np.inf, -50.0])
    assert_allclose(dist.interval(0.9), [[50.0, 50.0], [-50.0, -50.0]])
    assert_allclose(dist.crps(51.0), [1.0, 101.0])
    assert_allclose((dist.mean(), dist.std()), [[50.0, -50.0], [0.0, 0.0]], atol=1e-9)
    assert not dist.has_density


def test_moments_with_heavy_tails():
    dist = Truncated(StudentT(0.0, 1.0, 2.5), 0.0)
    expected = stats.t(2.5).expect(lambda x: x, lb=0.0) / 0.5
    assert_allclose(dist.mean(), expected, rtol=1e-6)
    assert_array_equal(Truncated(StudentT(0.0, 1.0, 1.5), 0.0).std(), np.inf)


def test_discrete_and_mixed_bases():
    counts = Truncated(ScipyDistribution(stats.poisson([2.0])), 0.0)
    assert_allclose(np.exp(counts.logpmf(1.0)), stats.poisson.pmf(1, 2.0) / stats.poisson.sf(0, 2.0))
    assert_array_equal(counts.ppf(0.0), 1.0)
    members = Truncated(Empirical([[-1.0, 0.0, 1.0, 2.0]]), 0.0)
    assert_allclose(members.cdf([1.0]), 0.5)
    pool = Mixture([Normal([1.0], 1.0), StudentT([0.0], 1.0, 5.0)])
    assert_allclose(Truncated(pool, 0.0).cdf(Truncated(pool, 0.0).ppf(0.3)), 0.3, rtol=1e-9)


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="`base` must be a Distribution, got float"):
        Truncated(1.0, 0.0)
    with pytest.raises(ValueError, match="`lower` must be less than `upper`, got 2 >= 1 at row 0"):
        Truncated(Normal(0.0, 1.0), 2.0, 1.0)
    with pytest.raises(ValueError, match="`upper` must not contain NaN"):
        Truncated(Normal(0.0, 1.0), 0.0, np.nan)
