"""Tables of smooth functions, and the CRPS of one smooth distribution at many values.

`HermiteTable` tabulates functions of one variable. The edges are equally spaced values of asinh(t), so that a
look-up needs no search. Between two edges, the function is a cubic polynomial with the given values and
slopes at the edges.

`Rule` is a Gauss quadrature rule for expectations over a distribution that is divided into cells. A rule is
exact for integrands that are polynomials of a given degree in each cell, even if the density has breaks.
Breaks of the integrand cause an error. If the second derivative of the integrand jumps at b, the error is
proportional to the error for the function max(z - b, 0)^2. This error depends only on b.

`CrpsTable` is the CRPS of one distribution as a piecewise polynomial. The derivative of the CRPS with respect
to y is 2 G(y) - 1 with the cdf G. Between two neighboring edges, the derivative is replaced by the polynomial
through its values at Gauss-Legendre nodes, and this polynomial is integrated. The table requires a few
thousand evaluations of the cdf for any number of values y. The edges are equally spaced normal scores, for
recalibrated cdfs, and equally spaced values of asinh(y), for heavy tails. All breaks of G are also edges.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.polynomial import Legendre, Polynomial
from numpy.polynomial.legendre import leggauss, legvander
from scipy.special import ndtr

from skuq._numeric import row_blocks
from skuq._typing import FloatArray, IntArray
from skuq.distributions._family import Family

_PER_UNIT, _HALF = 64, 70 * 64
EDGES: FloatArray = np.sinh(np.arange(-_HALF, _HALF + 1) / _PER_UNIT)
"""Edges of the pieces, from -1e30 to 1e30."""
_STARTS, _WIDTHS = EDGES[:-1].copy(), np.diff(EDGES)


class HermiteTable:
    """A function that is given by its values and slopes at `EDGES`, both of shape (k,)."""

    narrow = 1 / 32

    def __init__(self, values: FloatArray, slopes: FloatArray) -> None:
        self._ends = slopes[[0, -1]]
        chord = np.diff(values) / _WIDTHS
        start, stop = slopes[:-1], slopes[1:]
        second = (3 * chord - 2 * start - stop) / _WIDTHS
        third = (start + stop - 2 * chord) / _WIDTHS**2
        self._powers = [values[:-1].copy(), start.copy(), second, third]
        self._slopes = [start.copy(), 2 * second, 3 * third]
        whole = _WIDTHS * (values[:-1] + _WIDTHS * (start / 2 + _WIDTHS * (second / 3 + _WIDTHS * third / 4)))
        self._integrated = [power / (degree + 1) for degree, power in enumerate(self._powers)]
        # The sums begin at 0, because the values are smallest at 0.
        below, above = whole[:_HALF], whole[_HALF:]
        self._integrals = np.concatenate([-np.cumsum(below[::-1])[::-1], np.cumsum(above) - above])

    def __call__(self, t: FloatArray) -> FloatArray:
        held = _hold(t)
        cell = _find(held)
        result = _horner(self._powers, cell, held - _STARTS.take(cell))
        return result if held is t else result + (t - held) * np.where(t < 0, *self._ends)

    def slope(self, t: FloatArray) -> FloatArray:
        cell = _find(t)
        return _horner(self._slopes, cell, t - _STARTS.take(cell))

    def integral(self, t: FloatArray) -> FloatArray:
        cell = _find(t)
        place = t - _STARTS.take(cell)
        return _horner([self._integrals, *self._integrated], cell, place)


def _horner(powers: list[FloatArray], cell: IntArray, place: FloatArray) -> FloatArray:
    result: FloatArray = powers[-1].take(cell)
    for power in powers[-2::-1]:
        result *= place
        result += power.take(cell)
    return result


def _hold(t: FloatArray) -> FloatArray:
    beyond = t.size > 0 and max(t.max(), -t.min()) > EDGES[-1]
    return np.clip(t, EDGES[0], EDGES[-1]) if beyond else t


def _find(t: FloatArray) -> IntArray:
    position = np.arcsinh(t)
    position *= _PER_UNIT
    position += _HALF
    cell = position.astype(np.intp)
    return np.clip(cell, 0, 2 * _HALF - 1, out=cell)


_SIZE = 4
_FINE, _FINE_WEIGHTS = leggauss(10)
LAST_SCORE = 8.3
"""Beyond this absolute normal score, tail probabilities are negligible."""
_CELLS = 28
_SCORE_EDGES = LAST_SCORE * np.sinh(2 * np.linspace(-1, 1, _CELLS + 1)) / np.sinh(2)
"""Edges of the cells, as normal scores."""
_EXPONENTIAL_EDGES = np.array([0, 0.15, 0.35, 0.6, 0.9, 1.3, 1.8, 2.4, 3.2, 4.4, 6.5, 10, 40])
_NEGLIGIBLE = 1e-6
"""A cell is divided if its value times its tail probability is at least this number."""
_CENTRAL = 4.0
_LOG_VALUES = 1 + np.array([-1, 0, np.log(8), 100.0])
_PLACES = np.cumsum([0, _CENTRAL / 0.5, 4 * np.log(8), 100.0 - np.log(8)])
"""The width of a cell is 0.5 for values up to 4, a quarter of the value between 4 and 32, and the whole value
above 32."""


Map: TypeAlias = Callable[[FloatArray], FloatArray]


class Rule(NamedTuple):
    nodes: FloatArray
    weights: FloatArray


def cell_rule(values: FloatArray, weights: FloatArray, cell: IntArray) -> Rule:
    starts = np.flatnonzero(np.diff(cell, prepend=cell[0] - 1))
    rules = [
        _gauss(part, weight)
        for part, weight in zip(np.split(values, starts[1:]), np.split(weights, starts[1:]), strict=True)
    ]
    return Rule(*(np.concatenate(column) for column in zip(*rules, strict=True)))


def _gauss(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    distinct = np.unique(values)
    if distinct.size <= _SIZE:
        return distinct, np.asarray(np.bincount(np.searchsorted(distinct, values), weights), dtype=np.float64)
    total, center, half = weights.sum(), (distinct[0] + distinct[-1]) / 2, (distinct[-1] - distinct[0]) / 2
    place, share = (values - center) / half, weights / total
    diagonal, beside = np.zeros(_SIZE), np.zeros(_SIZE)
    last, current, norm = np.zeros_like(place), np.ones_like(place), 1.0
    for k in range(_SIZE):
        diagonal[k] = share @ (place * current**2) / norm
        last, current = current, (place - diagonal[k]) * current - beside[k] * last
        previous, norm = norm, float(share @ current**2)
        if k + 1 < _SIZE:
            beside[k + 1] = norm / previous
    off = np.sqrt(beside[1:])
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return center + half * nodes, total * vectors[0] ** 2


def _panels(cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)[:, np.newaxis] / 2
    return middle[:, np.newaxis] + half * _FINE, half * _FINE_WEIGHTS


def score_edges(refined: int, values: Map, scores: Map) -> FloatArray:
    """Return the edges of the cells as normal scores.

    Each cell covers a short range of scores and of values.
    """
    edges = _divided(_SCORE_EDGES, refined)
    at = values(edges)
    place, mass = refined * _to_place(at), ndtr(-np.abs(edges)) * np.abs(at)
    # Cells with a negligible contribution may be wide.
    parts = np.where(np.maximum(mass[1:], mass[:-1]) > _NEGLIGIBLE, np.maximum(np.ceil(np.diff(place)), 1), 1)
    more = [
        np.linspace(start, stop, int(count) + 1)[1:-1]
        for start, stop, count in zip(place[:-1], place[1:], parts, strict=True)
        if count > 1
    ]
    if not more:
        return edges
    return np.unique(np.concatenate([edges, scores(_from_place(np.concatenate(more) / refined))]))


def _to_place(values: FloatArray) -> FloatArray:
    return np.asarray(np.copysign(np.interp(_log(np.abs(values)), _LOG_VALUES, _PLACES), values))


def _from_place(place: FloatArray) -> FloatArray:
    log = np.interp(np.abs(place), _PLACES, _LOG_VALUES)
    return np.asarray(np.copysign(np.where(log < 1, log, np.exp(log - 1)) * _CENTRAL, place))


def _log(size: FloatArray) -> FloatArray:
    share = size / _CENTRAL
    return np.where(share < 1, share, 1 + np.log(np.maximum(share, 1)))


def _divided(edges: FloatArray, refined: int) -> FloatArray:
    count = edges.size - 1
    return np.interp(np.arange(count * refined + 1) / refined, np.arange(count + 1), edges)


def score_rule(edges: FloatArray, breaks: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the nodes, weights and cells of a rule for the standard normal distribution.

    Nodes are normal scores.
    """
    cuts = np.unique(np.concatenate([edges, breaks[np.abs(breaks) < LAST_SCORE]]))
    scores, weights = _panels(cuts)
    cell = np.searchsorted(edges, cuts[:-1], side="right")
    density = np.exp(-0.5 * scores**2) / np.sqrt(2 * np.pi)
    return scores.ravel(), (weights * density).ravel(), np.repeat(cell, _FINE.size)


@lru_cache(maxsize=4)
def exponential_rule(refined: int = 1) -> Rule:
    edges = _divided(_EXPONENTIAL_EDGES, refined)
    values, weights = _panels(edges)
    cell = np.repeat(np.arange(len(values)), _FINE.size)
    return cell_rule(values.ravel(), (weights * np.exp(-values)).ravel(), cell)


_LEVELS = ndtr(np.arange(-8.0, 8.0 + 1 / 16, 1 / 16))
_SIDE = np.sinh(np.concatenate([np.arange(0.0, 5.0, 1 / 16), np.arange(5.0, 70.0, 1 / 4)]))
"""Edges of the pieces on one side of 0, up to 1e30. Beyond the last edge, a tail is zero or a power of y."""

_ENDS = _SIDE[[-5, -1]]
_EXACT = 1e-9

_NODES, _WEIGHTS = leggauss(6)
_BLOCK = 2**13
"""Number of values per block, so that a block fits into the cache."""


def _integrals() -> FloatArray:
    """Return the matrix that maps values at nodes to coefficients of the integral from -1, shape (7, 6)."""
    degrees = np.arange(_NODES.size)
    # Legendre polynomials are orthogonal over the nodes, so each coefficient is a projection.
    weighted = legvander(_NODES, _NODES.size - 1) * _WEIGHTS[:, np.newaxis]
    projection = (degrees[:, np.newaxis] + 0.5) * weighted.T
    powers = np.zeros((_NODES.size + 1, _NODES.size))
    for k in degrees:
        integral = Legendre.basis(k).integ(lbnd=-1).convert(kind=Polynomial).coef
        powers[: integral.size, k] = integral
    return np.asarray(powers @ projection)


_INTEGRALS = _integrals()


def _beyond(tail: FloatArray) -> float:
    if tail[1] == 0:
        return 0.0
    index = np.log(tail[0] / tail[1]) / np.log(_ENDS[1] / _ENDS[0])
    return float(_ENDS[1] * tail[1] ** 2 / (2 * index - 1)) if index > 0.5 + _EXACT else np.inf


class CrpsTable:
    """CRPS of a one-row distribution at many finite values. The density may jump at ``breaks``.

    The distribution must be centered near 0 with a scale of order 1. The attribute ``mean_difference`` is the
    mean absolute difference of two independent draws.
    """

    def __init__(self, dist: Family, breaks: FloatArray) -> None:
        edges = np.concatenate([breaks, dist._ppf(_LEVELS), _SIDE, -_SIDE])
        edges = np.unique(np.clip(edges, -_SIDE[-1], _SIDE[-1]))
        middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        nodes = (middle[:, np.newaxis] + half[:, np.newaxis] * _NODES).ravel()
        below, above = (side.reshape(-1, _NODES.size) for side in (dist._cdf(nodes), dist._sf(nodes)))
        pieces = half[:, np.newaxis] * ((below - above) @ _INTEGRALS.T)
        # The value at the median is computed from the definition of the CRPS, and all other values from the
        # slopes.
        median = int(np.searchsorted(edges, dist._ppf(np.asarray(0.5))[0]))
        tail = np.where(np.arange(half.size)[:, np.newaxis] < median, below, above)
        lowest = float(half @ (np.square(tail) @ _WEIGHTS))
        lowest += _beyond(dist._cdf(-_ENDS)) + _beyond(dist._sf(_ENDS))
        steps = pieces.sum(axis=1)
        pieces[median:, 0] += lowest + np.cumsum(steps[median:]) - steps[median:]
        pieces[:median, 0] += lowest - np.cumsum(steps[:median][::-1])[::-1]
        self._edges, self._middle, self._per_half = edges, middle, 1 / half
        self._powers = np.ascontiguousarray(pieces.T)
        self._half = half
        self.mean_difference = 2 * float(half @ ((below * above) @ _WEIGHTS))

    def __call__(self, y: FloatArray) -> FloatArray:
        crps = np.empty(y.shape)
        for block in row_blocks(y.size, 1, _BLOCK):
            crps[block] = self._evaluate(y[block])
        return crps

    def slope(self, y: FloatArray) -> FloatArray:
        piece, place = self._find(y)
        slope: FloatArray = np.zeros(y.shape)
        for degree in range(len(self._powers) - 1, 0, -1):
            slope *= place
            slope += degree * self._powers[degree][piece]
        return slope * self._per_half[piece]

    def integral(self, y: FloatArray) -> FloatArray:
        piece, place = self._find(y)
        return np.asarray(self._whole[piece] + self._half[piece] * self._antiderivative(piece, place))

    @cached_property
    def _whole(self) -> FloatArray:
        """Return the integral of the CRPS from a fixed point near 0 to the middle of each piece."""
        pieces, one = np.arange(self._half.size), np.ones(self._half.size)
        right, left = (self._half * self._antiderivative(pieces, place) for place in (one, -one))
        steps = right[:-1] - left[1:]
        first = int(np.searchsorted(self._edges[1:-1], 0.0))
        below, above = steps[:first], steps[first:]
        return np.concatenate([-np.cumsum(below[::-1])[::-1], [0.0], np.cumsum(above)])

    def _antiderivative(self, piece: IntArray, place: FloatArray) -> FloatArray:
        total: FloatArray = np.zeros(place.shape)
        for degree in range(len(self._powers) - 1, -1, -1):
            total += self._powers[degree][piece] / (degree + 1)
            total *= place
        return total

    def _find(self, y: FloatArray) -> tuple[IntArray, FloatArray]:
        piece = np.searchsorted(self._edges[1:-1], y, side="right")
        return piece, (y - self._middle[piece]) * self._per_half[piece]

    def _evaluate(self, y: FloatArray) -> FloatArray:
        held = np.clip(y, self._edges[0], self._edges[-1])
        piece, place = self._find(held)
        crps: FloatArray = self._powers[-1][piece]
        for power in self._powers[-2::-1]:
            crps *= place
            crps += power[piece]
        return crps + np.abs(y - held)
