"""What is particular to beta calibration maps; the laws of all families are in test_laws.py."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from skuq.distributions import (
    BetaRecalibrated,
    Empirical,
    Normal,
    NormalMixture,
    ScipyDistribution,
    SharedEmpirical,
    StudentT,
    affine,
    concat,
)
from skuq.distributions._numerics import beta_maps as maps

LEVELS = np.array([1e-300, 1e-12, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9])
UNIFORM = ScipyDistribution(stats.uniform(loc=np.zeros(3)))
exponent = st.floats(-6.0, 6.0).map(np.exp)
shift = st.floats(-30.0, 30.0)


def three_maps(n=4, seed=0):
    rng = np.random.default_rng(seed)
    a, b = np.exp(rng.normal(0.1, 0.4, size=(2, n, 3)))
    return {"a": a, "b": b, "c": rng.normal(size=(n, 3)), "weights": rng.random((n, 3))}


def test_on_levels_it_is_the_formula():
    a, b, c = np.array([0.5, 1.0, 3.0]), np.array([2.0, 1.0, 0.2]), np.array([-1.0, 0.0, 0.7])
    dist = BetaRecalibrated(UNIFORM, a, b, c)
    for t in (1e-9, 0.2, 0.5, 0.93):
        assert_allclose(dist.cdf(t), special.expit(a * np.log(t) - b * np.log1p(-t) + c), rtol=1e-13)
        slope = (dist.cdf(t * (1 + 1e-6)) - dist.cdf(t * (1 - 1e-6))) / (2e-6 * t)
        assert_allclose(dist.pdf(t), slope, rtol=1e-6)


def test_the_identity_is_the_base():
    base = Normal([0.0, 5.0], [1.0, 2.0])
    same = BetaRecalibrated(base, 1.0, 1.0, 0.0)
    y = np.array([-9.0, 8.0])
    assert_allclose(same.cdf(y), base.cdf(y), rtol=1e-12)
    assert_allclose(same.logpdf(y), base.logpdf(y), rtol=1e-12)
    assert_allclose(same.quantile(LEVELS), base.quantile(LEVELS), rtol=1e-9)
    assert_allclose(same.mean(), base.mean(), atol=1e-10)
    assert_allclose(same.std(), base.std(), rtol=1e-8)
    assert_allclose(same.crps(y), base.crps(y), rtol=1e-8)


def test_several_maps_are_averaged():
    table = three_maps()
    base = Normal(np.arange(4.0), 1.0)
    dist = BetaRecalibrated(base, **table)
    share = table["weights"] / table["weights"].sum(axis=1, keepdims=True)
    single = [BetaRecalibrated(base, *(table[name][:, k] for name in "abc")) for k in range(3)]
    y = np.array([-1.0, 1.3, 2.0, 7.0])
    assert_allclose(dist.cdf(y), sum(share[:, k] * single[k].cdf(y) for k in range(3)), rtol=1e-12)
    assert_allclose(dist.pdf(y), sum(share[:, k] * single[k].pdf(y) for k in range(3)), rtol=1e-12)
    assert_allclose(dist.mean(), sum(share[:, k] * single[k].mean() for k in range(3)), rtol=1e-7)
    equal = BetaRecalibrated(base, table["a"], table["b"], table["c"])
    thirds = BetaRecalibrated(base, table["a"], table["b"], table["c"], np.ones(3))
    assert_allclose(equal.quantile(LEVELS), thirds.quantile(LEVELS), rtol=1e-12)
    column = BetaRecalibrated(base, 1.5, table["b"], 0.0)
    assert_array_equal(column.a, np.full((4, 3), 1.5))


@given(a=exponent, b=exponent, c=shift, level=st.floats(-250.0, -0.7).map(np.exp), upper=st.booleans())
def test_quantiles_invert_however_extreme_the_map(a, b, c, level, upper):
    one = maps.BetaMaps(*(np.array([[value]]) for value in (a, b, c, 1.0)))
    target = np.array([np.log1p(-level) - np.log(level)]) * (1 if upper else -1)
    t = one.invert(target)
    back = a * -np.logaddexp(0, -t) + b * np.logaddexp(0, t) + c
    assert_allclose(back, target, rtol=1e-9, atol=1e-9)


@given(seed=st.integers(0, 2**32 - 1), spread=st.floats(0.01, 4.0), odds=st.floats(-600.0, 600.0))
@example(seed=884, spread=3.375, odds=3.375)  # Newton steps between a flat and a steep part repeated for ever
def test_quantiles_of_an_average_invert(seed, spread, odds):
    rng = np.random.default_rng(seed)
    a, b = np.exp(spread * rng.normal(size=(2, 13, 5)))
    many = maps.BetaMaps(a, b, 3 * spread * rng.normal(size=(13, 5)), rng.dirichlet(np.ones(13), size=5).T)
    t = many.invert(np.full(5, odds))
    assert_allclose(many._mapped_odds(t)[0], odds, rtol=1e-8, atol=1e-8)


def test_tails_keep_their_digits():
    dist = BetaRecalibrated(Normal([0.0], [1.0]), 1.7, 0.6, 0.4)
    for y in (-30.0, -10.0):
        assert_allclose(dist.cdf(y), np.exp(1.7 * special.log_ndtr(y) + 0.4), rtol=1e-9)
        assert_allclose(dist._sf(-y), np.exp(0.6 * special.log_ndtr(y) - 0.4), rtol=1e-9)
    assert_allclose(dist.cdf(dist.ppf(1e-300)), 1e-300, rtol=1e-9)
    assert_allclose(dist._sf(dist._isf(np.asarray(1e-180))), 1e-180, rtol=1e-9)  # of the base, it is 1e-300
    assert_array_equal(dist.quantile([0.0, 1.0]), [[-np.inf, np.inf]])
    assert np.isfinite(dist.logpdf([60.0])).all()
    assert dist.logpdf(np.inf) == dist.logpdf(-np.inf) == -np.inf


def test_what_lies_beyond_the_smallest_number_is_finite():
    dist = BetaRecalibrated(Normal([0.0], [1.0]), 0.01, 0.01, 0.0)  # half of the mass is 8 deviations away
    assert np.isfinite(dist.quantile([1e-6, 1 - 1e-6])).all()
    assert (np.diff(dist.quantile([0.1, 0.4, 0.6, 0.9])) > 0).all()


@pytest.mark.parametrize(
    "base",
    [
        Normal([0.0], [1.0]),
        StudentT([0.0], [1.0], 6.0),
        StudentT([0.0], [1.0], 3.2),
        NormalMixture([[-3.0, 3.0]], [[0.5, 1.0]]),
        ScipyDistribution(stats.gamma(np.array([2.0]))),
    ],
    ids=repr,
)
def test_moments_and_crps_against_quadrature(base):
    dist = BetaRecalibrated(base, [[1.3, 1.1]], [[1.2, 1.5]], [[0.4, -0.3]])
    edges = np.concatenate(
        [dist.quantile([1e-16, 1e-9, 1e-4])[0], dist.quantile(np.linspace(0.01, 0.99, 25))[0]]
    )
    y = 0.7
    edges = np.sort([*edges, y, *(dist._isf(np.asarray(tail))[0] for tail in (1e-4, 1e-9, 1e-16))])
    nodes, weights = np.polynomial.legendre.leggauss(60)
    half = np.diff(edges)[:, np.newaxis] / 2
    x, dx = (edges[:-1, np.newaxis] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    points = dist[np.zeros(x.size, dtype=int)]

    mean = (x * points.pdf(x)) @ dx
    variance = ((x - mean) ** 2 * points.pdf(x)) @ dx
    assert dist.mean()[0] == pytest.approx(mean, abs=1e-6)
    assert dist.std()[0] == pytest.approx(np.sqrt(variance), rel=2e-4)
    score = (points.cdf(x) - (x >= y)) ** 2 @ dx
    assert dist.crps(y)[0] == pytest.approx(score, rel=1e-4)


def test_an_infinite_variance_is_a_huge_one():
    heavy = BetaRecalibrated(StudentT([0.0], [1.0], 3.0), 0.5, 0.5, 0.0)  # falls like 1.5 degrees of freedom
    assert heavy.std()[0] > 1e12
    assert heavy.mean()[0] == pytest.approx(0.0, abs=1e-6)


def test_of_an_ensemble_it_is_an_ensemble_with_other_weights():
    members = Empirical([[0.0, 1.0, 2.0], [5.0, 6.0, 7.0]], [0.2, 0.3, 0.5])
    table = three_maps(2)
    dist = BetaRecalibrated(members, **table)
    assert isinstance(dist, Empirical)
    assert_array_equal(dist.members, members.members)
    share = table["weights"] / table["weights"].sum(axis=1, keepdims=True)
    odds = table["a"] * np.log(0.5) - table["b"] * np.log(0.5) + table["c"]
    assert_allclose(dist.weights[:, :2].sum(axis=1), (share * special.expit(odds)).sum(axis=1))
    assert_allclose(dist.weights.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "base",
    [
        SharedEmpirical([0.0, 1.0], [1.0, 2.0], [-1.0, 0.0, 0.5, 3.0]),
        ScipyDistribution(stats.poisson(np.array([1.0, 3.0]))),
    ],
    ids=repr,
)
def test_atoms_keep_their_places(base):
    dist = BetaRecalibrated(base, 1.2, 0.9, 0.3)
    assert not dist.has_density
    atoms = np.unique(dist[np.zeros(999, dtype=int)].ppf(np.linspace(0.001, 0.999, 999)))
    assert np.isin(atoms, base[np.zeros(9999, dtype=int)].ppf(np.linspace(1e-6, 1 - 1e-6, 9999))).all()
    below = np.concatenate([[0.0], [dist.cdf(x)[0] for x in atoms]])
    mass, tail = np.diff(below), 1 - below[-1]
    assert dist.mean()[0] == pytest.approx(mass @ atoms, abs=20 * tail + 1e-9)
    y = 0.8
    gaps = np.diff(np.sort(np.append(atoms, y)))
    steps = np.array([dist.cdf(x)[0] - (x >= y) for x in np.sort(np.append(atoms, y))[:-1]])
    assert dist.crps(y)[0] == pytest.approx(gaps @ steps**2, abs=20 * tail + 1e-9)


def test_a_reversed_distribution_swaps_its_exponents():
    dist = BetaRecalibrated(Normal([0.0, 1.0], [1.0, 2.0]), [2.0, 0.5], [0.7, 1.5], [0.3, -1.0])
    both = affine(dist, [1.0, 1.0], [-1.0, 2.0])
    assert isinstance(both, BetaRecalibrated)
    assert_array_equal(both.a[:, 0], [0.7, 0.5])
    assert_array_equal(both.b[:, 0], [2.0, 1.5])
    assert_array_equal(both.c[:, 0], [-0.3, -1.0])
    assert_allclose(both.quantile([0.2])[:, 0], [1 - dist.ppf(0.8)[0], 1 + 2 * dist.ppf(0.2)[1]], rtol=1e-10)
    with pytest.raises(ValueError, match="nonzero in every row"):
        affine(dist, 0.0, [0.0, 1.0])


def test_rows_of_equally_many_maps_merge():
    base = Normal([0.0, 1.0], 1.0)
    one, other = (
        BetaRecalibrated(base, **three_maps(2)),
        BetaRecalibrated(base, 1.0, [[1.0, 2.0, 3.0]] * 2, 0.0),
    )
    merged = concat([one, other])
    assert isinstance(merged, BetaRecalibrated)
    assert_allclose(merged.weights[2:], 1 / 3)
    assert type(concat([one, BetaRecalibrated(base, 1.0, 1.0, 0.0)])).__name__ == "Concatenated"
    assert concat([BetaRecalibrated(base, 2.0, 1.0, 0.0)] * 2).weights is None


def test_blocks_change_nothing(monkeypatch):
    dist = BetaRecalibrated(Normal(np.zeros(50), 1.0), **three_maps(50))
    whole = dist.quantile(LEVELS), dist.cdf(0.3), dist.logpdf(0.3)
    monkeypatch.setattr(maps, "_BLOCK", 21)
    for expected, value in zip(whole, (dist.quantile(LEVELS), dist.cdf(0.3), dist.logpdf(0.3)), strict=True):
        assert_array_equal(value, expected)


def test_draws_follow_the_average_of_the_maps():
    dist = BetaRecalibrated(
        Normal([0.0, 4.0], 1.0), [[5.0, 5.0]] * 2, [[5.0, 5.0]] * 2, [[-15.0, 15.0]] * 2, [0.3, 0.7]
    )
    draws = dist.sample(20_000, random_state=0)  # two modes, the heavier one below
    assert_allclose((draws < dist.base.loc[:, np.newaxis]).mean(axis=1), 0.7, atol=0.015)
    for level in (0.1, 0.4, 0.8):
        reached = (draws <= dist.ppf(level)[:, np.newaxis]).mean(axis=1)
        assert_allclose(reached, level, atol=0.015)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.0, 1.0, 0.0), ValueError, "`a` must be positive, got 0.0"),
        ((1.0, [1.0, -2.0], 0.0), ValueError, "`b` must be positive, got -2.0 at row 1"),
        ((1.0, 1.0, np.nan), ValueError, "`c` must be finite"),
        ((1.0, 1.0, [0.0, np.inf]), ValueError, "`c` must be finite, got inf at row 1"),
        (([1.0, 1.0, 1.0], 1.0, 0.0), ValueError, r"`a` must be a number or have shape \(2,\) or \(2, k\)"),
        ((np.ones((2, 0)), 1.0, 0.0), ValueError, "`a` must be a number or have shape"),
        ((np.ones((2, 1, 1)), 1.0, 0.0), ValueError, "`a` must be a number or have shape"),
        ((np.ones((2, 3)), np.ones((2, 2)), 0.0), ValueError, "must have one column or the same number"),
        ((["x", "y"], 1.0, 0.0), TypeError, "`a` must hold real numbers"),
        ((1.0, 1.0, 0.0, [1.0, 1.0]), ValueError, "`weights` must have shape"),
        ((np.ones((2, 2)), 1.0, 0.0, [-1.0, 2.0]), ValueError, "`weights` must be non-negative"),
        ((np.ones((2, 2)), 1.0, 0.0, [0.0, 0.0]), ValueError, "`weights` must have a positive sum"),
    ],
)
@pytest.mark.parametrize("base", [Normal([0.0, 1.0], 1.0), Empirical([[0.0, 1.0], [2.0, 3.0]])], ids=repr)
def test_bad_parameters_are_named(base, arguments, error, message):
    with pytest.raises(error, match=message):
        BetaRecalibrated(base, *arguments)


def test_the_base_must_be_a_distribution():
    with pytest.raises(TypeError, match="`base` must be a Distribution, got tuple"):
        BetaRecalibrated((0.0, 1.0), 1.0, 1.0, 0.0)
