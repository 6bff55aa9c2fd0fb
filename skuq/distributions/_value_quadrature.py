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

`adaptive_crps` is for cdfs whose smoothness is unknown. Its panels do not depend on y, and the panel that
contains y is split at y. A panel is halved until the Gauss rule of 7 nodes and its Kronrod extension of 15
nodes agree.

`cdf_spread` integrates the variance of several cdfs, for mixtures of many members. With weights w_i,

    1/2 sum_ij w_i w_j int (F_i - F_j)^2 dx = int Var F_i(x) dx.

The cost of the right side is linear in the number of members. With x = center + unit sinh(u), the trapezoidal
rule in u converges exponentially for smooth cdfs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.legendre import leggauss
from scipy.special import erfcx, ndtr, ndtri

from skuq._numeric import ROUNDING, bisect
from skuq._typing import FloatArray, IntArray
from skuq.distributions._tables import EDGES

_STENCIL = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
"""Coefficients of central differences of order eight."""

_SHORTER = (1.0, 1e-2, 1e-4, 1e-6)
"""These factors shorten the step near an end of the domain."""


def derivative(function: Callable[[FloatArray], FloatArray], x: FloatArray, step: FloatArray) -> FloatArray:
    """Return the derivative by central differences. The steps are shorter near an end of the domain."""
    slope = np.full(x.shape, np.nan)
    with np.errstate(all="ignore"):
        for factor in _SHORTER:
            if not np.isnan(slope).any():
                return slope
            exact = (x + factor * step) - x  # This is the step after rounding.
            total = np.zeros_like(x)
            for k, coefficient in enumerate(_STENCIL, start=1):
                total += coefficient * (function(x + k * exact) - function(x - k * exact))
            slope = np.where(np.isfinite(slope), slope, total / exact)
        for side in (exact, -exact):
            slope = np.where(np.isfinite(slope), slope, (function(x + side) - function(x)) / side)
    return slope


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


_FEW = 2048
"""At most this number of values of the cdf is computed by one call with repeated rows."""

LEAST_NODES = 300
_PRECISE = 1e-9
"""A smaller probability of the upper tail is computed as P(Y > x), not as 1 - P(Y <= x)."""


def cdf_table(dist: Any, x: FloatArray) -> FloatArray:
    """Return P(Y <= x) for k values of each row, shape (n, k)."""
    n, k = x.shape
    if x.size <= _FEW:
        return np.asarray(dist._take(np.repeat(np.arange(n), k))._cdf(x.ravel())).reshape(n, k)
    return np.stack([dist._cdf(column) for column in np.ascontiguousarray(x.T)]).T


def score_nodes(dist: Any, *points: FloatArray, least: int = LEAST_NODES) -> tuple[FloatArray, FloatArray]:
    """Return values of y and their normal scores, both of shape (n, 2 k + 1), for k panels of each row.

    The panels end at the landmarks, at the points and at their middles. A jump of the cdf has a panel. There
    are at least ``least`` nodes.
    """
    edges = np.sort(np.column_stack([dist._landmarks(), *points]), axis=1)
    if not dist._light_tails:
        edges = np.sort(np.column_stack([edges, _doubled(edges)]), axis=1)
    x = _halved(edges)
    while x.shape[1] < least:
        x = _halved(x)
    if not dist.has_density:
        # A panel without width, which ends at the edge, holds the jump.
        before = np.repeat(np.nextafter(edges, -np.inf), 2, axis=1)
        step = (x.shape[1] - 1) // (edges.shape[1] - 1)
        x = np.insert(x, np.repeat(np.arange(0, x.shape[1], step), 2), before, axis=1)
    cdf = dist._cdf_table(x)
    scores = ndtri(cdf)
    row, column = np.nonzero((cdf < 1e-300) | (cdf > 1 - _PRECISE))
    if row.size:
        scores[row, column] = dist._take(row)._normal_score(x[row, column])
    return x, scores


def _halved(edges: FloatArray) -> FloatArray:
    x = np.empty((len(edges), 2 * edges.shape[1] - 1))
    x[:, ::2], x[:, 1::2] = edges, (edges[:, 1:] + edges[:, :-1]) / 2
    return x


def _doubled(edges: FloatArray) -> FloatArray:
    """Return points on both sides of the middle whose distances double, up to the farthest of the edges.

    The first distance is the width of the middle half of the edges, which are sorted.
    """
    k = edges.shape[1]
    center, unit = edges[:, [k // 2]], edges[:, [-1 - k // 4]] - edges[:, [k // 4]]
    unit = np.where(unit > 0, unit, 1.0)
    reach = np.abs(edges - center).max(axis=1, keepdims=True)
    doublings = np.arange(np.ceil(np.log2(np.maximum(reach / unit, 1.0)).max()) + 1, dtype=int)
    with np.errstate(over="ignore"):
        added = np.minimum(np.ldexp(unit, doublings), reach)
    points = np.column_stack([center - added, center + added])
    return np.asarray(np.clip(points, edges[:, [0]], edges[:, [-1]]))


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


# ------------------------------------------------------------------------------ adaptive integrals

_POSITIVE_NODES = np.array(
    [
        *(0.9914553711208126, 0.9491079123427585, 0.8648644233597691, 0.7415311855993944),
        *(0.5860872354676911, 0.4058451513773972, 0.20778495500789848),
    ]
)
_KRONROD = np.array(
    [
        *(0.022935322010529224, 0.06309209262997856, 0.10479001032225019, 0.14065325971552592),
        *(0.1690047266392679, 0.19035057806478542, 0.20443294007529889),
    ]
)
_GAUSS = np.array([0.0, 0.1294849661688697, 0.0, 0.27970539148927664, 0.0, 0.3818300505051189, 0.0])
KRONROD_NODES = np.concatenate([-_POSITIVE_NODES, [0.0], _POSITIVE_NODES[::-1]])
KRONROD = np.concatenate([_KRONROD, [0.20948214108472782], _KRONROD[::-1]])
GAUSS = np.concatenate([_GAUSS, [0.4179591836734694], _GAUSS[::-1]])

TOLERANCE = 1e-8
"""Largest difference of the two rules in one panel, in units of the width of the row."""

MOST_ROUNDS = 40
MOST_PANELS = 2000
"""Limits for one row. A cdf with a larger rounding error than the tolerance does not converge."""

_BLOCK = 1000
"""Number of rows that are integrated together, so that the nodes of all panels fit into memory."""


class AdaptiveRows(Protocol):
    def __len__(self) -> int: ...
    def _take(self, rows: IntArray) -> Any: ...
    def _tails_at(self, rows: IntArray, x: FloatArray) -> tuple[FloatArray, FloatArray]: ...
    def _landmarks(self) -> FloatArray: ...
    def _integration_error(self, row: int, number: int) -> ValueError: ...


@dataclass(frozen=True)
class Panels:
    """Panels of all rows, in the order of the rows and of y, with the integrals below and above y."""

    row: IntArray
    start: FloatArray
    stop: FloatArray
    below: FloatArray
    above: FloatArray


def adaptive_crps(dist: AdaptiveRows, y: FloatArray, weight: Polynomial = UNIFORM) -> FloatArray:
    """Return the CRPS with a weight per level, shape (n,). The distribution has n rows or one row."""
    below, above = step_terms(weight)
    score, one = np.empty(len(y)), len(dist) == 1
    panels = _adapt(dist, below, above, np.zeros(1, dtype=np.intp)) if one else None
    for first in range(0, len(y), _BLOCK):
        rows = np.arange(first, min(first + _BLOCK, len(y)))
        part, row = (dist, np.zeros_like(rows)) if one else (dist._take(rows), np.arange(rows.size))
        score[rows] = _score(part, panels or _adapt(part, below, above, rows), row, y[rows], below, above)
    return score


def _score(
    dist: AdaptiveRows, panels: Panels, row: IntArray, y: FloatArray, below: Polynomial, above: Polynomial
) -> FloatArray:
    """Return the scores of y, whose distributions are the given rows."""
    first = np.searchsorted(panels.row, row)
    last = np.searchsorted(panels.row, row, side="right") - 1
    inside = np.clip(y, panels.start[first], panels.stop[last])
    at = bisect(lambda place: panels.start[place] <= inside, first + 1, last + 1) - 1  # the panel of y
    low, high = _cumulated(panels.row, panels.below), _cumulated(panels.row[::-1], panels.above[::-1])[::-1]
    whole = low[at] - panels.below[at] + high[at] - panels.above[at]
    # Beyond the outermost panel, the cdf is 0 or 1.
    outside = np.where(y > inside, below(np.ones(1)), above(np.ones(1))) * np.abs(y - inside)
    return outside + whole + _split(dist, row, panels, at, inside, below, above)


def _cumulated(row: IntArray, values: FloatArray) -> FloatArray:
    """Return cumulative sums that begin anew in each row."""
    sums = np.empty_like(values)
    for part in np.split(np.arange(row.size), np.flatnonzero(np.diff(row)) + 1):
        sums[part] = np.cumsum(values[part])
    return sums


def _split(
    dist: AdaptiveRows,
    row: IntArray,
    panels: Panels,
    at: IntArray,
    y: FloatArray,
    below: Polynomial,
    above: Polynomial,
) -> FloatArray:
    total = np.zeros(len(y))
    for side, start, stop in ((0, panels.start[at], y), (1, y, panels.stop[at])):
        half = (stop - start) / 2
        x = (start + half)[:, np.newaxis] + half[:, np.newaxis] * KRONROD_NODES
        tail = dist._tails_at(np.repeat(row, KRONROD_NODES.size), x.ravel())[side].reshape(x.shape)
        total += half * ((above if side else below)(tail) @ KRONROD)
    return total


def _adapt(dist: AdaptiveRows, below: Polynomial, above: Polynomial, numbers: IntArray) -> Panels:
    """Return the panels. ``numbers`` are the numbers of the rows in error messages."""
    edges, width = _first_edges(dist, numbers)
    row = np.repeat(np.arange(len(dist)), edges.shape[1] - 1)
    start, stop = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    wide = stop > start
    wide[:: edges.shape[1] - 1] = True  # Each row keeps a panel, even if its quantiles are one number.
    row, start, stop = row[wide], start[wide], stop[wide]
    parts = []
    for _ in range(MOST_ROUNDS):
        half = (stop - start) / 2
        x = (start + half)[:, np.newaxis] + half[:, np.newaxis] * KRONROD_NODES
        cdf, sf = (
            tail.reshape(x.shape) for tail in dist._tails_at(np.repeat(row, KRONROD_NODES.size), x.ravel())
        )
        values = np.stack([below(cdf), above(sf)])
        kronrod, gauss = half * (values @ KRONROD), half * (values @ GAUSS)
        # Over a very wide panel with F = 1, the difference of the two rules is rounding.
        error = (np.abs(kronrod - gauss) - ROUNDING * kronrod).max(axis=0)
        done = (error <= TOLERANCE * width[row]) | (half <= 1e-14 * np.abs(start))
        parts.append((row[done], start[done], stop[done], *kronrod[:, done]))
        if np.isnan(error).any():
            wrong = int(row[np.isnan(error)][0])
            raise dist._integration_error(wrong, int(numbers[wrong]))
        if done.all():
            columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
            order = np.lexsort((columns[1], columns[0]))
            return Panels(*(column[order] for column in columns))
        row, start, stop, middle = row[~done], start[~done], stop[~done], (start + half)[~done]
        row = np.concatenate([row, row])
        start, stop = np.concatenate([start, middle]), np.concatenate([middle, stop])
        if row.size > MOST_PANELS * len(dist):
            break
    raise dist._integration_error(int(row[0]), int(numbers[row[0]]))


def _first_edges(dist: AdaptiveRows, numbers: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the edges of the first panels of each row, and a width of the row.

    The edges are landmarks, and points whose distances from the center double, for heavy tails.
    """
    points = np.sort(dist._landmarks(), axis=1)
    center = points[:, [points.shape[1] // 2]]
    quarter = points.shape[1] // 4
    width = points[:, -1 - quarter] - points[:, quarter]
    with np.errstate(invalid="ignore"):
        reach = np.abs(points - center).max(axis=1)
        bad = ~(np.isfinite(reach) & (reach * LANDMARK_TAIL[0] ** 2 <= TOLERANCE * width))
    if bad.any():
        wrong = int(np.argmax(bad))
        raise dist._integration_error(wrong, int(numbers[wrong]))
    edges = np.sort(np.column_stack([points, _doubled(points)]), axis=1)
    return edges, np.where(width > 0, width, 1.0)


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
