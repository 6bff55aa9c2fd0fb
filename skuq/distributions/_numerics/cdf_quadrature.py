"""Integrals over the values of y, for distributions with a cheap cdf and expensive quantiles.

For the cdf G and any number c, the moments and the CRPS are

    E (Y - c)     = int_c^inf (1 - G(x)) dx - int_-inf^c G(x) dx,
    E (Y - c)^2   = 2 int_c^inf (x - c) (1 - G(x)) dx + 2 int_-inf^c (c - x) G(x) dx,
    E |Y - y|     = int_-inf^y G(x) dx + int_y^inf (1 - G(x)) dx,
    CRPS(y)       = int_-inf^y G(x)^2 dx + int_y^inf (1 - G(x))^2 dx.

If the level u has the weight v(u), int_0^G 2 u v(u) du replaces the square of G, and int_0^{1 - G} 2 q v(1 -
q) dq replaces the square of 1 - G.

The squared distance of two cdfs is int (G(x) - H(x))^2 dx. The landmarks of a row are points between which
its cdf is smooth. All integrals use Gauss-Legendre quadrature between neighboring landmarks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.legendre import leggauss

from skuq._typing import FloatArray

NODES, WEIGHTS = leggauss(5)
LANDMARK_TAIL = np.array([1e-13, 1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.15])
LANDMARK_MIDDLE = np.array([0.3, 0.5, 0.7])
UNIFORM = Polynomial([1.0])
"""Weight function of the levels in the CRPS."""

MOST_BREAKS = 64
"""Maximum number of breaks. Each break requires five evaluations of the cdf of all rows."""


class Cumulative(Protocol):
    def __len__(self) -> int: ...
    def _cdf(self, y: FloatArray) -> FloatArray: ...
    def _sf(self, y: FloatArray) -> FloatArray: ...
    def _landmarks(self) -> FloatArray: ...
    @property
    def _light_tails(self) -> bool: ...


class Quantile(Protocol):
    def _ppf(self, p: FloatArray) -> FloatArray: ...
    def _isf(self, q: FloatArray) -> FloatArray: ...


def quantile_landmarks(dist: Quantile, breaks: FloatArray) -> FloatArray:
    """Return quantiles at levels from the lower to the upper tail, and at the breaks, shape (n, k)."""
    breaks = breaks[(breaks > 0) & (breaks < 1)]
    if breaks.size > MOST_BREAKS:
        breaks = breaks[np.linspace(0, breaks.size - 1, MOST_BREAKS).astype(int)]
    lower = [dist._ppf(level) for level in np.concatenate([LANDMARK_TAIL, LANDMARK_MIDDLE, breaks])]
    return np.stack(lower + [dist._isf(level) for level in LANDMARK_TAIL], axis=1)


def landmarks_between(dist: Cumulative, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the landmarks of a distribution for integrals between bounds, shape (n, k).

    The quantiles of a heavy tail are too far apart for a quadrature between them. Therefore, points are added
    whose distances from the center of the row double, up to the bounds or to the outer quantiles.
    """
    points = dist._landmarks()
    if dist._light_tails:
        return points
    center = np.median(points, axis=1, keepdims=True)
    distance = np.abs(np.column_stack([points, lower, upper]) - center)
    reach = np.where(np.isfinite(distance), distance, 0.0).max(axis=1, keepdims=True)
    unit = np.where(distance > 0, distance, np.inf).min(axis=1, keepdims=True)
    unit = np.minimum(unit, reach)
    doublings = np.log2(np.divide(reach, unit, out=np.ones_like(unit), where=unit > 0)).max()
    with np.errstate(over="ignore"):
        added = np.minimum(np.ldexp(unit, np.arange(np.ceil(doublings) + 1, dtype=int)), reach)
    return np.concatenate([points, center - added, center + added], axis=1)


def _panels(
    edges: FloatArray, rule: tuple[FloatArray, FloatArray] = (NODES, WEIGHTS)
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    for k in range(edges.shape[1] - 1):
        half = (edges[:, k + 1] - edges[:, k]) / 2
        for node, weight in zip(*rule, strict=True):
            yield k, edges[:, k] + half * (node + 1), half * weight


def value_moments(dist: Cumulative) -> tuple[FloatArray, FloatArray]:
    edges = np.sort(dist._landmarks(), axis=1)
    # The number c is a landmark. Panels below c integrate G, and panels above c integrate 1 - G.
    middle = edges.shape[1] // 2
    center, unit = edges[:, middle], edges[:, -1] - edges[:, 0]
    unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)  # This unit prevents overflow of the squares.
    first, second = np.zeros(len(dist)), np.zeros(len(dist))
    for k, x, weight in _panels(edges):
        mass = weight / unit * (dist._sf(x) if k >= middle else -dist._cdf(x))
        first += mass
        second += 2 * mass * ((x - center) / unit)
    return center + unit * first, unit * np.sqrt(np.maximum(second - first**2, 0.0))


def step_terms(weight: Polynomial) -> tuple[Polynomial, Polynomial]:
    level, mirrored = Polynomial([0.0, 2.0]), Polynomial([1.0, -1.0])
    return (level * weight).integ(), (level * weight(mirrored)).integ()


def value_crps(dist: Cumulative, y: FloatArray, weight: Polynomial = UNIFORM) -> FloatArray:
    return _integrate_around(dist, y, *step_terms(weight))


def value_mean_distance(dist: Cumulative, y: FloatArray) -> FloatArray:
    return _integrate_around(dist, y, Polynomial([0.0, 1.0]), Polynomial([0.0, 1.0]))


def _integrate_around(dist: Cumulative, y: FloatArray, below: Polynomial, above: Polynomial) -> FloatArray:
    # The integrand jumps at y, so y is an edge of a panel.
    edges = np.sort(np.column_stack([dist._landmarks(), y]), axis=1)
    total = np.zeros(len(dist))
    for _, x, width in _panels(edges):
        total += width * np.where(x < y, below(dist._cdf(x)), above(dist._sf(x)))
    return total


def value_distances(dists: Sequence[Cumulative]) -> FloatArray:
    """Return the integral of the squared difference of each pair of m cdfs, shape (n, m, m)."""
    n, m = len(dists[0]), len(dists)
    edges = np.sort(np.concatenate([dist._landmarks() for dist in dists], axis=1), axis=1)
    distances = np.zeros((m, m, n))
    for _, x, weight in _panels(edges, leggauss(3)):
        cdf = [dist._cdf(x) for dist in dists]
        for i, j in combinations(range(m), 2):
            distances[i, j] += weight * (cdf[i] - cdf[j]) ** 2
    return np.asarray((distances + distances.transpose(1, 0, 2)).transpose(2, 0, 1))
