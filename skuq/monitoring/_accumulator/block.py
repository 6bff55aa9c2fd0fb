"""Checked rows of one update, with values that several statistics need."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array
from skuq.metrics._internal import (
    BLOCK,
    Forecast,
    check_classes,
    check_forecast,
    check_forecast_or_bounds,
    critical_scales,
    finite_mean,
    finite_std,
)
from skuq.monitoring._accumulator.histogram import Slots


def has_only_zeros(sample_weight: ArrayLike | None) -> bool:
    """Return whether all rows have weight 0. Such rows count as absent, as in a block with other rows."""
    if sample_weight is None:
        return False
    weight = as_float_array(sample_weight, "sample_weight")
    return weight.size > 0 and not weight.any()


def ones_for_zeros(sample_weight: ArrayLike | None) -> ArrayLike | None:
    """Replace weights that are all 0, so that the targets and forecasts of their rows are checked."""
    if sample_weight is None or not has_only_zeros(sample_weight):
        return sample_weight
    return np.ones_like(as_float_array(sample_weight, "sample_weight"))


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
        return cls(*check(y_true, y_pred, ones_for_zeros(sample_weight)))

    @classmethod
    def of_classes(
        cls, y_true: ArrayLike, y_pred: Any, labels: np.ndarray, sample_weight: ArrayLike | None
    ) -> Block:
        given = check_classes(y_true, y_pred, labels, ones_for_zeros(sample_weight), needs_proba=True)
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
        return finite_std(self.forecast)  # type: ignore[arg-type]  # The forecast is a distribution here.

    @cached_property
    def error(self) -> FloatArray:
        return np.abs(self.y - finite_mean(self.forecast))  # type: ignore[arg-type, operator]

    @cached_property
    def critical_scale(self) -> FloatArray:
        return critical_scales(self.error, self.std, self.std)

    def slots(self, key: str, width: float) -> Slots:
        if (key, width) not in self._slots:
            self._slots[key, width] = Slots.of(getattr(self, key), width)
        return self._slots[key, width]
