"""Integrals over the values of y, for distributions whose cdf is cheap and whose quantiles are a search.

With G the cdf and c any point,

    E (Y - c)     = int_c^inf (1 - G(x)) dx - int_-inf^c G(x) dx,
    E (Y - c)^2   = 2 int_c^inf (x - c) (1 - G(x)) dx + 2 int_-inf^c (c - x) G(x) dx,
    CRPS(y)       = int_-inf^y G(x)^2 dx + int_y^inf (1 - G(x))^2 dx,

and the squared distance int (G(x) - H(x))^2 dx of two cdfs,

by Gauss-Legendre between landmarks of each row, points between which its cdf is smooth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.polynomial.legendre import leggauss

from skuq._typing import FloatArray

NODES, WEIGHTS = leggauss(5)
LANDMARK_TAIL = np.array([1e-13, 1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.15])
LANDMARK_MIDDLE = np.array([0.3, 0.5, 0.7])
MOST_BREAKS = 64
"""Of more breaks, so many evenly spaced ones: each costs five evaluations of the cdf of all rows."""


class Cumulative(Protocol):
    """The part of a distribution that these integrals use."""

    def __len__(self) -> int: ...
    def _cdf(self, y: FloatArray) -> FloatArray: ...
    def _sf(self, y: FloatArray) -> FloatArray: ...
    def _landmarks(self) -> FloatArray: ...


class Quantile(Protocol):
    """The part of a distribution by which landmarks are placed."""

    def _ppf(self, p: FloatArray) -> FloatArray: ...
    def _isf(self, q: FloatArray) -> FloatArray: ...


def quantile_landmarks(dist: Quantile, breaks: FloatArray) -> FloatArray:
    """Quantiles from the far lower to the far upper tail and at breaks, shape (n, k)."""
    breaks = breaks[(breaks > 0) & (breaks < 1)]
    if breaks.size > MOST_BREAKS:
        breaks = breaks[np.linspace(0, breaks.size - 1, MOST_BREAKS).astype(int)]
    lower = [dist._ppf(level) for level in np.concatenate([LANDMARK_TAIL, LANDMARK_MIDDLE, breaks])]
    return np.stack(lower + [dist._isf(level) for level in LANDMARK_TAIL], axis=1)


def _panels(
    edges: FloatArray, rule: tuple[FloatArray, FloatArray] = (NODES, WEIGHTS)
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Number of the panel, node and weight of each quadrature point, all rows at once."""
    for k in range(edges.shape[1] - 1):
        half = (edges[:, k + 1] - edges[:, k]) / 2
        for node, weight in zip(*rule, strict=True):
            yield k, edges[:, k] + half * (node + 1), half * weight


def value_moments(dist: Cumulative) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation, each of shape (n,)."""
    edges = np.sort(dist._landmarks(), axis=1)
    # c is a landmark, so that no panel has it inside: panels above it take 1 - G, those below G
    middle = edges.shape[1] // 2
    centre, unit = edges[:, middle], edges[:, -1] - edges[:, 0]
    unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)  # keeps squares within a float's range
    first, second = np.zeros(len(dist)), np.zeros(len(dist))
    for k, x, weight in _panels(edges):
        mass = weight / unit * (dist._sf(x) if k >= middle else -dist._cdf(x))
        first += mass
        second += 2 * mass * ((x - centre) / unit)
    return centre + unit * first, unit * np.sqrt(np.maximum(second - first**2, 0.0))


def value_crps(dist: Cumulative, y: FloatArray) -> FloatArray:
    """CRPS, shape (n,)."""
    # y is an edge, as the integrand jumps there
    edges = np.sort(np.column_stack([dist._landmarks(), y]), axis=1)
    score = np.zeros(len(dist))
    for _, x, weight in _panels(edges):
        score += weight * np.where(x < y, dist._cdf(x), dist._sf(x)) ** 2
    return score


def value_distances(dists: Sequence[Cumulative]) -> FloatArray:
    """Integral of the squared difference of each two of m cdfs, shape (n, m, m).

    On one grid for all, and with three nodes a panel, as each node costs m cdfs and averages over rows are
    never worth more than five digits.
    """
    n, m = len(dists[0]), len(dists)
    edges = np.sort(np.concatenate([dist._landmarks() for dist in dists], axis=1), axis=1)
    distances = np.zeros((m, m, n))
    for _, x, weight in _panels(edges, leggauss(3)):
        cdf = [dist._cdf(x) for dist in dists]
        for i, j in combinations(range(m), 2):
            distances[i, j] += weight * (cdf[i] - cdf[j]) ** 2
    return np.asarray((distances + distances.transpose(1, 0, 2)).transpose(2, 0, 1))
