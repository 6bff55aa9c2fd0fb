"""Cramér distance of two distributions in each row: the integral of the squared difference of their cdfs.

Let X and Y be independent, X' a copy of X and Y' a copy of Y. The distance is

    int (F(x) - G(x))^2 dx = E|X - Y| - 1/2 E|X - X'| - 1/2 E|Y - Y'|.

Let c_i be the CRPS of component F_i. The mixture of the components with weights w_i has the CRPS

    CRPS(y) = sum_i w_i c_i(y) - 1/2 sum_ij w_i w_j int (F_i(x) - F_j(x))^2 dx.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise, product
from typing import Any, TypeAlias

import numpy as np

from skuq._numeric import row_blocks
from skuq._typing import FloatArray, IntArray
from skuq.distributions._base import Distribution
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._empirical import Empirical
from skuq.distributions._normal import Normal, mean_absolute
from skuq.distributions._piecewise_cdf import PiecewiseCdf, piecewise_distance
from skuq.distributions._quantiles import Quantiles
from skuq.distributions._recalibrated import Recalibrated
from skuq.distributions._shapes import ROUGH, Shape, StepCrps, TabulatedCrps, tabulated_shape
from skuq.distributions._shared_empirical import SharedEmpirical
from skuq.distributions._student_t import StudentT
from skuq.distributions._tables import CrpsTable, exponential_rule
from skuq.distributions._value_quadrature import cdf_spread, relative_spacing, value_distances

_FAR = 1e25
"""A distribution is treated as a point mass if the other distribution is wider by more than this factor."""

_BLOCK = 2**14
"""CRPS values are computed in blocks of this size, so that a block fits into the cache."""

_WIDER = 2.0
"""A quadrature rule is refined if the ratio of the scales is larger than this number."""

_FINER = (8, 64)
_REFINEMENTS = tuple(pairwise((-1, 1, *_FINER)))
"""Pairs (a, b). A cell is divided into b parts if the required number of parts is above a and at most b."""

_LONG_TAIL = 8.0
"""The rule of a tail is refined if the tail is longer than this, in units of the other scale."""


@dataclass(frozen=True, eq=False)
class Located:
    """Rows loc + scale Z with one common shape Z. Both loc and scale have the shape (n,)."""

    dist: Distribution
    loc: FloatArray
    scale: FloatArray
    shape: Shape


class Leaf:
    """A distribution that is not a mixture.

    If it has a tabulated shape or a piecewise cdf, this shape or cdf is stored.
    """

    def __init__(self, dist: Distribution) -> None:
        self.dist = dist
        self.located: Located | None = None
        self.piecewise: PiecewiseCdf | None = None
        if isinstance(dist, Quantiles):
            self.piecewise = PiecewiseCdf.linear(dist.values, dist.levels, *dist._tails)
        elif isinstance(dist, Empirical):
            self.piecewise = PiecewiseCdf.steps(dist.members, dist._cumulative())
        elif (shape := _shape(dist)) is not None and (form := dist._standard_form()) is not None:
            loc, scale, _ = form
            self.located = Located(dist, loc + scale * shape.center, scale * shape.unit, shape)

    @property
    def has_distance(self) -> bool:
        """Return whether `leaf_distance` supports the distribution."""
        return self.located is not None or self.piecewise is not None


def _shape(dist: Distribution) -> Shape | None:
    if isinstance(dist, SharedEmpirical):
        return dist._shape
    if isinstance(dist, Normal):
        return _student_shape(np.inf)
    if isinstance(dist, StudentT):
        df = dist._shared_df()
        return None if df.ndim else _student_shape(float(df))
    if isinstance(dist, Recalibrated) and isinstance(dist.base, Normal | StudentT):
        return None if dist._standard is None else dist._standard._one_row_shape
    return None


@lru_cache(maxsize=16)
def _student_shape(df: float) -> Shape | None:
    standard = Normal(0.0, 1.0) if np.isinf(df) else StudentT(0.0, 1.0, df)
    none = np.empty(0)
    return tabulated_shape(standard, lambda: CrpsTable(standard, none), none, none, none)


def leaf_distance(first: Leaf, second: Leaf) -> FloatArray:
    """Return the integral of the squared difference of two cdfs, shape (n,), in the units of y."""
    a, b = first.dist, second.dist
    if isinstance(a, Normal) and isinstance(b, Normal):
        own = (a.scale + b.scale) / np.sqrt(np.pi)
        return np.asarray(np.maximum(mean_absolute(a.loc - b.loc, np.hypot(a.scale, b.scale)) - own, 0.0))
    if first.piecewise is not None and second.piecewise is not None:
        return _by_one_sort(first.piecewise, second.piecewise)
    if first.located is None:
        return leaf_distance(second, first)
    if second.located is not None:
        return _between_shapes(first.located, second.located)
    if isinstance(b, Quantiles):
        return _over_quantiles(first.located, b)
    if isinstance(b, Empirical):
        return _over_members(first.located, b)
    raise TypeError(f"{type(b).__name__} must be Quantiles or Empirical for a distance in closed form.")


def _by_one_sort(first: PiecewiseCdf, second: PiecewiseCdf) -> FloatArray:
    n, knots = len(first.knots), first.knots.shape[1] + second.knots.shape[1]
    blocks = row_blocks(n, knots, _BLOCK)
    return np.concatenate([piecewise_distance(first.take(rows), second.take(rows)) for rows in blocks])


def _expect(
    integrand: Located,
    over: Distribution,
    extent: FloatArray,
    size: int,
    expected: Callable[[IntArray], FloatArray],
    rows: IntArray,
) -> FloatArray:
    distance = np.zeros(len(over))
    is_near = extent[rows] < _FAR * integrand.scale[rows]  # The scale may be 0.
    near, far = rows[is_near], rows[~is_near]
    if far.size:
        distance[far] = over[far]._crps(integrand.loc[far])
    for block in row_blocks(near.size, size, _BLOCK):
        distance[near[block]] = expected(near[block])
    return np.maximum(distance[rows], 0.0)


def _over_members(integrand: Located, over: Empirical) -> FloatArray:
    members, crps, half = over.members, integrand.shape.crps, over._half_mean_difference()
    weights = over.weights

    def expected(rows: IntArray) -> FloatArray:
        loc, scale = integrand.loc[rows], integrand.scale[rows]
        score = crps((members[rows] - loc[:, np.newaxis]) / scale[:, np.newaxis])
        mean = score.mean(axis=1) if weights is None else np.einsum("ij,ij->i", score, weights[rows])
        return np.asarray(scale * mean - half[rows])

    extent = _extent(members, integrand.loc)
    return _expect(integrand, over, extent, members.shape[1], expected, np.arange(len(over)))


def _extent(sorted_values: FloatArray, loc: FloatArray) -> FloatArray:
    return np.maximum(np.abs(sorted_values[:, 0] - loc), np.abs(sorted_values[:, -1] - loc))


def _over_quantiles(integrand: Located, over: Quantiles) -> FloatArray:
    crps, half, shares = integrand.shape.crps, over._half_mean_difference(), np.diff(over.levels)
    roughness = integrand.shape.roughness
    masses, lengths = (over.levels[0], 1 - over.levels[-1]), over._tails

    def expected(rows: IntArray) -> FloatArray:
        loc, scale = integrand.loc[rows], integrand.scale[rows]
        t = (over.values[rows] - loc[:, np.newaxis]) / scale[:, np.newaxis]
        total = _mean_between(crps, t) @ shares
        total += masses[0] * _over_tail(crps, roughness, t[:, 0], -lengths[0][rows] / scale)
        total += masses[1] * _over_tail(crps, roughness, t[:, -1], lengths[1][rows] / scale)
        return np.asarray(scale * total - half[rows])

    extent = _extent(over.values, integrand.loc)
    return _expect(integrand, over, extent, over.levels.size, expected, np.arange(len(over)))


def _mean_between(crps: TabulatedCrps, t: FloatArray) -> FloatArray:
    """Return the mean of a CRPS between neighboring sorted values, shape (n, k - 1)."""
    gap = np.diff(t, axis=1)
    narrow = gap <= crps.narrow
    mean = np.diff(crps.integral(t), axis=1) / np.where(narrow, 1.0, gap)
    # For narrow pieces, the corrected trapezoidal rule has no cancellation, unlike a difference of integrals.
    row, piece = np.nonzero(narrow)
    start, stop = t[row, piece], t[row, piece + 1]
    rise = (crps.slope(stop) - crps.slope(start)) * (stop - start)
    mean[row, piece] = (crps(start) + crps(stop)) / 2 - rise / 12
    return mean


def _over_tail(crps: TabulatedCrps, roughness: float, end: FloatArray, length: FloatArray) -> FloatArray:
    """Return the expectation of a CRPS over the tail from ``end``.

    For a lower tail, ``length`` is negative.
    """
    if isinstance(crps, StepCrps):
        return crps(end) + length * crps.slope(end) + 2 * np.abs(length) * crps.decayed_weight(end, length)
    total = np.empty_like(end)
    difficulty = np.minimum(np.abs(length) * max(1 / _LONG_TAIL, roughness / ROUGH), _FINER[-1])
    for least, refined in _REFINEMENTS:
        rows = np.flatnonzero((least < difficulty) & (difficulty <= refined))
        if rows.size:
            rule = exponential_rule(refined)
            for block in row_blocks(rows.size, rule.nodes.size, _BLOCK):
                at = rows[block]
                nodes = end[at, np.newaxis] + length[at, np.newaxis] * rule.nodes
                total[at] = crps(nodes) @ rule.weights
    return total


def _between_shapes(first: Located, second: Located) -> FloatArray:
    """Return the distances between two distributions. All rows of a distribution have one shape."""
    one, other = first.shape, second.shape
    every = np.arange(len(first.loc))
    if one.members is not None and other.members is not None:
        if one.members.nodes.size < other.members.nodes.size:
            return _over_shape(second, first, None, every)
        return _over_shape(first, second, None, every)
    if one.members is not None:
        return _between_shapes(second, first)
    difficulty = _difficulty(first, second)
    distance = np.empty(len(every))
    if other.members is not None:
        choices = [(first, second, 1, difficulty <= 1), (first, second, None, difficulty > 1)]
    else:
        swapped = _difficulty(second, first)
        less = difficulty < swapped if one.roughness == other.roughness else one.roughness < other.roughness
        chosen = np.where((difficulty <= 1) & (swapped <= 1), less, difficulty < swapped)
        choices = [
            (integrand, over, refined, rows & (least < hard) & (hard <= refined))
            for integrand, over, rows, hard in (
                (first, second, chosen, difficulty),
                (second, first, ~chosen, swapped),
            )
            for least, refined in _REFINEMENTS
        ]
    for integrand, over, refined, rows in choices:
        if rows.any():
            distance[rows] = _over_shape(integrand, over, refined, every[rows])
    return distance


def _difficulty(integrand: Located, over: Located) -> FloatArray:
    """Return the number of parts per cell that the rule requires, shape (n,)."""
    ratio = np.full(len(over.scale), np.inf)
    np.divide(over.scale, integrand.scale, out=ratio, where=integrand.scale > 0)
    ratio[over.scale == 0] = 0.0
    return np.minimum(ratio * max(1 / _WIDER, integrand.shape.roughness / ROUGH), _FINER[-1])


def _over_shape(integrand: Located, over: Located, refined: int | None, rows: IntArray) -> FloatArray:
    shape, measure = integrand.shape, over.shape
    size = measure.nodes(refined).nodes.size
    half = measure.half_difference_for(shape, refined)

    def expected(at: IntArray) -> FloatArray:
        scale = integrand.scale[at]
        loc, width = (over.loc[at] - integrand.loc[at]) / scale, over.scale[at] / scale
        return np.asarray(scale * shape.expected_crps(measure, refined, loc, width) - over.scale[at] * half)

    extent = np.maximum(np.abs(over.loc - integrand.loc), over.scale)
    return _expect(integrand, over.dist, extent, size, expected, rows)


_Weighted: TypeAlias = Sequence[tuple[Any, Leaf]]

_QUADRATURE_ROWS = 512
"""Number of rows per block. The values of a block fit into the cache."""

_PAIRS_PER_MEMBER = 1.5
"""Cost of the integral per member, in units of the cost of one pair of members."""

_STEPS, _WIDEST = (1 / 8, 1 / 32), 1.0
"""Step sizes of the integral, and the largest distance between nodes in units of the scale of a member."""

_CONVERGED = 1e-6
"""The integral is accepted if its error estimate is at most this value, in units of the scale."""

_MOST_SHAPES = 16
"""Rows are grouped by degrees of freedom if there are at most this number of different values."""


def cramer_distances(parts: Sequence[Distribution]) -> FloatArray:
    """Return the Cramér distance of each pair of m distributions, shape (n, m, m), in the units of y."""
    finite = [part._finite_part()._integrable for part in parts]
    rows_alike = _row_parts([leaf for part in finite for _, leaf in part._leaves()])
    if len(rows_alike) == 1:
        return _distances_alike(finite)
    distances = np.empty((len(finite[0]), len(finite), len(finite)))
    for rows in rows_alike:
        distances[rows] = cramer_distances([part[rows] for part in finite])
    return distances


def pool_spread(leaves: Sequence[tuple[Any, Distribution]]) -> FloatArray | None:
    """Return the mean CRPS of the members minus the CRPS of their mixture, shape (n,).

    Return None if the difference is unknown.
    """
    n = len(leaves[0][1])
    used = [(np.broadcast_to(weight, n), dist) for weight, dist in leaves if np.any(weight > 0)]
    rows_alike = _row_parts([dist for _, dist in used])
    if len(rows_alike) == 1:
        return _spread_alike([(weight, Leaf(dist)) for weight, dist in used])
    spread = np.empty(n)
    for rows in rows_alike:
        members = [(weight[rows], dist[rows]) for weight, dist in used]
        inner = [(weight * share, leaf) for weight, part in members for share, leaf in part._leaves()]
        # In these rows, a member may be a mixture itself, whose CRPS is below the mean CRPS of its members.
        terms = [pool_spread(inner), *(pool_spread(part._leaves()) for _, part in members)]
        known = [term for term in terms if term is not None]
        if len(known) < len(terms):
            return None
        spread[rows] = known[0] - sum(
            weight * term for (weight, _), term in zip(members, known[1:], strict=True)
        )
    return spread


def _spread_alike(members: _Weighted) -> FloatArray | None:
    if not all(leaf.has_distance for _, leaf in members):
        return None
    smooth = [(weight, leaf) for weight, leaf in members if _is_smooth(leaf)]
    if not _costs_less_together([leaf for _, leaf in smooth]):
        return _spread(members)
    others = [(weight, leaf) for weight, leaf in members if not _is_smooth(leaf)]
    return _spread_of_many(smooth) + _spread(others, smooth)


def _is_smooth(leaf: Leaf) -> bool:
    return leaf.located is not None and leaf.located.shape.smooth


def _costs_less_together(leaves: Sequence[Leaf]) -> bool:
    normal = sum(isinstance(leaf.dist, Normal) for leaf in leaves)
    # Pairs of normal distributions have a closed form, so they are not counted.
    pairs = math.comb(len(leaves), 2) - math.comb(normal, 2)
    return pairs > _PAIRS_PER_MEMBER * len(leaves)


def _spread(members: _Weighted, others: _Weighted = ()) -> FloatArray:
    total = np.zeros(len((*members, *others)[0][1].dist))
    for (weight, leaf), (other_weight, other) in [*combinations(members, 2), *product(members, others)]:
        share = weight * other_weight
        total += np.where(share > 0, share * leaf_distance(leaf, other), 0.0)
    return total


def _spread_of_many(members: _Weighted) -> FloatArray:
    """Return the spread of many smooth members.

    The spread is one integral. If the error of this integral is too large, the sum over pairs of members is
    used.
    """
    located = [leaf.located for _, leaf in members if leaf.located is not None]
    weights = np.stack([weight for weight, _ in members], axis=1)
    loc, scale = (np.stack([getattr(part, name) for part in located], axis=1) for name in ("loc", "scale"))
    total = weights.sum(axis=1)
    spread, settled = np.zeros(len(loc)), total == 0
    proper = np.flatnonzero(~settled & (scale.min(axis=1) > 0))
    for step in _STEPS:
        for block in row_blocks(proper.size, 1, _QUADRATURE_ROWS):
            rows = proper[block]
            form = loc[rows], scale[rows], weights[rows] / total[rows, np.newaxis]
            fine = step * relative_spacing(*form) < _WIDEST
            rows, form = rows[fine], (form[0][fine], form[1][fine], form[2][fine])
            if rows.size:
                integral, error = cdf_spread([part.shape.crps for part in located], *form, step)
                settled[rows] = error <= _CONVERGED * form[1].max(axis=1)
                spread[rows] = total[rows] ** 2 * integral
        proper = proper[~settled[proper]]
    rest = np.flatnonzero(~settled)
    if rest.size:
        spread[rest] = _spread([(weight[rest], Leaf(leaf.dist[rest])) for weight, leaf in members])
    return spread


def _row_parts(dists: Sequence[Distribution]) -> list[IntArray]:
    owners = [owner for owner in map(_row_owner, dists) if owner is not None]
    if not owners:
        return [np.arange(len(dists[0]))]
    part = np.unique(np.stack(owners, axis=1), axis=0, return_inverse=True)[1].ravel()
    return np.split(np.argsort(part, kind="stable"), np.cumsum(np.bincount(part))[:-1])


def _row_owner(dist: Distribution) -> IntArray | None:
    if isinstance(dist, Concatenated):
        owner = np.empty(len(dist), dtype=np.intp)
        for index, rows in enumerate(dist._part_rows):
            owner[rows] = index
        return owner
    if isinstance(dist, StudentT) and dist._shared_df().ndim:
        distinct, owner = np.unique(dist.df, return_inverse=True)
        return owner if distinct.size <= _MOST_SHAPES else None
    return None


def _distances_alike(parts: Sequence[Distribution]) -> FloatArray:
    """Return the distances between parts. All rows of all parts have the same family and the same shape."""
    n, m = len(parts[0]), len(parts)
    leaves = [[(weight, Leaf(leaf)) for weight, leaf in part._leaves()] for part in parts]
    within = [_mean_distance(part, part) for part in leaves]
    distances = np.zeros((n, m, m))
    numerical = np.zeros((m, m), dtype=bool)
    for i, j in combinations(range(m), 2):
        between, first, second = _mean_distance(leaves[i], leaves[j]), within[i], within[j]
        if between is None or first is None or second is None:
            numerical[i, j] = numerical[j, i] = True
        else:
            distances[:, i, j] = distances[:, j, i] = np.maximum(between - (first + second) / 2, 0.0)
    which = np.flatnonzero(numerical.any(axis=1))
    for rows in row_blocks(n if which.size else 0, 1, _QUADRATURE_ROWS):
        table = np.zeros((len(distances[rows]), m, m))
        table[:, which[:, np.newaxis], which] = value_distances([parts[i][rows] for i in which.tolist()])
        distances[rows] += np.where(numerical, table, 0.0)
    return distances


def _mean_distance(first: _Weighted, second: _Weighted) -> FloatArray | None:
    total = np.zeros(len(first[0][1].dist))
    for weight, leaf in first:
        for other_weight, other in second:
            if leaf is other:
                continue
            if not (leaf.has_distance and other.has_distance):
                return None
            share = weight * other_weight
            total += np.where(share > 0, share * leaf_distance(leaf, other), 0.0)
    return total
