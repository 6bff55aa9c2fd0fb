"""Sections: forecasts of quantiles, means and probabilities of events, and their isotonic recalibration.

A section contains the forecasts of one property of the distribution, such as the quantile at one level, for
all rows. Each section has its own isotonic recalibration and its own share of the score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.special import xlog1py, xlogy

from skuq._rounding import equal_step, last_of_ties
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._weights import weighted
from skuq.metrics._decomposition.isotonic import isotonic_means, isotonic_quantile_ranks

BLOCK = 2**17
"""An array of one block has at most this number of entries, so that a block fits into the cache."""


class Sections(ABC):
    """Forecasts of shape (k, n). Each section has a name and a share, which are arrays of shape (k,)."""

    def __init__(self, forecast: FloatArray, index: pd.Index, share: FloatArray | None = None) -> None:
        self.forecast, self.index = forecast, index
        self.share = np.full(len(forecast), 1 / len(forecast)) if share is None else share

    @property
    def n(self) -> int:
        return int(self.forecast.shape[1])

    def take(self, rows: IntArray) -> Self:
        return self._with(self.forecast[:, rows])

    @abstractmethod
    def _with(self, forecast: FloatArray) -> Self:
        """Return the same sections with other forecasts."""

    @cached_property
    def order(self) -> IntArray:
        return np.argsort(self.forecast, axis=1, kind="stable")

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
    """Quantiles at k levels. The score is the pinball loss."""

    def __init__(self, forecast: FloatArray, levels: FloatArray, share: FloatArray | None = None) -> None:
        super().__init__(forecast, pd.Index(levels, name="level"), share)
        self.levels = levels

    def _with(self, forecast: FloatArray) -> Self:
        return type(self)(forecast, self.levels, self.share)

    def _score(self, forecast: FloatArray, rows: OrderedRows) -> FloatArray:
        level, error = self.levels[rows.section][:, np.newaxis], rows.target - forecast
        return np.asarray(np.maximum(level * error, (level - 1) * error))

    def _isotonic(self, rows: OrderedRows) -> FloatArray:
        rank, levels = rows.arrange(rows.pick(rows.targets.rank)), self.levels[rows.section]
        fitted = isotonic_quantile_ranks(rank, rows.last, levels, rows.weight)
        return np.take_along_axis(rows.pick(rows.targets.sorted), fitted, axis=1)

    def _marginal(self, rows: OrderedRows) -> FloatArray:
        levels, targets = self.levels[rows.section][:, np.newaxis], rows.targets
        mass = np.ones((1, self.n))
        if targets.weight is not None:
            mass = np.take_along_axis(rows.pick(targets.weight), rows.pick(targets.order), axis=1)
        total = np.cumsum(mass, axis=1)
        place = np.argmax(total >= levels * total[:, -1:], axis=1)
        return np.asarray(rows.pick(targets.sorted)[np.arange(len(place)), place])


class MeanSections(Sections):
    """Means. The score is the squared error."""

    def _with(self, forecast: FloatArray) -> Self:
        return type(self)(forecast, self.index, self.share)

    def _score(self, forecast: FloatArray, rows: OrderedRows) -> FloatArray:
        return np.asarray(np.square(rows.target - forecast))

    def _isotonic(self, rows: OrderedRows) -> FloatArray:
        return isotonic_means(rows.target, rows.last, rows.weight)

    def _marginal(self, rows: OrderedRows) -> FloatArray:
        return row_means(rows.target, rows.weight)


class ProbabilitySections(MeanSections):
    """Probabilities of events. The score is the Brier score or the log loss."""

    def __init__(
        self,
        forecast: FloatArray,
        events: FloatArray,
        index: pd.Index,
        score: str,
        share: FloatArray | None = None,
    ) -> None:
        super().__init__(forecast, index, share)
        self.events, self.score = events, score

    def _with(self, forecast: FloatArray) -> Self:
        return type(self)(forecast, self.events, self.index, self.score, self.share)

    def _score(self, forecast: FloatArray, rows: OrderedRows) -> FloatArray:
        if self.score == "brier":
            return super()._score(forecast, rows)
        return -(xlogy(rows.target, forecast) + xlog1py(1 - rows.target, -forecast))


class ThresholdSections(ProbabilitySections):
    """Probabilities that the target is at most each threshold."""

    def _outcome(self, y: Any, section: IntArray) -> FloatArray:
        return np.asarray(y <= self.events[section][:, np.newaxis], dtype=np.float64)


class ClassSections(ProbabilitySections):
    """Probabilities of classes. The targets are codes of the classes."""

    def _outcome(self, y: Any, section: IntArray) -> FloatArray:
        return np.asarray(y == self.events[section][:, np.newaxis], dtype=np.float64)


def row_means(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    if weight is None:
        return np.asarray(values.mean(axis=1))
    return np.asarray(weighted(values, weight).sum(axis=1) / weight.sum(axis=1))
