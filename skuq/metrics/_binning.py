"""Bins of rows by a key. All bins have the same total weight or the same width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from skuq._numeric import ROUNDING, last_of_ties
from skuq._typing import FloatArray, IntArray
from skuq._validation import check_n_bins
from skuq.metrics._kernels import BLOCK, BinIndex, count_below

STRATEGIES = ("quantile", "uniform")

SAME = 1e-9
"""Two keys count as equal if their relative difference is smaller than this, because the difference may be a
rounding error."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of rows. Rows on the edge of two bins of equal weight are divided between the bins.

    The rows form 2 k - 1 segments for k bins: the rows inside each bin and, between two bins, the rows on
    their edge. The fractions `below` and `above` of the rows on an edge belong to the bins below and above
    this edge. If no row is divided, `below` is empty and the segments are the bins. The segments are the rows
    from `starts` to `stops` in the order `order`, unless `row_bin` contains the bin of each row. The weights
    are in this order.
    """

    edges: FloatArray
    weight: FloatArray
    starts: IntArray
    stops: IntArray
    order: Any
    below: FloatArray
    above: FloatArray
    row_bin: BinIndex | None = None

    @property
    def n_bins(self) -> int:
        return self.edges.size - 1

    def totals(self) -> FloatArray:
        return np.asarray(self.sums()[0])

    def sums(self, *columns: FloatArray) -> FloatArray:
        """Return the weight and the weighted sum of each column in each bin, shape (1 + c, n_bins)."""
        if self.row_bin is None:
            values = np.append(self.weight, 0.0)  # A segment may begin after the last row.
            sums = [np.add.reduceat(values, self.starts)]
            for column in columns:
                np.multiply(column[self.order], self.weight, out=values[:-1])
                sums.append(np.add.reduceat(values, self.starts))
            return self._joined(np.where(self.starts < self.stops, sums, 0.0))
        k = self.n_bins
        total = np.zeros((1 + len(columns), k))
        for start in range(0, self.weight.size, BLOCK):  # A block of rows fits into the processor's cache.
            rows = slice(start, start + BLOCK)
            row_bin, weight = self.row_bin[rows].astype(np.intp), self.weight[rows]
            total[0] += np.bincount(row_bin, weight, k)
            for i, column in enumerate(columns, 1):
                total[i] += np.bincount(row_bin, column[rows] * weight, k)
        return total

    def histogram(self, place: BinIndex, k: int) -> FloatArray:
        """Return the weight of the rows of each bin at each of k places, shape (n_bins, k)."""
        if self.row_bin is None:
            place = place[self.order]
            segments = [slice(*ends) for ends in zip(self.starts, self.stops, strict=True)]
            counts: FloatArray = np.array(
                [np.bincount(place[rows], self.weight[rows], k) for rows in segments], dtype=np.float64
            )
            return self._joined(counts.T).T
        cell = self.row_bin.astype(np.intp) * k + place
        return np.bincount(cell, self.weight, self.n_bins * k).reshape(-1, k).astype(np.float64)

    def _joined(self, sums: FloatArray) -> FloatArray:
        """Return sums of bins, shape (..., n_bins), from sums of segments."""
        if not self.below.size:
            return sums
        inside, edge = sums[..., ::2].copy(), sums[..., 1::2]
        with np.errstate(invalid="ignore"):  # The sum of the rows on an edge may be infinite.
            inside[..., :-1] += np.where(self.below > 0, self.below * edge, 0.0)
            inside[..., 1:] += np.where(self.above > 0, self.above * edge, 0.0)
        return np.asarray(inside)

    def shared(self) -> list[tuple[IntArray, int, float]]:
        """Return rows on edges, their bin, and the fraction of each of these rows in this bin."""
        found = []
        for i, fractions in enumerate(zip(self.below, self.above, strict=True)):
            on_edge = self._rows(2 * i + 1)
            found += [(on_edge, i + above, fraction) for above, fraction in enumerate(fractions)]
        return [part for part in found if part[2] > 0 and part[0].size]

    def matrix(self) -> Any:
        """Return the weight of each row in each bin as a sparse array of shape (n_bins, n)."""
        step = 2 if self.below.size else 1
        parts = [*self.shared(), *((self._rows(step * i), i, 1.0) for i in range(self.n_bins))]
        row, sizes = np.concatenate([part[0] for part in parts]), [part[0].size for part in parts]
        place, fraction = (np.repeat([part[j] for part in parts], sizes) for j in (1, 2))
        weight = np.empty_like(self.weight)
        weight[self.order] = self.weight
        return sparse.csr_array((fraction * weight[row], (place, row)), shape=(self.n_bins, weight.size))

    def _rows(self, segment: int) -> IntArray:
        if self.row_bin is not None:
            return np.flatnonzero(self.row_bin == segment)
        rows = np.arange(self.starts[segment], self.stops[segment])
        return rows if isinstance(self.order, slice) else np.asarray(self.order[rows])


class Binning:
    """Bins of rows by a key. They are computed repeatedly, for different weights."""

    def __init__(self, key: FloatArray, n_bins: int, strategy: str) -> None:
        self.key, self.n_bins, self.strategy = key, check_n_bins(n_bins, key.size), strategy
        self.order: Any = slice(None) if (key[1:] >= key[:-1]).all() else None
        if strategy == "quantile":
            if self.order is None:
                self.order = np.argsort(key)
                self.key = key = key[self.order]
            # Each group of rows with equal keys ends before one of these rows.
            self.group_ends = np.flatnonzero(last_of_ties(key, SAME * np.abs(key[1:]))) + 1

    def bins(self, weight: FloatArray | None) -> Bins:
        key, n_bins = self.key, self.n_bins
        weight = np.ones(key.size) if weight is None else weight
        if self.order is None:
            counted = key if weight.min() > 0 else key[weight > 0]
            low, high = counted.min(), counted.max()
        else:
            ordered = weight[self.order]
            positive = ordered > 0
            low, high = key[positive.argmax()], key[::-1][positive[::-1].argmax()]
        if n_bins == 1 or high - low <= SAME * max(abs(low), abs(high)):
            return undivided(weight, np.array([low, high]))
        if self.strategy == "quantile":
            return self._of_equal_weight(ordered)
        edges = np.linspace(low, high, n_bins + 1)
        # A key on an edge belongs to the upper bin. The margin keeps the key in this bin even if rounding
        # makes the key smaller.
        thresholds = edges[1:-1] - ROUNDING * max(abs(low), abs(high))
        if self.order is None:
            return undivided(weight, edges, row_bin=count_below(thresholds, key))
        return undivided(weight, edges, np.searchsorted(key, thresholds))

    def _of_equal_weight(self, weight: FloatArray) -> Bins:
        """Return bins of equal weight. Rows with equal keys are divided in the same proportions."""
        reached = np.cumsum(weight)
        edge = reached[-1] * (np.arange(1, self.n_bins) / self.n_bins)
        row = np.minimum(np.searchsorted(reached, edge, "right"), self.key.size - 1)
        group = np.searchsorted(self.group_ends, row, "right")
        first, stop = np.where(group > 0, self.group_ends[group - 1], 0), self.group_ends[group]
        begin, end = np.where(first > 0, reached[first - 1], 0.0), reached[stop - 1]
        # The part of a group below an earlier edge in the same group already has a bin.
        below = np.where(np.diff(group, prepend=-1) > 0, edge - begin, 0.0) / (end - begin)
        above = (np.minimum(end, np.append(edge[1:], reached[-1])) - edge) / (end - begin)
        edges = self.key[np.concatenate([[0], first, [-1]])]
        cuts = np.column_stack([first, stop]).ravel()
        starts, stops = np.append(0, cuts), np.append(cuts, self.key.size)
        return Bins(edges, weight, starts, stops, self.order, below, above)


def make_bins(key: FloatArray, n_bins: int, strategy: str, weight: FloatArray | None) -> Bins:
    return Binning(key, n_bins, strategy).bins(weight)


def undivided(weight: FloatArray, edges: FloatArray, cuts: Any = (), row_bin: BinIndex | None = None) -> Bins:
    """Return bins of whole rows, from the rows at which bins begin or from the bin of each row."""
    none = np.empty(0)
    starts, stops = np.append(0, cuts).astype(np.intp), np.append(cuts, weight.size).astype(np.intp)
    return Bins(edges, weight, starts, stops, slice(None), none, none, row_bin)


def bin_means(bins: Bins, *columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the non-empty bins, shape (b,), and the mean of each column, shape (c, b)."""
    total, *sums = bins.sums(*columns)
    occupied = total > 0
    return total[occupied], np.array(sums)[:, occupied] / total[occupied]


def reliability_curve(edges: FloatArray, total: FloatArray, sums: Mapping[str, FloatArray]) -> pd.DataFrame:
    """Return edges, weight and means of the non-empty bins from their weights and their sums of columns."""
    table = pd.DataFrame({"lower": edges[:-1], "upper": edges[1:], "n": total, **sums})
    table = table[total > 0].reset_index(drop=True)
    for name in sums:
        table[name] /= table["n"]
    return table


def curve_of_bins(bins: Bins, **columns: FloatArray) -> pd.DataFrame:
    total, *sums = bins.sums(*columns.values())
    return reliability_curve(bins.edges, total, dict(zip(columns, sums, strict=True)))
