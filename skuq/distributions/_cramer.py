r"""Cramér distance of distributions, row by row: the integral of the squared difference of two cdfs.

With X and Y independent it is what expected absolute differences leave of a pair,

    int (F(x) - G(x))^2 dx = E|X - Y| - 1/2 E|X - X'| - 1/2 E|Y - Y'|,

and the CRPS of a linear pool with weights w_i and components F_i, whose own scores are c_i, is

    CRPS(y) = sum_i w_i c_i(y) - 1/2 sum_ij w_i w_j int (F_i(x) - F_j(x))^2 dx.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skuq._typing import FloatArray
from skuq.distributions._base import Distribution
from skuq.distributions._empirical import CACHED, Empirical
from skuq.distributions._normal import Normal
from skuq.distributions._normal_mixture import NormalMixture, mean_absolute
from skuq.distributions._numerics.cdf_quadrature import value_distances
from skuq.distributions._numerics.piecewise_cdf import PiecewiseCdf, piecewise_distance
from skuq.distributions._quantiles import Quantiles
from skuq.distributions._shared_empirical import SharedEmpirical

__all__ = ["cramer_distances"]

_QUADRATURE_ROWS = 512
"""Rows that are integrated together: few enough that what is computed of them stays in the cache."""


def cramer_distances(parts: Sequence[Distribution]) -> FloatArray:
    """Return the Cramér distance of each pair of m distributions, shape (n, m, m), in the units of y.

    Closed form for normal distributions and their mixtures, one sort of the quantiles or members of both
    where these give the distribution, else integration over the values of y.

    Parameters
    ----------
    parts : sequence of m Distribution
        Each with the same n rows. Tail mass without a place counts as in the CRPS.
    """
    finite = [part._finite_part() for part in parts]
    n, m = len(finite[0]), len(finite)
    distances = np.zeros((n, m, m))
    numerical = np.zeros((m, m), dtype=bool)
    for j in range(m):
        for i in range(j):
            exact = _exact_distance(finite[i], finite[j])
            numerical[i, j] = numerical[j, i] = exact is None
            distances[:, i, j] = distances[:, j, i] = 0.0 if exact is None else exact
    which = np.flatnonzero(numerical.any(axis=1))
    for rows in _blocks(n if which.size else 0, _QUADRATURE_ROWS):
        table = np.zeros((len(distances[rows]), m, m))
        table[:, which[:, np.newaxis], which] = value_distances([finite[i][rows] for i in which])
        distances[rows] += np.where(numerical, table, 0.0)
    return distances


def _exact_distance(first: Distribution, second: Distribution) -> FloatArray | None:
    """Return the distance of a pair, shape (n,), or None where it takes integration."""
    if _all(Normal | NormalMixture, first, second):
        between = _normal_difference(first, second)
        within = _normal_difference(first, first) + _normal_difference(second, second)
        return np.maximum(between - within / 2, 0.0)
    if _all(Quantiles | Empirical | SharedEmpirical, first, second):
        size = max(1, CACHED // (_n_knots(first) + _n_knots(second)))
        blocks = [
            piecewise_distance(_piecewise(first[rows]), _piecewise(second[rows]))
            for rows in _blocks(len(first), size)
        ]
        return np.concatenate(blocks)
    return None


def _all(families: Any, *parts: Distribution) -> bool:
    return all(isinstance(part, families) for part in parts)


def _blocks(n: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, n, size)]


def _normal_difference(first: Any, second: Any) -> FloatArray:
    """Return E|X - Y| of normal distributions or mixtures of them, shape (n,)."""
    total = np.zeros(len(first))
    for loc, scale, weight in _normal_members(first):
        for other_loc, other_scale, other_weight in _normal_members(second):
            total += weight * other_weight * mean_absolute(loc - other_loc, np.hypot(scale, other_scale))
    return total


def _normal_members(dist: Any) -> list[tuple[FloatArray, FloatArray, Any]]:
    """Return location, scale and weight, each of shape (n,), of the members of a mixture."""
    if isinstance(dist, Normal):
        return [(dist.loc, dist.scale, 1.0)]
    weights = np.broadcast_to(dist._w(), dist.loc.shape)
    return list(zip(dist.loc.T, dist.scale.T, weights.T, strict=True))


def _n_knots(dist: Any) -> int:
    return int((dist.values if isinstance(dist, Quantiles) else dist.members).shape[-1])


def _piecewise(dist: Any) -> PiecewiseCdf:
    if isinstance(dist, Quantiles):
        return PiecewiseCdf.linear(dist.values, dist.levels, *dist._tails())
    if isinstance(dist, SharedEmpirical):
        dist = Empirical(dist.loc[:, np.newaxis] + dist.scale[:, np.newaxis] * dist.members, dist.weights)
    return PiecewiseCdf.steps(dist.members, dist._cumulative())
