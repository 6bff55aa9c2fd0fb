"""Sections: forecasts of quantiles, means and probabilities of events, and their isotonic recalibration.

A section contains the forecasts of one property of the distribution, such as the quantile at one level, for
all n rows. Each section has its own isotonic recalibration and its own share of the score. All arrays have
shape (s, n) for s sections. The targets of a section are sorted by its forecasts, and rows with equal
forecasts have equal fitted values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression
from scipy.special import xlog1py, xlogy

from skuq._numeric import equal_step, last_of_ties, weighted
from skuq._typing import BoolArray, FloatArray, IntArray

_LARGEST_WHOLE = 2.0**53
"""Sums of whole numbers are exact up to this value."""


def isotonic_means(values: FloatArray, last: BoolArray, weight: FloatArray | None) -> FloatArray:
    """Return the increasing function of the forecast that minimizes the weighted squared error."""
    sections, n = values.shape
    flat, mass = values.ravel(), np.ones(values.size) if weight is None else weight.ravel()
    starts = np.concatenate([[0], np.flatnonzero(last.ravel()[:-1]) + 1])
    masses, sums = np.add.reduceat(mass, starts), np.add.reduceat(mass * flat, starts)
    counted = masses > 0  # Rows that a bootstrap sample omits have weight 0.
    masses, sums, section = masses[counted], sums[counted], starts[counted] // n
    # All sections are fitted in one call. An offset per section keeps their fits independent.
    low, high = flat.min(), flat.max()
    offset = section * (2 * (high - low))
    blocks = isotonic_regression(sums / masses - low + offset, weights=masses).blocks
    # The means are computed again, because the offset causes rounding errors.
    means = np.add.reduceat(sums, blocks[:-1]) / np.add.reduceat(masses, blocks[:-1])
    of_group = np.repeat(means, np.diff(blocks))[np.maximum(np.cumsum(counted) - 1, 0)]
    return np.asarray(np.repeat(of_group, np.diff(starts, append=flat.size)).reshape(sections, n))


def isotonic_quantile_ranks(
    rank: IntArray, last: BoolArray, level: FloatArray, weight: FloatArray | None
) -> IntArray:
    """Return the rank of the target that is the isotonic quantile at each row.

    Each row has a range of possible ranks, which is halved in each round. Consecutive rows with the same
    range form a segment. The middle of the range divides the segment into rows with smaller and rows with
    larger quantiles. The best division maximizes the sum of 1{rank <= middle} - level over the first rows.
    """
    sections, n = rank.shape
    size = sections * n
    flat, tied = rank.ravel(), None if last.all() else ~last.ravel()
    mass = None if weight is None else _as_integers(weight.ravel())
    mass_before = np.arange(size + 1) if mass is None else np.concatenate([[0], np.cumsum(mass)])
    expected = np.repeat(level, n) * mass_before[1:]
    starts = np.arange(0, size, n)
    low, high = np.zeros(sections, dtype=np.intp), np.full(sections, n - 1, dtype=np.intp)
    while (low < high).any():
        lengths = np.diff(starts, append=size)
        middle = (low + high) // 2
        below = flat <= np.repeat(middle, lengths)
        counted: Any = np.cumsum(below if mass is None else below * mass)
        at_start = np.where(starts > 0, counted[starts - 1], 0) - level[starts // n] * mass_before[starts]
        gain = counted - expected
        if tied is not None:
            gain[tied] = -np.inf
        cut = _best_cuts(gain, at_start, starts, lengths)
        cut[low == high] = (starts + lengths)[low == high]
        # The first part of a segment keeps the lower half of the ranks. The second part keeps the upper half.
        begins = np.column_stack([starts, cut]).ravel()
        lows = np.column_stack([low, middle + 1]).ravel()
        highs = np.column_stack([np.where(low == high, high, middle), high]).ravel()
        filled = np.diff(begins, append=size) > 0
        starts, low, high = begins[filled], lows[filled], highs[filled]
    return np.asarray(np.repeat(low, np.diff(starts, append=size)).reshape(sections, n))


def _as_integers(weight: FloatArray) -> FloatArray | IntArray:
    whole = weight.sum() < _LARGEST_WHOLE and np.array_equal(weight, np.round(weight))
    return weight.astype(np.int64) if whole else weight


def _best_cuts(gain: FloatArray, at_start: FloatArray, starts: IntArray, lengths: IntArray) -> IntArray:
    best = np.maximum.reduceat(gain, starts)
    reached = np.flatnonzero(gain == np.repeat(best, lengths))
    ends = reached[np.searchsorted(reached, starts + lengths) - 1] + 1
    return np.asarray(np.where(best >= at_start, ends, starts))


BLOCK = 2**17
"""An array of one block has at most this number of entries, so that a block fits into the cache."""


@dataclass(eq=False)
class Sections(ABC):
    """Forecasts of shape (k, n). Each section has a name and a share, which are arrays of shape (k,)."""

    forecast: FloatArray
    index: pd.Index
    share: FloatArray

    @property
    def n(self) -> int:
        return int(self.forecast.shape[1])

    def take(self, rows: IntArray) -> Self:
        return replace(self, forecast=self.forecast[:, rows])

    @cached_property
    def order(self) -> IntArray:
        return np.argsort(self.forecast, axis=1)

    @cached_property
    def ordered(self) -> FloatArray:
        return np.take_along_axis(self.forecast, self.order, axis=1)

    @cached_property
    def last(self) -> BoolArray:
        """Mask of sorted forecasts, shape (k, n), that is True for the last of several equal forecasts."""
        return last_of_ties(self.ordered, equal_step(self.ordered))

    def parts(self, y: Any, weight: FloatArray | None = None) -> FloatArray:
        """Return miscalibration, discrimination and uncertainty of each section, shape (r, k, 3)."""
        targets = Targets(y, weight)
        found = np.empty((targets.repetitions * len(self.index), 3))
        for pairs, rows in self._blocks(targets):
            given = self._score(rows.forecast, rows)
            best = self._score(self._isotonic(rows), rows)
            constant = self._score(self._marginal(rows)[:, np.newaxis], rows)
            differences = given - best, constant - best, constant
            found[pairs] = np.column_stack([row_means(each, rows.weight) for each in differences])
        return found.reshape(targets.repetitions, len(self.index), 3)

    def recalibrated(self, y: Any, weight: FloatArray | None = None) -> FloatArray:
        """Return the isotonic fit for each repetition, shape (r, n), if there is a single section.

        The values are sorted by forecast.
        """
        targets = Targets(y, weight)
        found = np.empty((targets.repetitions, self.n))
        for pairs, rows in self._blocks(targets):
            found[pairs] = self._isotonic(rows)
        return found

    def _blocks(self, targets: Targets) -> Iterator[tuple[slice, OrderedRows]]:
        """Yield blocks of rows. A row of a block is a pair of a repetition and a section."""
        k, size = len(self.index), max(BLOCK // self.n, 1)
        for start in range(0, targets.repetitions * k, size):
            pair = np.arange(start, min(start + size, targets.repetitions * k))
            yield slice(pair[0], pair[-1] + 1), OrderedRows(self, targets, pair // k, pair % k)

    def _outcome(self, y: Any, section: IntArray) -> FloatArray:
        return np.asarray(y)

    @abstractmethod
    def _score(self, forecast: FloatArray, rows: OrderedRows) -> FloatArray:
        """Return the score of each row."""

    @abstractmethod
    def _isotonic(self, rows: OrderedRows) -> FloatArray:
        """Return the best increasing function of the forecast."""

    @abstractmethod
    def _marginal(self, rows: OrderedRows) -> FloatArray:
        """Return the best constant forecast, shape (b,)."""


class Targets:
    """Targets and weights of r repetitions, each of shape (r, n).

    The shape is (1, n) if all repetitions have the same values.
    """

    def __init__(self, y: Any, weight: FloatArray | None) -> None:
        self.y, self.weight = np.asarray(y), weight
        self.repetitions = max(len(y), 1 if weight is None else len(weight))

    @cached_property
    def order(self) -> IntArray:
        return np.argsort(self.y, axis=1)

    @cached_property
    def rank(self) -> IntArray:
        rank = np.empty_like(self.order)
        np.put_along_axis(rank, self.order, np.arange(self.y.shape[1])[np.newaxis], axis=1)
        return rank

    @cached_property
    def sorted(self) -> FloatArray:
        return np.take_along_axis(self.y, self.order, axis=1)


class OrderedRows:
    """Values for b pairs of a repetition and a section. The values are sorted by forecast, shape (b, n)."""

    def __init__(self, sections: Sections, targets: Targets, draw: IntArray, section: IntArray) -> None:
        self.targets, self.section, self.draw = targets, section, draw
        self.order = sections.order[section]
        self.forecast, self.last = sections.ordered[section], sections.last[section]
        self.target = self.arrange(sections._outcome(self.pick(targets.y), section))
        self.weight = None if targets.weight is None else self.arrange(self.pick(targets.weight))

    def pick(self, values: Any) -> Any:
        return values[np.zeros_like(self.draw) if len(values) == 1 else self.draw]

    def arrange(self, values: Any) -> Any:
        return np.take_along_axis(values, self.order, axis=1)


class QuantileSections(Sections):
    """Quantiles. The index contains their levels. The score is the pinball loss."""

    def _levels(self, rows: OrderedRows) -> FloatArray:
        return np.asarray(self.index.to_numpy()[rows.section])

    def _score(self, forecast: FloatArray, rows: OrderedRows) -> FloatArray:
        level, error = self._levels(rows)[:, np.newaxis], rows.target - forecast
        return np.asarray(np.maximum(level * error, (level - 1) * error))

    def _isotonic(self, rows: OrderedRows) -> FloatArray:
        rank = rows.arrange(rows.pick(rows.targets.rank))
        fitted = isotonic_quantile_ranks(rank, rows.last, self._levels(rows), rows.weight)
        return np.take_along_axis(rows.pick(rows.targets.sorted), fitted, axis=1)

    def _marginal(self, rows: OrderedRows) -> FloatArray:
        levels, targets = self._levels(rows)[:, np.newaxis], rows.targets
        mass = np.ones((1, self.n))
        if targets.weight is not None:
            mass = np.take_along_axis(rows.pick(targets.weight), rows.pick(targets.order), axis=1)
        total = np.cumsum(mass, axis=1)
        place = np.argmax(total >= levels * total[:, -1:], axis=1)
        return np.asarray(rows.pick(targets.sorted)[np.arange(len(place)), place])


def quantile_sections(quantiles: FloatArray, levels: FloatArray, share: FloatArray) -> QuantileSections:
    return QuantileSections(np.ascontiguousarray(quantiles), pd.Index(levels, name="level"), share)


class MeanSections(Sections):
    """Means. The score is the squared error."""

    def _score(self, forecast: FloatArray, rows: OrderedRows) -> FloatArray:
        return np.asarray(np.square(rows.target - forecast))

    def _isotonic(self, rows: OrderedRows) -> FloatArray:
        return isotonic_means(rows.target, rows.last, rows.weight)

    def _marginal(self, rows: OrderedRows) -> FloatArray:
        return row_means(rows.target, rows.weight)


@dataclass(eq=False)
class ProbabilitySections(MeanSections):
    """Probabilities of events. The score is the Brier score or the log loss.

    Section i has the event ``happens(y, events[i])``. It compares the target with a threshold or a class.
    """

    events: FloatArray | IntArray
    happens: np.ufunc
    score: str

    def _outcome(self, y: Any, section: IntArray) -> FloatArray:
        return np.asarray(self.happens(y, self.events[section][:, np.newaxis]), dtype=np.float64)

    def _score(self, forecast: FloatArray, rows: OrderedRows) -> FloatArray:
        if self.score == "brier":
            return super()._score(forecast, rows)
        return -(xlogy(rows.target, forecast) + xlog1py(1 - rows.target, -forecast))


def row_means(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    if weight is None:
        return np.asarray(values.mean(axis=1))
    return np.asarray(weighted(values, weight).sum(axis=1) / weight.sum(axis=1))
