"""Logarithmic histogram that also stores sums of other columns.

The histograms of two blocks of rows can be added, but their sorted rows cannot. All bins have the same
relative width, so quantiles have a bounded relative error, as in DDSketch (Masson, Rim and Lee 2019,
https://doi.org/10.14778/3352063.3352135). Each bin also contains sums of other columns. Metrics of binned or
sorted rows are computed as if each bin contained a single row. This row has the weight of the bin and the
means of the rows in the bin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from skuq._rounding import ROUNDING
from skuq._typing import FloatArray, IntArray
from skuq._weights import weighted


def bin_width(accuracy: float) -> float:
    """Return the bin width of log(x) at which the centers of bins have this relative accuracy."""
    return float(np.log1p(2 * accuracy / (1 - accuracy)))


@dataclass(frozen=True, eq=False)
class Slots:
    """Slot of each row.

    Slot 0 contains zeros. The next slots are bins, beginning with bin ``first``. The last slot contains
    infinite values.
    """

    index: IntArray
    first: int
    size: int
    low: float
    high: float

    @classmethod
    def of(cls, key: FloatArray, width: float) -> Self:
        low, high = float(key.min()), float(key.max())
        regular = low > 0 and high < np.inf
        inside = None if regular else (key > 0) & (key < np.inf)
        position = np.log(key if inside is None else key[inside])
        position /= width
        np.floor(position, out=position)
        if position.size == 0:
            first, last = 0, -1
        else:
            first, last = int(position.min()), int(position.max())
        place = (position - (first - 1)).astype(np.intp)
        if inside is not None:
            everywhere = np.where(key > 0, last - first + 2, 0)
            everywhere[inside] = place
            place = everywhere
        return cls(place, first, last - first + 3, low, high)


@dataclass(frozen=True, eq=False)
class LogHistogram:
    """Sums of columns over the rows of each slot. The first column is the weight."""

    table: FloatArray
    first: int
    low: float
    high: float

    @classmethod
    def of(cls, slots: Slots, columns: tuple[FloatArray, ...], weight: FloatArray | None) -> Self:
        sums = [np.bincount(slots.index, weight, slots.size)]
        sums += [np.bincount(slots.index, weighted(column, weight), slots.size) for column in columns]
        return cls(np.array(sums, dtype=np.float64), slots.first, slots.low, slots.high)

    def __add__(self, other: Self) -> Self:
        # If one of the histograms has no bins, the sum begins at the first bin of the other histogram.
        parts = [each for each in (self, other) if each.table.shape[1] > 2] or [self]
        first = min(each.first for each in parts)
        last = max(each.first + each.table.shape[1] - 2 for each in parts)
        table = np.zeros((self.table.shape[0], last - first + 2))
        for each in (self, other):
            table[:, 0] += each.table[:, 0]
            table[:, -1] += each.table[:, -1]
            begin = each.first - first + 1 if each.table.shape[1] > 2 else 1
            table[:, begin : begin + each.table.shape[1] - 2] += each.table[:, 1:-1]
        return type(self)(table, first, min(self.low, other.low), max(self.high, other.high))

    @property
    def occupied(self) -> IntArray:
        return np.flatnonzero(self.table[0] > 0)

    @property
    def weight(self) -> FloatArray:
        return np.asarray(self.table[0, self.occupied])

    @property
    def means(self) -> FloatArray:
        """Return the means of the other columns in each non-empty slot, shape (c - 1, b)."""
        occupied = self.occupied
        return np.asarray(self.table[1:, occupied] / self.table[0, occupied])

    def quantile(self, levels: FloatArray, width: float) -> FloatArray:
        cumulative = np.cumsum(self.table[0])
        limit = (levels - ROUNDING) * cumulative[-1]
        slot = np.minimum(np.searchsorted(cumulative, limit), self.occupied[-1])
        slot = np.maximum(slot, self.occupied[0])
        # This point of a bin has the same relative distance from both of its ends.
        center = np.exp((self.first - 1 + slot) * width) * (1 + np.tanh(width / 2))
        center = np.where(slot == 0, 0.0, np.where(slot == self.table.shape[1] - 1, np.inf, center))
        return np.clip(center, self.low, self.high)
