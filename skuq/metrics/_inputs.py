"""The border of the metrics: what users pass in becomes what the kernels take.

Rows of weight zero are dropped here, once, so that no kernel has to think of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    check_bounds,
    check_finite_moments,
    check_sample_weight,
    check_single_coverage,
    check_target,
)
from skuq.distributions import Distribution, as_distribution
from skuq.distributions._pit import pit_scores, tie_tolerance


def check_forecast(
    y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None
) -> tuple[FloatArray, Distribution, FloatArray | None]:
    """Return target, distribution and weights of the rows that count."""
    dist = as_distribution(y_pred)
    y = check_target(y_true, n=len(dist))
    weight = check_sample_weight(sample_weight, len(dist))
    if weight is not None and weight.min() == 0:
        keep = weight > 0
        y, dist, weight = y[keep], dist[keep], weight[keep]
    return y, dist, weight


def check_moments(
    y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]:
    """Return target, mean, standard deviation and weights; a forecast without them raises."""
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    return y, finite_mean(dist), finite_std(dist), weight


def finite_mean(dist: Distribution) -> FloatArray:
    """Return the mean of each row; a forecast without one raises."""
    return _finite_moment(dist, "mean")


def finite_std(dist: Distribution) -> FloatArray:
    """Return the standard deviation of each row; a forecast without one raises."""
    return _finite_moment(dist, "std")


def _finite_moment(dist: Distribution, moment: str) -> FloatArray:
    remedy = "Use a metric of quantiles or of the whole distribution, such as `crps_loss`."
    (values,) = check_finite_moments(dist, moment, subject="`y_pred` must have", remedy=remedy)
    return values


def check_interval_forecast(
    y_true: ArrayLike, y_pred: Any, coverage: Any, sample_weight: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]:
    """Return target, lower and upper bounds and weights, from bounds or from a distribution."""
    nominal = check_single_coverage(coverage)
    if is_bounds(y_pred):
        bounds = check_interval_bounds(y_pred)
        y = check_target(y_true, n=bounds.shape[0])
    else:
        dist = as_distribution(y_pred)
        y = check_target(y_true, n=len(dist))
        bounds = intervals_around(y, dist, nominal)
    weight = check_sample_weight(sample_weight, bounds.shape[0])
    if weight is not None and weight.min() == 0:
        keep = weight > 0
        y, bounds, weight = y[keep], bounds[keep], weight[keep]
    return y, bounds[:, 0], bounds[:, 1], weight


def intervals_around(y: FloatArray, dist: Distribution, coverage: float) -> FloatArray:
    """Return the central intervals, whose bounds are at the target where both are the same atom.

    A model that keeps targets in single precision gives quantiles that miss the targets they are made of by
    rounding, and with them the interval.
    """
    bounds = dist.interval(coverage)
    if dist.has_density:
        return bounds
    lower, upper = pit_scores(dist, y)
    near = np.abs(bounds - y[:, np.newaxis]) <= tie_tolerance(dist, y)[:, np.newaxis]
    return np.where(near & (lower < upper)[:, np.newaxis], y[:, np.newaxis], bounds)


def check_interval_widths(
    y_true: ArrayLike | None, y_pred: Any, coverage: Any, sample_weight: ArrayLike | None
) -> tuple[FloatArray, FloatArray | None]:
    """Return the width of each interval and weights; the target is optional and only checked."""
    bounds = _bounds_of(y_pred, coverage)
    if y_true is not None:
        check_target(y_true, n=bounds.shape[0])
    width = bounds[:, 1] - bounds[:, 0]
    weight = check_sample_weight(sample_weight, width.size)
    if weight is not None and weight.min() == 0:
        width, weight = width[weight > 0], weight[weight > 0]
    return width, weight


def _bounds_of(y_pred: Any, coverage: Any) -> FloatArray:
    """Return the bounds that were passed, or the central intervals of the distribution."""
    nominal = check_single_coverage(coverage)
    return check_interval_bounds(y_pred) if is_bounds(y_pred) else as_distribution(y_pred).interval(nominal)


def is_bounds(y_pred: Any) -> bool:
    """Return whether the forecast is a table of bounds; a tuple never is."""
    return isinstance(y_pred, list) or (hasattr(y_pred, "__array__") and not isinstance(y_pred, Distribution))


def check_interval_bounds(y_pred: ArrayLike) -> FloatArray:
    """Return bounds of at least one row, none of which is infinite on the wrong side."""
    bounds = check_bounds(y_pred)
    if bounds.shape[0] == 0:
        raise ValueError("`y_pred` must have at least one row, got none.")
    empty = (bounds[:, 0] == np.inf) | (bounds[:, 1] == -np.inf)
    if empty.any():
        row = int(np.argmax(empty))
        raise ValueError(
            f"`y_pred` must hold intervals with a number in them, got [{bounds[row, 0]}, {bounds[row, 1]}] "
            f"at row {row}."
        )
    return bounds
