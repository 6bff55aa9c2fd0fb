"""Statistics of blocks of rows. Two statistics can be added."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Self

import numpy as np

from skuq._typing import FloatArray
from skuq._units import mean_of, standard_deviation, unit_of
from skuq._validation import check_no_nan
from skuq._weights import group_sums, is_sparse, weighted, weighted_sum
from skuq.distributions import Distribution
from skuq.metrics._internal import RowGroups, Squares
from skuq.monitoring._accumulator.block import Block
from skuq.monitoring._accumulator.histogram import LogHistogram


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
    if np.ndim(first) or np.ndim(second):
        return np.array_equal(np.asarray(first), np.asarray(second))
    return type(first) is type(second) and bool(first == second)


@dataclass(frozen=True, eq=False)
class Sums:
    """Weighted sums of columns, and of products of dense columns. Units prevent overflow."""

    total: float
    sums: FloatArray
    products: FloatArray | None
    units: FloatArray

    def __add__(self, other: Self) -> Self:
        units = np.maximum(self.units, other.units)
        with np.errstate(invalid="ignore", over="ignore"):  # The sum of inf and -inf is NaN.
            sums, products = self.sums + other.sums, None
            if self.products is not None and other.products is not None:
                products = self.products * _outer_square(self.units / units)
                products = products + other.products * _outer_square(other.units / units)
        return type(self)(self.total + other.total, sums, products, units)

    @property
    def means(self) -> FloatArray:
        means: FloatArray = np.divide(self.sums, self.total)
        return means


def _outer_square(values: FloatArray) -> FloatArray:
    return np.asarray(np.outer(values, values))


class RowSums(Statistic):
    """Sums over rows of the values ``rows(y, forecast, **options)`` of a metric."""

    def __init__(self, rows: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.rows, self.options = rows, dict(options)

    def of(self, block: Block) -> Sums:
        values = self.rows(block.y, block.forecast, **self.options)
        weight = block.weight
        if is_sparse(values):
            sums = values.sum(axis=0) if weight is None else weight @ values
            return Sums(block.total, np.asarray(sums, dtype=np.float64), None, np.ones(sums.size))
        columns = values if isinstance(values, tuple) else (values,)
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
        mean = float(block.y[0]) + mean_of(block.y - block.y[0], block.weight)
        norm = standard_deviation(block.y, block.weight) * math.sqrt(block.total)
        return Moments(block.total, mean, norm, float(block.y.min()), float(block.y.max()))


class AtomBlocks(Statistic):
    def of(self, block: Block) -> int:
        return int(isinstance(block.forecast, Distribution) and not block.forecast.has_density)


@dataclass(frozen=True, eq=False)
class SquaresHistogram:
    """Scaled predicted variances and squared errors in bins of the standard deviation."""

    histogram: LogHistogram
    units: tuple[float, float]

    def __add__(self, other: Self) -> Self:
        units = max(self.units[0], other.units[0]), max(self.units[1], other.units[1])
        return type(self)(self._in(units) + other._in(units), units)

    def _in(self, units: tuple[float, float]) -> LogHistogram:
        factors = np.array([1.0, *np.square(np.array(self.units) / np.array(units))])[:, np.newaxis]
        table = self.histogram.table
        finite = np.isfinite(table)
        return replace(self.histogram, table=np.multiply(table, factors, out=table.copy(), where=finite))

    @property
    def groups(self) -> RowGroups:
        variance, square = self.histogram.means
        rmv, rmse = self.units[0] * np.sqrt(variance), self.units[1] * np.sqrt(square)
        return RowGroups(self.histogram.weight, rmv, rmse)


class SquaresByStd(Statistic):
    """Predicted variance and squared error in bins of the predicted standard deviation."""

    def __init__(self, width: float) -> None:
        self.width = width

    def of(self, block: Block) -> SquaresHistogram:
        squares = Squares.of(block.std, block.error)
        slots = block.slots("std", self.width)
        return SquaresHistogram(
            LogHistogram.of(slots, squares.columns(slice(None)), block.weight), squares.units
        )


class RowsByStd(Statistic):
    """Values of a metric per row, in bins of the predicted standard deviation."""

    def __init__(self, width: float, rows: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.width, self.rows, self.options = width, rows, dict(options)

    def of(self, block: Block) -> LogHistogram:
        slots, weight = block.slots("std", self.width), block.weight
        values = self.rows(block.y, block.forecast, **self.options)
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
