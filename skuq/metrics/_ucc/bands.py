"""Errors and bands from which the uncertainty characteristics curve is computed."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._units import standard_deviation
from skuq._validation import (
    as_float_array,
    check_finite,
    check_option,
    check_rows,
    check_single_coverage,
)
from skuq.distributions import Distribution
from skuq.metrics._inputs import check_forecast_or_bounds, finite_mean, finite_std

ZERO_BANDS = ("keep", "min")


class Bands(NamedTuple):
    """Errors and bands of the rows with positive weight.

    If the bands are symmetric, ``lower`` and ``upper`` are the same array.
    """

    error: FloatArray
    lower: FloatArray
    upper: FloatArray
    weight: FloatArray | None
    y: FloatArray

    @property
    def target_std(self) -> float:
        return standard_deviation(self.y, self.weight)


def check_bands(bands: str | float) -> str | float:
    if isinstance(bands, str):
        return str(check_option(bands, "bands", ("std", "constant")))
    return check_single_coverage(bands, "bands")


def read_bands(
    y_true: ArrayLike,
    y_pred: Any,
    bands: str | float,
    point: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> Bands:
    y, forecast, weight = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    if isinstance(forecast, Distribution):
        bands = check_bands(bands)
        middle = forecast.median if isinstance(bands, float) else partial(finite_mean, forecast)
        bounds = forecast.interval(bands) if isinstance(bands, float) else None
    elif bands in ("std", "constant"):
        bounds = check_finite(forecast, "y_pred")
        middle = partial(_middle_of, bounds)
    else:
        raise ValueError(f"`bands` must be omitted or 'constant' if `y_pred` holds bounds, got {bands!r}.")
    center = _point_of_rows(point, y_true, sample_weight, default=middle)
    if bands == "constant":
        band = np.ones_like(y)
    elif bounds is None:
        band = finite_std(forecast)  # type: ignore[arg-type]  # Only a distribution has no bounds.
    else:
        return _between(y, bounds, center, weight)
    return Bands(y - center, band, band, weight, y)


def _middle_of(bounds: FloatArray) -> FloatArray:
    return np.asarray(bounds.mean(axis=1))


def replace_zero_bands(bands: Bands, zero_band: str) -> Bands:
    check_option(zero_band, "zero_band", ZERO_BANDS)
    if zero_band == "keep":
        return bands
    lower = _without_zeros(bands.lower)
    upper = lower if bands.upper is bands.lower else _without_zeros(bands.upper)
    return bands._replace(lower=lower, upper=upper)


def _without_zeros(band: FloatArray) -> FloatArray:
    positive = band > 0
    if not positive.any():
        raise ValueError("`zero_band` must be 'keep' if no band is positive, got 'min'.")
    return np.where(positive, band, band[positive].min())


def _between(y: FloatArray, bounds: FloatArray, center: FloatArray, weight: FloatArray | None) -> Bands:
    check_finite(bounds, "y_pred")
    lower, upper = center - bounds[:, 0], bounds[:, 1] - center
    outside = (lower < 0) | (upper < 0)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(
            f"`point` must lie inside the interval of its row, got {center[row]:g} outside "
            f"[{bounds[row, 0]:g}, {bounds[row, 1]:g}] at row {row}."
        )
    rounding = 4 * np.spacing(np.abs(bounds).max(axis=1))
    if np.all(np.abs(upper - lower) <= rounding):
        lower = upper = (bounds[:, 1] - bounds[:, 0]) / 2
    return Bands(y - center, lower, upper, weight, y)


def _point_of_rows(
    point: ArrayLike | None, y_true: ArrayLike, sample_weight: ArrayLike | None, *, default: Any
) -> FloatArray:
    if point is None:
        return np.asarray(default(), dtype=np.float64)
    center = check_finite(as_float_array(point, "point"), "point")
    check_rows(center, "point", np.shape(y_true)[0])
    return center if sample_weight is None else center[np.asarray(sample_weight, dtype=float) > 0]
