"""Basis functions of a sparse Gaussian process: a constant, and whitened Matern correlations.

Let Z be the inducing points, k the Matern correlation with nu = 5/2, and L the Cholesky factor of k(Z, Z).
The process is

  w(x) = beta_0 + alpha psi(x)' u + alpha e(x),      psi(x) = L^-1 k(Z, x),

with independent normal beta_0 and u. The inducing points do not determine e(x), which has the variance 1 -
psi(x)' psi(x) (Titsias 2009, Hensman, Matthews and Ghahramani 2015).
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from skuq._typing import FloatArray

JITTER = 1e-6
"""Number that is added to the unit variances of the inducing points, because points may be close together."""

CANDIDATES = 512
"""Maximum number of candidates for inducing points."""

HYPER_STEP = 0.4
"""Inducing points are chosen with this lengthscale. Fitted lengthscales are usually longer."""

MIN_RESIDUAL_VARIANCE = 1e-5
"""No inducing point is added if the unexplained share of the variance is below this value."""

_ROOT = math.sqrt(5.0)


def _distances(x: FloatArray, points: FloatArray, lengthscales: FloatArray) -> list[FloatArray]:
    scaled, centers = x / lengthscales, points / lengthscales
    return [np.square(scaled[:, [d]] - centers[:, d]) for d in range(x.shape[1])]


def correlate(x: FloatArray, points: FloatArray, lengthscales: FloatArray) -> FloatArray:
    """Return the Matern correlations (1 + r + r^2 / 3) exp(-r), shape (n, m).

    Here r is sqrt(5) times the distance.
    """
    r = _ROOT * np.sqrt(sum(_distances(x, points, lengthscales)))
    return np.asarray((1 + r + r * r / 3) * np.exp(-r))


def correlation_slopes(x: FloatArray, points: FloatArray, lengthscales: FloatArray) -> list[FloatArray]:
    squares = _distances(x, points, lengthscales)
    r = _ROOT * np.sqrt(sum(squares))
    common = 5 / 3 * (1 + r) * np.exp(-r)
    return [common * square for square in squares]


def place_inducing_points(x: FloatArray, weight: FloatArray, most: int) -> FloatArray:
    if len(x) > CANDIDATES:
        middle = np.cumsum(weight) - weight / 2
        places = (np.arange(CANDIDATES) + 0.5) / CANDIDATES * weight.sum()
        rows = np.unique(np.minimum(np.searchsorted(middle, places), len(x) - 1))
        x, weight = x[rows], np.ones(len(rows))
    left = correlate(x, x, np.full(x.shape[1], HYPER_STEP))
    total = weight.sum()
    chosen: list[int] = []
    while len(chosen) < min(most, len(x)):
        variance = left.diagonal().copy()
        free = variance > JITTER
        if not free.any() or weight @ variance < MIN_RESIDUAL_VARIANCE * total:
            break
        gain = np.where(free, weight @ np.square(left), 0.0) / np.where(free, variance, 1.0)
        row = int(np.argmax(gain))
        chosen.append(row)
        left -= np.outer(left[:, row], left[row] / variance[row])
    return x[chosen]


class Basis:
    """Basis functions for given lengthscales: the constant and the functions psi of the inducing points."""

    def __init__(self, points: FloatArray, lengthscales: FloatArray) -> None:
        self.points = points
        self.lengthscales = lengthscales
        inside = correlate(points, points, lengthscales)
        self.factor = np.linalg.cholesky(inside + JITTER * np.eye(len(points)))

    def __len__(self) -> int:
        return 1 + len(self.points)

    @cached_property
    def _inverse(self) -> FloatArray:
        return np.asarray(solve_triangular(self.factor, np.eye(len(self.points)), lower=True))

    @cached_property
    def _factor_slopes(self) -> list[FloatArray]:
        """Return matrices P with dL = L P for each log lengthscale.

        P is the lower triangle of L^-1 dK L^-T.
        """
        slopes = correlation_slopes(self.points, self.points, self.lengthscales)
        halves = [self._inverse @ slope @ self._inverse.T for slope in slopes]
        return [np.tril(half) - np.diag(half.diagonal() / 2) for half in halves]

    def functions(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        out = np.ones((len(x), len(self)))
        np.matmul(correlate(x, self.points, self.lengthscales), self._inverse.T, out=out[:, 1:])
        return out, np.maximum(1.0 - np.einsum("ij,ij->i", out[:, 1:], out[:, 1:]), 0.0)

    def slope(self, x: FloatArray, functions: FloatArray, outer: FloatArray) -> FloatArray:
        """Return the derivatives of sum(outer * psi(x)) for the log lengthscales, shape (inputs,)."""
        inner = outer @ self._inverse
        square = outer.T @ functions[:, 1:]
        moved = correlation_slopes(x, self.points, self.lengthscales)
        return np.array(
            [
                np.vdot(inner, slope) - np.vdot(factor_slope, square)
                for slope, factor_slope in zip(moved, self._factor_slopes, strict=True)
            ]
        )
