"""The functions of which a sparse Gaussian process is made: a constant and whitened Matern correlations.

With Z the inducing points, k the Matern correlation with nu = 5/2 and L the Cholesky factor of k(Z, Z), the
process is

    w(x) = beta_0 + alpha psi(x)' u + alpha e(x),      psi(x) = L^-1 k(Z, x),

beta_0 and u independent normal variables and e(x) the part that the inducing points do not determine, of
variance 1 - psi(x)' psi(x) (Titsias 2009, Hensman, Matthews and Ghahramani 2015).
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from skuq._typing import FloatArray

JITTER = 1e-6
"""Added to the unit variances of the inducing points, which may lie close together."""

CANDIDATES = 512
"""At most so many rows are candidates for inducing points; they represent the others."""

REACH = 0.4
"""Correlation length by which inducing points are spread: somewhat shorter than usual fitted lengthscales."""

LEFT_OVER = 1e-5
"""No further inducing point where the others leave less than this share of the variance unexplained."""

_ROOT = math.sqrt(5.0)


def _distances(x: FloatArray, points: FloatArray, lengthscales: FloatArray) -> list[FloatArray]:
    """Squared distances along each input in units of its lengthscale, each of shape (n, m)."""
    scaled, centres = x / lengthscales, points / lengthscales
    return [np.square(scaled[:, [d]] - centres[:, d]) for d in range(x.shape[1])]


def correlate(x: FloatArray, points: FloatArray, lengthscales: FloatArray) -> FloatArray:
    """Return the Matern correlation (1 + r + r^2 / 3) exp(-r), r = sqrt(5) distance, of shape (n, m)."""
    r = _ROOT * np.sqrt(sum(_distances(x, points, lengthscales)))
    return np.asarray((1 + r + r * r / 3) * np.exp(-r))


def correlation_slopes(x: FloatArray, points: FloatArray, lengthscales: FloatArray) -> list[FloatArray]:
    """Return the derivatives of `correlate` by the logarithm of each lengthscale."""
    squares = _distances(x, points, lengthscales)
    r = _ROOT * np.sqrt(sum(squares))
    common = 5 / 3 * (1 + r) * np.exp(-r)
    return [common * square for square in squares]


def place_inducing_points(x: FloatArray, weight: FloatArray, most: int) -> FloatArray:
    """Return at most ``most`` rows of x that explain the others best, shape (m, inputs).

    Each next one is the row that takes away most of the variance which the earlier ones leave unexplained,
    summed over all rows: dense regions count by their weight, and no point is spent on copies of another.
    """
    if len(x) > CANDIDATES:
        middle = np.cumsum(weight) - weight / 2
        places = (np.arange(CANDIDATES) + 0.5) / CANDIDATES * weight.sum()
        rows = np.unique(np.minimum(np.searchsorted(middle, places), len(x) - 1))
        x, weight = x[rows], np.ones(len(rows))
    left = correlate(x, x, np.full(x.shape[1], REACH))
    total = weight.sum()
    chosen: list[int] = []
    while len(chosen) < min(most, len(x)):
        variance = left.diagonal().copy()
        free = variance > JITTER
        if not free.any() or weight @ variance < LEFT_OVER * total:
            break
        gain = np.where(free, weight @ np.square(left), 0.0) / np.where(free, variance, 1.0)
        row = int(np.argmax(gain))
        chosen.append(row)
        left -= np.outer(left[:, row], left[row] / variance[row])
    return x[chosen]


class Basis:
    """The constant and the functions psi of some inducing points at given lengthscales.

    Parameters
    ----------
    points : ndarray of shape (m, inputs)
        The inducing points Z.
    lengthscales : ndarray of shape (inputs,)
        Correlation length along each input.
    """

    def __init__(self, points: FloatArray, lengthscales: FloatArray) -> None:
        self.points = points
        self.lengthscales = lengthscales
        inside = correlate(points, points, lengthscales)
        self.factor = np.linalg.cholesky(inside + JITTER * np.eye(len(points)))

    def __len__(self) -> int:
        return 1 + len(self.points)

    @cached_property
    def _inverse(self) -> FloatArray:
        """The inverse of the Cholesky factor L."""
        return np.asarray(solve_triangular(self.factor, np.eye(len(self.points)), lower=True))

    @cached_property
    def _factor_slopes(self) -> list[FloatArray]:
        """P with dL = L P for the logarithm of each lengthscale: half the lower triangle of L^-1 dK L^-T."""
        slopes = correlation_slopes(self.points, self.points, self.lengthscales)
        halves = [self._inverse @ slope @ self._inverse.T for slope in slopes]
        return [np.tril(half) - np.diag(half.diagonal() / 2) for half in halves]

    def functions(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the functions at x, shape (n, 1 + m), and the variance they leave, shape (n,)."""
        out = np.ones((len(x), len(self)))
        np.matmul(correlate(x, self.points, self.lengthscales), self._inverse.T, out=out[:, 1:])
        return out, np.maximum(1.0 - np.einsum("ij,ij->i", out[:, 1:], out[:, 1:]), 0.0)

    def slope(self, x: FloatArray, functions: FloatArray, outer: FloatArray) -> FloatArray:
        """Return the derivatives of sum(outer * psi(x)) by the log lengthscales, shape (inputs,).

        dpsi = L^-1 dk - P psi, so that both terms need only products of m-column arrays.
        """
        inner = outer @ self._inverse
        square = outer.T @ functions[:, 1:]
        moved = correlation_slopes(x, self.points, self.lengthscales)
        return np.array(
            [
                np.vdot(inner, slope) - np.vdot(factor_slope, square)
                for slope, factor_slope in zip(moved, self._factor_slopes, strict=True)
            ]
        )
