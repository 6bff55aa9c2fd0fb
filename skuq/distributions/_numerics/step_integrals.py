"""Integrals of step cdfs that are interpolated between neighboring cdfs of one table.

For the cdf F, its integral L up to y, and the last threshold b,

    E Y               = b - int F,
    Var Y             = 2 int L (1 - F),
    E |Y - y|         = E Y - y + 2 L(y),
    E |Y - Y'| / 2    = int F (1 - F),
    CRPS(y)           = E |Y - y| - E |Y - Y'| / 2.

The integrals are computed for the cdfs of the table. A row between two cdfs needs their integrals and the
integral of their squared difference. The thresholds are visited in blocks, so no array of rows by thresholds
is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from skuq._typing import FloatArray, IntArray

BLOCK = 1 << 18
"""Number of cdf values that are expanded at the same time."""


class Table(Protocol):
    @property
    def thresholds(self) -> FloatArray: ...
    @property
    def n_cdfs(self) -> int: ...
    def _dense(self, steps: slice, cdfs: IntArray) -> FloatArray: ...


@dataclass(frozen=True)
class _Block:
    """Cdfs at some thresholds, and their integrals up to the next threshold and from the first threshold."""

    steps: slice
    gap: FloatArray
    cdf: FloatArray
    area: FloatArray
    below: FloatArray


class StepIntegrals:
    """Integrals of all rows. Row i is between two neighboring cdfs, at ``position[i]``."""

    def __init__(self, table: Table, position: FloatArray) -> None:
        lower = np.floor(position).astype(np.int64)
        self._table, self._share = table, position - lower
        self._cdfs = np.unique(np.append(lower, np.minimum(lower + 1, table.n_cdfs - 1)))
        self._low = np.searchsorted(self._cdfs, lower)
        self._high = np.minimum(self._low + 1, self._cdfs.size - 1)

    def _blocks(self) -> Iterator[_Block]:
        thresholds, size = self._table.thresholds, max(1, BLOCK // self._cdfs.size)
        gaps, reached = np.diff(thresholds, append=thresholds[-1]), np.zeros(self._cdfs.size)
        for start in range(0, thresholds.size, size):
            steps = slice(start, min(start + size, thresholds.size))
            gap, cdf = gaps[steps], self._table._dense(steps, self._cdfs)
            area = gap[:, np.newaxis] * cdf
            total = reached + np.cumsum(area, axis=0)
            yield _Block(steps, gap, cdf, area, total - area)
            reached = total[-1]

    def _mix(self, values: FloatArray) -> FloatArray:
        return (1.0 - self._share) * values[self._low] + self._share * values[self._high]

    @cached_property
    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the integrals of F, F (1 - F), 2 L (1 - F) and of the squared difference to the next cdf."""
        total, spread, variance, distance = np.zeros((4, self._cdfs.size))
        for block in self._blocks():
            above = block.gap[:, np.newaxis] - block.area
            total += block.area.sum(axis=0)
            spread += np.einsum("ij,ij->j", block.cdf, above)
            variance += 2.0 * np.einsum("ij,ij->j", above, block.below + block.area / 2)
            distance[:-1] += np.einsum("ij,ij->j", np.diff(block.area), np.diff(block.cdf))
        return total, spread, variance, distance

    @cached_property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the standard deviation, both of shape (n,)."""
        total, _, variance, _ = self._sums
        gap = total[self._high] - total[self._low]
        return (
            self._table.thresholds[-1] - self._mix(total),
            np.sqrt(self._mix(variance) + self._share * (1.0 - self._share) * gap**2),
        )

    def crps(self, y: FloatArray) -> FloatArray:
        _, spread, _, distance = self._sums
        half = self._mix(spread) + self._share * (1.0 - self._share) * distance[self._low]
        return np.maximum(self.mean_distance(y) - half, 0.0)

    def mean_distance(self, y: FloatArray) -> FloatArray:
        """Return E|Y - y|, shape (n,)."""
        return self.moments[0] - y + 2.0 * self._integral_below(y)

    def _integral_below(self, y: FloatArray) -> FloatArray:
        step = np.searchsorted(self._table.thresholds, y, side="right") - 1
        rest, integral = y - self._table.thresholds[step], np.zeros(len(y))
        order = np.argsort(step, kind="stable")
        for block in self._blocks():
            edges = np.searchsorted(step, [block.steps.start, block.steps.stop], sorter=order)
            rows = order[slice(*edges)]
            at = step[rows] - block.steps.start
            low, high = (
                block.below[at, column[rows]] + rest[rows] * block.cdf[at, column[rows]]
                for column in (self._low, self._high)
            )
            integral[rows] = low + self._share[rows] * (high - low)
        return integral
