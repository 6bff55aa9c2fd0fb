"""The rows of one update, checked, with what several statistics need of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq.metrics._accumulator.histogram import Slots
from skuq.metrics._inputs import Forecast, check_forecast, check_forecast_or_bounds, finite_mean, finite_std
from skuq.metrics._kernels import BLOCK
from skuq.metrics._ucc.kernels import critical_scales


class Block:
    """Targets, forecasts and weights of rows that have a positive weight.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Observed targets.
    forecast : Distribution or ndarray of shape (n, 2)
        Forecast of every target: a distribution or bounds.
    weight : ndarray of shape (n,) or None
        Number of repetitions of each row.
    """

    def __init__(self, y: FloatArray, forecast: Forecast, weight: FloatArray | None) -> None:
        self.y, self.forecast, self.weight = y, forecast, weight
        self._slots: dict[tuple[str, float], Slots] = {}

    @classmethod
    def checked(
        cls, y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None, *, takes_bounds: bool
    ) -> Block:
        """Return the rows of a user's arguments; an array of bounds is a forecast where `takes_bounds`."""
        check: Any = check_forecast_or_bounds if takes_bounds else check_forecast
        return cls(*check(y_true, y_pred, sample_weight))

    def pieces(self) -> Iterator[Block]:
        """Yield the rows in pieces whose intermediate results stay in the processor's cache."""
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
        """Number of rows that the weights stand for."""
        return float(self.y.size) if self.weight is None else float(self.weight.sum())

    @cached_property
    def std(self) -> FloatArray:
        """Standard deviation of each forecast, which must be finite."""
        return finite_std(self.forecast)  # type: ignore[arg-type]  # only of distributions

    @cached_property
    def error(self) -> FloatArray:
        """Distance of each target from the mean of its forecast."""
        return np.abs(self.y - finite_mean(self.forecast))  # type: ignore[arg-type, operator]

    @cached_property
    def critical_scale(self) -> FloatArray:
        """Factor of the standard deviation at which the band around the mean just reaches the target."""
        return critical_scales(self.error, self.std, self.std)

    def slots(self, key: str, width: float) -> Slots:
        """Return the bin of each row by "std", "error" or "critical_scale", for bins of the logarithm."""
        if (key, width) not in self._slots:
            self._slots[key, width] = Slots.of(getattr(self, key), width)
        return self._slots[key, width]
