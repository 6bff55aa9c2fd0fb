"""Beta calibration maps, and distributions of errors whose scale and shape are estimated."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from skuq.distributions import (
    Empirical,
    Hurdle,
    Mixture,
    Normal,
    NormalMixture,
    Quantiles,
    ScipyDistribution,
    SharedEmpirical,
    StudentT,
    Transformed,
    Truncated,
    affine,
    concat,
)
from skuq.distributions import _beta_recalibrated as maps
from skuq.distributions._beta_recalibrated import BetaRecalibrated
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.distributions._student_t import (
    fit_student,
    predictive_df,
    predictive_scores,
    prior_share,
    shrunk_level_map,
)
from skuq.exceptions import SmallSampleWarning
from skuq.recalibration import IsotonicRecalibrator

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


@pytest.mark.parametrize("knots", [3, 30, 60])
def test_a_pool_with_many_knots_against_a_sum_over_many_points(knots):
    rng = np.random.default_rng(knots)
    levels = np.array([0.0025, 0.01, 0.05, *np.linspace(0.1, 0.9, 17), 0.95, 0.99, 0.9975])
    ordered = np.sort(rng.normal(1.0, 2.0, size=(1, levels.size)), axis=1)
    base = Mixture(
        [Quantiles(levels, ordered), Normal([0.0], [1.5]), StudentT([-1.0], [1.0], 9.0)], [0.5, 0.3, 0.2]
    )
    scores, values = (np.cumsum(rng.exponential(size=knots) + 0.2) for _ in range(2))
    level_map = LevelMap.from_scores(
        *(5 * (part - part.mean()) / np.ptp(part) for part in (scores, values)), 0.9, 1.1
    )
    dist, y = Recalibrated(base, level_map), 0.4
    ends = dist.quantile([1e-12, 1 - 1e-12])[0]
    edges = np.sort(np.append(np.sinh(np.linspace(*np.arcsinh(ends), 200_001)), y))
    x, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    cdf = dist[np.zeros(x.size, dtype=int)].cdf(x)
    one = ends[1] - width @ cdf
    assert_allclose(dist.mean(), one, atol=1e-5)
    assert_allclose(dist.std() ** 2, (ends[1] - one) ** 2 - 2 * (width * (x - one)) @ cdf, rtol=1e-5)
    assert_allclose(dist.crps(y), width @ (cdf - (x >= y)) ** 2, rtol=1e-5)


IDENTITY = LevelMap.from_scores([-1.0, 1.0], [-1.0, 1.0], 1.0, 1.0)


def test_a_pool_of_quantiles_with_ties_and_the_identity_is_the_pool():
    rng, levels = np.random.default_rng(0), np.linspace(0.05, 0.95, 19)
    draws = rng.normal(size=(2, 6, 19))
    tied = [Quantiles(levels, np.where(np.abs(values) < 0.7, 0.0, values)) for values in draws]
    rows = Quantiles([0.2, 0.4, 0.6, 0.8], [[0.0, 1.0, 1.0, 3.0]] * 3)
    around = np.tile([np.nextafter(1.0, 0.0), 1.0], (3, 1))
    assert_allclose(rows._tail_table(around), [[0.4, 0.4]] * 3, rtol=1e-12)
    for pool in (Mixture(tied), Mixture([tied[0], Normal(np.arange(6.0), 1.0)], [0.7, 0.3])):
        same = Recalibrated(pool, IDENTITY)
        for y in (0.0, np.linspace(-1.0, 3.0, 6)):
            assert_allclose(same.crps(y), pool.crps(y), rtol=1e-5)
        assert_allclose(same.mean(), pool.mean(), rtol=1e-5)
        assert_allclose(same.std(), pool.std(), rtol=1e-5)


def by_sums(dist, y, n=100_000):
    """The CRPS of one row, as a sum over intervals whose lengths are proportional to the distance."""
    ends, scale = np.concatenate([dist.ppf(1e-14), dist._isf(np.asarray(1e-14))]), dist.ppf(0.75) / 1e3
    x = np.sort(np.append(scale * np.sinh(np.linspace(*np.arcsinh(ends / scale), n)), y))
    rows = dist[np.zeros(x.size, dtype=int)]
    squares = np.where(
        x[:-1] < y, *(np.square((side[1:] + side[:-1]) / 2) for side in (rows.cdf(x), rows.sf(x)))
    )
    return np.diff(x) @ squares


@pytest.mark.parametrize(
    ("member", "slope", "rtol"),
    [
        (StudentT(0.0, 1.0, 2.5), 0.8, 1e-5),
        (StudentT(0.0, 1.0, 3.0).clip(-1.0), 0.8, 1e-5),
        (StudentT(0.0, 1.0, 3.0).clip(-1.0), 0.5, 1e-4),
        (Transformed(Normal(0.0, 1.0), np.exp, np.log), 0.8, 1e-5),
        (concat([Empirical([[0.3, 2.0]]), StudentT(0.0, 1.0, 4.0)])[[0]], 0.8, 1e-5),
        (ScipyDistribution(stats.gamma([0.3])), 0.8, 1e-5),
        (ScipyDistribution(stats.lognorm([3.0])), 0.8, 2e-4),
    ],
    ids=["t", "clipped", "clipped, wide", "transformed", "stacked", "pole", "skewed"],
)
def test_recalibrated_pools_of_any_members(member, slope, rtol):
    pool = Mixture([member, Normal(0.5, 1.0)])
    widening = LevelMap.from_scores([-1.0, 1.0], [-1.0, 1.0], slope, slope)
    for level_map in (IDENTITY, widening):
        dist = Recalibrated(pool, level_map)
        assert_allclose(dist.crps(0.7), by_sums(dist, 0.7), rtol=rtol)
    nested = Recalibrated(Mixture([dist, Normal(0.0, 1.0)]), IDENTITY)
    assert_allclose(nested.crps(0.7), by_sums(nested, 0.7), rtol=10 * rtol)


def test_rows_of_several_families_have_the_scores_of_each_family():
    parts = [Empirical([[0.0, 1.0, 3.0]]), Normal([0.0, 2.0], 1.0)]
    rows, y = concat(parts)[[1, 0, 2]], np.array([0.3, 0.7, 1.0])
    for build in (
        lambda dist: Recalibrated(dist, LevelMap([0.2, 0.7], [0.1, 0.8])),
        lambda dist: Transformed(dist, np.sinh, np.arcsinh),
    ):
        alone = np.concatenate(
            [build(part).crps(at) for part, at in zip(parts, (y[[1]], y[[0, 2]]), strict=True)]
        )
        assert_array_equal(build(rows).crps(y), alone[[1, 0, 2]])
        assert_array_equal(pickle.loads(pickle.dumps(build(rows))).std(), build(rows).std())


def test_a_recalibrated_support_with_bounds_or_atoms():
    # The scores of a truncated normal distribution are infinite at the bounds. An outer quantile of the
    # clipped distribution is 1e8 times as large as the distance of its atom from y.
    steep = LevelMap.from_scores([-8.0, 8.0], [-2.5, 2.5])
    for base, y in (
        (Truncated(Normal(0.0, 1.0), 3.0, 4.0), 3.1),
        (Mixture([Truncated(Normal(m, 1.0), 1.0) for m in (0.0, 1.0)], [0.9, 0.1]), 1.3),
        (StudentT(1.0, 2.0, 5.0).clip(0.0), 1.3),
    ):
        dist = Recalibrated(base, steep)
        assert_allclose(dist.crps(y), by_sums(dist, y), rtol=4e-5)
    mirrored = Recalibrated(StudentT(-1.0, 2.0, 5.0).clip(upper=0.0), steep)
    assert_allclose(mirrored.crps(-y), dist.crps(y), rtol=4e-5)
    for at in (0.0, 2.0, -3e9):
        point = Recalibrated(Mixture([Normal(at, 0.0), StudentT(at, 0.0, 5.0)]), steep)
        moments = [point.mean()[0] - at, point.std()[0], point.crps(at)[0], point.crps(at + 1.0)[0] - 1.0]
        assert_allclose(moments, 0.0, atol=1e-9 * max(abs(at), 1.0))


def test_tails_of_other_rows_do_not_change_the_crps():
    loc = np.append(1e12, np.zeros(9))
    dist = Recalibrated(Hurdle(np.full(10, 0.2), StudentT(loc + 0.4, 0.1, 3.0)), LevelMap([0.05], [0.3]))
    assert_allclose(dist.crps(0.5)[1], dist[1].crps(0.5)[0], rtol=2e-5)


def test_a_recalibrated_pool_with_infinite_landmarks_has_no_moments():
    pool = Mixture([Transformed(StudentT(0.0, 1.0, 3.0), np.exp, np.log), Normal(0.0, 1.0)])
    dist = Recalibrated(pool, IDENTITY)
    for method in (dist.mean, lambda: dist.crps(0.5)):
        with pytest.raises(ValueError, match="got an infinite quantile"):
            method()


def test_infinite_moments_of_a_pool_stay_infinite_unless_the_map_shortens_the_tails():
    maps = [LevelMap.from_scores([-1.0, 1.0], [-1.0, 1.0], slope, slope) for slope in (0.9, 1.0, 1.6)]
    for df, finite in ((1.5, False), (3.0, True)):
        dists = [Recalibrated(Mixture([StudentT(0.0, 1.0, df), Normal(1.0, 1.0)]), each) for each in maps]
        assert [bool(np.isfinite(dist.std()[0])) for dist in dists] == [finite, finite, True]
        assert np.isfinite([dist.mean() for dist in dists]).all()
    cauchy = Mixture([StudentT([0.0, 1.0], 1.0, [3.0, 1.0]), Normal([0.0, 1.0], 1.0)])
    with pytest.raises(ValueError, match="a mean only for `df` above 1, got 1 at row 1"):
        Recalibrated(cauchy, maps[1]).mean()
    one_sided = Mixture([StudentT(0.0, 1.0, 0.9).clip(lower=0.0), Normal(0.0, 1.0)])
    assert Recalibrated(one_sided, maps[1]).mean() == np.inf
    # A map may remove the heavy tail only.
    shorter = LevelMap.from_scores([-1.0, 1.0], [-1.0, 1.0], 1.0, 1.6)
    x = np.sort(np.append(np.sinh(np.linspace(-3.0, 60.0, 40_001)), 0.0))
    middle = (x[1:] + x[:-1]) / 2
    sf = (np.where(middle < 0, 1.0, stats.t.sf(middle, 0.9)) + stats.norm.sf(middle)) / 2
    sf = special.ndtr(-shorter.pieces(-special.ndtri(sf)))
    tail = np.diff(x) * np.where(middle < 0, sf - 1, sf)
    mean = tail.sum()
    mirrored = Recalibrated(affine(one_sided, 0.0, -1.0), shorter.reversed())
    for dist in (Recalibrated(one_sided, shorter), mirrored):
        assert_allclose(np.abs(dist.mean()), mean, rtol=1e-4)
        # The levels beyond the score 8.2 are ignored.
        assert_allclose(dist.std(), np.sqrt(2 * tail @ middle - mean**2), rtol=2e-2)


@pytest.mark.parametrize("at", [0.0, 1e6, 1e9])
def test_atoms_far_from_zero_keep_their_places(at):
    atoms, share = np.array([-1.3, -0.4, 0.1, 0.25, 2.0]), [0.1, 0.2, 0.3, 0.2, 0.2]
    level_map = LevelMap.from_scores([-1.0, 0.3, 1.0], [-1.3, 0.2, 0.9])
    u = np.unique(np.concatenate([np.linspace(-10.0, 10.0, 100_001), atoms, [0.3]]))
    middle = (u[1:] + u[:-1]) / 2
    cdf = level_map((special.ndtr(middle) + (atoms <= middle[:, np.newaxis]) @ share) / 2)
    expected = np.diff(u) @ (cdf - (middle >= 0.3)) ** 2
    for member in (Empirical(at + atoms[np.newaxis], share), SharedEmpirical([at], [1.0], atoms, share)):
        dist = Recalibrated(Mixture([member, Normal([at], 1.0)]), level_map)
        assert_allclose(dist.crps(at + 0.3), expected, rtol=1e-6)
        assert_allclose(dist.mean() - at, 10.0 - np.diff(u) @ cdf, atol=1e-6)
    # The logarithm counts values as equal that differ by 1e-10 of their size.
    wide = Transformed(
        Mixture([SharedEmpirical([20.0], [1.0], atoms, share), Normal([20.0], 1.0)]), np.exp, np.log
    )
    near = np.diff(np.exp(u)) @ (cdf - (middle >= 0.3)) ** 2
    assert_allclose(Recalibrated(wide, level_map).crps(np.exp(20.3)) / np.exp(20.0), near, rtol=1e-5)


def test_moments_of_recalibrated_pools():
    for df, rtol in ((3.0, 5e-5), (6.0, 1e-6)):
        pool = Mixture([StudentT([0.0, 3.0], 1.0, df), Normal([0.0, 1.0], [1.0, 0.5])])
        assert_allclose(Recalibrated(pool, IDENTITY).std(), pool.std(), rtol=rtol)


def test_levels_that_round_to_0_or_1_have_no_share_in_the_moments():
    pool = Mixture([Normal(0.0, 1.0), StudentT(0.0, 2.0, 1.5)], [0.9, 0.1])
    narrowing = LevelMap.from_scores([-1.0, 1.0], [-6.0, 6.0])
    near = Recalibrated(pool, narrowing)
    x = np.linspace(0.0, 50.0, 200_001)
    tails = near[np.zeros(x.size, dtype=int)].sf(x)
    assert_allclose(near.var(), 4 * np.trapezoid(x * tails, x), rtol=1e-4)


def test_integrals_of_nearly_equal_weights_are_kept_apart():
    base = Mixture([Normal([0.0], [1.0]), Normal([2.0], [0.5])])
    first, second = (Polynomial([0.5, 0.5 + change]) for change in (0.0, 1e-9))
    y, level_map = np.array([0.3]), LevelMap([0.2, 0.8], [0.1, 0.9])
    scores = [Recalibrated(base, level_map)._weighted_crps(y, weight) for weight in (first, second)]
    assert scores[1] > scores[0]


# ---------------------------------------------------------------------- errors of an estimated scale


SCORES = np.linspace(-5, 5, 101)


def shape_of(z):
    """Return the shape of residuals as fitted, and averaged with the predictive distribution."""
    family = Normal(0.0, fit_student(z, None)[1])
    level_map = IsotonicRecalibrator().fit(family[np.zeros(len(z), dtype=int)], z).level_map_
    return Recalibrated(family, level_map), Recalibrated(family, shrunk_level_map(level_map, len(z)))


@pytest.mark.laws
@pytest.mark.parametrize("n", [12, 20, 50])
@pytest.mark.parametrize(
    "noise", [stats.norm(), stats.gamma(3, loc=-3), stats.t(4)], ids=["normal", "gamma", "t"]
)
def test_intervals_of_few_residuals_cover_on_average(noise, n):
    rng = np.random.default_rng(0)
    coverages = []
    for _ in range(80):
        of_shapes = []
        for shape in shape_of(noise.rvs(size=n, random_state=rng)):
            lower, upper = shape.interval([0.9, 0.98])[0]
            of_shapes.append(noise.cdf(upper) - noise.cdf(lower))
        coverages.append(of_shapes)
    fitted, averaged = np.mean(coverages, axis=0)
    assert 0.88 <= averaged[0] <= 0.93
    assert 0.96 <= averaged[1] <= 0.99
    if n <= 20:  # few residuals have no rank for 98 %
        assert averaged[1] > fitted[1]


def test_normal_residuals_of_known_mean_have_a_student_t_distribution():
    assert np.allclose(predictive_scores(SCORES, 23), stats.t.isf(stats.norm.sf(SCORES), 20))
    assert [predictive_df(n) for n in (1, 5, 6, 7, 100)] == [3, 3, 3, 4, 97]


def test_the_scores_keep_the_farthest_tails():
    far = predictive_scores(np.array([-30.0, 30.0]), 50)
    assert np.isfinite(far).all()
    assert far[0] == -far[1]


@pytest.mark.parametrize("n", [10, 100, 1000, 10**5])
def test_the_correction_vanishes_as_residuals_grow(n):
    own = LevelMap.from_scores([-2.0, 0.5, 2.5], [-1.5, 0.0, 1.8], 0.8, 1.2)
    middle = SCORES[np.abs(SCORES) < 2]
    moved = shrunk_level_map(own, n).pieces.inverse(middle) - own.pieces.inverse(middle)
    assert np.abs(moved).max() < 20 / n
    assert prior_share(n) < 20 / n


def test_an_average_of_quantiles_lies_between_both():
    own = LevelMap.from_scores([-2.0, 2.5], [-1.5, 1.8])
    scores = shrunk_level_map(own, 20).pieces.inverse(own.pieces.values)
    student = predictive_scores(own.pieces.values, 20)
    assert np.allclose(scores, (own.pieces.knots + student) / 2)


@pytest.mark.parametrize("n", [1, 2, 5, 12, 1e6])
def test_every_number_of_residuals_gives_a_distribution_with_moments(n):
    for own in (LevelMap([0.5], [0.6]), LevelMap.from_scores([-9.0, 9.0], [-1.0, 1.0]), LevelMap([], [])):
        level_map = shrunk_level_map(own, n)
        for base in (Normal([0.0], 1.0), StudentT([0.0], 1.0, 4.0)):
            dist = Recalibrated(base, level_map)
            assert np.isfinite(dist.std()).all()
            levels = np.linspace(0.01, 0.99, 21)
            assert np.allclose(dist.cdf(dist.quantile(levels)[0, 10]), 0.5)


def test_beta_maps_of_a_conformal_distribution_exclude_mass_at_infinity():
    base = ConformalPredictive([0.0, 1.0], 1.0, np.linspace(-2.0, 2.0, 9))
    dist = BetaRecalibrated(base, [1.0, 2.0], 1.0, 0.0)
    draws = dist.sample(10_000, random_state=0)
    assert_allclose(draws.mean(axis=1), dist.mean(), atol=0.05)
    assert_allclose(draws.std(axis=1), dist.std(), rtol=0.02)
    outcome = dist.mean()
    spread = np.abs(draws[:, ::2] - draws[:, 1::2]).mean(axis=1) / 2
    assert_allclose(
        dist.crps(outcome), np.abs(draws - outcome[:, np.newaxis]).mean(axis=1) - spread, atol=0.02
    )
    for quantile in (lambda: dist.ppf(0.02), lambda: dist.ppf([0.05, 0.9]), lambda: dist.interval(0.9)):
        with pytest.warns(SmallSampleWarning, match="bounds are infinite"):
            assert np.isinf(quantile()).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite([dist.ppf(0.5), dist.interval(0.3)[:, 1]]).all()
