"""Stored levels and cumulative probabilities are met exactly, whatever rounding did to the level."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skuq.distributions import (
    Empirical,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    ScipyDistribution,
    SharedEmpirical,
    StudentT,
    Transformed,
)
from skuq.distributions import _level_quadrature as levels
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.distributions._level_map import LevelMap
from skuq.distributions._level_quadrature import snap_levels
from skuq.distributions._recalibrated import Recalibrated
from skuq.distributions._transformed import derivative

RNG = np.random.default_rng(6)
SHARED = SharedEmpirical(0.0, 1.0, np.arange(1, 201.0))
UNEVEN = SharedEmpirical(0.0, 1.0, np.arange(1, 101.0), RNG.gamma(0.5, size=100))
POISSON = ScipyDistribution(stats.poisson([4.3]))
BINOMIAL = ScipyDistribution(stats.binom(9, [0.5], loc=-3))
FLAT = LevelMap([0.25, 0.6, 0.8], [0.4, 0.4001, 0.9])
ATOMS = {
    "Empirical": (Empirical(np.arange(1, 1001.0)[np.newaxis]), range(1, 1000, 9)),
    "Empirical of many": (Empirical(np.arange(1, 200_001.0)[np.newaxis]), [1, 2, 7, 199_990]),
    "Empirical, weighted": (Empirical([[1.0, 2.0, 3.0, 4.0]], [1e-7, 0.2, 0.1, 0.7]), [1, 2, 3]),
    "SharedEmpirical": (SHARED, range(1, 200)),
    "SharedEmpirical, weighted": (UNEVEN, range(1, 100, 3)),
    "discrete": (POISSON, range(20)),
    "discrete, shifted": (BINOMIAL, range(-3, 6)),
    "NormalMixture of point masses": (NormalMixture([[0.0, 1.0, 3.0]], 0.0, [0.1, 0.2, 0.7]), [0, 1]),
    "Mixture of discrete": (Mixture([POISSON, BINOMIAL], [0.3, 0.7]), range(-3, 14)),
    "Mixture of SharedEmpirical": (Mixture([SHARED, UNEVEN], [0.6, 0.4]), range(1, 200, 11)),
    "Mixture of discrete and smooth": (Mixture([POISSON, Normal([0.5], [0.01])]), range(1, 15)),
    "Recalibrated discrete": (Recalibrated(POISSON, FLAT), range(15)),
    "Recalibrated SharedEmpirical": (Recalibrated(UNEVEN, FLAT), range(1, 100, 3)),
    "Transformed": (Transformed(POISSON, np.exp, np.log), np.exp(np.arange(9.0))),
    "Concatenated": (Concatenated([POISSON, Normal([0.0], [1.0])], [0]), range(15)),
}


def bounds_through_coverage(dist, level):
    """The quantile at a level as the bound of the central interval that ends there."""
    lower, upper = dist.interval(abs(1 - 2 * level))[0]
    return lower if level < 0.5 else upper


@pytest.mark.parametrize("seed", range(5))
def test_a_stored_level_gives_the_stored_quantile(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        levels = np.unique(rng.uniform(size=8) * 10.0 ** -rng.integers(0, 8, size=8))
        values = np.sort(rng.normal(scale=10.0 ** rng.integers(-3, 4), size=levels.size))
        dist = Quantiles(levels, [values])
        for level, value in zip(levels, values, strict=True):
            off = level + np.arange(-4, 5) * np.spacing(level)
            assert_array_equal(dist.quantile(off)[0], value)
            assert bounds_through_coverage(dist, level) == value
        assert_allclose(dist.quantile(levels)[0], values, rtol=0)


def test_levels_of_linspace_and_of_decimals_are_the_same_levels():
    dist = Quantiles(np.linspace(0.1, 0.9, 9), [np.arange(1.0, 10.0)])
    assert_array_equal(dist.quantile(np.arange(1, 10) / 10)[0], np.arange(1.0, 10.0))
    for coverage, bounds in ((0.2, [4, 6]), (0.4, [3, 7]), (0.6, [2, 8]), (0.8, [1, 9])):
        assert_array_equal(dist.interval(coverage)[0], bounds)
    upside_down = Quantiles(np.linspace(0.05, 0.95, 19), [np.arange(19.0)])
    for k in range(19):
        assert upside_down._isf(np.asarray(1 - (k + 1) / 20))[0] == k


def test_coverage_of_exact_quantiles_of_counts_is_exact():
    levels = np.linspace(0.1, 0.9, 9)
    dist = Quantiles(levels, [stats.poisson(5).ppf(np.round(levels, 1))])
    low, high = dist.interval(0.4)[0]
    assert (low, high) == (4.0, 6.0)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.laws if "Mixture of" in name else ()) for name in ATOMS],
)
def test_a_cumulative_probability_gives_its_atom_and_quantiles_do_not_cross_there(name):
    dist, atoms = ATOMS[name]
    for atom in atoms:
        level = float(dist.cdf(float(atom))[0])
        for off in (-1, 0, 1):
            assert dist.ppf(np.clip(level + off * np.spacing(level), 0, 1))[0] == atom
        if 0 < abs(1 - 2 * level) < 1:
            assert bounds_through_coverage(dist, level) == atom
    low, high = (dist.cdf(np.asarray(float(atom)))[0] for atom in list(atoms)[:2])
    for level in (low + 1e-3 * (high - low), (low + high) / 2):
        quantile = dist.ppf(level)
        assert atoms[0] < quantile[0] <= atoms[1]
        assert dist.cdf(quantile)[0] >= level * (1 - 1e-12)
    steps = np.unique(np.clip(high + np.arange(-40, 41) * np.spacing(high), 0, 1))
    assert (np.diff(dist.quantile(steps)[0]) >= 0).all()
    assert (np.diff([dist._isf(np.asarray(q))[0] for q in np.unique(1 - steps)[::-1]]) >= 0).all()


def test_quantiles_do_not_cross_beside_a_stored_level_and_invert():
    levels = np.array([1e-9, 0.1, 0.3, 0.30000000000000004, 0.7, 1 - 1e-9])
    dist = Quantiles(levels, [[-5.0, 0.1, 0.7, 0.9, 2.0, 9.0]])
    for level in levels:
        steps = np.clip(level + np.arange(-60, 61) * np.spacing(level), 0, 1)
        quantiles = dist.quantile(steps)[0]
        assert (np.diff(quantiles) >= 0).all()
        assert_allclose([dist.cdf(y)[0] for y in quantiles], steps, atol=1e-15, rtol=1e-6)
    dist = Quantiles([0.1, 0.3, 0.8], [[-1.0, 0.5, 2.0]])
    for level in (1e-300, 1e-20, 0.2, 0.5):
        assert_allclose(dist.cdf(dist.ppf(level)), level, rtol=1e-10)
        assert_allclose(dist._sf(dist._isf(np.asarray(level))), level, rtol=1e-10)


def test_a_knot_of_a_level_map_is_met_but_for_rounding():
    knots = np.linspace(0.1, 0.9, 9)
    level_map = LevelMap(np.square(knots), knots)
    tenths = np.arange(1, 10) / 10
    # knots are kept as normal scores, so that a level makes its way there and back
    assert_allclose(level_map.inverse(tenths), np.square(knots), rtol=1e-14)
    dist = Recalibrated(Quantiles(np.square(knots), [np.arange(9.0)]), level_map)
    assert_allclose(dist.quantile(tenths)[0], np.arange(9.0), atol=1e-13)
    assert_allclose(dist.interval(0.4)[0], [2, 6], atol=1e-13)


def test_the_median_of_a_conformal_distribution_is_that_of_a_level_beside_one_half():
    dist = ConformalPredictive(0.0, 1.0, np.arange(1.0, 11.0))
    for level in (np.nextafter(0.5, 0), 0.5, np.nextafter(0.5, 1)):
        assert dist.ppf(level)[0] == 5.5


def test_the_upper_quantile_of_a_mixture_is_the_lower_one_of_the_complement():
    dist = Mixture([SHARED, POISSON], [0.5, 0.5])
    for level in (0.1, 0.37, 0.5, 0.911):
        assert dist._isf(np.asarray(1 - level))[0] == dist.ppf(level)[0]
    far = Mixture([Normal([0.0], [1.0]), POISSON], [0.5, 0.5])
    assert_allclose(far._sf(far._isf(np.asarray(1e-13))), 1e-13, rtol=0.9)


def test_snapping_keeps_what_is_not_stored():
    stored = np.array([1e-8, 0.3, 0.9])
    assert_array_equal(
        snap_levels(np.array([0.0, 1e-300, 1e-9, 0.5, 1.0]), stored), [0, 1e-300, 1e-9, 0.5, 1]
    )
    assert_array_equal(snap_levels(np.array([0.1 * 3, 1 - 0.1]), stored), [0.3, 0.9])
    assert snap_levels(np.asarray(0.3 + 1e-14), stored) == 0.3 + 1e-14


def test_far_out_no_warning_comes_up():
    quantiles = Quantiles([0.1, 0.5, 0.9], [[0.0, 0.0, 1.0]])
    assert quantiles.cdf(-1e308) == 0
    assert quantiles.cdf(1e308) == 1
    assert abs(quantiles._normal_score(np.array([1e308]))[0]) > 1e100
    assert StudentT([0.0], [1.0], 1e300).crps([1.0]) == pytest.approx(Normal([0.0], [1.0]).crps([1.0]))


@pytest.mark.parametrize("n", [1, 3, 40])
@pytest.mark.parametrize("m", [1, 7, 100])
def test_samples_are_quantiles_at_uniform_levels(n, m, monkeypatch):
    monkeypatch.setattr(levels, "_QUANTILES_AT_ONCE", 20)
    values = np.sort(np.random.default_rng(0).normal(size=(n, 3)), axis=1)
    dist = Quantiles([0.1, 0.5, 0.9], values)
    uniform = np.random.RandomState(0).uniform(size=(m, n))
    expected = np.stack([dist.ppf(each) for each in uniform], axis=1)
    assert_array_equal(dist.sample(m, random_state=0), expected)


def test_a_derivative_within_the_domain_and_at_its_end():
    x = np.array([0.0, 0.1, 2.0])
    step = np.full(3, 1e-3)
    # Below 0, the power is NaN. One-sided differences have an error of the order of the shortest step.
    slope = derivative(lambda at: np.where(at < 0, np.nan, 3 + np.abs(at) ** 1.5 + at), x, step)
    assert_allclose(slope, 1.5 * np.sqrt(x) + 1, rtol=1e-4)
    assert_allclose(derivative(np.exp, x, step), np.exp(x), rtol=1e-10)
