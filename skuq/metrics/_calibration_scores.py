"""Average calibration under other names of the literature: CalS and ECPE."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_finite, check_non_negative, check_option, check_rows
from skuq.metrics._average_calibration import calibration_error, of_curve, regression_calibration_curve
from skuq.metrics._spec import metric

REDUCTIONS = ("sum", "mean")


def calibration_score(
    levels: FloatArray,
    observed: FloatArray,
    *,
    level_weights: ArrayLike | None = None,
    reduction: str = "sum",
) -> FloatArray:
    """Return the sum or mean of w (p - p_hat)^2 over the levels, the last axis."""
    square = np.square(levels - observed)
    if level_weights is not None:
        square = square * _check_level_weights(level_weights, levels.size)
    return np.asarray(square.sum(axis=-1) if reduction == "sum" else square.mean(axis=-1))


@metric(
    "cals",
    title="CalS",
    units=0,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="distribution",
    proper=False,
    small_sample=True,
    source="Kuleshov et al. 2018, eq. 9; Wibbeke et al. 2025, eq. 11-12",
    **of_curve(calibration_score, 9),
    meaning="the squared errors of the stated probabilities add up to {value}",
)
def calibration_score_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = 9,
    kind: str = "quantile",
    level_weights: ArrayLike | None = None,
    reduction: str = "sum",
) -> float:
    r"""Calibration score (CalS): the sum over levels of the squared gaps of the calibration curve.

    Do the stated probabilities come true on average? The score of Kuleshov et al., for comparison with the
    literature. As a sum it grows with the number of levels, so never compare across level sets;
    `root_mean_squared_calibration_error` does not. Not proper: a forecast that ignores X and states the
    distribution of all targets is calibrated on average, and beats a useful model that is slightly off (see
    the example). Select by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int or array-like of shape (k,), default=9
        Probabilities in [0, 1]. An integer m stands for 1/(m+1), ..., m/(m+1); the default is 0.1, ..., 0.9.
    kind : {"quantile", "interval"}, default="quantile"
        Compare the shares below quantiles, or inside central intervals.
    level_weights : array-like of shape (k,), default=None
        Weight of each level; 1 if None.
    reduction : {"sum", "mean"}, default="sum"
        Sum over levels (eq. 12 of [2]_) or mean. The code of [2]_ takes the mean with ``kind="interval"`` and
        levels 0, 0.2, ..., 1, of which the two ends cannot err.

    Returns
    -------
    loss : float
        In [0, k] for weights of 1; lower is better, at best 0. A calibrated forecast has an expected value of
        the sum of ``p * (1 - p) / n`` over the levels.

    Warns
    -----
    SmallSampleWarning
        Below 500 rows.

    See Also
    --------
    root_mean_squared_calibration_error : The root of the mean.

    Notes
    -----
    .. math:: \mathrm{CalS} = \sum_j w_j (p_j - \hat p(p_j))^2,
        \quad \hat p(p) = \frac1n \sum_i 1\{F_i(y_i) \le p\}

    A target on an atom of its forecast counts evenly over the levels from :math:`F(y-)` to :math:`F(y)`, as
    in `regression_calibration_curve`.

    One pass that finds each row's place among the levels and counts: O(n) time for up to some hundreds of
    levels, O(n log k) for more, and O(n) memory; up to O(n k) of both where the distribution has atoms.

    References
    ----------
    .. [1] Kuleshov et al. (2018), Accurate uncertainties for deep learning using calibrated regression.
       https://doi.org/10.48550/arXiv.1807.00263
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 11-12. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import calibration_score_loss, crps_loss
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = (x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = (np.zeros(2000), np.full(2000, np.std(y)))  # the same for every row
    >>> [round(calibration_score_loss(y, dist), 3) for dist in (useful, climatology)]
    [0.024, 0.001]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    check_option(reduction, "reduction", REDUCTIONS)
    curve = regression_calibration_curve(
        y_true, y_pred, sample_weight=sample_weight, levels=levels, kind=kind
    )
    score = calibration_score(curve.levels, curve.observed, level_weights=level_weights, reduction=reduction)
    return float(score)


def _check_level_weights(level_weights: ArrayLike, k: int) -> FloatArray:
    """Return one non-negative weight for each level."""
    weights = check_rows(as_float_array(level_weights, "level_weights"), "level_weights", k)
    return check_non_negative(check_finite(weights, "level_weights"), "level_weights")


@metric(
    "ecpe",
    title="ECPE",
    units=0,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="distribution",
    proper=False,
    small_sample=True,
    source="Cui et al. 2020; Wibbeke et al. 2025, eq. 17",
    **of_curve(calibration_error, 99, "interval"),
    meaning="the coverage of central intervals is off by {value} on average",
)
def expected_coverage_probability_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = 99,
) -> float:
    r"""Mean gap between nominal and observed coverage over many intervals (ECPE).

    Do prediction intervals have their nominal coverage at all levels? The expectation of the coverage
    probability error is `mean_absolute_calibration_error` with ``kind="interval"``; it is insensitive to bias
    that is balanced on both sides. Not proper: a forecast that ignores X and states the distribution of all
    targets is calibrated on average, and beats a useful model that is slightly off (see the example). Select
    by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int or array-like of shape (k,), default=99
        Coverages in [0, 1]. An integer m stands for 1/(m+1), ..., m/(m+1). The code of [2]_ takes 0, 0.2,
        ..., 1, of which the two ends cannot err.

    Returns
    -------
    error : float
        In [0, 0.5] for equally spaced levels; lower is better, at best 0. A calibrated forecast has an
        expected value of about ``0.31 / sqrt(n)``.

    Warns
    -----
    SmallSampleWarning
        Below 500 rows.

    See Also
    --------
    interval_coverage_error : The same for one coverage, also for bounds.
    quantile_calibration_error : The same in bins of the predicted uncertainty.

    Notes
    -----
    .. math:: \mathrm{ECPE} = \frac1m \sum_j |p_j - \mathrm{PICP}(p_j)|

    A target on an atom of its forecast counts evenly over the levels from :math:`F(y-)` to :math:`F(y)`, as
    in `regression_calibration_curve`.

    One pass that finds each row's place among the levels and counts: O(n) time for up to some hundreds of
    levels, O(n log k) for more, and O(n) memory; up to O(n k) of both where the distribution has atoms.

    References
    ----------
    .. [1] Cui et al. (2020), Calibrated reliable regression using maximum mean discrepancy.
       https://doi.org/10.48550/arXiv.2006.10255
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 17. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import crps_loss, expected_coverage_probability_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = (x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = (np.zeros(2000), np.full(2000, np.std(y)))  # the same for every row
    >>> [round(expected_coverage_probability_error(y, dist), 2) for dist in (useful, climatology)]
    [0.09, 0.0]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    curve = regression_calibration_curve(
        y_true, y_pred, sample_weight=sample_weight, levels=levels, kind="interval"
    )
    return float(calibration_error(curve.levels, curve.observed))
