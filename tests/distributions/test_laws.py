"""What every distribution obeys, whatever its family."""

import copy
import functools
import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils import _safe_indexing

from skuq.distributions import Distribution, Mixture, Normal, affine, concat
from skuq.distributions._cramer import cramer_distances
from skuq.distributions._level_map import LevelMap
from skuq.distributions._recalibrated import Recalibrated
from skuq.exceptions import NoDensityError
from tests.distributions.families import ALL, DEFAULT, EMPIRICAL, FAMILIES, NORMAL, SMOOTH, WITH_ATOMS, N, law

smooth, with_atoms, every, every_family = law(SMOOTH), law(WITH_ATOMS), law(ALL), law(FAMILIES)
# an even and an odd rule, which do not agree by symmetry about a step in the middle of a panel
COARSE, FINE = np.polynomial.legendre.leggauss(10), np.polynomial.legendre.leggauss(21)
P = np.array([1e-6, 0.01, 0.2, 0.5, 0.77, 0.99, 1 - 1e-6])


@functools.cache
def by_quantiles(dist: Distribution) -> tuple[np.ndarray, ...]:
    """Values of y, and what `same` compares there."""
    y = np.asarray(dist.ppf(0.3)) + 0.1
    return y, dist.cdf(y), dist.ppf(0.8), dist.crps(y)


def same(left: Distribution, right: Distribution) -> None:
    """The two distributions give equal numbers."""
    y, cdf, quantiles, crps = by_quantiles(left)
    assert_allclose(cdf, right.cdf(y), rtol=1e-12, atol=1e-15)
    assert_allclose(quantiles, right.ppf(0.8), rtol=1e-12)
    assert_allclose(left.std(), right.std(), rtol=1e-9)
    assert_allclose(crps, right.crps(y), rtol=1e-7, atol=1e-12)


def repeat(dist: Distribution, n: int) -> Distribution:
    """All rows n times, so that one call takes n values of y for each."""
    return dist[np.tile(np.arange(len(dist)), n)]


def by_quadrature(dist, row, y):
    """CRPS of one row from its definition, int (F - 1)^2.

    A panel in which two rules disagree is halved; all panels of one round are one call of the cdf.
    """
    one = dist[row]
    inner = np.unique([*np.atleast_2d(one.quantile(np.linspace(0.001, 0.999, 60)))[0], y])
    low, high = one.ppf(1e-12)[0], one.ppf(1 - 1e-12)[0]
    edges = np.unique(
        np.clip([min(low, y) - 1e-9, *inner, max(high, y) + 1e-9], min(low, y) - 1, max(high, y) + 1)
    )
    panels, total = np.stack([edges[:-1], edges[1:]]), 0.0
    nodes = np.concatenate([COARSE[0], FINE[0]])[:, np.newaxis]
    while panels.size:
        start, width = panels[0], np.diff(panels, axis=0)[0]
        points = start + width * (1 + nodes) / 2
        goal = np.where(panels.mean(axis=0) < y, 0.0, 1.0)
        cdf = repeat(one, points.size).cdf(points.ravel()).reshape(points.shape)
        values = width / 2 * (cdf - goal) ** 2
        coarse, fine = COARSE[1] @ values[:10], FINE[1] @ values[10:]
        done = (np.abs(fine - coarse) < 1e-11) | (width < 1e-12 * (1 + np.abs(start)))
        total += fine[done].sum()
        left, right = panels[:, ~done]
        middle = (left + right) / 2
        panels = np.concatenate([[left, middle], [middle, right]], axis=1)
    return total


@smooth
def test_cdf_inverts_ppf(dist):
    for level in P:
        assert_allclose(dist.cdf(dist.ppf(level)), level, rtol=1e-6, atol=1e-14)


@every
def test_ppf_is_the_smallest_value_that_reaches_the_level(dist):
    for level in P:
        y = dist.ppf(level)
        step = 1e-7 * np.maximum(1.0, np.abs(y))
        assert (dist.cdf(y + step) >= level - 1e-12).all()
        assert (dist.cdf(y - step) <= level + 1e-5).all()


@every
def test_ppf_quantile_interval_and_median_agree(dist):
    quantiles = dist.quantile(P)
    assert quantiles.shape == (N, P.size)
    for column, level in zip(quantiles.T, P, strict=True):
        assert_array_equal(column, dist.ppf(level))
        assert_array_equal(column, dist.ppf(np.full(N, level)))
        assert_array_equal(column, dist.quantile(level))
    assert_array_equal(dist.median(), dist.ppf(0.5))
    bounds = dist.interval([0.5, 0.9])
    assert bounds.shape == (N, 2, 2)
    assert_array_equal(bounds[:, :, 1], dist.interval())
    assert_allclose(dist.interval(0.9), dist.quantile([0.05, 0.95]), rtol=1e-9, atol=1e-12)
    assert (np.diff(quantiles, axis=1) >= 0).all()


@every
def test_cdf_rises_from_zero_to_one(dist):
    grid = np.sort(np.concatenate([dist.quantile(P).ravel(), [-np.inf, np.inf]]))
    values = np.stack([dist.cdf(y) for y in grid], axis=1)
    assert (np.diff(values, axis=1) >= -1e-15).all()
    assert_array_equal(values[:, 0], 0.0)
    assert_allclose(values[:, -1], 1.0, rtol=1e-15)
    assert values.max() <= 1.0
    assert_array_equal(dist.pit(1.0), dist.cdf(1.0))
    assert_allclose(np.stack([dist.sf(y) for y in grid], axis=1), 1 - values, rtol=0, atol=1e-12)


@smooth
def test_density_is_the_slope_of_the_cdf_and_integrates_to_it(dist):
    assert dist.has_density
    edges = dist.quantile(np.linspace(0.31, 0.36, 31)).T
    middles = (np.arange(40) + 0.5) / 40  # the midpoint rule, as knots lie inside some of the ranges
    low, width = edges[:-1], np.diff(edges, axis=0)
    points = low + width * middles[:, np.newaxis, np.newaxis]
    density = repeat(dist, points.size // N).pdf(points.ravel()).reshape(points.shape)
    assert_allclose((density * width / 40).sum(axis=(0, 1)), 0.05, rtol=2e-3)
    low = edges[0]
    assert_allclose(dist.logpdf(low), np.log(dist.pdf(low)), rtol=1e-12)


@with_atoms
def test_atoms_have_no_density(dist):
    assert not dist.has_density
    with pytest.raises(NoDensityError, match="has no density"):
        dist.logpdf(0.0)
    with pytest.raises(NoDensityError, match="crps"):
        dist.pdf(0.0)


@every
def test_moments_are_those_of_the_quantile_function(dist):
    # midpoint rule on a fine grid of levels, an independent and crude route
    levels = (np.arange(1_500) + 0.5) / 1_500
    # All levels of a row as rows of their own: one search for all of them.
    rows = np.repeat(np.arange(N), levels.size)
    quantiles = dist[rows].ppf(np.tile(levels, N)).reshape(N, levels.size)
    assert_allclose(dist.mean(), quantiles.mean(axis=1), atol=1e-2 * dist.std().max())
    assert_allclose(dist.std(), quantiles.std(axis=1), rtol=0.08, atol=1e-12)
    assert_allclose(dist.var(), dist.std() ** 2)


@every
def test_crps_is_the_integral_it_is_defined_by(dist):
    y = dist.ppf(np.linspace(0.002, 0.998, N)) + 0.05
    score = dist.crps(y)
    for row in (0, 4):  # of the families with point masses, one and none
        assert score[row] == pytest.approx(by_quadrature(dist, row, y[row]), rel=2e-6, abs=1e-8)
    far = 1e6 * (1 + dist.std())
    assert_allclose(dist.crps(far), far - dist.mean(), rtol=1e-4)
    assert_array_equal(dist.crps(np.inf), np.inf)


@every
def test_rows_can_be_selected_in_every_way(dist):
    y = dist.ppf(0.4)
    mask = np.arange(N) % 2 == 0
    for key in (slice(2, 5), mask, [3, 0, 0, 6], np.array([-1, 2]), (slice(1, None), Ellipsis), list(mask)):
        part = dist[key]
        rows = np.arange(N)[key[0] if isinstance(key, tuple) else key]
        assert part.shape == (len(rows), 2)
        assert_allclose(part.cdf(y[rows]), dist.cdf(y)[rows], rtol=1e-12)
        assert_allclose(part.mean(), dist.mean()[rows], rtol=1e-12, atol=1e-12)
    assert len(dist[2]) == 1
    same(_safe_indexing(dist, [1, 4]), dist[[1, 4]])
    with pytest.raises(IndexError, match="has no columns"):
        dist[:, 0]
    with pytest.raises(IndexError):
        dist[N]


@every
def test_copies_and_stacked_parts_keep_everything(dist):
    twins = [pickle.loads(pickle.dumps(dist)), copy.copy(dist), copy.deepcopy(dist)]
    for twin in (*twins, concat([dist[:3], dist[3:]])):
        assert type(twin) is type(dist)
        same(dist, twin)


def check_pair(dist, right):
    """Stack and mix two distributions."""
    stacked = concat([dist, right])
    assert len(stacked) == 2 * N
    y = np.concatenate([dist.ppf(0.35), right.ppf(0.65)])
    both = np.concatenate([dist.cdf(y[:N]), right.cdf(y[N:])])
    assert_allclose(stacked.cdf(y), both, rtol=1e-12)
    order = [N + 1, 0, N, 3]
    assert_allclose(stacked[order].cdf(y[order]), stacked.cdf(y)[order], rtol=1e-12)

    mixed = Mixture([dist, right], [0.25, 0.75])
    y = y[:N]
    assert_allclose(mixed.cdf(y), 0.25 * dist.cdf(y) + 0.75 * right.cdf(y), rtol=1e-9, atol=1e-12)
    assert_allclose(mixed.mean(), 0.25 * dist.mean() + 0.75 * right.mean(), rtol=1e-9, atol=1e-12)
    assert (mixed.cdf(mixed.ppf(0.6) + 1e-7) >= 0.6 - 1e-9).all()


@pytest.mark.parametrize("pair", itertools.pairwise(name for name in ALL if name in DEFAULT))
def test_concat_and_mixture_of_itself_and_of_another_family(pair):
    check_pair(ALL[pair[0]], ALL[pair[0]])
    check_pair(ALL[pair[0]], ALL[pair[1]])


@pytest.mark.laws
def test_concat_and_mixture_work_for_every_pair(subtests):
    """Take one pair of names for every two classes, and neighbors, so that each name takes part."""
    chosen = dict.fromkeys([*zip(ALL, ALL, strict=True), *itertools.pairwise(ALL)])
    classes = {tuple(type(ALL[name]) for name in pair) for pair in chosen}
    for pair in itertools.combinations(ALL, 2):
        both = tuple(type(ALL[name]) for name in pair)
        if both not in classes and both[::-1] not in classes:
            classes.add(both)
            chosen[pair] = None
    for left, right in chosen:
        with subtests.test(msg=f"{left} and {right}"):
            check_pair(ALL[left], ALL[right])


@every
def test_affine_moves_everything(dist):
    a, b = np.linspace(-1, 1, N), np.linspace(0.5, 2, N)
    y = dist.ppf(0.3) + 0.03
    crps = dist.crps(y)
    for factor in (b, -b):
        moved = affine(dist, a, factor)
        assert_allclose(moved.mean(), a + factor * dist.mean(), rtol=1e-7, atol=1e-9)
        assert_allclose(moved.std(), b * dist.std(), rtol=1e-7, atol=1e-12)
        assert_allclose(moved.crps(a + factor * y), b * crps, rtol=1e-6, atol=1e-9)
        probability = dist.cdf(y) if factor is b else dist.sf(y)
        assert_allclose(moved.cdf(a + factor * y), probability, rtol=1e-9, atol=1e-12)
        again = affine(moved, -a / factor, 1 / factor)
        assert_allclose(again.ppf(0.2), dist.ppf(0.2), rtol=1e-9, atol=1e-9)


@every
def test_samples_follow_the_distribution(dist):
    draws = dist.sample(1500, random_state=0)
    assert draws.shape == (N, 1500)
    assert_array_equal(dist.sample(9, random_state=1), dist.sample(9, random_state=1))
    y = dist.ppf(0.5) + 0.02
    share = (draws <= y[:, np.newaxis]).mean(axis=1)
    assert_allclose(share, dist.cdf(y), atol=0.06)


@every
def test_array_like_as_scikit_learn_needs(dist):
    array = np.asarray(dist)
    assert array.shape == dist.shape == (N, 2)
    assert dist.ndim == 2
    assert array.dtype == dist.dtype
    assert_array_equal(array, np.column_stack([dist.mean(), dist.std()]))
    assert np.asarray(dist, dtype=np.float32).dtype == np.float32
    assert not hasattr(type(dist), "__iter__")
    assert dist != copy.copy(dist)
    with pytest.raises(TypeError):
        np.exp(dist)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(dist, copy=False)
    assert repr(dist) == f"{type(dist).__name__}(n={N})"
    with pytest.raises((AttributeError, TypeError)):
        dist.new_attribute = 1


def test_arrays_of_the_caller_and_of_the_distribution_are_apart():
    loc = np.zeros(3)
    mine = Normal(loc, 1.0)
    loc[:] = 9.0
    assert_array_equal(mine.loc, 0.0)
    with pytest.raises(ValueError, match="read-only"):
        mine.loc[0] = 1.0
    mine.mean()[0] = 5.0
    assert_array_equal(mine.mean(), 0.0)


@every
def test_bad_input_is_named(dist):
    with pytest.raises(ValueError, match="`y` must not contain NaN, got one at row 1"):
        dist.cdf([0.0, np.nan, *np.zeros(N - 2)])
    with pytest.raises(ValueError, match=f"`y` must have {N} rows"):
        dist.crps(np.zeros(N + 1))
    with pytest.raises(TypeError, match="`y` must hold real numbers"):
        dist.crps(["a"] * N)
    with pytest.raises(ValueError, match=r"`p` must lie in \[0, 1\], got 1.5"):
        dist.ppf(1.5)
    with pytest.raises(ValueError, match="`levels` must lie"):
        dist.quantile([0.1, np.nan])
    with pytest.raises(ValueError, match=r"Did you mean 0\.9"):
        dist.interval(90)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        dist.interval(1.0)
    with pytest.raises(ValueError, match="`m` must be at least 1"):
        dist.sample(0)
    with pytest.raises(TypeError, match="`m` must be an integer"):
        dist.sample(2.5)


@every
def test_recalibration_keeps_the_ends_of_the_support(dist):
    if isinstance(dist, Recalibrated):
        dist = dist.base
    recalibrated = Recalibrated(dist, LevelMap([0.3, 0.6], [0.25, 0.7]))
    for level in (0.0, 1.0):
        assert_array_equal(recalibrated.ppf(level), dist.ppf(level))
    assert_array_equal(recalibrated._isf(np.zeros(())), dist._isf(np.zeros(())))


@every
def test_masses_are_the_jumps_of_the_cdf(dist):
    assert_array_equal([dist.logpmf(-np.inf), dist.logpmf(np.inf)], -np.inf)
    if dist.has_density:
        assert_array_equal(dist.logpmf(dist.median()), -np.inf)
    elif dist.has_mass:
        atom = dist.ppf(0.4)
        step = 1e-6 * (1 + np.abs(atom))
        jump = dist.cdf(atom + step) - dist.cdf(atom - step)
        assert_allclose(np.exp(dist.logpmf(atom)), jump, rtol=1e-6)
        assert_array_equal(dist.logpmf(atom + 0.013), -np.inf)


# ---------------------------------------------------------------------- clipped distributions


@every
def test_scores_of_regions_that_share_bounds_add_up_to_the_crps(dist):
    y = dist.ppf(np.linspace(0.1, 0.9, N)) + 0.02
    bounds = (-np.inf, -0.4, 0.3, 1.7, np.inf)
    parts = [dist.clip(*ends).crps(np.clip(y, *ends)) for ends in itertools.pairwise(bounds)]
    tolerance = 1e-12 if dist._squared_integrals(y) is not None else 2e-7
    if isinstance(dist, Recalibrated) and dist._integrates_values:
        tolerance = 1e-5  # The CRPS of recalibrated pools is a quadrature with this precision.
    expected = dist.crps(y)
    assert_allclose(sum(parts), expected, rtol=tolerance, atol=tolerance)
    assert_array_equal(dist.clip(-np.inf, np.inf).crps(y), expected)


@every
def test_clipping_is_never_worse_in_any_row(dist):
    lower, upper = dist.ppf(0.15), np.maximum(dist.ppf(0.85), dist.ppf(0.15) + 0.5)
    y = np.clip(dist.ppf(np.resize([0.2, 0.5, 0.9], N)) + 0.01, lower, upper)
    score = dist.crps(y)
    assert (dist.clip(lower, upper).crps(y) <= score + 1e-7 * (1 + score)).all()


# ---------------------------------------------------------------------- mean distances


@every_family
def test_the_mean_distance_differs_from_the_crps_by_a_constant(dist):
    points = [dist.median(), dist.ppf(0.95), dist.mean() - 1.0]
    spread = [dist._mean_distance(point) - dist.crps(point) for point in points]
    assert_allclose(spread, np.broadcast_to(spread[0], (3, N)), rtol=2e-6, atol=1e-9)
    assert (spread[0] >= -1e-12).all()
    mean = dist._finite_part().mean()
    far = mean + 1e7
    assert_allclose(dist._mean_distance(far), far - mean, rtol=1e-9)


# ---------------------------------------------------------------------- Cramér distances


@every
def test_the_crps_of_a_pool_follows_from_scores_and_distances(dist):
    parts, weights = [dist[:2], NORMAL[:2]], np.array([0.3, 0.7])
    y = dist[:2].ppf(0.3)
    distances = cramer_distances(parts)
    scores = np.column_stack([part.crps(y) for part in parts])
    pooled = scores @ weights - distances @ weights @ weights / 2
    assert_allclose(pooled, Mixture(parts, weights).crps(y), rtol=1e-4, atol=1e-6)


@every
def test_a_distribution_has_no_distance_from_itself_and_the_same_both_ways(dist):
    distances = cramer_distances([dist[:2], EMPIRICAL[:2], dist[:2]])
    assert_allclose(distances[:, 0, 2], 0.0, atol=1e-12)
    assert_allclose(distances, distances.transpose(0, 2, 1))
    assert (distances[:, 0, 1] >= 0).all()
