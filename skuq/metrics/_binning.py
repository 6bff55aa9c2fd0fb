"""Bins of rows by a key. All bins have the same total weight or the same width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from skuq._numeric import ROUNDING, weighted, weighted_sum
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import check_n_bins
from skuq.metrics._kernels import BLOCK, BinIndex, count_below

STRATEGIES = ("quantile", "uniform")

SAME = 1e-9
"""Two keys count as equal if their relative difference is smaller than this, because the difference may be a
rounding error."""

_STEP = 1 << 10
"""A cumulative weight is stored after each block of this number of rows."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Bin of each row.

    The attribute `parts` describes rows that are divided between bins. An item (rows, bin, fraction) means
    that this fraction of each of these rows belongs to this bin.
    """

    n_bins: int
    row_bin: BinIndex
    parts: list[tuple[Any, int, float]]
    edges: FloatArray
    weight: FloatArray | None

    @property
    def shared(self) -> list[tuple[Any, int, float]]:
        return [part for part in self.parts if part[2] < 1]

    def totals(self) -> FloatArray:
        total = np.zeros(self.n_bins + 1)
        for rows in self._blocks():
            total += np.bincount(self.row_bin[rows], self._weight_of(rows), self.n_bins + 1)
        for rows, place, fraction in self.parts:
            weight = self._weight_of(rows)
            total[place] += fraction * (_count(rows) if weight is None else weight.sum())
        # The last entry is the weight of the rows in `parts`, which the loop has already counted.
        return total[:-1]

    def sums(self, columns: Callable[[Any], tuple[FloatArray, ...]]) -> FloatArray:
        """Return the weighted sum of each column in each bin, shape (c, n_bins)."""
        total = np.array([np.zeros(self.n_bins + 1) for _ in columns(slice(0, 1))])
        for rows in self._blocks():
            weight = self._weight_of(rows)
            for row, values in enumerate(columns(rows)):
                total[row] += np.bincount(self.row_bin[rows], weighted(values, weight), self.n_bins + 1)
        for part, place, fraction in self.parts:
            for rows in _pieces(part):
                weight = self._weight_of(rows)
                for row, values in enumerate(columns(rows)):
                    total[row, place] += fraction * weighted_sum(values, weight)
        return total[:, :-1]

    def histogram(self, place: BinIndex, k: int) -> FloatArray:
        size = (self.n_bins + 1) * k
        total = np.zeros(size)
        for rows in self._blocks():
            cell = self.row_bin[rows].astype(np.intp) * k + place[rows]
            total += np.bincount(cell, self._weight_of(rows), size)
        table: FloatArray = total.reshape(-1, k)[:-1]
        for part, row_bin, fraction in self.parts:
            for rows in _pieces(part):
                table[row_bin] += fraction * np.bincount(place[rows], self._weight_of(rows), k)
        return table

    def matrix(self, n: int) -> Any:
        """Return the weight of each row in each bin as a sparse array of shape (n_bins, n)."""
        inside = np.flatnonzero(self.row_bin < self.n_bins)
        held = [(np.arange(n)[rows], place, fraction) for rows, place, fraction in self.parts]
        row = np.concatenate([inside, *(rows for rows, _, _ in held)])
        size = [rows.size for rows, _, _ in held]
        place = np.concatenate([self.row_bin[inside], np.repeat([place for _, place, _ in held], size)])
        weight = np.concatenate([np.ones(inside.size), np.repeat([part for _, _, part in held], size)])
        if self.weight is not None:
            weight *= self.weight[row]
        return sparse.csr_array((weight, (place.astype(np.intp), row)), shape=(self.n_bins, n))

    def _blocks(self) -> list[slice]:
        return _pieces(slice(0, self.row_bin.size))

    def _weight_of(self, rows: Any) -> FloatArray | None:
        return None if self.weight is None else self.weight[rows]


def _count(rows: slice | IntArray) -> int:
    return rows.stop - rows.start if isinstance(rows, slice) else rows.size


def _pieces(rows: Any) -> list[Any]:
    if not isinstance(rows, slice):
        return [rows]
    return [slice(first, min(first + BLOCK, rows.stop)) for first in range(rows.start, rows.stop, BLOCK)]


class Binning:
    """Bins of rows by a key. They are computed repeatedly, for different weights."""

    def __init__(self, key: FloatArray, n_bins: int, strategy: str) -> None:
        self.key, self.n_bins, self.strategy = key, check_n_bins(n_bins, key.size), strategy
        self.rising = bool((key[1:] >= key[:-1]).all())

    @cached_property
    def _order(self) -> Any:
        return slice(0, self.key.size) if self.rising else np.argsort(self.key)

    @cached_property
    def _ordered(self) -> FloatArray:
        return np.asarray(self.key[self._order])

    def bins(self, weight: FloatArray | None) -> Bins:
        low, high = self._range(weight)
        if self.n_bins == 1 or high - low <= SAME * max(abs(low), abs(high)):
            everything = [(slice(0, self.key.size), 0, 1.0)]
            return Bins(1, np.empty(0, dtype=np.uint8), everything, np.array([low, high]), weight)
        if self.strategy == "quantile":
            return self._of_equal_weight(weight)
        edges = np.linspace(low, high, self.n_bins + 1)
        # A key on an edge belongs to the upper bin. The margin keeps the key in this bin even if rounding
        # makes the key smaller.
        thresholds = edges[1:-1] - ROUNDING * max(abs(low), abs(high))
        if not self.rising:
            return Bins(self.n_bins, count_below(thresholds, self.key), [], edges, weight)
        cuts = [0, *np.searchsorted(self.key, thresholds).tolist(), self.key.size]
        return self._of_slices([(slice(*cut), i, 1.0) for i, cut in enumerate(pairwise(cuts))], edges, weight)

    def _range(self, weight: FloatArray | None) -> tuple[float, float]:
        if self.rising:
            first, last = 0, self.key.size - 1
            if weight is not None:
                first += _first(lambda rows: weight[rows] > 0, weight.size)
                last -= _first(lambda rows: weight[::-1][rows] > 0, weight.size)
            return float(self.key[first]), float(self.key[last])
        key = self.key if weight is None or weight.min() > 0 else self.key[weight > 0]
        return float(key.min()), float(key.max())

    def _of_equal_weight(self, weight: FloatArray | None) -> Bins:
        """Return bins of equal total weight.

        Rows with equal keys are divided between bins in the same proportions.
        """
        key, n_bins = self._ordered, self.n_bins
        ends = None if weight is None else CumulativeWeight(weight[self._order])
        total = float(key.size) if ends is None else ends.before(key.size)
        # Rows before `done` already have a bin. Rows from `done` to the next edge belong to bin `place`, the
        # current bin.
        edges = total * (np.arange(n_bins + 1) / n_bins)
        parts: list[tuple[slice, int, float]] = []
        key_edges, done, place = [key[0]], 0, 0
        for i, edge in enumerate(edges[1:-1]):
            # Without weights, row r covers [r, r + 1), so the integer part of the edge is the row.
            row = int(edge) if ends is None else ends.row_at(float(edge))
            first, stop = _group_around(key, min(row, key.size - 1))
            key_edges.append(key[first])
            # If an earlier edge lies in this group of equal keys, the rows of the group already have bins.
            if first < done:
                continue
            parts.append((slice(done, first), place, 1.0))
            begin, end = (first, stop) if ends is None else (ends.before(first), ends.before(stop))
            place, done = i + 1, first
            # If the edge lies inside a group of equal keys, the rows of the group are divided between the
            # bins.
            if begin < edge < end:
                done = stop
                # The rows after the group belong to the last bin that contains a part of the group.
                place = int(np.searchsorted(edges, end, side="left")) - 1
                for each in range(i, place + 1):
                    piece = min(end, edges[each + 1]) - max(begin, edges[each])
                    parts.append((slice(first, stop), each, float(piece / (end - begin))))
        parts.append((slice(done, key.size), place, 1.0))
        return self._of_slices(parts, np.array([*key_edges, key[-1]]), weight)

    def _of_slices(
        self, parts: list[tuple[slice, int, float]], edges: FloatArray, weight: FloatArray | None
    ) -> Bins:
        parts = [part for part in parts if _count(part[0])]
        if self.rising:
            return Bins(self.n_bins, np.empty(0, dtype=np.uint8), parts, edges, weight)
        kind: Any = np.uint8 if self.n_bins < 255 else np.intp
        row_bin: BinIndex = np.full(self.key.size, self.n_bins, dtype=kind)
        for rows, place, fraction in parts:
            if fraction == 1:
                row_bin[self._order[rows]] = place
        shared = [(self._order[rows], place, fraction) for rows, place, fraction in parts if fraction < 1]
        return Bins(self.n_bins, row_bin, shared, edges, weight)


def make_bins(key: FloatArray, n_bins: int, strategy: str, weight: FloatArray | None) -> Bins:
    return Binning(key, n_bins, strategy).bins(weight)


class CumulativeWeight:
    """Cumulative weights of rows. They are computed only at the requested rows."""

    def __init__(self, weight: FloatArray) -> None:
        self._weight = weight
        blocks = np.add.reduceat(weight, np.arange(0, weight.size, _STEP))
        self._blocks = np.concatenate([[0.0], np.cumsum(blocks)])

    def before(self, row: int) -> float:
        block = row // _STEP
        inside = self._weight[block * _STEP : row]
        return float(self._blocks[block] + (np.cumsum(inside)[-1] if inside.size else 0.0))

    def row_at(self, edge: float) -> int:
        block = int(np.searchsorted(self._blocks, edge, side="right")) - 1
        ends = self._blocks[block] + np.cumsum(self._weight[block * _STEP : (block + 1) * _STEP])
        return block * _STEP + int(np.searchsorted(ends, edge, side="right"))


def _first(holds: Callable[[slice], BoolArray], n: int) -> int:
    start, size = 0, 64
    while start < n:
        found = holds(slice(start, min(start + size, n)))
        if found.any():
            return start + int(np.argmax(found))
        start, size = start + size, 4 * size
    return n


def _group_around(ordered: FloatArray, row: int) -> tuple[int, int]:

    def differ(rows: slice) -> BoolArray:
        after = ordered[row + 1 :][rows]
        return np.asarray(after - ordered[row:-1][rows] > SAME * np.abs(after))

    def differ_before(rows: slice) -> BoolArray:
        after = ordered[row:0:-1][rows]
        return np.asarray(after - ordered[:row][::-1][rows] > SAME * np.abs(after))

    return row - _first(differ_before, row), row + 1 + _first(differ, ordered.size - row - 1)


def bin_means(bins: Bins, columns: Callable[[Any], tuple[FloatArray, ...]]) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the non-empty bins, shape (b,), and the mean of each column, shape (c, b)."""
    total = bins.totals()
    occupied = total > 0
    return total[occupied], bins.sums(columns)[:, occupied] / total[occupied]
