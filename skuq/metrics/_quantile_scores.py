"""Proper scores of quantiles, and of intervals between two quantiles."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_coverage, check_single_coverage
from skuq.distributions import Distribution
from skuq.distributions._level_quadrature import warn_of_unreachable_level
from skuq.metrics._inputs import Forecast, check_forecast, check_forecast_or_bounds, interval_bounds
from skuq.metrics._kernels import count_below, level_grid, location_scale, standardized
from skuq.metrics._spec import Means, metric, value_of

WIS_COVERAGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Default coverages of the weighted interval score."""


def pinball_rows(y: FloatArray, dist: Distribution, *, levels: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the sum of the pinball losses at the levels, multiplied by the shares of the levels."""
    warn_of_unreachable_level(dist._unreachable_level(levels, "level"))
    form = location_scale(dist) if levels.size > 1 else None
    if form is None:
        total = np.zeros_like(y)
        for p, share in zip(levels, shares, strict=True):
            error = y - dist._ppf(p)
            total += share * np.maximum(p * error, (p - 1) * error)
        return total
    # The loss is linear between two quantiles, so its slope and offset depend on their place alone.
    loc, scale, standard = form
    order = np.argsort(levels)
    p, share = levels[order], shares[order]
    q = standard._ppf(p)
    gain, loss = share * p, share * (p - 1)  # slopes above and below the quantile
    slope, offset = (
        np.append(0.0, np.cumsum(above)) + np.append(np.cumsum(below[::-1])[::-1], 0.0)
        for above, below in ((gain, loss), (gain * q, loss * q))
    )
    place = count_below(q, standardized(y, loc, scale))
    return np.asarray((y - loc) * slope[place] - scale * offset[place])


def mean_pinball(levels: int | ArrayLike) -> Means:
    grid = level_grid(levels)
    return Means(partial(pinball_rows, levels=grid, shares=np.full(grid.size, 1 / grid.size)))


@metric(
    "pinball",
    title="Pinball loss",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="distribution",
    proper=True,
    source="Koenker & Bassett 1978; Chung et al. 2021, section 3 (check score)",
    kernel=mean_pinball,
)
def pinball_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = 99,
) -> float:
    r"""Return the pinball loss (quantile loss, check loss), averaged over levels.

    The smaller the better, minimum is zero. The pinball loss is a proper score. At one level, the pinball
    loss is the loss that quantile regression minimizes. For many equally spaced levels, the mean approaches
    half the CRPS.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. Wrap an array of quantiles in `skuq.distributions.Quantiles`.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int, float or array-like of shape (k,), default=99
        Quantile levels strictly between 0 and 1. The losses at these levels are averaged with equal weights.
        An integer m means the levels 1/(m+1), ..., m/(m+1). The default is 0.01, ..., 0.99.

    Returns
    -------
    loss : float
        In the units of y.

    See Also
    --------
    sklearn.metrics.mean_pinball_loss : The loss at one level, for arrays of quantiles.
    crps_loss : Twice the integral of the pinball loss over all levels.

    Notes
    -----
    .. math:: \rho_p(y, q) = \max(p (y - q), (p - 1)(y - q))

    At k levels, the time is O(n log k) for location-scale families. Other families need k quantiles per row.
    The memory is O(n).

    References
    ----------
    .. [1] Koenker and Bassett (1978), Regression quantiles. https://doi.org/10.2307/1913643

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_loss, pinball_loss
    >>> dist = Normal([1.0, 1.0], [1.0, 1.0])
    >>> round(pinball_loss([1.0, 2.0], dist, levels=[0.1, 0.5, 0.9]), 4)
    0.1688
    >>> round(2 * pinball_loss([1.0, 2.0], dist, levels=9999), 4), round(crps_loss([1.0, 2.0], dist), 4)
    (0.4181, 0.4181)
    """
    return value_of(mean_pinball(levels), *check_forecast(y_true, y_pred, sample_weight))


def interval_score_rows(y: FloatArray, forecast: Forecast, *, coverage: FloatArray) -> FloatArray:
    if isinstance(forecast, Distribution) and coverage.ndim:
        tail = np.tile((1 - coverage) / 2, 2)
        levels = np.concatenate([(1 - coverage) / 2, (1 + coverage) / 2])
        return pinball_rows(y, forecast, levels=levels, shares=1 / (tail * coverage.size))
    nominal = check_single_coverage(coverage)  # bounds have one coverage
    lower, upper = interval_bounds(y, forecast, nominal).T
    miss = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return np.asarray(upper - lower + 2 / (1 - nominal) * miss)


def mean_interval_score(coverage: ArrayLike) -> Means:
    return Means(partial(interval_score_rows, coverage=check_coverage(coverage)))


@metric(
    "interval_score",
    title="Interval score",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="interval",
    proper=True,
    source="Gneiting & Raftery 2007, eq. 43",
    kernel=mean_interval_score,
)
def interval_score_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: ArrayLike = DEFAULT_COVERAGE,
) -> float:
    r"""Return the interval (Winkler) score: the width of the interval plus a penalty for targets outside.

    The smaller the better, minimum is zero. The score is proper. It combines the coverage and the width of
    central intervals. `crps_loss` scores the whole distribution.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds of central intervals.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float or array-like of shape (k,), default=0.9
        Nominal coverage of the central interval. Strictly between 0 and 1. The scores at several coverages
        are averaged with equal weights. If `y_pred` holds bounds, pass one coverage.

    Returns
    -------
    loss : float
        In the units of y.

    See Also
    --------
    pinball_loss : Proper score of quantiles. The interval score is a sum of two pinball losses.

    Notes
    -----
    Let :math:`\alpha = 1 - \mathrm{coverage}`. Then

    .. math:: \mathrm{IS}_\alpha = (u - l) + \frac2\alpha (l - y)_+ + \frac2\alpha (y - u)_+ .

    With one coverage, the cost is one pass over the rows. For several coverages, the score is computed as
    :math:`\mathrm{IS}_\alpha = \frac2\alpha (\rho_{\alpha/2}(y, l) + \rho_{1 - \alpha/2}(y, u))`. This costs
    as much as `pinball_loss` at twice the number of levels.

    References
    ----------
    .. [1] Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation, eq. 43.
       https://doi.org/10.1198/016214506000001437

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import interval_score_loss
    >>> round(interval_score_loss([1.0, 4.0], [[0.0, 2.0], [0.0, 2.0]], coverage=0.5), 4)
    6.0
    >>> round(interval_score_loss([1.0, 4.0], Normal([1.0, 1.0], [1.0, 1.0]), coverage=[0.5, 0.9]), 4)
    11.4206
    """
    given = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    return value_of(mean_interval_score(coverage), *given)


def mean_weighted_interval_score(coverage: ArrayLike) -> Means:
    tail = (1 - np.atleast_1d(check_coverage(coverage))) / 2
    levels = np.concatenate([tail, [0.5], 1 - tail])
    return Means(partial(pinball_rows, levels=levels, shares=np.full(levels.size, 1 / (tail.size + 0.5))))


@metric(
    "wis",
    title="Weighted interval score",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="distribution",
    proper=True,
    source="Bracher et al. 2021, eq. 1",
    kernel=mean_weighted_interval_score,
)
def weighted_interval_score_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: ArrayLike = WIS_COVERAGES,
) -> float:
    r"""Return the weighted interval score (WIS): one score of several central intervals and the median.

    The smaller the better, minimum is zero. The score is proper. It is often used for epidemic forecasts. The
    score equals twice the mean `pinball_loss` over the median and all bounds. For many equally spaced levels,
    the score therefore approaches `crps_loss`. `interval_score_loss` scores one interval.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. Wrap an array of quantiles in `skuq.distributions.Quantiles`.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float or array-like of shape (k,), default=(0.1, 0.2, ..., 0.9, 0.95, 0.98)
        Nominal coverage of the central interval. Strictly between 0 and 1. The default follows [1]_.

    Returns
    -------
    loss : float
        In the units of y.

    See Also
    --------
    interval_score_loss : The score of the intervals, without weights and without the median.
    crps_loss : Limit of the score for many levels.

    Notes
    -----
    Let m be the median, K the number of intervals and :math:`\alpha_k = 1 - \mathrm{coverage}_k`. Then

    .. math:: \mathrm{WIS} = \frac1{K + \frac12} \Bigl(\frac12 |y - m|
        + \sum_k \frac{\alpha_k}2 \mathrm{IS}_{\alpha_k}\Bigr).

    The score costs as much as `pinball_loss` at 2 K + 1 levels.

    References
    ----------
    .. [1] Bracher et al. (2021), Evaluating epidemic forecasts in an interval format.
       https://doi.org/10.1371/journal.pcbi.1008618

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import weighted_interval_score_loss
    >>> round(weighted_interval_score_loss([3.0], Normal([1.0], [1.0]), coverage=[0.5, 0.9]), 4)
    1.273
    """
    given = check_forecast(y_true, y_pred, sample_weight)
    return value_of(mean_weighted_interval_score(coverage), *given)
