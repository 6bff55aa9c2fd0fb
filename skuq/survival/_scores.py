"""Proper scores of forecasts of right-censored targets."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skuq._censoring import StepSurvival, inverse_weights, product_limit, read_censoring_time, read_event
from skuq._numeric import weighted_mean
from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import check_number, check_target
from skuq.distributions import Distribution
from skuq.metrics._inputs import check_right_censored, counted
from skuq.metrics._proper import crps_rows
from skuq.metrics._spec import WeightFunction
from skuq.metrics._weighted_scores import threshold_weighted_crps_rows

_CENSORING_QUANTILES = 32
"""Number of quantiles that represent the distribution of an unknown censoring time."""


def ipcw_crps_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    upper: float,
    event: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Return the CRPS up to a time, estimated from right-censored targets by inverse probability weights.

    The smaller the better, minimum is zero. The score estimates the value that
    `~skuq.metrics.threshold_weighted_crps_loss` would have without censoring. It is proper if the censoring
    depends neither on the target nor on the features. The score cannot distinguish forecasts that differ only
    above `upper`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. For a censored row, the time of censoring.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    upper : float
        Largest time of the score, in the units of y. Some rows must remain uncensored until this time. If few
        rows remain, their weights are large, and so is the variance of the score.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.

    Returns
    -------
    loss : float
        In the units of y. Without censored rows, the value equals
        `~skuq.metrics.threshold_weighted_crps_loss`.

    Raises
    ------
    ValueError
        If the estimated probability of being uncensored until `upper` is 0.

    See Also
    --------
    localized_crps_loss : Score without weights. Each row is scored up to its censoring time.
    ipcw_brier_loss : Score of the probability at one time.

    Notes
    -----
    The score uses the rows whose target is observed, and the rows whose y is at least `upper`. It is the
    weighted mean of

    .. math:: \int_{-\infty}^{\mathrm{upper}} (F(t) - 1\{t \ge y\})^2 dt

    over these rows. The weights are :math:`1 / \hat G(\min(y, \mathrm{upper})-)`, where :math:`\hat G` is the
    Kaplan-Meier estimate of the censoring times [1]_.

    skuq does not have the "survival CRPS", because it is not proper. The survival CRPS of a censored row is
    the integral of :math:`F^2` up to the censoring time.

    References
    ----------
    .. [1] E. Graf, C. Schmoor, W. Sauerbrei, M. Schumacher (1999), Assessment and comparison of prognostic
       classification schemes for survival data.
       https://doi.org/10.1002/(SICI)1097-0258(19990915/30)18:17/18<2529::AID-SIM274>3.0.CO;2-5

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.survival import ipcw_crps_loss
    >>> dist = Normal([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    >>> round(ipcw_crps_loss([1.5, 1.0, 4.0], dist, event=[True, False, True], upper=3.0), 4)
    0.2241
    """
    bound = check_number(upper, "upper")
    y, dist, weight, mask = check_right_censored(y_true, y_pred, sample_weight, event)
    check_uncensored(y, mask, bound, "upper", after=False)
    return float(ipcw_crps_of_weights(y, dist, mask, bound)(weight))


def check_uncensored(y: FloatArray, event: BoolArray | None, time: float, name: str, *, after: bool) -> None:
    """Check that the probability of being uncensored at a time, or directly after the time, is positive."""
    last = float(y.max())
    if time < last or (time == last and not after) or event is None or event[y == last].all():
        return
    place, reach = ("after", f"from time {last:g} on") if after else ("at", f"after time {last:g}")
    raise ValueError(
        f"`{name}` must be a time {place} which rows are uncensored, got {time:g}. The probability of being "
        f"uncensored is 0 {reach}. Pass a smaller time."
    )


def ipcw_crps_of_weights(
    y: FloatArray, dist: Distribution, event: BoolArray | None, upper: float
) -> WeightFunction:
    loss = threshold_weighted_crps_rows(y, dist, upper=upper)
    if event is None:
        return partial(weighted_mean, loss)
    known = np.flatnonzero(event | (y >= upper))
    times = np.minimum(y[known], upper)

    def of_weights(weight: FloatArray | None) -> float:
        weight = np.ones(y.size) if weight is None else weight
        censoring = product_limit(y, event, weight, of_censoring=True)
        return weighted_mean(loss[known], inverse_weights(weight[known], censoring.before(times)))

    return of_weights


def localized_crps_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    event: ArrayLike | None = None,
    censoring_time: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Return the CRPS of right-censored targets, each up to its own censoring time.

    The smaller the better, minimum is zero. The score is proper if the censoring does not depend on the
    target given the features. Without `censoring_time`, the censoring must not depend on the features either.
    Unlike `ipcw_crps_loss`, this score does not use weights, which may be large. It depends more on early
    times.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. For a censored row, the time of censoring.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed.
    censoring_time : array-like of shape (n,), default=None
        Time at which each row is censored or would have been censored, such as the end of a study. The time
        equals y for a censored row and is at least y for an observed row. It is infinite if a row cannot be
        censored. None means that the censoring times of the observed rows are unknown. Their distribution is
        then estimated.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.

    Returns
    -------
    loss : float
        In the units of y. Without censored rows and without `censoring_time`, the value equals
        `~skuq.metrics.crps_loss`.

    Raises
    ------
    ValueError
        If a censoring time contradicts y.

    See Also
    --------
    skuq.metrics.threshold_weighted_crps_loss : The same integral up to one time.
    ipcw_crps_loss : Estimate of the CRPS of uncensored targets.

    Notes
    -----
    .. math:: \frac1n \sum_i \int_{-\infty}^{c_i} (F_i(t) - 1\{t \ge y_i\})^2 dt

    with the censoring times :math:`c_i`. Each integral is the CRPS of the forecast clipped to :math:`c_i`. If
    a censoring time is unknown, its distribution is the Kaplan-Meier estimate of the censoring times, given
    that the censoring time is at least y. The score is the mean over 32 quantiles of this distribution. This
    costs 32 evaluations of the CRPS per observed row. If the largest y is observed, part of the censoring
    times is infinite, and the score then depends on the whole upper tail of the forecasts.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.survival import localized_crps_loss
    >>> dist = Normal([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    >>> y, event = [1.5, 1.0, 4.0], [True, False, True]
    >>> round(localized_crps_loss(y, dist, event=event, censoring_time=[2.0, 1.0, 5.0]), 4)
    0.3112
    """
    y, dist, weight, mask = check_right_censored(y_true, y_pred, sample_weight, event)
    if censoring_time is None:
        return weighted_mean(localized_crps_rows(y, dist, mask, weight), weight)
    everyone = check_target(y_true)
    ends = read_censoring_time(censoring_time, everyone, read_event(event, everyone.size))
    return weighted_mean(_crps_up_to(y, dist, counted(ends, sample_weight)), weight)


def localized_crps_rows(
    y: FloatArray, dist: Distribution, event: BoolArray | None, weight: FloatArray | None
) -> FloatArray:
    """Return the CRPS of each row up to its censoring time. Average over an estimate of unknown times."""
    if event is None:
        return crps_rows(y, dist)
    loss = np.empty(y.size)
    loss[~event] = _crps_up_to(y[~event], dist[~event], y[~event])
    if event.any():
        weight = np.ones(y.size) if weight is None else weight
        censoring = product_limit(y, event, weight, of_censoring=True)
        loss[event] = _mean_over_censoring(y[event], dist[event], censoring)
    return loss


def _crps_up_to(y: FloatArray, dist: Distribution, ends: FloatArray) -> FloatArray:
    finite = np.isfinite(ends)
    if not finite.any():
        return dist.crps(y)
    return dist.clip(upper=ends).crps(np.minimum(y, ends))


def _mean_over_censoring(y: FloatArray, dist: Distribution, censoring: StepSurvival) -> FloatArray:
    """Average the CRPS up to the censoring time over quantiles of censoring times that are at least y."""
    ends = np.append(censoring.times, np.inf)
    at_least = censoring.before(y)
    total = np.zeros(y.size)
    for level in (np.arange(_CENSORING_QUANTILES) + 0.5) / _CENSORING_QUANTILES:
        # The quantile is the first time with a survival of at most `at_least * (1 - level)`.
        reached = np.searchsorted(-censoring.survival, -at_least * (1 - level), side="left")
        total += _crps_up_to(y, dist, np.maximum(ends[reached], y))
    return total / _CENSORING_QUANTILES


def ipcw_brier_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    time: float,
    event: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Return the Brier score of the probability that the target is at most `time`, under censoring.

    The smaller the better, minimum is zero. The score is proper if the censoring depends neither on the
    target nor on the features.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. For a censored row, the time of censoring.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    time : float
        Time of the probability, in the units of y. Some rows must be uncensored after this time.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.

    Returns
    -------
    loss : float
        Usually in [0, 1]. Because of the sampling error of the weights, the value may be above 1.

    Raises
    ------
    ValueError
        If the estimated probability of being uncensored after `time` is 0.

    See Also
    --------
    ipcw_crps_loss : Score of the probabilities at all times up to `upper`.

    Notes
    -----
    .. math:: \frac1n \sum_i \frac{1\{y_i \le t, \mathrm{event}_i\}}{\hat G(y_i-)} (1 - F_i(t))^2
        + \frac{1\{y_i > t\}}{\hat G(t)} F_i(t)^2

    with the Kaplan-Meier estimate :math:`\hat G` of the censoring times [1]_. scikit-survival uses
    :math:`\hat G(y_i)` instead of :math:`\hat G(y_i-)`. The results differ only if an event and a censoring
    have the same time.

    References
    ----------
    .. [1] E. Graf, C. Schmoor, W. Sauerbrei, M. Schumacher (1999), Assessment and comparison of prognostic
       classification schemes for survival data.
       https://doi.org/10.1002/(SICI)1097-0258(19990915/30)18:17/18<2529::AID-SIM274>3.0.CO;2-5

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.survival import ipcw_brier_loss
    >>> dist = Normal([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    >>> round(ipcw_brier_loss([1.5, 1.0, 4.0], dist, event=[True, False, True], time=2.0), 4)
    0.0252
    """
    t = check_number(time, "time")
    y, dist, weight, mask = check_right_censored(y_true, y_pred, sample_weight, event)
    check_uncensored(y, mask, t, "time", after=True)
    return float(ipcw_brier_of_weights(y, dist, mask, t)(weight))


def ipcw_brier_of_weights(
    y: FloatArray, dist: Distribution, event: BoolArray | None, time: float
) -> WeightFunction:
    probability = dist.cdf(np.full(y.size, time))
    reached = y <= time
    squares = np.where(reached, 1 - probability, probability) ** 2
    if event is None:
        return partial(weighted_mean, squares)

    def of_weights(weight: FloatArray | None) -> float:
        weight = np.ones(y.size) if weight is None else weight
        censoring = product_limit(y, event, weight, of_censoring=True)
        uncensored = np.where(reached, censoring.before(y), censoring.after(np.asarray(time)))
        inverse = inverse_weights(weight * (event | ~reached), uncensored)
        return float(inverse @ squares / weight.sum())

    return of_weights
