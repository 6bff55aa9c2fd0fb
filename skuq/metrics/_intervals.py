"""Coverage, width and misses of prediction intervals, from a distribution or from bounds of shape (n, 2)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_option, check_single_coverage
from skuq.distributions import Distribution
from skuq.metrics._inputs import (
    Forecast,
    check_forecast_alone,
    check_forecast_or_bounds,
    finite_moment,
    interval_bounds,
)
from skuq.metrics._kernels import covered
from skuq.metrics._spec import Means, metric, value_of

SIDES = ("nearest", "active")


def coverage_rows(y: FloatArray, forecast: Forecast, *, coverage: float) -> FloatArray:
    lower, upper = interval_bounds(y, forecast, coverage).T
    return covered(y, lower, upper)


def observed_coverage(coverage: float) -> Means:
    return Means(partial(coverage_rows, coverage=check_single_coverage(coverage)))


def nominal_coverage(n: float, *, coverage: float = DEFAULT_COVERAGE) -> float:
    return coverage


@metric(
    "picp",
    title="PICP",
    optimum="coverage",
    bounds=(0.0, 1.0),
    needs="interval",
    source="Khosravi et al. 2011; Wibbeke et al. 2025, eq. 1",
    calibrated=nominal_coverage,
    kernel=observed_coverage,
)
def prediction_interval_coverage(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
) -> float:
    r"""Return the prediction interval coverage probability (PICP): the share of targets in their interval.

    Neither larger nor smaller values are better: compare the share with the nominal coverage. A lower share
    means overconfidence, and a higher share means that intervals are too wide. The metric is not proper and
    cannot select a model. `interval_coverage_error` is the distance from the nominal coverage.
    `interval_score_loss` combines coverage and width.

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
        In [0, 1]. The best value is `coverage`. For a calibrated forecast, the standard error is
        ``sqrt(coverage * (1 - coverage) / n)``.

    See Also
    --------
    interval_coverage_error : Distance from the nominal coverage.

    Notes
    -----
    .. math:: \mathrm{PICP} = \frac1n \sum_i 1\{l_i \le y_i \le u_i\}

    References
    ----------
    .. [1] Khosravi et al. (2011), Lower upper bound estimation method for construction of neural
       network-based prediction intervals. https://doi.org/10.1109/TNN.2010.2096824

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import prediction_interval_coverage
    >>> prediction_interval_coverage([1.0, 2.0, 5.0, 4.0], [[0, 2], [2, 3], [3, 4], [4, 4]])
    0.75
    >>> prediction_interval_coverage([0.5, 2.0], Normal([0.0, 0.0], [1.0, 1.0]), coverage=0.8)
    0.5
    """
    given = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    return value_of(observed_coverage(coverage), *given)


def coverage_error(coverage: float) -> Means:
    return replace(observed_coverage(coverage), combine=lambda means: np.abs(means[..., 0] - coverage))


def calibrated_coverage_error(n: float, *, coverage: float = DEFAULT_COVERAGE) -> float:
    return math.sqrt(2 / math.pi * coverage * (1 - coverage) / n)


@metric(
    "interval_coverage_error",
    title="Coverage error",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="interval",
    small_sample=True,
    source="Wibbeke et al. 2025, eq. 1, as a distance from the nominal coverage",
    calibrated=calibrated_coverage_error,
    meaning="the coverage of the intervals is off by {value}",
    kernel=coverage_error,
)
def interval_coverage_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
) -> float:
    r"""Return the absolute difference between observed and nominal coverage of the intervals.

    The smaller the better, minimum is zero. The metric is not proper, because it ignores the width of the
    intervals. For example, suppose that 90 % of the intervals are infinite and that all other intervals miss
    their targets. The error is then 0 at a nominal coverage of 90 % (see the example). Use the metric as a
    constraint, and select models by `interval_score_loss` or `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds, which may be infinite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval. If `y_pred` holds bounds, they must have this coverage.

    Returns
    -------
    error : float
        In [0, 1]. For a calibrated forecast, the expected error is about
        ``0.8 * sqrt(coverage * (1 - coverage) / n)``.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    prediction_interval_coverage : The observed coverage.
    mean_absolute_calibration_error : With ``kind="interval"``, the mean error over many levels.

    Notes
    -----
    .. math:: |\mathrm{PICP} - \mathrm{coverage}|

    References
    ----------
    .. [1] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, section 3.1. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import interval_coverage_error
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> round(interval_coverage_error(y, Normal(np.zeros(1000), np.ones(1000))), 3)
    0.014

    Useless intervals have no error:

    >>> useless = np.tile([-np.inf, np.inf], (1000, 1))
    >>> useless[::10] = 99.0
    >>> round(interval_coverage_error(y, useless), 12)
    0.0
    """
    given = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    return value_of(coverage_error(coverage), *given)


def width_rows(y: FloatArray | None, forecast: Forecast, *, coverage: float) -> FloatArray:
    bounds = forecast.interval(coverage) if isinstance(forecast, Distribution) else forecast
    return bounds[:, 1] - bounds[:, 0]


def mean_width(coverage: float) -> Means:
    return Means(partial(width_rows, coverage=check_single_coverage(coverage)))


@metric(
    "mpiw",
    title="Mean interval width",
    units=1,
    bounds=(0.0, np.inf),
    needs="interval",
    source="Khosravi et al. 2011; Wibbeke et al. 2025, eq. 3",
    meaning="the intervals are {value} wide on average",
    kernel=mean_width,
)
def mean_interval_width(
    y_true: ArrayLike | None,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
) -> float:
    r"""Return the mean width of the prediction intervals (MPIW).

    The smaller the better at equal coverage, minimum is zero. The width depends only on the forecasts, so
    report it together with the coverage. The metric is not proper: intervals of width 0 have the best value,
    but contain no target (see the example). Do not select models by this metric.

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
    width : float
        In the units of y. Infinite if an interval is infinite.

    See Also
    --------
    sharpness : The mean predicted standard deviation.
    interval_score_loss : Width and coverage in one proper score.

    Notes
    -----
    .. math:: \mathrm{MPIW} = \frac1n \sum_i (u_i - l_i)

    References
    ----------
    .. [1] Khosravi et al. (2011), Lower upper bound estimation method for construction of neural
       network-based prediction intervals. https://doi.org/10.1109/TNN.2010.2096824

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import mean_interval_width
    >>> mean_interval_width(None, [[0.0, 2.0], [1.0, 5.0]])
    3.0
    >>> round(mean_interval_width([0.0, 0.0], Normal([0.0, 0.0], [1.0, 3.0]), coverage=0.95), 4)
    7.8399

    Intervals of width 0 contain no target:

    >>> mean_interval_width([0.0, 0.0], [[7.0, 7.0], [7.0, 7.0]])
    0.0
    """
    return value_of(mean_width(coverage), *check_forecast_alone(y_true, y_pred, sample_weight))


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
        to_active = np.where(y >= finite_moment(forecast, "mean"), upper - y, y - lower)
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
