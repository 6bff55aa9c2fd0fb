"""Statistics of blocks of rows. Two statistics can be added.

A logarithmic histogram also stores sums of other columns. The histograms of two blocks of rows can be added,
but their sorted rows cannot. All bins have the same relative width, so quantiles have a bounded relative
error, as in DDSketch (Masson, Rim and Lee 2019, https://doi.org/10.14778/3352063.3352135). Each bin also
contains sums of other columns. Metrics of binned or sorted rows are computed as if each bin contained a
single row. This row has the weight of the bin and the means of the rows in the bin.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from skuq._numeric import (
    ROUNDING,
    group_sums,
    is_sparse,
    standard_deviation,
    unit_of,
    weighted,
    weighted_mean,
    weighted_sum,
)
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_no_nan
from skuq.distributions import Distribution, Quantiles
from skuq.metrics._class_scores import check_classes
from skuq.metrics._inputs import Forecast, check_forecast, check_forecast_or_bounds, finite_moment
from skuq.metrics._kernels import BLOCK
from skuq.metrics._spec import Binned, column_sums
from skuq.metrics._ucc_kernels import critical_scales


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


class Statistic(ABC):
    """Function of a block of rows. The values are immutable and can be added with ``+``."""

    @abstractmethod
    def of(self, block: Block) -> Any:
        """Return the value of a block."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and same(vars(self), vars(other))

    __hash__ = None  # type: ignore[assignment]  # options may hold arrays


def same(first: Any, second: Any) -> bool:
    """Return whether two options are equal. Mappings, arrays and distributions are compared by content."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(same(first[name], second[name]) for name in first)
    if isinstance(first, Distribution) or isinstance(second, Distribution):
        if type(first) is not type(second) or not is_dataclass(first):
            return first is second
        return all(same(getattr(first, each.name), getattr(second, each.name)) for each in fields(first))
    if isinstance(first, partial) and isinstance(second, partial):
        return first.func is second.func and same(first.keywords, second.keywords)
    if np.ndim(first) or np.ndim(second):
        return np.array_equal(np.asarray(first), np.asarray(second))
    return type(first) is type(second) and bool(first == second)


@dataclass(frozen=True, eq=False)
class Sums:
    """Weighted sums of columns, and of products of dense columns.

    Each column is divided by its unit before the products, because a product of two squared targets may
    overflow.
    """

    total: float
    sums: FloatArray
    products: FloatArray | None
    units: FloatArray

    def __add__(self, other: Self) -> Self:
        units = np.maximum(self.units, other.units)
        with np.errstate(invalid="ignore", over="ignore"):  # The sum of inf and -inf is NaN.
            sums, products = self.sums + other.sums, None
            if self.products is not None and other.products is not None:
                factors, others = self.units / units, other.units / units
                products = self.products * np.outer(factors, factors)
                products = products + other.products * np.outer(others, others)
        return type(self)(self.total + other.total, sums, products, units)

    @property
    def means(self) -> FloatArray:
        means: FloatArray = np.divide(self.sums, self.total)
        return means


class RowSums(Statistic):
    """Sums over rows of the values ``rows(y, forecast)`` of a metric."""

    def __init__(self, rows: Callable[..., Any]) -> None:
        self.rows = rows

    def of(self, block: Block) -> Sums:
        values = self.rows(block.y, block.forecast)
        weight = block.weight
        columns = values if type(values) is tuple else (values,)
        if not isinstance(columns[0], np.ndarray):
            found = column_sums(columns, weight)
            return Sums(block.total, found, None, np.ones(found.size))
        sums = np.array([weighted_sum(check_no_nan(column, "y_pred"), weight) for column in columns])
        units = np.array([unit_of(column) for column in columns])
        with np.errstate(all="ignore"):  # Infinite values have no variance.
            columns = tuple(column / unit for column, unit in zip(columns, units, strict=True))
            scaled = [weighted(column, weight) for column in columns]
            products = np.array([[left @ right for right in columns] for left in scaled])
        return Sums(block.total, sums, products, units)


def below_median_rows(y: FloatArray, dist: Distribution) -> FloatArray:
    median = dist.median()
    return np.asarray((y < median) + 0.5 * (y == median))


@dataclass(frozen=True)
class Moments:
    """Weight, mean, root of the sum of squared deviations, and range of the targets."""

    total: float
    mean: float
    norm: float
    low: float
    high: float

    def __add__(self, other: Moments) -> Moments:
        # The mean of both parts is computed as in Chan, Golub and LeVeque (1983).
        total, gap = self.total + other.total, other.mean - self.mean
        return Moments(
            total,
            self.mean + gap * (other.total / total),
            math.hypot(self.norm, other.norm, gap * math.sqrt(self.total * other.total / total)),
            min(self.low, other.low),
            max(self.high, other.high),
        )

    @property
    def range(self) -> float:
        return self.high - self.low

    @property
    def std(self) -> float:
        return self.norm / math.sqrt(self.total) if self.high > self.low else 0.0


class TargetMoments(Statistic):
    def of(self, block: Block) -> Moments:
        mean = float(block.y[0]) + weighted_mean(block.y - block.y[0], block.weight)
        norm = standard_deviation(block.y, block.weight) * math.sqrt(block.total)
        return Moments(block.total, mean, norm, float(block.y.min()), float(block.y.max()))


class AtomBlocks(Statistic):
    def of(self, block: Block) -> int:
        return int(isinstance(block.forecast, Distribution) and not block.forecast.has_density)


@dataclass(frozen=True)
class Levels:
    """Levels of the quantiles that all forecasts give. None if the forecasts are whole distributions."""

    given: frozenset[float] | None

    def __add__(self, other: Self) -> Self:
        if self.given is None or other.given is None:
            return other if self.given is None else self
        return type(self)(self.given & other.given)


class QuantileLevels(Statistic):
    def of(self, block: Block) -> Levels:
        forecast = block.forecast
        if not isinstance(forecast, Quantiles):
            return Levels(None)
        return Levels(frozenset(forecast.levels.round(12).tolist()))  # 0.3 and 0.1 + 0.2 are equal.


def groups_by_std(squares: LogHistogram) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the weight, the root mean variance and the root mean squared error of each bin."""
    rmv, rmse = np.sqrt(squares.means)
    return squares.weight, rmv, rmse


class SquaresByStd(Statistic):
    """Predicted variance and squared error in bins of the predicted standard deviation."""

    def __init__(self, width: float) -> None:
        self.width = width

    def of(self, block: Block) -> LogHistogram:
        slots = block.slots("std", self.width)
        return LogHistogram.of(slots, (np.square(block.std), np.square(block.error)), block.weight)


class RowsByStd(Statistic):
    """Values of a metric per row, in bins of the predicted standard deviation."""

    def __init__(self, width: float, rows: Callable[..., Any]) -> None:
        self.width, self.rows = width, rows

    def of(self, block: Block) -> LogHistogram:
        slots, weight = block.slots("std", self.width), block.weight
        values = self.rows(block.y, block.forecast)
        if isinstance(values, Binned):
            values = values.matrix()
        if not is_sparse(values):
            return LogHistogram.of(slots, (values,), weight)
        sums = np.zeros((values.shape[1] + 1, slots.size))
        sums[0] = np.bincount(slots.index, weight, slots.size)
        grouped = group_sums(values, slots.index, weight).toarray().T
        sums[1:, : grouped.shape[1]] = grouped
        return LogHistogram(sums, slots.first, slots.low, slots.high)


class BandsByScale(Statistic):
    """Bands and absolute errors in bins of the factor at which the band reaches the target."""

    def __init__(self, width: float, bands: str) -> None:
        self.width, self.bands = width, bands

    def of(self, block: Block) -> LogHistogram:
        if self.bands == "constant":
            return LogHistogram.of(block.slots("error", self.width), (block.error,), block.weight)
        columns = block.std, block.error
        return LogHistogram.of(block.slots("critical_scale", self.width), columns, block.weight)


def ones_for_zeros(sample_weight: ArrayLike | None) -> ArrayLike | None:
    """Replace weights that are all 0, so that the targets and forecasts of their rows are checked.

    Otherwise, return the same object. Rows with weight 0 count as absent, as in a block with other rows.
    """
    if sample_weight is None:
        return None
    weight = as_float_array(sample_weight, "sample_weight")
    return np.ones_like(weight) if weight.size > 0 and not weight.any() else sample_weight


class Block:
    """Targets, forecasts and weights of the rows with positive weight. Classes have codes as targets."""

    def __init__(self, y: FloatArray, forecast: Forecast, weight: FloatArray | None) -> None:
        self.y, self.forecast, self.weight = y, forecast, weight
        self._slots: dict[tuple[str, float], Slots] = {}

    @classmethod
    def checked(
        cls, y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None, *, takes_bounds: bool
    ) -> Block:
        check: Any = check_forecast_or_bounds if takes_bounds else check_forecast
        return cls(*check(y_true, y_pred, sample_weight))

    @classmethod
    def of_classes(
        cls, y_true: ArrayLike, y_pred: Any, labels: np.ndarray, sample_weight: ArrayLike | None
    ) -> Block:
        given = check_classes(y_true, y_pred, labels, sample_weight, needs_proba=True)
        codes: Any = given.codes
        return cls(codes, given.forecast, given.weight)

    def pieces(self) -> Iterator[Block]:
        """Yield parts of the rows that are small enough for the cache of the processor."""
        if len(self) <= BLOCK:
            yield self
            return
        for start in range(0, len(self), BLOCK):
            rows = slice(start, start + BLOCK)
            weight = None if self.weight is None else self.weight[rows]
            yield Block(self.y[rows], self.forecast[rows], weight)

    def __len__(self) -> int:
        return self.y.size

    @property
    def total(self) -> float:
        return float(self.y.size) if self.weight is None else float(self.weight.sum())

    @cached_property
    def std(self) -> FloatArray:
        """Return the standard deviation of each forecast. Raise an error if one is infinite."""
        return finite_moment(self.forecast, "std")  # type: ignore[arg-type]  # The forecast is a distribution here.

    @cached_property
    def error(self) -> FloatArray:
        return np.abs(self.y - finite_moment(self.forecast, "mean"))  # type: ignore[arg-type, operator]

    @cached_property
    def critical_scale(self) -> FloatArray:
        return critical_scales(self.error, self.std, self.std)

    def slots(self, key: str, width: float) -> Slots:
        if (key, width) not in self._slots:
            self._slots[key, width] = Slots.of(getattr(self, key), width)
        return self._slots[key, width]
