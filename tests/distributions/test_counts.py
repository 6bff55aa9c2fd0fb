"""Closed scores of count distributions: peers, sums, parameters at which scipy's 2F1 fails."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skuq.distributions import ScipyDistribution

ORACLES = [  # scoringrules 0.10 and sums
    (stats.poisson(3.0), 2.0, 0.5417440078336722),
    (stats.nbinom(2.5, 0.4), 3.0, 0.6534044611137688),
    (stats.nbinom(50, 0.001), 49950.0, 1652.212032680229),  # scipy's 2F1 is NaN
    (stats.nbinom(0.3, 0.001), 299.0, 125.18277887083487),
]
FAMILIES = [
    stats.poisson([0.01, 3.0, 300.0, 0.0]),
    stats.poisson([0.01, 3.0, 300.0, 0.0], loc=0.5),
    stats.binom([1, 10, 1000, 5], [0.5, 0.3, 0.01, 0.0]),
    stats.nbinom([0.3, 2.5, 1000.0, 200.0], [0.3, 0.4, 0.5, 1 / 6]),
    stats.nbinom([3.0, 1e4, 60.0, 2.0], [1.0, 0.9, 0.4, 0.02]),
]


@pytest.mark.parametrize(("frozen", "y", "expected"), ORACLES)
def test_the_crps_is_that_of_the_peer(frozen, y, expected):
    assert_allclose(ScipyDistribution(frozen).crps(y), expected, rtol=1e-11)


@pytest.mark.parametrize("frozen", FAMILIES, ids=lambda frozen: frozen.dist.name)
@pytest.mark.parametrize("y", [-3.0, 0.0, 2.3, 17.0, 400.0])
def test_closed_forms_are_the_sums(frozen, y):
    dist, target = ScipyDistribution(frozen), np.full(4, y)
    assert_allclose(dist.crps(y), dist._sum_steps(target, 2), rtol=1e-10, atol=1e-12)
    assert_allclose(dist._mean_distance(target), dist._sum_steps(target, 1), rtol=1e-10, atol=1e-12)


def test_binomial_against_scoringrules():
    sr = pytest.importorskip("scoringrules")
    dist = ScipyDistribution(stats.binom([10, 20], [0.3, 0.9]))
    assert_allclose(dist.crps([4.0, 15.0]), sr.crps_binomial([4, 15], [10, 20], [0.3, 0.9]), rtol=1e-9)


def test_other_families_are_sums():
    dist = ScipyDistribution(stats.geom([0.3, 0.5]))
    k = np.arange(1, 200)
    expected = [((stats.geom.cdf(k, p) - (k >= 3)) ** 2).sum() + 0.0 for p in (0.3, 0.5)]
    assert_allclose(dist.crps(3.0), expected, rtol=1e-9)


def test_masses_are_those_of_scipy():
    dist = ScipyDistribution(stats.nbinom([2.5, 7.0], [0.4, 0.2]))
    assert dist.has_mass
    assert_allclose(dist.logpmf([3.0, 500.0]), stats.nbinom.logpmf([3, 500], [2.5, 7.0], [0.4, 0.2]))
    assert not ScipyDistribution(stats.gamma([2.0])).has_mass
