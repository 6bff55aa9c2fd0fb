"""Piecewise linear cdfs, and integrals of interpolated step cdfs.

A piecewise linear cdf has exponential tails. For the squared distance of two of them, the knots of both cdfs
are sorted together. In each cell between neighboring knots, and beyond the outermost knots,

    F(x) - G(x) = linear function + exponential tail of F - exponential tail of G.

The square is integrated term by term. A step function has pieces of slope 0 and tails of length 0.

The CRPS and the mean distance of one cdf that is linear between its knots are sums of the integrals of F^k
below y and of (1 - F)^k above y, with k = 2 and k = 1. `linear_integrals` returns the parts of both integrals
between the first and the last knot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import exprel

from skuq._numeric import row_blocks
from skuq._typing import BoolArray, FloatArray, IntArray

Average: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""Function of both end values of a linear function. It returns the average of a power of the function."""

_SMALL = 1e-2
"""Below this rate, the difference of two nearly equal exponentials is computed by a series."""


@dataclass(frozen=True, eq=False)
class PiecewiseCdf:
    """Piecewise cdfs of n rows with k knots each.

    Piece j lies between the knots j - 1 and j, and pieces 0 and k are the tails. ``starts`` and ``slopes`` of
    shape (n, k + 1) describe the linear part of each piece. ``masses`` and ``lengths`` are the probabilities
    and the decay lengths of both tails. A length of 0 means that there is no tail.
    """

    knots: FloatArray
    starts: FloatArray
    slopes: FloatArray
    masses: tuple[FloatArray, FloatArray]
    lengths: tuple[FloatArray, FloatArray]

    @classmethod
    def linear(
        cls, knots: FloatArray, levels: FloatArray, lower: FloatArray, upper: FloatArray
    ) -> PiecewiseCdf:
        n, k = knots.shape
        gaps = np.diff(knots, axis=1)
        slopes = np.zeros((n, k + 1))
        np.divide(np.diff(levels), gaps, out=slopes[:, 1:-1], where=gaps > 0)
        starts = np.broadcast_to(np.concatenate([[0.0], levels[:-1], [1.0]]), (n, k + 1))
        masses = np.where(lower > 0, levels[0], 0.0), np.where(upper > 0, 1 - levels[-1], 0.0)
        return cls(knots, starts, slopes, masses, (lower, upper))

    @classmethod
    def steps(cls, knots: FloatArray, cumulative: FloatArray) -> PiecewiseCdf:
        n = len(knots)
        starts = np.concatenate([np.zeros((n, 1)), cumulative], axis=1)
        none = np.zeros(n), np.zeros(n)
        return cls(knots, starts, np.zeros_like(starts), none, none)

    def take(self, rows: slice) -> PiecewiseCdf:
        masses = self.masses[0][rows], self.masses[1][rows]
        lengths = self.lengths[0][rows], self.lengths[1][rows]
        return PiecewiseCdf(self.knots[rows], self.starts[rows], self.slopes[rows], masses, lengths)

    def linear_part(
        self, piece: IntArray, start: FloatArray, stop: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the linear part of a piece at both ends of a cell, both of shape (n, cells)."""
        anchor = np.take_along_axis(self.knots, np.maximum(piece - 1, 0), axis=1)
        level, slope = (np.take_along_axis(part, piece, axis=1) for part in (self.starts, self.slopes))
        return level + slope * (start - anchor), level + slope * (stop - anchor)

    def tail(self, upper: BoolArray, row: IntArray, near: FloatArray) -> tuple[FloatArray, FloatArray]:
        mass, length, end = (
            np.where(upper, above[row], below[row])
            for below, above in (self.masses, self.lengths, (self.knots[:, 0], self.knots[:, -1]))
        )
        with np.errstate(over="ignore"):
            decay = np.exp(-np.abs(near - end) / np.where(length > 0, length, 1.0))
        return mass * decay, length


class _Tail(NamedTuple):
    """Exponential function on each cell.

    ``value`` is the larger value at the ends, and ``rate`` is the width in decay lengths.
    """

    value: FloatArray
    rate: FloatArray
    falls: BoolArray


def piecewise_distance(first: PiecewiseCdf, second: PiecewiseCdf) -> FloatArray:
    knots = np.concatenate([first.knots, second.knots], axis=1)
    order = np.argsort(knots, axis=1, kind="stable")
    x = np.take_along_axis(knots, order, axis=1)
    passed = np.cumsum(order < first.knots.shape[1], axis=1)[:, :-1]
    pieces = passed, np.arange(1, x.shape[1]) - passed
    start, stop, width = x[:, :-1], x[:, 1:], np.diff(x, axis=1)
    lines = (cdf.linear_part(piece, start, stop) for cdf, piece in zip((first, second), pieces, strict=True))
    left, right = (one - other for one, other in zip(*lines, strict=True))
    total = (width * (left**2 + left * right + right**2) / 3).sum(axis=1)
    in_tail = [
        ((piece == 0) & (cdf.masses[0] > 0)[:, np.newaxis])
        | ((piece == cdf.knots.shape[1]) & (cdf.masses[1] > 0)[:, np.newaxis])
        for cdf, piece in zip((first, second), pieces, strict=True)
    ]
    row, cell = np.nonzero((in_tail[0] | in_tail[1]) & (width > 0))
    at = row, cell
    tails = []
    for cdf, piece, inside, sign in zip((first, second), pieces, in_tail, (1.0, -1.0), strict=True):
        upper = piece[at] > 0
        value, length = cdf.tail(upper, row, np.where(upper, start[at], stop[at]))
        # In the upper tail, the cdf is 1 minus the exponential.
        signed = np.where(inside[at], np.where(upper, -sign, sign) * value, 0.0)
        tails.append(_Tail(signed, width[at] / np.where(length > 0, length, np.inf), upper))
    extra = width[at] * _tail_terms(left[at], right[at], *tails)
    total += np.bincount(row, extra, len(total))
    total += _beyond(first, second, x[:, 0], False) + _beyond(first, second, x[:, -1], True)
    return np.asarray(np.maximum(total, 0.0))


def _tail_terms(left: FloatArray, right: FloatArray, one: _Tail, other: _Tail) -> FloatArray:
    """Return the mean of (linear + one + other)^2 - linear^2 over each cell."""
    total = np.zeros_like(left)
    for tail in (one, other):
        near, far = np.where(tail.falls, left, right), np.where(tail.falls, right, left)
        total += tail.value**2 * exprel(-2 * tail.rate)
        total += 2 * tail.value * (near * exprel(-tail.rate) + (far - near) * _ramp(tail.rate))
    same = exprel(-(one.rate + other.rate))
    # If one exponential increases and the other decreases, this order of factors avoids an overflow.
    opposite = np.exp(-np.minimum(one.rate, other.rate)) * exprel(-np.abs(one.rate - other.rate))
    return total + 2 * one.value * other.value * np.where(one.falls == other.falls, same, opposite)


def _ramp(rate: FloatArray) -> FloatArray:
    small = rate < _SMALL
    safe = np.where(small, 1.0, rate)
    series = 1 / 2 - rate * (1 / 3 - rate * (1 / 8 - rate * (1 / 30 - rate / 144)))
    return np.where(small, series, (exprel(-safe) - np.exp(-safe)) / safe)


def _beyond(first: PiecewiseCdf, second: PiecewiseCdf, end: FloatArray, upper: bool) -> FloatArray:
    row = np.arange(len(end))
    side = np.full(len(end), upper)
    (a, s), (b, t) = (cdf.tail(side, row, end) for cdf in (first, second))
    total = s + t
    # The division comes first, because the product in 2 s t / (s + t) may overflow.
    cross = 2 * s * np.divide(t, total, out=np.zeros_like(total), where=total > 0)
    return np.asarray((a**2 * s + b**2 * t) / 2 - a * b * cross)


def mean_of_line(start: FloatArray, stop: FloatArray) -> FloatArray:
    return (start + stop) / 2


def mean_square_of_line(start: FloatArray, stop: FloatArray) -> FloatArray:
    return (start * start + start * stop + stop * stop) / 3


def linear_integrals(
    knots: FloatArray, cdf: FloatArray, sf: FloatArray, y: FloatArray, average: Average
) -> tuple[FloatArray, FloatArray]:
    """Return the integrals below and above y, both of shape (n,).

    The last axis of ``knots``, ``cdf`` and ``sf`` has m entries. The arrays have one row or n rows.
    """
    shape = y.size, knots.shape[-1]
    of_cdf, of_sf = (average(values[..., :-1], values[..., 1:]) for values in (cdf, sf))
    # The integral over whole pieces is a weighted sum of the distances from y to the knots.
    of_cdf, of_sf = (
        np.broadcast_to(-np.diff(each, prepend=0.0, append=0.0), shape) for each in (of_cdf, of_sf)
    )
    knots, cdf, sf = (np.broadcast_to(values, shape) for values in (knots, cdf, sf))
    below, above = np.empty(y.size), np.empty(y.size)
    for rows in row_blocks(*shape, BLOCK // 2):
        inside = np.clip(y[rows], knots[rows, 0], knots[rows, -1])  # y may be infinite.
        gap = knots[rows] - inside[:, np.newaxis]
        piece = np.clip(np.count_nonzero(gap <= 0, axis=1) - 1, 0, shape[1] - 2)
        left, right = ((np.arange(len(gap)), piece + side) for side in (0, 1))
        low, high = gap[left], gap[right]
        share = np.divide(-low, high - low, out=np.zeros(len(gap)), where=high > low)
        below[rows] = np.einsum("ij,ij->i", np.minimum(gap, 0.0), of_cdf[rows])
        above[rows] = np.einsum("ij,ij->i", np.maximum(gap, 0.0), of_sf[rows])
        # The piece that contains y is split at y.
        start, stop = cdf[rows][left], cdf[rows][right]
        below[rows] -= low * (average(start, start + share * (stop - start)) - average(start, stop))
        start, stop = sf[rows][left], sf[rows][right]
        above[rows] += high * (average(start + share * (stop - start), stop) - average(start, stop))
    return below, above


BLOCK = 1 << 18
"""Number of cdf values that are expanded at the same time."""
