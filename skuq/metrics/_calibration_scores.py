"""Three summaries of the calibration curve: calibration score, ECPE and miscalibration area."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_increasing,
    check_non_negative,
    check_option,
    check_rows,
)
from skuq.distributions import Distribution
from skuq.metrics._average_calibration import calibration_error, curve_of_levels
from skuq.metrics._inputs import check_forecast
from skuq.metrics._kernels import level_grid
from skuq.metrics._levels import KINDS, Entry, entries
from skuq.metrics._spec import Computation, Means, WeightFunction, metric, one_by_one, value_of

_NO_RAMP = 1e-9
"""A ramp that is shorter than this counts as a jump, because rounding errors would dominate its slope."""


def area(kind: str, levels: int | ArrayLike | None) -> Computation:
    check_option(kind, "kind", KINDS)
    if levels is not None:
        if check_increasing(level_grid(levels, closed=True), "levels").size < 2:
            raise ValueError("`levels` must contain at least two levels, got one.")
        return curve_of_levels(levels, kind, area_of_lines)

    def computation(y: FloatArray, dist: Distribution) -> WeightFunction:
        parts = entries(y, dist, kind)
        return area_of_steps(parts[0].start) if dist.has_density else one_by_one(area_of_ramps(parts))

    return computation


def area_of_steps(entry: FloatArray) -> WeightFunction:
    """Return the area between the diagonal and a curve with steps at ``entry``, as a function of weights."""
    order = np.argsort(entry)
    rising = entry[order]

    def of_weight(weight: FloatArray) -> float:
        step = weight[order] / weight.sum()
        # The integral of |rising - t| between both heights of a step is a difference of t |t| / 2.
        gap = rising - np.cumsum(step)
        area = -float(gap @ np.abs(gap))
        gap += step
        return (area + float(gap @ np.abs(gap))) / 2

    return one_by_one(of_weight)


def area_of_ramps(parts: list[Entry]) -> Callable[[FloatArray], float]:
    """Return the area for covered shares that rise linearly, as a function of weights."""
    starts, stops, share = (np.concatenate(numbers) for numbers in zip(*parts, strict=True))
    ramp = stops - starts > _NO_RAMP
    levels = np.unique(np.concatenate([[0.0, 1.0], starts, stops]))
    start, stop = np.searchsorted(levels, starts), np.searchsorted(levels, stops)
    ends = np.concatenate([start[ramp], stop[ramp]])

    def of_weight(weight: FloatArray) -> float:
        part = share * np.tile(weight, len(parts))
        part = part / part.sum()
        slope = part[ramp] / (stops - starts)[ramp]
        turns = np.bincount(ends, np.concatenate([slope, -slope]), levels.size)
        jumps = np.bincount(start[~ramp], part[~ramp], levels.size)
        rises = np.concatenate([[0.0], np.cumsum(turns)[:-1] * np.diff(levels)])
        above = np.cumsum(rises + jumps)
        return float(area_of_lines(np.repeat(levels, 2), np.column_stack([above - jumps, above]).ravel()))

    return of_weight


def area_of_lines(levels: FloatArray, observed: FloatArray) -> FloatArray:
    gap, width = observed - levels, np.diff(levels)
    left, right = gap[..., :-1], gap[..., 1:]
    size = np.abs(left) + np.abs(right)
    crossing = left * right < 0
    height = np.where(crossing, (left**2 + right**2) / np.where(size == 0, 1.0, size), size)
    return np.asarray((height * width).sum(axis=-1) / 2)


@metric(
    "miscal_area",
    title="Miscalibration area",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="distribution",
    small_sample=True,
    source="Tran et al. 2020; Chung et al. 2021",
    meaning="the distance of the calibration curve from the diagonal is {value} on average",
    kernel=area,
    of_pit=area_of_steps,
    blocks="levels",
)
def miscalibration_area(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    kind: str = "quantile",
    levels: int | ArrayLike | None = None,
) -> float:
    r"""Return the exact area between the calibration curve and the diagonal.

    The smaller the better, minimum is zero. The area is the limit of `mean_absolute_calibration_error` for
    many equally spaced levels, so no levels have to be chosen. With ``kind="quantile"``, the area is the
    Wasserstein-1 distance between the PIT values and the uniform distribution. The metric is not proper: a
    forecast that ignores X can have a better value than a useful, slightly miscalibrated model (see the
    example). Select models by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    kind : {"quantile", "interval"}, default="quantile"
        Definition of the observed share at level p. "quantile" is the share of targets that are at most the
        quantile at level p. "interval" is the share of targets inside the central interval of coverage p.
        With "interval", a bias may remain undetected.
    levels : int or array-like of shape (k,), default=None
        None computes the exact area between the diagonal and the calibration curve, which is a step function.
        If levels are given, the curve is computed at these levels and is linear between them. Pass at least
        two increasing levels in [0, 1]. Uncertainty Toolbox uses ``np.linspace(0, 1, 100)`` and
        ``kind="interval"``.

    Returns
    -------
    area : float
        In [0, 0.5]. For a calibrated forecast, the expected area is about ``0.31 / sqrt(n)``.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    mean_absolute_calibration_error : Mean over levels. This is the usual definition in the literature.

    Notes
    -----
    .. math:: \int_0^1 |\hat p(p) - p| dp, \quad \hat p(p) = \frac1n \sum_i 1\{F_i(y_i) \le p\}

    The curve jumps at the PIT of each row, so the integral is a sum over the sorted PIT values. The cost is
    one evaluation of the cdf per row and one sort.

    References
    ----------
    .. [1] Tran et al. (2020), Methods for comparing uncertainty quantifications for material property
       predictions. https://doi.org/10.1088/2632-2153/ab7e1a
    .. [2] Chung et al. (2021), Uncertainty Toolbox. https://doi.org/10.48550/arXiv.2109.10254

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_loss, miscalibration_area
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = Normal(x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = Normal(np.zeros(2000), np.full(2000, np.std(y)))  # the same for every row
    >>> [round(miscalibration_area(y, dist), 2) for dist in (useful, climatology)]
    [0.04, 0.01]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    return value_of(area(kind, levels), *check_forecast(y_true, y_pred, sample_weight))


REDUCTIONS = ("sum", "mean")


def calibration_score(
    levels: int | ArrayLike, kind: str, level_weights: ArrayLike | None, reduction: str
) -> Means:
    check_option(reduction, "reduction", REDUCTIONS)
    k = level_grid(levels, closed=True).size
    factor = np.ones(k) if level_weights is None else _check_level_weights(level_weights, k)
    if reduction == "mean":
        factor = factor / k
    return curve_of_levels(levels, kind, lambda grid, observed: np.square(grid - observed) @ factor)


@metric(
    "cals",
    title="CalS",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="distribution",
    small_sample=True,
    source="Kuleshov et al. 2018, eq. 9; Wibbeke et al. 2025, eq. 11-12",
    kernel=calibration_score,
    meaning="the squared errors of the predicted probabilities add up to {value}",
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
    r"""Return the calibration score (CalS): the sum over levels of the squared calibration gaps.

    The smaller the better, minimum is zero. The sum grows with the number of levels, so compare only values
    with the same levels. `root_mean_squared_calibration_error` does not depend on the number of levels. The
    metric is not proper: a forecast that ignores X can have a better value than a useful, slightly
    miscalibrated model (see the example). Select models by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int or array-like of shape (k,), default=9
        Probabilities in [0, 1]. An integer m means the levels 1/(m+1), ..., m/(m+1). The default is 0.1,
        ..., 0.9.
    kind : {"quantile", "interval"}, default="quantile"
        Definition of the observed share at level p. "quantile" is the share of targets that are at most the
        quantile at level p. "interval" is the share of targets inside the central interval of coverage p.
    level_weights : array-like of shape (k,), default=None
        Weight of each level. None means 1.
    reduction : {"sum", "mean"}, default="sum"
        Sum over levels (eq. 12 of [2]_) or mean over levels. The code of [2]_ uses the mean with
        ``kind="interval"`` and the levels 0, 0.2, ..., 1. The error at the levels 0 and 1 is always 0.

    Returns
    -------
    loss : float
        In [0, k] if all level weights are 1. For a calibrated forecast, the expected loss is then the sum of
        ``p * (1 - p) / n`` over the levels p.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    root_mean_squared_calibration_error : The square root of the mean squared gap.

    Notes
    -----
    .. math:: \mathrm{CalS} = \sum_j w_j (p_j - \hat p(p_j))^2,
        \quad \hat p(p) = \frac1n \sum_i 1\{F_i(y_i) \le p\}

    The cost and the treatment of atoms are the same as in `regression_calibration_curve`.

    References
    ----------
    .. [1] Kuleshov et al. (2018), Accurate uncertainties for deep learning using calibrated regression.
       https://doi.org/10.48550/arXiv.1807.00263
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 11-12. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import calibration_score_loss, crps_loss
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = Normal(x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = Normal(np.zeros(2000), np.full(2000, np.std(y)))  # the same for every row
    >>> [round(calibration_score_loss(y, dist), 3) for dist in (useful, climatology)]
    [0.024, 0.001]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    kernel = calibration_score(levels, kind, level_weights, reduction)
    return value_of(kernel, *check_forecast(y_true, y_pred, sample_weight))


def _check_level_weights(level_weights: ArrayLike, k: int) -> FloatArray:
    weights = check_rows(as_float_array(level_weights, "level_weights"), "level_weights", k)
    return check_non_negative(check_finite(weights, "level_weights"), "level_weights")


@metric(
    "ecpe",
    title="ECPE",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="distribution",
    small_sample=True,
    source="Cui et al. 2020; Wibbeke et al. 2025, eq. 17",
    kernel=partial(curve_of_levels, kind="interval", error=calibration_error),
    meaning="the coverage of central intervals is off by {value} on average",
)
def expected_coverage_probability_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = 99,
) -> float:
    r"""Return the expected coverage probability error (ECPE) over many central intervals.

    The smaller the better, minimum is zero. The error is the mean gap between nominal and observed coverage.
    The error equals `mean_absolute_calibration_error` with ``kind="interval"``. The error does not show
    whether targets lie above or below their interval. The metric is not proper: a forecast that ignores X can
    have a better value than a useful, slightly miscalibrated model (see the example). Select models by
    `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int or array-like of shape (k,), default=99
        Coverages in [0, 1]. An integer m means the levels 1/(m+1), ..., m/(m+1). The code of [2]_ uses 0,
        0.2, ..., 1. The error at the levels 0 and 1 is always 0.

    Returns
    -------
    error : float
        In [0, 0.5] for an integer ``levels``, and in [0, 1] for others. For a calibrated forecast, the
        expected error is about ``0.31 / sqrt(n)``.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    interval_coverage_error : Error at one coverage. The function also accepts interval bounds.
    quantile_calibration_error : The error in bins of the predicted uncertainty.

    Notes
    -----
    .. math:: \mathrm{ECPE} = \frac1m \sum_j |p_j - \mathrm{PICP}(p_j)|

    The cost and the treatment of atoms are the same as in `regression_calibration_curve`.

    References
    ----------
    .. [1] Cui et al. (2020), Calibrated reliable regression using maximum mean discrepancy.
       https://doi.org/10.48550/arXiv.2006.10255
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 17. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_loss, expected_coverage_probability_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = Normal(x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = Normal(np.zeros(2000), np.full(2000, np.std(y)))  # the same for every row
    >>> [round(expected_coverage_probability_error(y, dist), 2) for dist in (useful, climatology)]
    [0.09, 0.0]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    kernel = curve_of_levels(levels, "interval", calibration_error)
    return value_of(kernel, *check_forecast(y_true, y_pred, sample_weight))
