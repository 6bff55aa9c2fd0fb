"""The four coordinates of the uncertainty characteristics curve, and the bands that it is computed from."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skuq._numeric import standard_deviation
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    as_float_array,
    check_finite,
    check_option,
    check_rows,
    check_single_coverage,
)
from skuq.distributions import Distribution
from skuq.metrics._inputs import (
    Forecast,
    check_forecast_alone,
    check_forecast_or_bounds,
    finite_mean,
    finite_std,
    interval_bounds,
)
from skuq.metrics._intervals import mean_width, observed_coverage
from skuq.metrics._spec import Means, metric, value_of

ZERO_BANDS = ("keep", "min")


class Bands(NamedTuple):
    """Errors and bands of the rows with positive weight.

    If the bands are symmetric, ``lower`` and ``upper`` are the same array.
    """

    error: FloatArray
    lower: FloatArray
    upper: FloatArray
    weight: FloatArray
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
    y, forecast, given = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    weight = np.ones(y.size) if given is None else given
    if isinstance(forecast, Distribution):
        bands = check_bands(bands)
        middle = forecast.median if isinstance(bands, float) else partial(finite_mean, forecast)
        bounds = forecast.interval(bands) if isinstance(bands, float) else None
    elif bands in ("std", "constant"):
        bounds = check_finite(forecast, "y_pred")
        middle = partial(bounds.mean, axis=1)
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


def _between(y: FloatArray, bounds: FloatArray, center: FloatArray, weight: FloatArray) -> Bands:
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


SIDES = ("nearest", "active")


def miss_rate(coverage: float) -> Means:
    return replace(observed_coverage(coverage), combine=lambda means: 1.0 - means[..., 0])


@metric(
    "miss_rate",
    title="Miss rate",
    bounds=(0.0, 1.0),
    needs="interval",
    source="Navratil et al. 2023, eq. 1",
    meaning="{percent} of the targets lie outside their interval",
    kernel=miss_rate,
)
def interval_miss_rate(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
) -> float:
    r"""Return the miss rate: the share of targets outside their interval.

    Neither larger nor smaller values are better: compare the miss rate with one minus the nominal coverage.
    The miss rate is one minus `prediction_interval_coverage`. It is an axis of the uncertainty
    characteristics curve. The metric is not proper: infinite intervals never miss (see the example). Do not
    select models by this metric.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds, which may be infinite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Ignored if `y_pred` holds bounds.

    Returns
    -------
    share : float
        In [0, 1]. The best value is ``1 - coverage``.

    See Also
    --------
    interval_deficit : Mean distance of missed targets from their interval.

    Notes
    -----
    .. math:: \rho = \frac1n \sum_i 1\{y_i \notin [l_i, u_i]\}

    References
    ----------
    .. [1] Navratil et al. (2023), Assessment of prediction intervals using uncertainty characteristics
       curves, eq. 1. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import interval_miss_rate
    >>> interval_miss_rate([1.0, 2.0, 5.0, 4.0], [[0, 2], [2, 3], [3, 4], [4, 4]])
    0.25
    >>> interval_miss_rate([1.0, 2.0], [[-np.inf, np.inf], [-np.inf, np.inf]])  # infinite intervals
    0.0
    """
    return value_of(miss_rate(coverage), *check_forecast_or_bounds(y_true, y_pred, sample_weight))


def half_width(coverage: float) -> Means:
    return replace(mean_width(coverage), combine=lambda means: means[..., 0] / 2)


@metric(
    "bandwidth",
    title="Bandwidth",
    units=1,
    bounds=(0.0, np.inf),
    needs="interval",
    source="Navratil et al. 2023, eq. 2",
    meaning="the half width of the intervals is {value} on average",
    kernel=half_width,
)
def mean_interval_half_width(
    y_true: ArrayLike | None,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
) -> float:
    r"""Return the mean half width of the intervals (bandwidth): half of `mean_interval_width`.

    The smaller the better at equal coverage, minimum is zero. The half width is an axis of the uncertainty
    characteristics curve. The half width depends on the forecasts alone. The metric is not proper: intervals
    of width 0 have the best value, but contain no target (see the example). Do not select models by this
    metric.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Observed targets. They are validated but not used. The argument exists because all metrics have it.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Ignored if `y_pred` holds bounds.

    Returns
    -------
    bandwidth : float
        In the units of y. Infinite if an interval is infinite.

    See Also
    --------
    mean_interval_width : Twice the half width.
    interval_excess : The part of the half width that was not needed to cover the targets.

    Notes
    -----
    .. math:: \beta = \frac1n \sum_i \frac{(\hat y_i - l_i) + (u_i - \hat y_i)}2

    References
    ----------
    .. [1] Navratil et al. (2023), Assessment of prediction intervals using uncertainty characteristics
       curves, eq. 2. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    >>> from skuq.metrics import mean_interval_half_width
    >>> mean_interval_half_width(None, [[0.0, 2.0], [1.0, 5.0]])
    1.5
    >>> mean_interval_half_width([0.0, 0.0], [[7.0, 7.0], [7.0, 7.0]])  # all targets missed
    0.0
    """
    return value_of(half_width(coverage), *check_forecast_alone(y_true, y_pred, sample_weight))


def excess_rows(y: FloatArray, forecast: Forecast, *, coverage: float, side: str) -> FloatArray:
    lower, upper = interval_bounds(y, forecast, coverage).T
    distance = np.minimum(y - lower, upper - y)
    if side == "active":
        if not isinstance(forecast, Distribution):
            raise ValueError(
                "`side` must be 'nearest' for bounds, got 'active'. The side 'active' needs the mean, which "
                "bounds do not have."
            )
        to_active = np.where(y >= finite_mean(forecast), upper - y, y - lower)
        distance = np.where(distance < 0, distance, to_active)
    return np.asarray(np.maximum(distance, 0.0))


def mean_excess(coverage: float, side: str) -> Means:
    check_option(side, "side", SIDES)
    return Means(partial(excess_rows, coverage=check_single_coverage(coverage), side=side))


@metric(
    "excess",
    title="Excess",
    units=1,
    bounds=(0.0, np.inf),
    needs="interval",
    source="Navratil et al. 2023, eq. 6",
    meaning="intervals reach {value} farther than needed, averaged over all rows",
    kernel=mean_excess,
)
def interval_excess(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    side: str = "nearest",
) -> float:
    r"""Return the excess: the mean distance of covered targets from the nearer bound.

    The smaller the better at equal coverage, minimum is zero. The mean is computed over all rows. Missed
    targets count as 0. The excess is the part of the width that was not needed to cover the targets. The
    excess is an axis of the uncertainty characteristics curve. `interval_deficit` is the same mean distance
    for missed targets. The metric is not proper: intervals that miss every target have an excess of 0 (see
    the example). Do not select models by this metric.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Ignored if `y_pred` holds bounds.
    side : {"nearest", "active"}, default="nearest"
        "nearest" measures the distance to the nearer bound (eq. 6 of [1]_). "active" measures the distance to
        the upper bound if the target is above the forecast mean, and to the lower bound otherwise (as in the
        package UQ360). The two distances may differ for asymmetric intervals. If `y_pred` holds bounds, only
        "nearest" is possible, because the mean is unknown.

    Returns
    -------
    excess : float
        Non-negative, in the units of y. Infinite if both bounds of an interval are infinite.

    See Also
    --------
    interval_deficit : The mean distance of missed targets from the interval.
    interval_score_loss : Width and deficit in one proper score.

    Notes
    -----
    .. math:: \xi = \frac1n \sum_{i: y_i \in [l_i, u_i]} \min\{y_i - l_i, u_i - y_i\}

    References
    ----------
    .. [1] Navratil et al. (2023), Assessment of prediction intervals using uncertainty characteristics
       curves, eq. 6. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    >>> from skuq.metrics import interval_excess
    >>> interval_excess([1.5, 9.0], [[0.0, 2.0], [0.0, 2.0]])
    0.25
    >>> interval_excess([1.5, 9.0], [[7.0, 7.0], [7.0, 7.0]])  # all targets missed
    0.0
    """
    given = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    return value_of(mean_excess(coverage, side), *given)


def deficit_rows(y: FloatArray, forecast: Forecast, *, coverage: float) -> FloatArray:
    lower, upper = interval_bounds(y, forecast, coverage).T
    return np.asarray(np.maximum(np.maximum(lower - y, y - upper), 0.0))


def mean_deficit(coverage: float) -> Means:
    return Means(partial(deficit_rows, coverage=check_single_coverage(coverage)))


@metric(
    "deficit",
    title="Deficit",
    units=1,
    bounds=(0.0, np.inf),
    needs="interval",
    source="Navratil et al. 2023, eq. 7",
    meaning="intervals miss by {value}, averaged over all rows",
    kernel=mean_deficit,
)
def interval_deficit(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
) -> float:
    r"""Return the deficit: the mean distance of missed targets from their interval.

    The smaller the better at equal width, minimum is zero. The mean is computed over all rows. Covered
    targets count as 0. The deficit is a miss rate in which each miss is weighted by its distance. The deficit
    is an axis of the uncertainty characteristics curve. The metric is not proper: infinite intervals have a
    deficit of 0 (see the example). Do not select models by this metric. The proper `interval_score_loss` is a
    weighted sum of width and deficit.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds, which may be infinite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Ignored if `y_pred` holds bounds.

    Returns
    -------
    deficit : float
        Non-negative, in the units of y.

    See Also
    --------
    interval_excess : The mean distance of covered targets from the bounds.
    interval_miss_rate : The share of missed targets.

    Notes
    -----
    .. math:: \delta = \frac1n \sum_{i: y_i \notin [l_i, u_i]} \min\{|y_i - l_i|, |y_i - u_i|\}

    References
    ----------
    .. [1] Navratil et al. (2023), Assessment of prediction intervals using uncertainty characteristics
       curves, eq. 7. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import interval_deficit
    >>> interval_deficit([1.5, 9.0], [[0.0, 2.0], [0.0, 2.0]])
    3.5
    >>> interval_deficit([1.5, 9.0], [[-np.inf, np.inf], [-np.inf, np.inf]])  # infinite intervals
    0.0
    """
    return value_of(mean_deficit(coverage), *check_forecast_or_bounds(y_true, y_pred, sample_weight))
