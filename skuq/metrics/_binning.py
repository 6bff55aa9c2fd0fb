"""Bins of rows by one number each: of equal total weight, or of equal width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import check_n_bins
from skuq.metrics._kernels import BLOCK, Places, count_passed
from skuq.metrics._rounding import ROUNDING

STRATEGIES = ("quantile", "uniform")

SAME = 1e-9
"""Keys that differ relatively by less are one: what tells them apart may be rounding alone."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Which bin each row belongs to, and in what part.

    Parameters
    ----------
    n_bins : int
        Number of bins.
    row_bin : ndarray of shape (n,)
        Bin of each row; `n_bins` for rows that several bins share.
    shared : list of (rows, bin, fraction)
        Parts in which bins hold the rows that they share.
    edges : ndarray of shape (n_bins + 1,)
        Values of the key that bound the bins.
    weight : ndarray of shape (n,) or None
        Repetitions of each row.
    """

    n_bins: int
    row_bin: Places
    shared: list[tuple[IntArray, int, float]]
    edges: FloatArray
    weight: FloatArray | None

    def totals(self) -> FloatArray:
        """Return the weight of each bin, shape (n_bins,)."""
        return self.histogram(None, 1)[:, 0]

    def sums(self, columns: Callable[[Any], tuple[FloatArray, ...]]) -> FloatArray:
        """Return the weighted sums of numbers per row in each bin, shape (c, n_bins).

        ``columns(rows)`` computes them for some rows, so that they need never exist for all.
        """
        total = np.array([np.zeros(self.n_bins + 1) for _ in columns(slice(0, 1))])
        for start in range(0, self.row_bin.size, BLOCK):
            part = slice(start, start + BLOCK)
            cell = self.row_bin[part]
            for row, values in enumerate(self._weighted(columns(part), part)):
                total[row] += np.bincount(cell, values, self.n_bins + 1)
        total = total[:, :-1]
        for rows, place, fraction in self.shared:
            for row, values in enumerate(self._weighted(columns(rows), rows)):
                total[row, place] += fraction * values.sum()
        return total

    def _weighted(self, columns: tuple[FloatArray, ...], rows: Any) -> tuple[FloatArray, ...]:
        """Return the columns times the weight of the rows."""
        return columns if self.weight is None else tuple(column * self.weight[rows] for column in columns)

    def histogram(self, place: Places | None, k: int) -> FloatArray:
        """Return the weight in each bin of the rows at each of k places, shape (n_bins, k)."""
        size = (self.n_bins + 1) * k
        total = np.zeros(size)
        for start in range(0, self.row_bin.size, BLOCK):
            part = slice(start, start + BLOCK)
            cell = self.row_bin[part]
            if place is not None:
                cell = cell.astype(np.intp) * k + place[part]
            total += np.bincount(cell, None if self.weight is None else self.weight[part], size)
        table: FloatArray = total.reshape(-1, k)[:-1]
        for rows, row_bin, fraction in self.shared:
            where = np.zeros(rows.size, dtype=np.intp) if place is None else place[rows]
            weight = None if self.weight is None else self.weight[rows]
            table[row_bin] += fraction * np.bincount(where, weight, k)
        return table


def make_bins(key: FloatArray, n_bins: int, strategy: str, weight: FloatArray | None) -> Bins:
    """Return the bins of a non-negative or signed key; a constant key is one bin."""
    check_n_bins(n_bins, key.size)
    low, high = key.min(), key.max()
    if high - low <= SAME * max(abs(low), abs(high)):
        n_bins = 1
    if n_bins == 1:
        return Bins(1, np.zeros(key.size, dtype=np.uint8), [], np.array([low, high]), weight)
    if strategy == "quantile":
        return _equal_count_bins(key, n_bins, weight)
    edges = np.linspace(low, high, n_bins + 1)
    # A key on an edge belongs above it, on whichever side of it rounding has put the two.
    thresholds = edges[1:-1] - ROUNDING * max(abs(low), abs(high))
    return Bins(n_bins, count_passed(thresholds, key), [], edges, weight)


def _equal_count_bins(key: FloatArray, n_bins: int, weight: FloatArray | None) -> Bins:
    """Return bins of equal total weight.

    On the axis of cumulative weight every distinct key is a stretch as long as its weight. The edges of the
    bins cut some stretches, and the rows of those are shared by the bins in proportion.
    """
    order = np.argsort(key)
    starts = _group_starts(key[order])
    ends = None if weight is None else np.cumsum(weight[order])
    total = float(key.size if ends is None else ends[-1])
    edges = total * (np.arange(n_bins + 1) / n_bins)
    kind: Any = np.uint8 if n_bins < 255 else np.intp
    row_bin: Places = np.empty(key.size, dtype=kind)
    shared: list[tuple[IntArray, int, float]] = []
    key_edges, done, place = [key[order[0]]], 0, 0
    for i, edge in enumerate(edges[1:-1]):
        row = int(edge) if ends is None else int(np.searchsorted(ends, edge, side="right"))
        first, stop = _group_around(starts, min(row, key.size - 1))
        key_edges.append(key[order[first]])
        if first < done:  # the group of an earlier edge holds this one too
            continue
        row_bin[order[done:first]] = place
        begin, end = (float(first), float(stop)) if ends is None else _stretch(ends, first, stop)
        place, done = i + 1, first
        if begin < edge < end:
            rows, done = order[first:stop], stop
            row_bin[rows] = n_bins
            place = int(np.searchsorted(edges, end, side="left")) - 1
            for each in range(i, place + 1):
                piece = min(end, edges[each + 1]) - max(begin, edges[each])
                shared.append((rows, each, float(piece / (end - begin))))
    row_bin[order[done:]] = place
    return Bins(n_bins, row_bin, shared, np.array([*key_edges, key[order[-1]]]), weight)


def _group_starts(ordered: FloatArray) -> BoolArray:
    """Return where in the ordered keys a new one begins."""
    starts = np.ones(ordered.size, dtype=np.bool_)
    gap = np.diff(ordered)
    np.abs(ordered, out=ordered)
    ordered *= SAME
    np.greater(gap, ordered[1:], out=starts[1:])
    return starts


def _group_around(starts: BoolArray, row: int) -> tuple[int, int]:
    """Return first and last row, exclusive, of the group of equal keys that holds a row."""
    first = row - int(np.argmax(starts[row::-1]))
    after = starts[row + 1 :]
    following = int(np.argmax(after)) if after.size else 0
    return first, row + 1 + following if after.size and after[following] else starts.size


def _stretch(ends: FloatArray, first: int, stop: int) -> tuple[float, float]:
    """Return where the weight of a group begins and ends."""
    return float(ends[first - 1]) if first else 0.0, float(ends[stop - 1])


def bin_means(
    key: FloatArray,
    columns: Callable[[Any], tuple[FloatArray, ...]],
    n_bins: int,
    strategy: str,
    weight: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    """Return the weight of each bin of `key`, shape (b,), and the means of the columns in it, shape (c, b).

    Bins without rows are left out.
    """
    bins = make_bins(key, n_bins, strategy, weight)
    total = bins.totals()
    occupied = total > 0
    return total[occupied], bins.sums(columns)[:, occupied] / total[occupied]
