"""Closed forms of the histogram family against numerical integration, and its extremes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from skuq.distributions import Binned, Mixture, Normal, affine, concat
from skuq.distributions._expectation import OutcomeRule
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated

RNG = np.random.default_rng(20261127)


WIDE = np.cumsum(np.exp(RNG.normal(0.0, 4.0, size=9)))
CASES = {
    "few": lambda: Binned([-2.0, 0.0, 0.5, 3.0], [[0.3, -1.0, 0.2]]),
    "borders far apart": lambda: Binned(WIDE, np.random.default_rng(0).normal(size=(1, 8))),
    "one bin": lambda: Binned([1.0, 4.0], [[0.0]]),
    "two bins": lambda: Binned([1.0, 2.0, 9.0], [[0.0, 1.0]]),
    "one bin without tails": lambda: Binned([1.0, 4.0], [[0.0]], tails=False),
    "all mass in a tail": lambda: Binned(WIDE, np.where(np.arange(8) == 0, 0.0, -1e4)[np.newaxis]),
    "all mass in a bin": lambda: Binned(WIDE, np.where(np.arange(8) == 3, 0.0, -1e4)[np.newaxis]),
    "an empty bin": lambda: Binned([0.0, 1.0, 2.0, 3.0, 4.0], [[0.0, -np.inf, 1.0, 0.0]]),
    "without tails": lambda: Binned([-2.0, 0.0, 0.5, 3.0], [[0.3, -1.0, 0.2]], tails=False),
    "5000 bins": lambda: Binned(
        np.sort(np.random.default_rng(1).normal(size=5001)) + np.arange(5001) * 1e-9,
        np.random.default_rng(2).normal(0.0, 2.0, size=(1, 5000)),
    ),
}


def one_row(case):
    return CASES[case]()


def definition(dist, x):
    """Cdf, 1 - cdf and density of the only row, from the weights of the bins."""
    weights, width = special.softmax(dist.log_weights[0]), np.diff(dist.edges)
    bar = np.clip(np.searchsorted(dist.edges, x, side="right") - 1, 0, width.size - 1)
    share = np.clip((x - dist.edges[bar]) / width[bar], 0.0, 1.0)
    rest = np.clip((dist.edges[bar + 1] - x) / width[bar], 0.0, 1.0)
    density = np.where((x >= dist.edges[0]) & (x <= dist.edges[-1]), 1 / width[bar], 0.0)
    if dist.tails:
        first, last = bar == 0, bar == width.size - 1
        low, high = (stats.halfnorm(0.0, w / stats.halfnorm.median()) for w in width[[0, -1]])
        down, up = np.maximum(dist.edges[1] - x, 0.0), np.maximum(x - dist.edges[-2], 0.0)
        share = np.where(first, low.sf(down), np.where(last, high.cdf(up), share))
        rest = np.where(first, low.cdf(down), np.where(last, high.sf(up), rest))
        density = np.where(first, low.pdf(down), np.where(last, high.pdf(up), density))
    before = np.concatenate([[0.0], np.cumsum(weights)])[bar]
    after = np.concatenate([np.cumsum(weights[::-1])[::-1], [0.0]])[bar + 1]
    return before + weights[bar] * share, after + weights[bar] * rest, weights[bar] * density


def panels(dist, y):
    """Nodes and weights of a Gauss rule between all kinks; the tails are divided at every scale."""
    low, high = np.diff(dist.edges)[[0, -1]]
    ends = [dist.edges[0] - low * np.arange(60), dist.edges[-1] + high * np.arange(60)]
    edges = np.unique(np.concatenate([dist.edges, [y], *ends]))
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges) / 2
    return (edges[:-1] + half)[:, None] + half[:, None] * nodes, half[:, None] * weights


@pytest.mark.parametrize("case", CASES)
def test_closed_forms_equal_numerical_integration(case):
    dist = one_row(case)
    scale = dist.std()[0]
    for y in [*dist.quantile([0.001, 0.4, 0.97])[0], dist.edges[0] - scale, dist.edges[-1] + 2 * scale]:
        x, weight = panels(dist, y)
        F, S, _ = definition(dist, x)
        below, above = (weight * F**2 * (x < y)).sum(), (weight * S**2 * (x > y)).sum()
        assert_allclose(dist.crps(y), below + above, rtol=1e-10)
        ours = dist._squared_integrals(np.array([y]))
        assert_allclose(ours, [[below], [above]], rtol=1e-9, atol=1e-12 * scale)
        distance = (weight * np.where(x < y, F, S)).sum()
        assert_allclose(dist._mean_distance(np.array([y])), distance, rtol=1e-10)
    x, weight = panels(dist, dist.edges[1])
    density = definition(dist, x)[2] * weight
    mean = (density * x).sum()
    assert_allclose(density.sum(), 1.0, rtol=1e-10)
    assert_allclose(dist.mean(), mean, rtol=1e-10, atol=1e-10 * scale)
    assert_allclose(dist.std(), np.sqrt((density * (x - mean) ** 2).sum()), rtol=1e-10)


def test_levels_that_underflow_keep_a_finite_score():
    dist = one_row("all mass in a bin")
    y = np.array([dist.edges[1]])
    score = dist._normal_score(y)
    # The lowest bin has the probability exp(-1e4), and log Phi(x) is -x^2 / 2 up to a logarithm.
    assert_allclose(special.log_ndtr(score), -1e4, rtol=1e-3)
    mirrored = affine(dist, 0.0, -1.0)
    assert_allclose(mirrored._normal_score(-y), -score)
    assert_allclose(dist.logpdf(y - 1e-9), -1e4 + _log_tail_density(dist), rtol=1e-6)
    assert np.isfinite(Recalibrated(dist, LevelMap([0.5], [0.4])).logpdf(y)).all()


def _log_tail_density(dist):
    scale = (dist.edges[1] - dist.edges[0]) / stats.halfnorm.median()
    return stats.halfnorm(0.0, scale).logpdf(0.0)


@pytest.mark.parametrize("case", CASES)
def test_cdf_density_and_quantiles_equal_their_definition(case):
    dist = one_row(case)
    x = RNG.permutation(panels(dist, 0.0)[0].ravel())[:200]
    rows = dist[np.zeros(x.size, dtype=int)]
    for method, expected in zip((rows.cdf, rows._sf, rows.pdf), definition(dist, x), strict=True):
        assert_allclose(method(x), expected, rtol=1e-10, atol=1e-300)
    for level in (1e-300, 1e-12, 0.01, 0.3, 0.5, 0.8)[0 if case == "few" else 2 :]:
        assert_allclose(dist.cdf(dist.ppf(level)), level, rtol=1e-9)
        assert_allclose(dist._sf(dist._isf(np.asarray(level))), level, rtol=1e-9)
    inside = (dist.edges[0], dist.edges[-1])
    assert_array_equal(dist.quantile([0.0, 1.0])[0], (-np.inf, np.inf) if dist.tails else inside)


@pytest.mark.parametrize("tails", [True, False])
@pytest.mark.parametrize(("unit", "shift"), [(1e-200, 0.0), (1e200, 0.0), (1.0, 1e9)])
def test_extreme_units_and_moments_far_from_zero(tails, unit, shift):
    plain = Binned([0.0, 1.0, 2.0, 5.0, 9.0], [[0.0, 1.0, 2.0, -1.0]], tails)
    moved = Binned(shift + unit * plain.edges, plain.log_weights, tails)
    assert_allclose(moved.std() / unit, plain.std(), rtol=1e-12)
    assert_allclose((moved.mean() - shift) / unit, plain.mean(), rtol=1e-12, atol=2e-7 if shift else 0)
    assert_allclose(moved.crps(shift + 3 * unit) / unit, plain.crps(3.0), rtol=1e-12)


def test_one_shift_and_factor_keep_the_family():
    dist = one_row("few")[np.zeros(3, dtype=int)]
    moved = affine(dist, 5.0, -2.0)
    assert isinstance(moved, Binned)
    assert_allclose(moved.crps([1.0, 2.0, 9.0]), 2 * dist.crps([2.0, 1.5, -2.0]))
    assert not isinstance(affine(dist, [0.0, 1.0, 2.0], 1.0), Binned)
    assert isinstance(concat([dist, dist]), Binned)
    assert not isinstance(concat([dist, moved]), Binned)


def test_single_precision_weights_that_are_not_rescaled():
    edges, logits = np.array([0, 0.1, 0.3, 2], np.float32), np.array([[50, 52, 51], [0, 2, 1]], np.float32)
    dist = Binned(edges, logits)
    assert dist.cdf(0.2).dtype == np.float64
    assert_allclose(dist.crps(0.2), Binned(edges.astype(float), logits[[1, 1]]).crps(0.2))


@pytest.mark.parametrize("tails", [True, False])
def test_empty_outer_bins_do_not_belong_to_the_support(tails):
    logits = [[-np.inf, 0.0, 1.0, -np.inf], [0.0, 1.0, -np.inf, -np.inf], [-np.inf, -np.inf, -np.inf, -1e4]]
    dist = Binned([0.0, 1.0, 2.0, 5.0, 9.0], logits, tails)
    low, high = (-np.inf, np.inf) if tails else (0.0, 9.0)
    assert_array_equal(dist.quantile([0.0, 1.0]), [[1.0, 5.0], [low, 2.0], [5.0, high]])
    assert_array_equal(dist._isf(np.zeros(3)), [5.0, 2.0, high])


@pytest.mark.laws
def test_a_pool_of_many_bins_is_integrated():
    dist = one_row("5000 bins")
    normal, y = Normal([0.3], 0.4), 0.1
    x, weight = panels(dist, y)
    cdf = 0.7 * definition(dist, x)[0] + 0.3 * stats.norm(0.3, 0.4).cdf(x)
    score = (weight * (cdf - (x > y)) ** 2).sum()
    assert_allclose(Mixture([dist, normal], [0.7, 0.3]).crps(y), score, rtol=1e-4)
    assert_allclose(_expected_square(dist), dist.mean() ** 2 + dist.var(), rtol=1e-3)


def _expected_square(dist):
    return OutcomeRule(dist).expect(np.square, np.zeros(1))


def test_many_bins_are_recalibrated_at_their_edges():
    dist, level_map = one_row("5000 bins"), LevelMap([0.1, 0.5, 0.8], [0.2, 0.4, 0.9])
    recalibrated = Recalibrated(dist, level_map)
    assert isinstance(recalibrated, Binned)
    y = dist.edges[[1, 40, 2000, 4990]]
    rows = np.zeros(4, dtype=int)
    assert_allclose(recalibrated[rows].cdf(y), level_map(dist[rows].cdf(y)), rtol=1e-9)
    x, weight = panels(dist, 0.1)
    levels = np.minimum(definition(dist, x)[0], 1.0)  # The sum may exceed 1 by rounding.
    score = (weight * (level_map(levels) - (x > 0.1)) ** 2).sum()
    assert_allclose(recalibrated.crps(0.1), score, rtol=1e-4)
    far = Binned(dist.edges, np.where(np.arange(5000) == 2000, 0.0, -1e4)[np.newaxis])
    assert_allclose(Recalibrated(far, level_map).logpdf(y[:1] - 1e-9), far.logpdf(y[:1] - 1e-9))


def test_tails_that_nearly_underflow():
    dist = Binned([0.0, 1.0, 2.0, 3.0], [[-730.0, 0.0, -740.0]])
    assert_allclose(dist.quantile([0.001, 0.999]), [[1.001, 1.999]])
    assert_allclose(Recalibrated(dist, LevelMap([0.5], [0.4])).crps(1.5), 0.09, atol=0.01)


def test_recalibrated_bins_keep_logarithms_that_underflow():
    edges = np.linspace(-10.0, 10.0, 601)
    center = (edges[1:] + edges[:-1]) / 2
    narrower = LevelMap.from_scores(np.array([-1.0, 1.0]), np.array([-8.0, 8.0]), 8.0, 8.0)
    dist = Recalibrated(Binned(edges, stats.norm.logpdf(center)[np.newaxis]), narrower)
    low, high = 8 * edges[[120, 121]]  # about 6 standard deviations below the mean
    expected = special.log_ndtr(high) + np.log1p(-np.exp(special.log_ndtr(low) - special.log_ndtr(high)))
    assert_allclose(dist.logpdf(center[120]), expected - np.log(np.diff(edges)[0]), rtol=1e-3)
    assert_allclose(dist.logpdf(center[120]), dist.logpdf(-center[120]), rtol=1e-6)


@pytest.mark.parametrize("tails", [True, False])
def test_quantiles_of_levels_that_underflow(tails):
    edges = np.linspace(-4.0, 4.0, 1001)
    log_weights = np.tile(-60.0 * ((edges[1:] + edges[:-1]) / 2) ** 2, (2, 1))
    dist = Binned(edges, log_weights, tails)
    inside = [-3.99, -3.9, 3.95, 3.99]
    for y in [*inside, -4.0, -4.2, 4.0, 4.3] if tails else inside:
        score = dist._normal_score(np.full(2, y))
        assert (np.abs(score) > 38).all()
        assert_allclose(dist._from_normal_score(score), y, rtol=1e-12)
    ends = [np.inf if tails else 4.0] * 2
    assert_allclose(dist._from_normal_score(np.full(2, np.inf)), ends)
