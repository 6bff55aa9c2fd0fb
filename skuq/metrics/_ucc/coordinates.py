"""The four axes of the uncertainty characteristics curve, at the intervals as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_option
from skuq.distributions import Distribution
from skuq.metrics._inputs import (
    Forecast,
    check_forecast_alone,
    check_forecast_or_bounds,
    finite_mean,
    interval_bounds,
    rows_with_weight,
)
from skuq.metrics._intervals import coverage_rows, width_rows
from skuq.metrics._kernels import weighted_mean
from skuq.metrics._spec import metric

SIDES = ("nearest", "active")


def miss_rate_of_mean(mean: float | FloatArray, **_: Any) -> FloatArray:
    """Return the miss rate from the coverage."""
    return np.asarray(1.0 - mean)


@metric(
    "miss_rate",
    title="Miss rate",
    units=0,
    direction=None,
    optimum=None,
    bounds=(0.0, 1.0),
    needs="interval",
    proper=False,
    source="Navratil et al. 2023, eq. 1",
    rows=coverage_rows,
    combine=miss_rate_of_mean,
    meaning="{percent} of the targets lie outside their interval",
)
def interval_miss_rate(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
) -> float:
    r"""Miss rate: the share of targets outside their interval.

    How often do the intervals miss? One less `prediction_interval_coverage`, and an axis of the uncertainty
    characteristics curve. To be compared with one less the nominal coverage; it is not proper, for intervals
    over the whole line never miss (see the example), so do not select by it.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds, which may be infinite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Bounds are taken as they are.

    Returns
    -------
    share : float
        In [0, 1]; ``1 - coverage`` where the intervals have their nominal coverage.

    See Also
    --------
    interval_deficit : By how much the intervals miss.

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
    >>> interval_miss_rate([1.0, 2.0], [[-np.inf, np.inf], [-np.inf, np.inf]])  # and of no use
    0.0
    """
    y, forecast, weight = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    inside = weighted_mean(coverage_rows(y, forecast, coverage=coverage), weight)
    return float(miss_rate_of_mean(inside))


def bandwidth_of_mean(mean: float | FloatArray, **_: Any) -> FloatArray:
    """Return the bandwidth from the mean width."""
    return np.asarray(mean / 2)


@metric(
    "bandwidth",
    title="Bandwidth",
    units=1,
    direction=None,
    optimum=None,
    bounds=(0.0, np.inf),
    needs="interval",
    proper=False,
    source="Navratil et al. 2023, eq. 2",
    rows=width_rows,
    combine=bandwidth_of_mean,
    meaning="the intervals reach {value} to either side on average",
)
def interval_bandwidth(
    y_true: ArrayLike | None,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
) -> float:
    r"""Bandwidth: the mean of the bands to either side of the prediction, half the mean interval width.

    How precise are the intervals? An axis of the uncertainty characteristics curve. A property of the
    forecasts alone and not proper: intervals of no width have the least and never contain a target (see the
    example), so do not select by it.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Observed targets. Not used, only checked; it is present so that all metrics have one signature.
    y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Bounds are taken as they are.

    Returns
    -------
    bandwidth : float
        In the units of y; narrower is sharper. Infinite if an interval is.

    See Also
    --------
    mean_interval_width : Twice the bandwidth.
    interval_excess : The part of it that the targets did not need.

    Notes
    -----
    .. math:: \beta = \frac1n \sum_i \frac{(\hat y_i - l_i) + (u_i - \hat y_i)}2

    References
    ----------
    .. [1] Navratil et al. (2023), Assessment of prediction intervals using uncertainty characteristics
       curves, eq. 2. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    >>> from skuq.metrics import interval_bandwidth
    >>> interval_bandwidth(None, [[0.0, 2.0], [1.0, 5.0]])
    1.5
    >>> interval_bandwidth([0.0, 0.0], [[7.0, 7.0], [7.0, 7.0]])  # narrowest, and always wrong
    0.0
    """
    forecast, weight = check_forecast_alone(y_true, y_pred, sample_weight)
    width = weighted_mean(*rows_with_weight(width_rows(None, forecast, coverage=coverage), weight))
    return float(bandwidth_of_mean(width))


def excess_rows(
    y: FloatArray, forecast: Forecast, *, coverage: float = DEFAULT_COVERAGE, side: str = "nearest"
) -> FloatArray:
    """Return by how much each interval reaches farther than needed."""
    check_option(side, "side", SIDES)
    lower, upper = interval_bounds(y, forecast, coverage).T
    distance = np.minimum(y - lower, upper - y)
    if side == "active":
        if not isinstance(forecast, Distribution):
            raise ValueError("`side` must be 'nearest' for bounds, which have no mean, got 'active'.")
        to_active = np.where(y >= finite_mean(forecast), upper - y, y - lower)
        distance = np.where(distance < 0, distance, to_active)
    return np.asarray(np.maximum(distance, 0.0))


@metric(
    "excess",
    title="Excess",
    units=1,
    direction=None,
    optimum=None,
    bounds=(0.0, np.inf),
    needs="interval",
    proper=False,
    source="Navratil et al. 2023, eq. 6",
    meaning="intervals reach {value} farther than needed, averaged over all rows",
    rows=excess_rows,
)
def interval_excess(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    side: str = "nearest",
) -> float:
    r"""Excess: how far the targets that are inside lie from the nearer bound, averaged over all rows.

    How much of the intervals' width was not needed? An axis of the uncertainty characteristics curve, the
    counterpart of `interval_deficit`. It is not proper: intervals that miss every target have none (see the
    example), so do not select by it.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Bounds are taken as they are.
    side : {"nearest", "active"}, default="nearest"
        Measure to the nearer bound (eq. 6 of [1]_), or to the bound on the same side of the forecast mean as
        the target (the package UQ360), which differs where the interval is not symmetric and which bounds,
        having no mean, cannot give.

    Returns
    -------
    excess : float
        Non-negative, in the units of y. Infinite if an interval is the whole line.

    See Also
    --------
    interval_deficit : How far the targets outside are from the interval.
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
    >>> interval_excess([1.5, 9.0], [[7.0, 7.0], [7.0, 7.0]])  # no excess, and always wrong
    0.0
    """
    y, forecast, weight = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    return weighted_mean(excess_rows(y, forecast, coverage=coverage, side=side), weight)


def deficit_rows(y: FloatArray, forecast: Forecast, *, coverage: float = DEFAULT_COVERAGE) -> FloatArray:
    """Return the distance of each target from its interval."""
    lower, upper = interval_bounds(y, forecast, coverage).T
    return np.asarray(np.maximum(np.maximum(lower - y, y - upper), 0.0))


@metric(
    "deficit",
    title="Deficit",
    units=1,
    direction=None,
    optimum=None,
    bounds=(0.0, np.inf),
    needs="interval",
    proper=False,
    source="Navratil et al. 2023, eq. 7",
    rows=deficit_rows,
    meaning="intervals miss by {value}, averaged over all rows",
)
def interval_deficit(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
) -> float:
    r"""Deficit: how far the targets that are outside lie from the interval, averaged over all rows.

    By how much do the intervals miss? The miss rate with distances, and an axis of the uncertainty
    characteristics curve. It is not proper: intervals over the whole line have none (see the example), so do
    not select by it. Deficit and width together are the proper `interval_score_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds, which may be infinite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Bounds are taken as they are.

    Returns
    -------
    deficit : float
        Non-negative, in the units of y.

    See Also
    --------
    interval_excess : How far the targets inside are from the bounds.
    interval_miss_rate : How often, not how far.

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
    >>> interval_deficit([1.5, 9.0], [[-np.inf, np.inf], [-np.inf, np.inf]])  # no deficit, and of no use
    0.0
    """
    y, forecast, weight = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    return weighted_mean(deficit_rows(y, forecast, coverage=coverage), weight)
