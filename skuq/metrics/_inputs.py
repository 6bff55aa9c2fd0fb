"""Validation of the arguments of metrics, and removal of rows with weight zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from skuq._censoring import Bounds, read_bounds, read_event
from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_finite_moments,
    check_sample_weight,
    check_single_coverage,
    check_size,
    check_target,
)
from skuq.distributions import Distribution, as_distribution
from skuq.distributions._convert import as_forecast, check_not_one_row
from skuq.distributions._discrete import tie_tolerance
from skuq.distributions._pit import pit_scores
from skuq.metrics._kernels import covered

Forecast = Distribution | FloatArray
"""Distribution of n rows, or bounds of shape (n, 2)."""


def check_forecast(
    y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None
) -> tuple[FloatArray, Distribution, FloatArray | None]:
    return _rows_that_count(y_true, as_distribution(y_pred, y_true=y_true), sample_weight)


def check_right_censored(
    y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None, event: Any
) -> tuple[FloatArray, Distribution, FloatArray | None, BoolArray | None]:
    """Return the checked arguments. The mask of observed targets is None if all are observed."""
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    if event is None:
        return y, dist, weight, None
    mask = read_event(event, np.shape(y_true)[0])
    return y, dist, weight, None if mask is None else read_event(counted(mask, sample_weight), y.size)


def check_censored(
    y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None, event: Any, lower: Any, upper: Any
) -> tuple[FloatArray, Distribution, FloatArray | None, Bounds | None]:
    """Return the checked arguments. The bounds of the targets are None if all are observed."""
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    if event is None and lower is None and upper is None:
        return y, dist, weight, None
    bounds = read_bounds(check_target(y_true), event, lower, upper)
    if bounds is not None:
        bounds = bounds.take(counted(np.arange(bounds.lower.size), sample_weight))
    return y, dist, weight, bounds


def check_forecast_or_bounds(
    y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None
) -> tuple[FloatArray, Forecast, FloatArray | None]:
    return _rows_that_count(y_true, as_forecast(y_pred, y_true=y_true), sample_weight)


def _rows_that_count(
    y_true: ArrayLike, forecast: Any, sample_weight: ArrayLike | None
) -> tuple[FloatArray, Any, FloatArray | None]:
    check_not_one_row(forecast, y_true)
    y, weight = check_target(y_true, n=len(forecast)), check_sample_weight(sample_weight, len(forecast))
    y, forecast, weight = rows_with_weight(weight, y, forecast)
    return check_size(y, "y_true"), forecast, weight


def check_covered(
    y_true: ArrayLike,
    y_pred: Any,
    X: Any,
    sample_weight: ArrayLike | None,
    coverage: Any,
    *,
    allow_nan: bool,
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    nominal = check_single_coverage(coverage)
    y, forecast, weight = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    n = np.shape(y_true)[0]
    features = counted(check_features(X, n, allow_nan=allow_nan), sample_weight)
    lower, upper = interval_bounds(y, forecast, nominal).T
    return covered(y, lower, upper), features, weight


def check_features(X: Any, n: int, *, allow_nan: bool) -> FloatArray:
    """Return the features of n rows as a finite array of shape (n, d).

    If ``allow_nan``, the array may contain NaN.
    """
    numeric = isinstance(X, pd.DataFrame) and all(map(pd.api.types.is_numeric_dtype, X.dtypes))
    try:
        # numpy cannot convert the missing values of pandas' extension types.
        array = as_float_array(X.to_numpy(np.float64, na_value=np.nan) if numeric else X, "X")
    except TypeError as error:
        if sparse.issparse(X):
            raise
        raise TypeError(f"{error} Encode text as numbers, for example with a `ColumnTransformer`.") from error
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"`X` must have shape (n, d) with at least one row and one feature, got {array.shape}. Pass one "
            "feature as a column, `X.reshape(-1, 1)`."
        )
    if array.shape[0] != n:
        raise ValueError(f"`X` must have {n} rows, one per sample, got {array.shape[0]}.")
    missing = np.isnan(array)
    check_finite(np.where(missing, 0.0, array), "X")
    if missing.any() and not allow_nan:
        row, column = np.argwhere(missing)[0]
        raise ValueError(
            f"`X` must not contain NaN, got NaN at row {row}, column {column}. Impute missing "
            "values, for example with a `SimpleImputer`."
        )
    return array


def check_forecast_alone(
    y_true: ArrayLike | None, y_pred: Any, sample_weight: ArrayLike | None
) -> tuple[FloatArray, Any, FloatArray | None]:
    """Return the checked arguments. The metric does not depend on the targets, which are 0 if omitted."""
    forecast = as_forecast(y_pred, y_true=y_true)
    y = np.zeros(len(forecast)) if y_true is None else y_true
    return _rows_that_count(y, forecast, sample_weight)


def rows_with_weight(weight: FloatArray | None, *values: Any) -> tuple[Any, ...]:
    """Return the values and the weights of the rows with positive weight."""
    if weight is None or weight.min() > 0:
        return *values, weight
    keep = weight > 0
    return *(each[keep] for each in values), weight[keep]


def counted(values: Any, sample_weight: ArrayLike | None) -> Any:
    """Return the values of the rows with positive weight."""
    return rows_with_weight(check_sample_weight(sample_weight, len(values)), values)[0]


def finite_moment(dist: Distribution, moment: str) -> FloatArray:
    remedy = "Use a metric of quantiles or of the whole distribution, such as `crps_loss`."
    (values,) = check_finite_moments(dist, moment, subject="`y_pred` must have", remedy=remedy)
    return check_size(values, f"y_pred.{moment}()")


def interval_bounds(y: FloatArray, forecast: Forecast, coverage: float) -> FloatArray:
    return intervals_around(y, forecast, coverage) if isinstance(forecast, Distribution) else forecast


def intervals_around(y: FloatArray, dist: Distribution, coverage: float) -> FloatArray:
    """Return the central intervals. A bound on the atom of a target is set to the target."""
    bounds = dist.interval(coverage)
    if dist.has_density:
        return bounds
    lower, upper = pit_scores(dist, y)
    near = np.abs(bounds - y[:, np.newaxis]) <= tie_tolerance(dist, y)[:, np.newaxis]
    return np.where(near & (lower < upper)[:, np.newaxis], y[:, np.newaxis], bounds)
