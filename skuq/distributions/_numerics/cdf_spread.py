"""Integral of the variance of several cdfs, for mixtures of many members.

With weights w_i,

    1/2 sum_ij w_i w_j int (F_i - F_j)^2 dx = int Var F_i(x) dx.

The cost of the right side is linear in the number of members. With x = center + unit sinh(u), the trapezoidal
rule in u converges exponentially for smooth cdfs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from skuq._typing import FloatArray
from skuq.distributions._numerics.hermite_table import EDGES

_CHUNK, _LAST = 16, 64.0
"""Number of nodes per block, and the largest value of u (see the docstring of the module)."""
_NEGLIGIBLE = 1e-13


class Slope(Protocol):
    """A tabulated CRPS. Its slope is 2 F - 1."""

    def slope(self, t: FloatArray) -> FloatArray: ...


def cdf_spread(
    crps: Sequence[Slope], loc: FloatArray, scale: FloatArray, weights: FloatArray, step: float
) -> tuple[FloatArray, FloatArray]:
    """Return the integral of the variance of m cdfs, and an error estimate. Both have the shape (n,)."""
    center, unit = _grid(loc, scale, weights)
    fine, coarse = np.zeros(len(loc)), np.zeros(len(loc))
    for side in (1, -1):
        for chunk in range(int(_LAST / step / _CHUNK)):
            place = np.arange(chunk * _CHUNK, (chunk + 1) * _CHUNK) + (side < 0)
            u = side * step * place
            x = center[:, np.newaxis] + unit[:, np.newaxis] * np.sinh(u)
            terms = _variance(crps, loc, scale, weights, x, side) * (step * np.cosh(u))
            fine += terms.sum(axis=1)
            coarse += 2 * terms[:, place % 2 == 0].sum(axis=1)
            if (terms[:, -1] <= _NEGLIGIBLE * fine).all():
                break
    return unit * fine, unit * np.abs(fine - coarse)


def relative_spacing(loc: FloatArray, scale: FloatArray, weights: FloatArray) -> FloatArray:
    center, unit = _grid(loc, scale, weights)
    return np.asarray((np.hypot(loc - center[:, np.newaxis], unit[:, np.newaxis]) / scale).max(axis=1))


def _grid(loc: FloatArray, scale: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    center, unit = (np.einsum("ij,ij->i", weights, values) for values in (loc, scale))
    return center, unit


def _variance(
    crps: Sequence[Slope], loc: FloatArray, scale: FloatArray, weights: FloatArray, x: FloatArray, side: int
) -> FloatArray:
    """Return the variance of the members' tail probabilities at x, shape (n, nodes)."""
    first, second = np.zeros_like(x), np.zeros_like(x)
    for table, *columns in zip(crps, loc.T, scale.T, weights.T, strict=True):
        center, unit, weight = (column[:, np.newaxis] for column in columns)
        tail = (1 - side * table.slope(np.clip((x - center) / unit, EDGES[0], EDGES[-1]))) / 2
        first += weight * tail
        second += weight * tail**2
    return np.maximum(second - first**2, 0.0)
