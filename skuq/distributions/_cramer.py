r"""Cramér distance of two distributions in each row: the integral of the squared difference of their cdfs.

Let X and Y be independent, X' a copy of X and Y' a copy of Y. The distance is

    int (F(x) - G(x))^2 dx = E|X - Y| - 1/2 E|X - X'| - 1/2 E|Y - Y'|.

Let c_i be the CRPS of component F_i. The mixture of the components with weights w_i has the CRPS

    CRPS(y) = sum_i w_i c_i(y) - 1/2 sum_ij w_i w_j int (F_i(x) - F_j(x))^2 dx.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, TypeAlias

import numpy as np

from skuq._typing import FloatArray, IntArray
from skuq.distributions._base import Distribution
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._leaf_distance import Leaf, leaf_distance
from skuq.distributions._normal import Normal
from skuq.distributions._numerics.cdf_quadrature import value_distances
from skuq.distributions._numerics.cdf_spread import cdf_spread, relative_spacing
from skuq.distributions._student_t import StudentT

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
    finite = [part._finite_part() for part in parts]
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
        for block in _blocks(proper.size, _QUADRATURE_ROWS):
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
    for rows in _blocks(n if which.size else 0, _QUADRATURE_ROWS):
        table = np.zeros((len(distances[rows]), m, m))
        table[:, which[:, np.newaxis], which] = value_distances([parts[i][rows] for i in which.tolist()])
        distances[rows] += np.where(numerical, table, 0.0)
    return distances


def _blocks(n: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, n, size)]


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
