"""CRPS of one smooth distribution at many values, as a piecewise polynomial.

The derivative of the CRPS with respect to y is 2 G(y) - 1 with the cdf G. Between two neighboring edges, the
derivative is replaced by the polynomial through its values at Gauss-Legendre nodes, and this polynomial is
integrated. The table requires a few thousand evaluations of the cdf for any number of values y. The edges are
equally spaced normal scores, for recalibrated cdfs, and equally spaced values of asinh(y), for heavy tails.
All breaks of G are also edges.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.polynomial import Legendre, Polynomial
from numpy.polynomial.legendre import leggauss, legvander
from scipy.special import ndtr

from skuq._typing import FloatArray, IntArray

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


class SmoothCdf(Protocol):
    def _cdf(self, y: FloatArray) -> FloatArray: ...
    def _sf(self, y: FloatArray) -> FloatArray: ...
    def _ppf(self, p: FloatArray) -> FloatArray: ...


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

    def __init__(self, dist: SmoothCdf, breaks: FloatArray) -> None:
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
        for start in range(0, y.size, _BLOCK):
            block = slice(start, start + _BLOCK)
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
