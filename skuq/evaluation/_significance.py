"""Bootstrap intervals of a metric and permutation tests of a difference between two models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._numeric import unit_of
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_integer, check_option, check_random_state, check_single_coverage
from skuq.evaluation._resampling import (
    Evaluation,
    Rows,
    bootstrap,
    concatenate,
    evaluations,
    picked_options,
    swap_weights,
)

METHODS = ("bca", "percentile", "basic")
ALTERNATIVES = ("two-sided", "less", "greater")

TIE = 1e-10
"""Two values count as equal if their relative difference is smaller than this, so that rounding does not
decide a test."""

MAX_BIAS = 1.0
"""Limit of the bias correction z_0. In the theory of the BCa interval, the correction is small."""


@dataclass(frozen=True)
class BootstrapInterval:
    """Interval for a metric; returned by `bootstrap_interval`.

    Parameters
    ----------
    low, high : float
        Bounds of the interval.
    value : float
        Value of the metric for all rows.
    standard_error : float
        Standard error of the metric: its standard deviation over the resamples.
    confidence : float
        Nominal probability that the interval contains the true value, i.e. the value of the metric for
        unlimited data.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import bootstrap_interval
    >>> interval = bootstrap_interval([1.0, 1.0], Normal([0.0, 0.0], [1.0, 1.0]), "crps", random_state=0)
    >>> round(interval.value, 3), interval.confidence
    (0.602, 0.95)
    """

    low: float
    high: float
    value: float
    standard_error: float
    confidence: float


@dataclass(frozen=True)
class PermutationTest:
    """Test of the difference between two models; returned by `paired_permutation_test`.

    Parameters
    ----------
    difference : float
        Metric of the first model minus the metric of the second model.
    p_value : float
        Probability that the difference between equally good models is at least as large as the observed
        difference.
    values : tuple of float
        Metric of each model.
    n_resamples : int
        Number of evaluated permutations.
    exact : bool
        Whether all possible permutations were evaluated.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import paired_permutation_test
    >>> y, first, second = [0.0, 0.1, -0.2], Normal([0.0] * 3, [1.0] * 3), Normal([1.0] * 3, [1.0] * 3)
    >>> test = paired_permutation_test(y, first, second, "crps")
    >>> test.p_value, test.n_resamples, test.exact  # 2 of 8 swaps are as extreme as the data
    (0.25, 8, True)
    """

    difference: float
    p_value: float
    values: tuple[float, float]
    n_resamples: int
    exact: bool


def bootstrap_interval(
    y_true: ArrayLike,
    y_pred: Any,
    metric: Any,
    *,
    options: Mapping[str, Any] | None = None,
    sample_weight: ArrayLike | None = None,
    confidence: float = 0.95,
    n_resamples: int = 1000,
    method: str = "bca",
    random_state: int | np.random.RandomState | None = None,
) -> BootstrapInterval:
    r"""Return a bootstrap interval of any metric of one model.

    The function computes the metric for rows that are drawn with replacement. The rows must be independent.
    For time series, the interval is too narrow. The interval describes the variation from the choice of test
    rows for a given model. It does not include the variation from the training of the model.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target, in any form that the metric accepts.
    metric : str or callable
        A metric of skuq by abbreviation, scorer name or function, or your own ``metric(y_true, y_pred, *,
        sample_weight=None, **options) -> float``. Your metric must treat weights as numbers of repetitions.
    options : mapping, default=None
        Keyword arguments of the metric.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. A resample draws as many rows as the sum of the weights.
    confidence : float, default=0.95
        Nominal coverage of the interval.
    n_resamples : int, default=1000
        Number of resamples.
    method : {"bca", "percentile", "basic"}, default="bca"
        "bca" is the bias-corrected and accelerated interval. "percentile" uses quantiles of the resamples.
        "basic" reflects these quantiles about the value for all rows.
    random_state : int, RandomState or None, default=None
        Controls the resamples. Pass an int for reproducible output across calls.

    Returns
    -------
    interval : BootstrapInterval
        Bounds, value and standard error.

    See Also
    --------
    paired_permutation_test : Test of the difference between two models.

    Notes
    -----
    The BCa bounds [1]_ are the quantiles of the resamples at the levels

    .. math:: \Phi\Bigl(z_0 + \frac{z_0 + z_q}{1 - a (z_0 + z_q)}\Bigr)

    where :math:`z_0` is computed from the share of resamples below the value. To compute the acceleration a,
    the metric is evaluated without some of the rows. If the metric is a function of means over rows, one row
    is left out at a time. For all other metrics, including the metrics of the calibration curve, one of at
    most 200 random blocks of rows is left out at a time. For metrics that draw random numbers, the
    acceleration is 0.

    Resamples contain repeated rows, which increase calibration errors. "bca" corrects this bias, but
    "percentile" and "basic" do not. If nearly all resamples lie on one side of the value, no bootstrap
    interval is valid. An example is the calibration error of a calibrated forecast. In this case, the
    function limits :math:`z_0` to 1 and extends the interval to contain the value. Compare such a value with
    the value of a calibrated forecast, which `uncertainty_report` returns.

    If there are more than 50 000 rows and no weights, the function divides the rows into 25 000 to 50 000
    random groups of about equal size, and resamples the groups. This changes the standard error by less than
    1 %. For comparison, 1000 resamples determine the standard error with an uncertainty of 2 %. For metrics
    of the calibration curve and forecasts with a density, the function does not resample rows. Instead, it
    draws the numbers of PIT values between adjacent levels from a multinomial distribution.

    If the metric is a function of means over rows, it needs one pass over the rows, and each resample needs
    one product with the weights of the rows or groups. In the multinomial case, each resample needs one draw.
    Any other metric is evaluated once per resample. The memory is O(n). For forecasts with atoms, the
    calibration curve at k levels needs up to O(n k) memory.

    References
    ----------
    .. [1] Efron (1987), Better bootstrap confidence intervals. https://doi.org/10.1080/01621459.1987.10478410

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import bootstrap_interval
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=500)
    >>> interval = bootstrap_interval(y, Normal(np.zeros(500), np.ones(500)), "crps", random_state=0)
    >>> round(interval.low, 2), round(interval.value, 2), round(interval.high, 2)
    (0.53, 0.57, 0.61)
    """
    level = check_single_coverage(confidence, "confidence")
    check_integer(n_resamples, "n_resamples", 2)
    check_option(method, "method", METHODS)
    rng = check_random_state(random_state)
    rows = Rows(y_true, sample_weight)
    (evaluation,) = evaluations(metric, options, rows, {"y_pred": y_pred}, rng)
    value = evaluation.value()
    (draws,) = bootstrap([evaluation], rows, n_resamples, rng)
    if math.isnan(value) or np.isnan(draws).any():
        where = "these rows" if math.isnan(value) else "every resample of these rows"
        raise ValueError(f"`metric` must be a number on {where}, got nan.")
    acceleration = evaluation.acceleration(rng) if method == "bca" else 0.0
    low, high = interval_of_draws(draws, value, acceleration, level, method)
    return BootstrapInterval(low, high, value, standard_error(draws), level)


def interval_of_draws(
    draws: FloatArray, value: float, acceleration: float, confidence: float, method: str
) -> tuple[float, float]:
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        tails = bca_tails(draws, value, acceleration, tails)
    if np.isfinite(draws).all():
        low, high = map(float, np.quantile(draws, tails))
    else:  # Linear interpolation between infinite values would be NaN.
        low, high = map(float, np.quantile(draws, tails, method="inverted_cdf"))
    if method == "basic":
        return (2 * value - high, 2 * value - low) if math.isfinite(value) else (low, high)
    return (min(low, value), max(high, value)) if method == "bca" else (low, high)


def bca_tails(draws: FloatArray, value: float, acceleration: float, tails: FloatArray) -> FloatArray:
    tie = np.abs(draws - value) <= TIE * abs(value) if np.isfinite(value) else draws == value
    below = (np.count_nonzero((draws < value) & ~tie) + 0.5 * np.count_nonzero(tie)) / draws.size
    z0 = float(np.clip(ndtri(below), -MAX_BIAS, MAX_BIAS))
    z = z0 + ndtri(tails)
    return np.asarray(ndtr(z0 + z / np.maximum(1 - acceleration * z, 1e-3)))


def standard_error(draws: FloatArray) -> float:
    unit = unit_of(draws)  # The squares of squares of targets may overflow.
    return unit * float((draws / unit).std(ddof=1)) if np.isfinite(draws).all() else math.inf


def paired_permutation_test(
    y_true: ArrayLike,
    y_pred_a: Any,
    y_pred_b: Any,
    metric: Any,
    *,
    options: Mapping[str, Any] | None = None,
    sample_weight: ArrayLike | None = None,
    alternative: str = "two-sided",
    n_resamples: int = 1000,
    random_state: int | np.random.RandomState | None = None,
) -> PermutationTest:
    r"""Test the difference between two models in any metric by paired permutations.

    If the models are equally good, the two forecasts of a row are exchangeable. The test swaps the two
    forecasts of each row with probability 1/2. Then it compares the observed difference in the metric with
    the differences after these swaps. The rows must be independent. The test compares two fitted models, not
    the procedures by which they were fitted.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred_a, y_pred_b : Distribution, frozen scipy distribution, or array of shape (n, 2)
        Forecasts of both models for the same rows.
    metric : str or callable
        A metric of skuq by abbreviation, scorer name or function, or your own
        ``metric(y_true, y_pred, *, sample_weight=None, **options) -> float``.
    options : mapping, default=None
        Keyword arguments of the metric.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. Each repetition is swapped separately.
    alternative : {"two-sided", "less", "greater"}, default="two-sided"
        Alternative hypothesis: the difference a - b is not 0 ("two-sided"), below 0 ("less") or above 0
        ("greater").
    n_resamples : int, default=1000
        Number of random permutations. Each permutation swaps the forecasts in some of the rows. If there are
        at most `n_resamples` possible permutations, all possible permutations are evaluated.
    random_state : int, RandomState or None, default=None
        Controls the permutations. Pass an int for reproducible output across calls.

    Returns
    -------
    test : PermutationTest
        Difference and p-value. If not all possible permutations are evaluated, the p-value is at least
        ``1 / (n_resamples + 1)``.

    See Also
    --------
    bootstrap_interval : Confidence interval of a metric of one model.

    Notes
    -----
    .. math:: p = \frac{1 + \#\{|d^*| \ge |d|\}}{1 + n_\mathrm{resamples}}

    Permutations with exactly the observed difference are counted, so the test is valid for discrete metrics.
    The package UQ360 does not count such permutations. If the metric is a function of means over rows, a
    permutation only changes the signs of the differences in some rows. This takes O(n) time. Any other metric
    is evaluated twice per permutation. The memory is O(n). For forecasts with atoms, the calibration curve at
    k levels needs up to O(n k) memory.

    References
    ----------
    .. [1] Dwass (1957), Modified randomization tests for nonparametric hypotheses.
       https://doi.org/10.1214/aoms/1177707045
    .. [2] Navratil et al. (2023), Assessment of prediction intervals using uncertainty characteristics
       curves, section 2.2.6. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import paired_permutation_test
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=300)
    >>> y = x + rng.normal(size=300)
    >>> good, worse = Normal(x, np.ones(300)), Normal(0.5 * x, np.full(300, 1.1))
    >>> test = paired_permutation_test(y, good, worse, "crps", random_state=0)
    >>> round(test.difference, 3), round(test.p_value, 3)
    (-0.081, 0.001)
    """
    check_option(alternative, "alternative", ALTERNATIVES)
    check_integer(n_resamples, "n_resamples")
    rng = check_random_state(random_state)
    rows = Rows(y_true, sample_weight)
    forecasts = {"y_pred_a": y_pred_a, "y_pred_b": y_pred_b}
    a, b = evaluations(metric, options, rows, forecasts, rng)
    values = a.value(), b.value()
    difference = values[0] - values[1]
    if not math.isfinite(difference):
        raise ValueError(f"`metric` must be finite for both models, got {values[0]} and {values[1]}.")
    every = _all_swaps(rows, n_resamples)
    swaps = swap_weights(rows, n_resamples, rng) if every is None else iter([every])
    draws = np.concatenate([_swapped_differences(a, b, swap) for swap in swaps])
    extreme = _count_extreme(draws, difference, alternative, scale=max(map(abs, values)))
    exact = every is not None
    p_value = extreme / draws.size if exact else (extreme + 1) / (draws.size + 1)
    return PermutationTest(difference, p_value, values, draws.size, exact)


def _all_swaps(rows: Rows, n_resamples: int) -> FloatArray | None:
    """Return all possible swaps, shape (2^total, n). Return None if there are too many swaps."""
    total = round(rows.total)
    whole = np.round(rows.repetitions).astype(int)
    if not np.allclose(whole, rows.repetitions, rtol=0, atol=1e-9) or total > math.log2(n_resamples):
        return None
    bits = (np.arange(2**total)[:, np.newaxis] >> np.arange(total)) & 1
    owner = np.repeat(np.arange(len(rows)), whole)
    return np.asarray(bits @ np.eye(len(rows))[owner], dtype=np.float64)


def _swapped_differences(a: Evaluation, b: Evaluation, swap: FloatArray) -> FloatArray:
    """Return the metric of model a minus the metric of model b after each swap."""
    weight, rows = a.rows.repetitions, a.rows
    if a.columns is not None and b.columns is not None:
        moved = swap @ (b.columns - a.columns)
        means_a = (weight @ a.columns + moved) / weight.sum()
        means_b = (weight @ b.columns - moved) / weight.sum()
        total = np.full(len(swap), weight.sum())
        return np.asarray(a.of_means(means_a, total) - b.of_means(means_b, total))
    twice = np.tile(np.arange(len(rows)), 2)
    options = picked_options(a.options, twice, len(rows))
    of_both = Evaluation(a.metric, options, rows.take(twice), concatenate(a.forecast, b.forecast)).of
    return np.asarray(of_both(np.hstack([weight - swap, swap])) - of_both(np.hstack([swap, weight - swap])))


def _count_extreme(draws: FloatArray, difference: float, alternative: str, scale: float) -> int:
    slack = TIE * scale
    if alternative == "two-sided":
        ordinary = np.abs(draws) < abs(difference) - slack
    elif alternative == "less":
        ordinary = draws > difference + slack
    else:
        ordinary = draws < difference - slack
    return int(np.count_nonzero(~ordinary))
