"""Functions of one variable, tabulated on a common grid of the real line.

The edges are equally spaced values of asinh(t), so that a look-up needs no search. Between two edges, the
function is a cubic polynomial with the given values and slopes at the edges.
"""

from __future__ import annotations

import numpy as np

from skuq._typing import FloatArray, IntArray

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
