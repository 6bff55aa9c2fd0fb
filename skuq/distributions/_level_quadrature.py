"""Functions of probability levels, and integrals over the levels of a quantile function.

Levels such as (1 - coverage) / 2 and 1 - q have rounding errors, and ``np.linspace(.1, .9, 9)`` contains
0.30000000000000004. If such a level were slightly larger than the cdf at an atom, the quantile would be the
next atom.

The integrals are for distributions without closed forms. With the quantile function Q and the cdf F,

    E g(Y)  = int_0^1 g(Q(u)) du,
    E|Y-y|  = int_0^{F(y)} (y - Q(u)) du + int_{F(y)}^1 (Q(u) - y) du,
    CRPS(y) = 2 int_0^{F(y)} u (y - Q(u)) v(u) du + 2 int_{F(y)}^1 (1 - u) (Q(u) - y) v(u) du,

with the weight v = 1 of the levels, or another polynomial.

These integrals need only values of Q, at the same levels for all rows. The panels of the Gauss-Legendre
quadrature end at the breaks of Q. On the scale of -log of the tail probability, each panel of a tail is twice
as wide as the previous panel, which is suitable for light and for heavy tails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.legendre import leggauss

from skuq._compat import warn_user
from skuq._numeric import has_rank, level_rounding, rows_needed
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.distributions._family import Family
from skuq.distributions._value_quadrature import UNIFORM
from skuq.exceptions import SmallSampleWarning

_QUANTILES_AT_ONCE = 2048
"""Distributions of few rows are sampled with at most this number of quantiles per call."""


def snap_levels(p: FloatArray, stored: FloatArray) -> FloatArray:
    """Replace each level that equals a stored level up to rounding with the stored level."""
    right = np.clip(np.searchsorted(stored, p), 0, stored.size - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(p - stored[left]) < np.abs(p - stored[right]), stored[left], stored[right])
    return np.where(np.abs(p - nearest) <= level_rounding(nearest), nearest, p)


def inverse_samples(dist: Any, m: int, rng: np.random.RandomState) -> FloatArray:
    """Return quantiles at m random levels per row, shape (n, m).

    If there are few rows, one call draws several levels per row.
    """
    n = len(dist)
    draws = max(min(_QUANTILES_AT_ONCE // max(n, 1), m), 1)
    repeated = dist if draws == 1 else dist[np.tile(np.arange(n), draws)]
    samples = np.empty((m, n))
    for start in range(0, m, draws):
        block = samples[start : start + draws]
        part = repeated if len(block) == draws else repeated[: block.size]
        block[:] = part._ppf(rng.uniform(size=block.size)).reshape(block.shape)
    return samples.T


LevelKind = Literal["level", "row", "coverage", "set"]
"""Kind of a level: one level for all rows, one level per row, the coverage of intervals, or the coverage of
sets."""


@dataclass(frozen=True)
class UnreachableLevel:
    """Level whose quantile is infinite.

    The attribute ``needed`` is the total weight of calibration rows that a finite quantile requires.
    """

    needed: float
    message: str


def unreachable_level(
    requested: FloatArray,
    kind: LevelKind,
    score_levels: FloatArray,
    calibration_weight: float,
    test_weight: float,
) -> UnreachableLevel | None:
    """Return the most extreme level whose quantile is infinite, or None."""
    unreached = ~has_rank(score_levels, calibration_weight, test_weight)
    if not unreached.any():
        return None
    worst = int(np.argmax(np.where(unreached, score_levels, -1.0)))
    needed = rows_needed(float(score_levels[worst])) * test_weight
    what = (
        f"{100 * requested[worst]:g} %"
        if kind in ("coverage", "set")
        else f"the quantile at level {requested[worst]:g}"
    )
    rows = f"at least {needed:g} calibration rows"
    if test_weight != 1:
        rows = (
            f"calibration rows with a total weight of at least {needed:g} for a new row of weight "
            f"{test_weight:g}"
        )
    consequence = "sets contain all classes" if kind == "set" else "bounds are infinite"
    return UnreachableLevel(
        needed,
        f"{what} needs {rows}, got {calibration_weight:g}. Therefore, {consequence}. "
        "Use a lower coverage, or calibrate on more rows.",
    )


def most_demanding(found: Iterable[UnreachableLevel | None]) -> UnreachableLevel | None:
    present = [level for level in found if level is not None]
    return max(present, key=lambda level: level.needed, default=None)


def warn_of_unreachable_level(level: UnreachableLevel | None) -> None:
    """Issue one `SmallSampleWarning` if a level has no finite quantile."""
    if level is not None:
        warn_user(level.message, SmallSampleWarning)


Factors: TypeAlias = Callable[[FloatArray, BoolArray], tuple[FloatArray, FloatArray]]
"""Function that returns two factors of the integrand: one below y and one above y."""


def unit_rule(size: int) -> tuple[FloatArray, FloatArray]:
    nodes, weights = leggauss(size)
    return (nodes + 1) / 2, weights / 2


FINE, COARSE = unit_rule(8), unit_rule(3)
"""Quadrature rules of wide panels and of narrow panels."""

TAIL_EDGES = np.exp(-np.array([690.0, 256, 128, 64, 32, 16, 8, 4, 2, 1, 0.5, 0]))
"""Edges of panels in a tail, as shares of the probability of the tail. The smallest share is 1e-300."""

LADDER = 0.05 * 3.0 ** -np.arange(1, 30)
"""Edges of panels between the middle and a break in a tail. The smallest edge is near 1e-15."""

OUTERMOST = 2.0**-50
"""Breaks with a smaller tail probability are ignored, because the panels beyond these breaks are short."""
INNER_EDGES = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95])


@dataclass(frozen=True)
class Grid:
    """Panels over (0, 1) in ascending order, with their nodes.

    A node in the upper tail is stored as q = 1 - u.
    """

    low: FloatArray  # Position of the lower end of each panel, which is larger than `high` in the upper tail.
    high: FloatArray
    tail: BoolArray  # Whether each panel is in a tail.
    upper: BoolArray  # Whether each panel is in the upper tail.
    nodes: FloatArray  # Position of each node, u or q.
    weights: FloatArray  # Weight of each node, du.
    panel: IntArray  # Panel of each node.

    def find(self, u: FloatArray, q: FloatArray) -> IntArray:
        # The upper half is searched by q, because levels near 1 are equal after rounding.
        below = np.searchsorted(self.high[~self.upper], u, side="left")
        above = np.searchsorted(self.low[self.upper][::-1], q, side="left")
        last = self.low.size - 1
        return np.where(below < (~self.upper).sum(), below, last - np.minimum(above, self.upper.sum() - 1))


def make_grid(breaks: FloatArray) -> Grid:
    """Return panels that divide (0, 1). The breaks are edges of panels."""
    inner = np.concatenate([breaks[(breaks > OUTERMOST) & (breaks < 1 - OUTERMOST)], INNER_EDGES])
    # Near an extreme break, the widths of panels are proportional to the tail probability.
    lowest, highest = inner.min(), 1 - inner.max()
    rungs = [LADDER[lowest < LADDER], 1 - LADDER[highest < LADDER]]
    inner = np.unique(np.concatenate([inner, *rungs]))
    # The quantiles of exponential tails and of power tails are smooth functions of -log of the tail
    # probability, so the panels are chosen on this scale.
    lower_tail, upper_tail = inner[0] * TAIL_EDGES, (1 - inner[-1]) * TAIL_EDGES[::-1]
    low = np.concatenate([lower_tail[:-1], inner[:-1], upper_tail[:-1]])
    high = np.concatenate([lower_tail[1:], inner[1:], upper_tail[1:]])
    position = np.arange(low.size)
    upper = position >= low.size - TAIL_EDGES.size + 1
    tail = upper | (position < TAIL_EDGES.size - 1)
    # Three nodes are enough for an inner panel that is narrow relative to u and to 1 - u.
    narrow = ~tail & (high < 1.2 * low) & (1 - low < 1.2 * (1 - high))
    parts = []
    for chosen, (nodes, weights) in ((narrow, COARSE), (~narrow, FINE)):
        panels = np.flatnonzero(chosen)[:, np.newaxis]
        at, step = place(low[panels], high[panels], tail[panels], nodes)
        parts.append((at.ravel(), (np.abs(step) * weights).ravel(), np.repeat(panels.ravel(), nodes.size)))
    at, weight, panel = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(panel, kind="stable")
    return Grid(low, high, tail, upper, at[order], weight[order], panel[order])


def place(
    start: FloatArray, stop: FloatArray, tail: BoolArray, node: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    geometric = start * (stop / start) ** node
    at = np.where(tail, geometric, start + (stop - start) * node)
    return at, np.where(tail, geometric * np.log(stop / start), stop - start)


def node_quantile(dist: Family, at: float, upper: bool) -> FloatArray:
    level = np.asarray(at)
    return dist._isf(level) if upper else dist._ppf(level)


_LEAST_LEVEL = np.asarray(1e-297)
"""Smallest level of the integrals. If the quantile at this level is infinite, the mean is infinite."""


def has_infinite_quantile(dist: Family) -> BoolArray:
    """Return a mask of the rows whose quantile at the smallest or the largest level is infinite."""
    return np.asarray(np.isinf([dist._ppf(_LEAST_LEVEL), dist._isf(_LEAST_LEVEL)]).any(axis=0))


def level_moments(dist: Family) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation. The mean is NaN if both tails have an infinite mean."""
    grid = make_grid(dist._level_breaks())
    upper = grid.upper[grid.panel]
    center = np.array(dist._ppf(np.asarray(0.5)))  # Deviations from the median keep their precision.
    # This unit prevents overflow of the squares.
    unit = dist._isf(np.asarray(0.05)) - dist._ppf(np.asarray(0.05))
    unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)
    first, second = np.zeros_like(center), np.zeros_like(center)
    with np.errstate(over="ignore", invalid="ignore"):
        for at, is_upper, weight in zip(grid.nodes, upper, grid.weights, strict=True):
            deviation = (node_quantile(dist, at, is_upper) - center) / unit
            first += weight * deviation
            second += weight * deviation**2
        # Moments about the median have little cancellation.
        variance = second - first**2
    variance[~np.isfinite(second)] = np.inf
    return center + unit * first, unit * np.sqrt(np.maximum(variance, 0.0))


def level_crps(dist: Family, y: FloatArray, density: Polynomial = UNIFORM) -> FloatArray:
    """Return the CRPS with a weight per level, shape (n,).

    The distribution ``dist`` has n rows or one row.
    """

    def factors(at: FloatArray, upper: BoolArray) -> tuple[FloatArray, FloatArray]:
        level = np.where(upper, 1 - at, at)
        weight = 2.0 * density(level)
        return weight * level, weight * np.where(upper, at, 1 - at)

    return _integrate_around(dist, y, factors)


def level_mean_distance(dist: Family, y: FloatArray) -> FloatArray:
    """Return E|Y - y|, shape (n,). The distribution ``dist`` has n rows or one row."""
    return _integrate_around(dist, y, _ones)


def _integrate_around(dist: Family, y: FloatArray, factors: Factors) -> FloatArray:
    """Return the integral of |Q(u) - y| times one factor below y and another factor above y."""
    grid = make_grid(dist._level_breaks())
    upper = grid.upper[grid.panel]
    left, right = factors(grid.nodes, upper)
    u, q = dist._cdf(y), dist._sf(y)
    # Only the panel that contains y is split. All panels below it have one integrand, and all panels above it
    # have the other.
    row_panel = grid.find(u, q)
    below, above = grid.weights * left, grid.weights * right
    sum_panels = _sum_shared if len(dist) == 1 else _sum_rows
    whole = sum_panels(dist, y, grid, upper, row_panel, below, above)
    return whole + _split_panel(dist, y, grid, row_panel, u, q, factors)


def _ones(at: FloatArray, upper: BoolArray) -> tuple[FloatArray, FloatArray]:
    return np.ones_like(at), np.ones_like(at)


def _sum_shared(
    dist: Family,
    y: FloatArray,
    grid: Grid,
    upper: BoolArray,
    row_panel: IntArray,
    below: FloatArray,
    above: FloatArray,
) -> FloatArray:
    """Return the sums over the panels that do not contain y, if all rows have the same quantiles."""
    quantile = np.array(
        [node_quantile(dist, at, is_upper)[0] for at, is_upper in zip(grid.nodes, upper, strict=True)]
    )

    def prefix(values: FloatArray) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum(values)])

    # These are sums over the nodes before and after the panel of y. Sums over the upper tail begin at level
    # 1, where the terms are small.
    start = np.searchsorted(grid.panel, row_panel, side="left")
    stop = np.searchsorted(grid.panel, row_panel, side="right")
    left = y * prefix(below)[start] - prefix(times(below, quantile))[start]
    right = prefix(times(above, quantile)[::-1])[::-1][stop] - y * prefix(above[::-1])[::-1][stop]
    return left + right


def _sum_rows(
    dist: Family,
    y: FloatArray,
    grid: Grid,
    upper: BoolArray,
    row_panel: IntArray,
    below: FloatArray,
    above: FloatArray,
) -> FloatArray:
    total = np.zeros_like(y)
    columns = zip(grid.nodes, upper, grid.panel, below, above, strict=True)
    for at, is_upper, panel, weight_below, weight_above in columns:
        gap = y - node_quantile(dist, at, is_upper)
        weight = np.where(panel < row_panel, weight_below, np.where(panel > row_panel, -weight_above, 0.0))
        total += times(weight, gap)
    return total


def times(weight: FloatArray, value: FloatArray) -> FloatArray:
    return np.multiply(weight, value, out=np.zeros_like(weight), where=weight != 0)


def _split_panel(
    dist: Family,
    y: FloatArray,
    grid: Grid,
    row_panel: IntArray,
    u: FloatArray,
    q: FloatArray,
    factors: Factors,
) -> FloatArray:
    """Return the integrals below and above y over the panel that contains y."""
    low, high = grid.low[row_panel], grid.high[row_panel]
    tail, upper = grid.tail[row_panel], grid.upper[row_panel]
    # Rounding may move the level of y out of its panel.
    level = np.clip(np.where(upper, q, u), np.minimum(low, high), np.maximum(low, high))

    def integral(start: FloatArray, stop: FloatArray, below: bool) -> FloatArray:
        total = np.zeros_like(y)
        for at, weight, quantile in row_nodes(dist, start, stop, tail, upper):
            below_at, above_at = factors(at, upper)
            share = below_at * (y - quantile) if below else above_at * (quantile - y)
            total += weight * share
        return total

    return integral(low, level, True) + integral(level, high, False)


def row_nodes(
    dist: Family, start: FloatArray, stop: FloatArray, tail: BoolArray, upper: BoolArray
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Yield the positions, weights and quantiles of a rule over one range of positions per row."""
    for node, weight in zip(*FINE, strict=True):
        at, step = place(start, stop, tail, node)
        # Rows of the other tail get the level 1/2. Their results are discarded.
        quantile = dist._ppf(np.where(upper, 0.5, at))
        if upper.any():
            quantile = np.where(upper, dist._isf(np.where(upper, at, 0.5)), quantile)
        yield at, weight * np.abs(step), quantile
