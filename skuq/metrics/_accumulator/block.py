"""The rows of one update, checked, with what several statistics need of them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq.metrics._accumulator.histogram import Slots
from skuq.metrics._inputs import Forecast, check_forecast, check_forecast_or_bounds, finite_mean, finite_std
from skuq.metrics._ucc.kernels import critical_scales


class Block:
    """Targets, forecasts and weights of the rows of one update that have a positive weight.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target.
    sample_weight : array-like of shape (n,) or None
        Number of repetitions of each row.
    takes_bounds : bool
        Whether an array of bounds is a valid forecast.
    """

    def __init__(
        self, y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None, *, takes_bounds: bool
    ) -> None:
        check: Any = check_forecast_or_bounds if takes_bounds else check_forecast
        checked: tuple[FloatArray, Forecast, FloatArray | None] = check(y_true, y_pred, sample_weight)
        self.y, self.forecast, self.weight = checked
        self._slots: dict[tuple[str, float], Slots] = {}

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
