"""Integrals over the values of y, for distributions with a cheap cdf and expensive quantiles.

Integrals of squared cdfs are the terms of the CRPS. Let I(z) = int_-inf^z F(v)^2 dv. If F is symmetric about
0, then int_z^inf (1 - F(v))^2 dv = I(-z).

For the cdf G and any number c, the moments and the CRPS are

    E (Y - c)     = int_c^inf (1 - G(x)) dx - int_-inf^c G(x) dx,
    E (Y - c)^2   = 2 int_c^inf (x - c) (1 - G(x)) dx + 2 int_-inf^c (c - x) G(x) dx,
    E |Y - y|     = int_-inf^y G(x) dx + int_y^inf (1 - G(x)) dx,
    CRPS(y)       = int_-inf^y G(x)^2 dx + int_y^inf (1 - G(x))^2 dx.

If the level u has the weight v(u), int_0^G 2 u v(u) du replaces the square of G, and int_0^{1 - G} 2 q v(1 -
q) dq replaces the square of 1 - G.

The squared distance of two cdfs is int (G(x) - H(x))^2 dx. The landmarks of a row are points between which
its cdf is smooth. These integrals use Gauss-Legendre quadrature between neighboring landmarks.

`cdf_spread` integrates the variance of several cdfs, for mixtures of many members. With weights w_i,

    1/2 sum_ij w_i w_j int (F_i - F_j)^2 dx = int Var F_i(x) dx.

The cost of the right side is linear in the number of members. With x = center + unit sinh(u), the trapezoidal
rule in u converges exponentially for smooth cdfs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import combinations
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.legendre import leggauss
from scipy.special import erfcx, ndtr
from sklearn.utils import gen_batches

from skuq._typing import FloatArray
from skuq.distributions._family import Family
from skuq.distributions._tables import EDGES

_SQRT_2, _SQRT_PI = math.sqrt(2.0), math.sqrt(math.pi)


def squared_normal_cdf(z: FloatArray) -> FloatArray:
    """Return I(z) = z Phi(z)^2 + 2 Phi(z) phi(z) - Phi(sqrt(2) z) / sqrt(pi) without cancellation."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        # With the Mills ratio M, Phi(-t) = phi(t) M(t), so phi(t)^2 is a factor of all three terms.
        t = np.maximum(np.where(np.isinf(z), 0.0, -z), 0.0)
        mills, double = (math.sqrt(math.pi / 2) * erfcx(x) for x in (t / _SQRT_2, t))
        tail = density**2 * (mills * (2 - t * mills) - _SQRT_2 * double)
        probability = ndtr(z)
        upper = probability * (z * probability + 2 * density) - ndtr(_SQRT_2 * z) / _SQRT_PI
    return np.asarray(np.where(z < 0, tail, upper))


def symmetric_integrals(
    integral: Callable[[FloatArray], FloatArray], y: FloatArray, loc: FloatArray, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return int F^2 below y and int (1 - F)^2 above y for loc + scale Z, where Z is symmetric."""
    distance, atom = y - loc, scale == 0
    z = distance / np.where(atom, 1.0, scale)
    # For a point mass and an infinite y, the product is 0 times infinity.
    with np.errstate(invalid="ignore"):
        below, above = (np.where(atom, np.maximum(x, 0.0), scale * integral(x)) for x in (z, -z))
    return below, above


NODES, WEIGHTS = leggauss(5)
LANDMARK_TAIL = np.array([1e-13, 1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.15])
LANDMARK_MIDDLE = np.array([0.3, 0.5, 0.7])
UNIFORM = Polynomial([1.0])
"""Weight function of the levels in the CRPS."""

Terms: TypeAlias = tuple[Callable[[FloatArray], Any], Callable[[FloatArray], Any]]
"""Function of F below y, and function of 1 - F above y."""

MOST_BREAKS = 64
"""Maximum number of breaks. Each break requires five evaluations of the cdf of all rows."""


def quantile_landmarks(dist: Family, breaks: FloatArray) -> FloatArray:
    """Return quantiles at levels from the lower to the upper tail, and at the breaks, shape (n, k)."""
    breaks = breaks[(breaks > 0) & (breaks < 1)]
    if breaks.size > MOST_BREAKS:
        breaks = breaks[np.linspace(0, breaks.size - 1, MOST_BREAKS).astype(int)]
    lower = [dist._ppf(level) for level in np.concatenate([LANDMARK_TAIL, LANDMARK_MIDDLE, breaks])]
    return np.stack(lower + [dist._isf(level) for level in LANDMARK_TAIL], axis=1)


def landmarks_between(dist: Family, lower: FloatArray, upper: FloatArray) -> FloatArray:
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
    farthest = distance[:, -2:].max(axis=1, keepdims=True)  # Points beyond the bounds are not used.
    return np.column_stack([points, _doubled(center, np.minimum(unit, reach), np.fmin(reach, farthest))])


def divide_tails(edges: FloatArray) -> FloatArray:
    """Return the sorted edges of each row, and points between them whose distances from the middle double.

    The first distance is the width of the middle half of the edges.
    """
    k = edges.shape[1]
    edges = np.sort(edges, axis=1)
    center, width = edges[:, [k // 2]], edges[:, [-1 - k // 4]] - edges[:, [k // 4]]
    points = _doubled(center, width, np.abs(edges - center).max(axis=1, keepdims=True))
    points = np.clip(points, edges[:, [0]], edges[:, [-1]])
    return np.sort(np.column_stack([edges, points]), axis=1)


def _doubled(center: FloatArray, unit: FloatArray, reach: FloatArray) -> FloatArray:
    """Return points on both sides of the center. Their distances double from the unit up to the reach."""
    unit = np.where(unit > 0, unit, 1.0)
    doublings = np.arange(np.ceil(np.log2(np.maximum(reach / unit, 1.0)).max()) + 1, dtype=int)
    with np.errstate(over="ignore"):
        added = np.minimum(np.ldexp(unit, doublings), reach)
    return np.column_stack([center - added, center + added])


_FEW = 2048
"""At most this number of values of the cdf is computed by one call with repeated rows."""

_ROWS = 1024
"""Number of rows of the tables for distances."""


def tail_table(dist: Any, x: FloatArray) -> FloatArray:
    """Return P(Y <= x) in the first half of the k columns of x and P(Y > x) in the others, shape (n, k)."""
    low, high = np.split(x, [x.shape[1] // 2], axis=1)
    return np.column_stack([_table(dist, "_cdf", low), _table(dist, "_sf", high)])


def _table(dist: Any, method: str, x: FloatArray) -> FloatArray:
    if x.size == 0:  # A row of point masses has one landmark and no panel.
        return x
    if x.size > _FEW:
        # Points beyond the bounds of all rows are moved to the bounds, so their columns are equal.
        new = np.append(True, (x[:, 1:] != x[:, :-1]).any(axis=0))
        values = np.stack([getattr(dist, method)(column) for column in np.ascontiguousarray(x.T[new])])
        return np.asarray(values[np.cumsum(new) - 1].T)
    rows = np.repeat(np.arange(len(x)), x.shape[1])
    return np.asarray(getattr(dist._take(rows), method)(x.ravel())).reshape(x.shape)


class ValueRule:
    """Gauss-Legendre rule for functions of the cdf, over the panels between the edges of each row.

    The edges are the landmarks and the points. The nodes ``x``, their weights and the ``tails`` have the
    shape (n, k). See `tail_table`.
    """

    def __init__(self, dist: Any, *points: FloatArray) -> None:
        self.edges = np.sort(np.column_stack([dist._landmarks(), *points]), axis=1)
        self.x, self.weights = panel_nodes(self.edges, NODES, WEIGHTS)
        self.tails = dist._tail_table(self.x)

    def sides(
        self, name: Hashable, terms: Terms, center: FloatArray, unit: FloatArray, *powers: int
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the integrals of below(F) over z^power for z < 0, and of above(1 - F) for z > 0.

        The variable z is (y - center) / unit. The ``terms`` are the two functions, with the key ``name``.
        """
        below, above = terms
        z, weights, half = (self.x - center) / unit, self.weights / unit, self.x.shape[1] // 2
        # Nodes at which z has one sign in all rows have a term on one side only.
        stop = z.shape[1] - int(np.count_nonzero(z.min(axis=0) >= 0))  # A node may be NaN.
        start = z.shape[1] - int(np.count_nonzero(z.max(axis=0) >= 0))
        cdf, sf = self.tails[:, :stop].copy(), self.tails[:, start:].copy()
        cdf[:, half:], sf[:, : max(half - start, 0)] = 1 - cdf[:, half:], 1 - sf[:, : max(half - start, 0)]
        low, high = z[:, :stop], z[:, start:]
        lower = np.where(low >= 0, 0.0, weights[:, :stop] * below(cdf))
        upper = np.where(high < 0, 0.0, weights[:, start:] * above(sf))
        for power in powers:
            yield (
                np.einsum("ij,ij->i", lower, power * low ** (power - 1)),
                np.einsum("ij,ij->i", upper, power * high ** (power - 1)),
            )


def panel_nodes(edges: FloatArray, nodes: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the nodes of all panels and their weights, both of shape (n, k)."""
    half = np.diff(edges)[:, :, np.newaxis] / 2
    x = edges[:, :-1, np.newaxis] + half * (nodes + 1)
    return x.reshape(len(edges), -1), (half * weights).reshape(len(edges), -1)


def _blocks(dist: Any) -> Iterator[tuple[slice, Any]]:
    for rows in gen_batches(len(dist), dist._rows_at_once):
        yield rows, dist if len(dist) <= dist._rows_at_once else dist[rows]


_SAME: Terms = np.asarray, np.asarray


@np.errstate(over="ignore", invalid="ignore")  # Outer quantiles may be infinite.
def value_moments(dist: Any) -> tuple[FloatArray, FloatArray]:
    mean, std = np.empty(len(dist)), np.empty(len(dist))
    for rows, part in _blocks(dist):
        rule = part._value_rule()
        edges = rule.edges
        center, unit = edges[:, [edges.shape[1] // 2]], edges[:, [-1]] - edges[:, [0]]
        unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)  # The squares must not overflow.
        sides = rule.sides("distance", _SAME, center, unit, 1, 2)
        first, second = (above - below for below, above in sides)
        mean[rows] = center[:, 0] + unit[:, 0] * first
        std[rows] = unit[:, 0] * np.sqrt(np.maximum(second - first**2, 0.0))
    return mean, std


def step_terms(weight: Polynomial) -> tuple[Polynomial, Polynomial]:
    level, mirrored = Polynomial([0.0, 2.0]), Polynomial([1.0, -1.0])
    return (level * weight).integ(), (level * weight(mirrored)).integ()


def value_crps(dist: Any, y: FloatArray, weight: Polynomial = UNIFORM) -> FloatArray:
    terms: Terms = (np.square, np.square) if weight is UNIFORM else step_terms(weight)
    return _around(dist, y, ("crps", *weight.coef), terms)


def value_mean_distance(dist: Any, y: FloatArray) -> FloatArray:
    return _around(dist, y, "distance", _SAME)


@np.errstate(over="ignore", invalid="ignore")  # Outer quantiles may be infinite.
def _around(dist: Any, y: FloatArray, name: Hashable, terms: Terms) -> FloatArray:
    """Return the integral of below(F) up to y plus the integral of above(1 - F) from y."""
    total = np.empty(len(dist))
    for rows, part in _blocks(dist):
        (sides,) = part._value_rule(y[rows]).sides(name, terms, y[rows, np.newaxis], np.ones(1), 1)
        # An infinite outer quantile means that the integral is larger than any number.
        total[rows] = np.where(np.isnan(sum(sides)), np.inf, sum(sides))
    return total


def value_distances(dists: Sequence[Any]) -> FloatArray:
    """Return the integral of the squared difference of each pair of m cdfs, shape (n, m, m)."""
    n, m = len(dists[0]), len(dists)
    distances = np.zeros((n, m, m))
    for rows in gen_batches(n, _ROWS):
        parts = [dist[rows] for dist in dists]
        edges = np.sort(np.concatenate([part._landmarks() for part in parts], axis=1), axis=1)
        x, weights = panel_nodes(edges, *leggauss(3))
        tails = [part._tail_table(x) for part in parts]
        for i, j in combinations(range(m), 2):
            distance = np.einsum("ij,ij->i", weights, np.square(tails[i] - tails[j]))
            distances[rows, i, j] = distances[rows, j, i] = distance
    return distances


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
