"""Average calibration: whether quantiles and intervals have their nominal coverage over all rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_option
from skuq.distributions import Distribution
from skuq.metrics._inputs import check_forecast
from skuq.metrics._kernels import level_grid
from skuq.metrics._levels import (
    KINDS,
    level_rows,
    observed_proportions,
    observed_uniform,
    proportions_of_means,
)
from skuq.metrics._spec import metric


@dataclass(frozen=True, eq=False)
class CalibrationCurve:
    """Observed shares of targets by nominal level; made by `regression_calibration_curve`.

    Parameters
    ----------
    levels : ndarray of shape (k,)
        Nominal probabilities.
    observed : ndarray of shape (k,)
        Observed shares, in [0, 1].

    Examples
    --------
    >>> from skuq.metrics import regression_calibration_curve
    >>> curve = regression_calibration_curve([-0.5, 0.1, 3.0], ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]), levels=1)
    >>> curve.levels, curve.observed.round(2)
    (array([0.5]), array([0.33]))
    """

    levels: FloatArray
    observed: FloatArray


def regression_calibration_curve(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = 99,
    kind: str = "quantile",
) -> CalibrationCurve:
    r"""Levels and the shares of targets observed at them: the calibration curve of a regressor.

    Where on the scale of probabilities do the forecasts err? The diagonal is perfect. With
    ``kind="quantile"`` a curve above it means quantiles that lie too high; with ``kind="interval"`` above is
    underconfident, below overconfident. `mean_absolute_calibration_error` is its mean distance from the
    diagonal.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int or array-like of shape (k,), default=99
        Probabilities in [0, 1]. An integer m stands for 1/(m+1), ..., m/(m+1).
    kind : {"quantile", "interval"}, default="quantile"
        Observe the share of targets not above the quantile at level p, or inside the central interval of
        coverage p.

    Returns
    -------
    curve : CalibrationCurve
        With ``levels``, the nominal probabilities, and ``observed``, the observed shares in [0, 1], both of
        shape (k,).

    See Also
    --------
    skuq.displays.CalibrationCurveDisplay : The plot.

    Notes
    -----
    .. math:: \hat p(p) = \frac1n \sum_i 1\{F_i(y_i) \le p\}

    On an atom of its forecast, a point of positive probability, a target counts evenly over the levels from
    :math:`F(y-)` to :math:`F(y)`: the expectation of the randomised PIT [3]_, by which an exact forecast is
    on the diagonal. Target and atom are the same within rounding of single precision.

    One pass that finds each row's place among the levels and counts: O(n) time for up to some hundreds of
    levels, O(n log k) for more, and O(n) memory; up to O(n k) of both where the distribution has atoms.

    References
    ----------
    .. [1] Chung et al. (2021), Uncertainty Toolbox, section 3. https://doi.org/10.48550/arXiv.2109.10254
    .. [2] Kuleshov et al. (2018), Accurate uncertainties for deep learning using calibrated regression.
       https://doi.org/10.48550/arXiv.1807.00263
    .. [3] Czado, Gneiting, Held (2009), Predictive model assessment for count data, eq. 1.
       https://doi.org/10.1111/j.1541-0420.2009.01191.x

    Examples
    --------
    >>> from skuq.metrics import regression_calibration_curve
    >>> dist = ([0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0])
    >>> curve = regression_calibration_curve([-0.5, 0.1, 0.2, 3.0], dist, levels=3)
    >>> curve.levels
    array([0.25, 0.5 , 0.75])
    >>> curve.observed
    array([0.  , 0.25, 0.75])
    """
    check_option(kind, "kind", KINDS)
    grid = level_grid(levels, closed=True)
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    return CalibrationCurve(grid, observed_proportions(y, dist, grid, kind, weight))


@functools.cache
def curve_rows(default_levels: int, default_kind: str) -> Callable[..., Any]:
    """Return the function of rows of the metrics of the calibration curve with these defaults.

    It takes the options of any of them, of which only `levels` and `kind` matter. Metrics with the same
    defaults share it, so that what is accumulated for one serves the others.
    """

    def rows(
        y: FloatArray,
        dist: Distribution,
        *,
        levels: int | ArrayLike = default_levels,
        kind: str = default_kind,
        **_: Any,
    ) -> Any:
        return level_rows(y, dist, np.unique(level_grid(levels, closed=True)), kind)

    return rows


def of_curve(
    error: Callable[..., FloatArray], default_levels: int, default_kind: str = "quantile"
) -> dict[str, Any]:
    """Return the fields of the record of a metric that is a function of the calibration curve.

    The curve is a mean over rows, and of calibrated forecasts with a density it is that of uniform numbers.
    The value of the metric is not computed from `rows`: a histogram of the levels takes less memory.

    Parameters
    ----------
    error : callable
        ``error(levels, observed, **options)`` of curves of shape (..., k).
    default_levels : int
        Levels at which the metric takes the curve.
    default_kind : {"quantile", "interval"}, default="quantile"
        Kind of the curve.
    """

    def split(options: dict[str, Any]) -> tuple[FloatArray, dict[str, Any]]:
        """Return the levels, and the options that `error` takes."""
        rest = {"levels": default_levels, **options}
        rest.pop("kind", None)
        return level_grid(rest.pop("levels"), closed=True), rest

    def combine(means: FloatArray, **options: Any) -> FloatArray:
        grid, rest = split(options)
        return error(grid, proportions_of_means(means, grid), **rest)

    def of_uniform(entry: FloatArray, **options: Any) -> float:
        grid, rest = split(options)
        return float(error(grid, observed_uniform(entry, grid), **rest))

    rows = curve_rows(default_levels, default_kind)
    return {"rows": rows, "combine": combine, "of_uniform": of_uniform}


def calibration_error(levels: FloatArray, observed: FloatArray) -> FloatArray:
    """Return the mean of |p - p_hat| over the levels, the last axis."""
    return np.asarray(np.abs(levels - observed).mean(axis=-1))


def root_calibration_error(levels: FloatArray, observed: FloatArray) -> FloatArray:
    """Return the root of the mean of (p - p_hat)^2 over the levels, the last axis."""
    return np.asarray(np.sqrt(np.square(levels - observed).mean(axis=-1)))


def calibrated_mace(n: float, *, levels: int | ArrayLike = 99, kind: str = "quantile") -> float:
    """Return the mean over the levels of the mean absolute deviation of a binomial share."""
    grid = level_grid(levels, closed=True)
    return float(np.mean(np.sqrt(2 / np.pi * grid * (1 - grid) / n)))


@metric(
    "mace",
    title="MACE",
    units=0,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="distribution",
    proper=False,
    small_sample=True,
    source="Chung et al. 2021, section 3 (ECE)",
    **of_curve(calibration_error, 99),
    calibrated=calibrated_mace,
    meaning="the stated probabilities are off by {value} on average",
)
def mean_absolute_calibration_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = 99,
    kind: str = "quantile",
) -> float:
    r"""Mean absolute calibration error (MACE, ECE): mean distance of the calibration curve from the diagonal.

    Do the stated probabilities come true on average? It does not apply to any single row and is not
    proper: a forecast that ignores X and states the distribution of all targets is calibrated on average,
    and beats a useful model that is slightly off (see the example). Read it beside `sharpness`, and select
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
        Probabilities in [0, 1]. An integer m stands for 1/(m+1), ..., m/(m+1); the default is the
        0.01, ..., 0.99 of [1]_, whose code takes ``np.linspace(0, 1, 100)`` and ``kind="interval"``.
    kind : {"quantile", "interval"}, default="quantile"
        Compare the shares below quantiles, which reflect bias (as in [1]_), or inside central intervals,
        which reflect only width.

    Returns
    -------
    error : float
        In [0, 0.5]; lower is better, at best 0. A calibrated forecast has an expected value of about
        ``0.31 / sqrt(n)``.

    Warns
    -----
    SmallSampleWarning
        Below 500 rows.

    See Also
    --------
    regression_calibration_curve : The curve itself.
    expected_normalized_calibration_error : Calibration by the size of the predicted uncertainty.

    Notes
    -----
    .. math:: \frac1m \sum_j |p_j - \hat p(p_j)|, \quad \hat p(p) = \frac1n \sum_i 1\{F_i(y_i) \le p\}

    One pass that finds each row's place among the levels and counts: O(n) time for up to some hundreds of
    levels, O(n log k) for more, and O(n) memory; up to O(n k) of both where the distribution has atoms.

    References
    ----------
    .. [1] Chung et al. (2021), Uncertainty Toolbox, section 3. https://doi.org/10.48550/arXiv.2109.10254

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import crps_loss, mean_absolute_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = (x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = (np.zeros(2000), np.full(2000, np.sqrt(1.09)))  # the same for every row
    >>> [round(mean_absolute_calibration_error(y, dist), 2) for dist in (useful, climatology)]
    [0.04, 0.01]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    curve = regression_calibration_curve(
        y_true, y_pred, sample_weight=sample_weight, levels=levels, kind=kind
    )
    return float(calibration_error(curve.levels, curve.observed))


@metric(
    "rmsce",
    title="RMSCE",
    units=0,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="distribution",
    proper=False,
    small_sample=True,
    source="Zelikman et al. 2020; Wibbeke et al. 2025, eq. 13; Chung et al. 2021",
    **of_curve(root_calibration_error, 99),
    meaning="the stated probabilities are off by {value}, root mean square",
)
def root_mean_squared_calibration_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = 99,
    kind: str = "quantile",
) -> float:
    r"""Root mean squared calibration error (RMSCE): the calibration curve's distance from the diagonal.

    Do the stated probabilities come true on average, without being far off anywhere? As
    `mean_absolute_calibration_error`, but large gaps at few levels count more. Not proper for the same
    reason: a forecast that ignores X and states the distribution of all targets is calibrated on average,
    and beats a useful model that is slightly off (see the example). Select by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int or array-like of shape (k,), default=99
        Probabilities in [0, 1]. An integer m stands for 1/(m+1), ..., m/(m+1). Uncertainty Toolbox takes
        ``np.linspace(0, 1, 100)`` and ``kind="interval"``.
    kind : {"quantile", "interval"}, default="quantile"
        Compare the shares below quantiles (eq. 13 of [2]_), which reflect bias, or inside central
        intervals, which reflect only width.

    Returns
    -------
    error : float
        In [0, 0.58]; lower is better, at best 0. A calibrated forecast has an expected value of about
        ``0.37 / sqrt(n)``.

    Warns
    -----
    SmallSampleWarning
        Below 500 rows.

    See Also
    --------
    mean_absolute_calibration_error : Large and small gaps count alike.
    calibration_score_loss : The sum of the squares.

    Notes
    -----
    .. math:: \sqrt{\frac1m \sum_j (p_j - \hat p(p_j))^2},
        \quad \hat p(p) = \frac1n \sum_i 1\{F_i(y_i) \le p\}

    One pass that finds each row's place among the levels and counts: O(n) time for up to some hundreds of
    levels, O(n log k) for more, and O(n) memory; up to O(n k) of both where the distribution has atoms.

    References
    ----------
    .. [1] Zelikman et al. (2020), CRUDE: calibrating regression uncertainty distributions empirically.
       https://doi.org/10.48550/arXiv.2005.12496
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 13. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import crps_loss, root_mean_squared_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = (x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = (np.zeros(2000), np.full(2000, np.std(y)))  # the same for every row
    >>> [round(root_mean_squared_calibration_error(y, dist), 2) for dist in (useful, climatology)]
    [0.05, 0.01]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    curve = regression_calibration_curve(
        y_true, y_pred, sample_weight=sample_weight, levels=levels, kind=kind
    )
    return float(root_calibration_error(curve.levels, curve.observed))
