"""Calibration curves of all rows, and the mean distance between a curve and the diagonal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from skuq._censoring import Bounds, require_events
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_option
from skuq.metrics._inputs import check_forecast, check_right_censored
from skuq.metrics._kernels import level_grid
from skuq.metrics._levels import KINDS, censored_proportions, level_rows
from skuq.metrics._spec import Means, metric, value_of


@dataclass(frozen=True, eq=False)
class CalibrationCurve:
    """Observed share of targets at each nominal level; returned by `regression_calibration_curve`.

    Parameters
    ----------
    levels : ndarray of shape (k,)
        Nominal probabilities.
    observed : ndarray of shape (k,)
        Observed shares, in [0, 1].

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import regression_calibration_curve
    >>> dist = Normal([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    >>> curve = regression_calibration_curve([-0.5, 0.1, 3.0], dist, levels=1)
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
    event: ArrayLike | None = None,
) -> CalibrationCurve:
    r"""Return the calibration curve: the observed share of targets at each nominal level.

    The curve of a calibrated forecast is the diagonal. With ``kind="quantile"``, a curve above the diagonal
    means that quantiles are too high. With ``kind="interval"``, a curve above the diagonal means
    underconfidence, and a curve below the diagonal means overconfidence. `mean_absolute_calibration_error` is
    the mean distance from the diagonal.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int or array-like of shape (k,), default=99
        Probabilities in [0, 1]. An integer m means the levels 1/(m+1), ..., m/(m+1).
    kind : {"quantile", "interval"}, default="quantile"
        Definition of the observed share at level p. "quantile" is the share of targets that are at most the
        quantile at level p. "interval" is the share of targets inside the central interval of coverage p.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed. With censored rows, the observed share is the Kaplan-Meier estimate of the
        PIT values. Its mass above the largest observed PIT is spread evenly.

    Returns
    -------
    curve : CalibrationCurve
        ``levels`` holds the nominal probabilities. ``observed`` holds the observed shares, in [0, 1]. Both
        arrays have shape (k,).

    See Also
    --------
    skuq.displays.CalibrationCurveDisplay : Plot of the calibration curve.

    Notes
    -----
    .. math:: \hat p(p) = \frac1n \sum_i 1\{F_i(y_i) \le p\}

    An atom is a value of positive probability. If a target equals an atom, its weight is distributed evenly
    over the levels from :math:`F(y-)` to :math:`F(y)`. The resulting curve is the expected curve of the
    randomized PIT [3]_. For the true distribution, this curve is the diagonal. A target equals an atom if
    their difference is at most the rounding error of single precision.

    The time is O(n) for up to a few hundred levels and O(n log k) for more levels. The memory is O(n).
    Distributions with atoms need up to O(n k) time and memory.

    References
    ----------
    .. [1] Chung et al. (2021), Uncertainty Toolbox, section 3. https://doi.org/10.48550/arXiv.2109.10254
    .. [2] Kuleshov et al. (2018), Accurate uncertainties for deep learning using calibrated regression.
       https://doi.org/10.48550/arXiv.1807.00263
    .. [3] Czado, Gneiting, Held (2009), Predictive model assessment for count data, eq. 1.
       https://doi.org/10.1111/j.1541-0420.2009.01191.x

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import regression_calibration_curve
    >>> dist = Normal([0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0])
    >>> curve = regression_calibration_curve([-0.5, 0.1, 0.2, 3.0], dist, levels=3)
    >>> curve.levels
    array([0.25, 0.5 , 0.75])
    >>> curve.observed
    array([0.  , 0.25, 0.75])
    """
    curve = curve_of_levels(levels, kind)
    grid = level_grid(levels, closed=True)
    y, dist, weight, mask = check_right_censored(y_true, y_pred, sample_weight, event)
    if mask is None:
        return CalibrationCurve(grid, curve(y, dist)(weight))
    require_events(mask)
    bounds = Bounds.from_event(y, mask)
    return CalibrationCurve(grid, censored_proportions(dist, bounds, grid, kind)(weight))


def curve_of_levels(
    levels: int | ArrayLike,
    kind: str,
    error: Callable[[FloatArray, FloatArray], FloatArray] = lambda levels, observed: observed,
) -> Means:
    """Return the computation of an error of the levels and the observed shares of the calibration curve."""
    check_option(kind, "kind", KINDS)
    grid = level_grid(levels, closed=True)
    ordered, place = np.unique(grid, return_inverse=True)
    return Means(
        partial(level_rows, levels=ordered, kind=kind),
        lambda means: error(grid, np.cumsum(means, axis=-1)[..., place]),
        cells=np.diff(ordered, prepend=0.0, append=1.0),
    )


def calibration_error(levels: FloatArray, observed: FloatArray) -> FloatArray:
    return np.asarray(np.abs(levels - observed).mean(axis=-1))


def root_calibration_error(levels: FloatArray, observed: FloatArray) -> FloatArray:
    """Return the root of the mean of (p - p_hat)^2 over the last axis."""
    return np.asarray(np.sqrt(np.square(levels - observed).mean(axis=-1)))


def calibrated_mace(n: float, *, levels: int | ArrayLike = 99, kind: str = "quantile") -> float:
    grid = level_grid(levels, closed=True)
    return float(np.mean(np.sqrt(2 / np.pi * grid * (1 - grid) / n)))


@metric(
    "mace",
    title="MACE",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="distribution",
    small_sample=True,
    source="Chung et al. 2021, section 3 (ECE)",
    kernel=partial(curve_of_levels, error=calibration_error),
    calibrated=calibrated_mace,
    meaning="the predicted probabilities are off by {value} on average",
)
def mean_absolute_calibration_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = 99,
    kind: str = "quantile",
) -> float:
    r"""Return the mean absolute calibration error (MACE, ECE): the mean gap of the calibration curve.

    The smaller the better, minimum is zero. The calibration curve is the observed share of targets at each
    nominal level. The error is the mean distance of this curve from the diagonal, on which observed shares
    equal nominal levels. The error does not describe individual rows. The metric is not proper: a forecast
    that ignores X can have a better value than a useful, slightly miscalibrated model (see the example).
    Report `sharpness` with this error, and select models by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int or array-like of shape (k,), default=99
        Probabilities in [0, 1]. An integer m means the levels 1/(m+1), ..., m/(m+1). The default is 0.01,
        ..., 0.99, as in the text of [1]_. The code of [1]_ uses ``np.linspace(0, 1, 100)`` and
        ``kind="interval"``.
    kind : {"quantile", "interval"}, default="quantile"
        Definition of the observed share at level p. "quantile" is the share of targets that are at most the
        quantile at level p. "interval" is the share of targets inside the central interval of coverage p. The
        text of [1]_ uses "quantile". With "interval", a bias may remain undetected.

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
    regression_calibration_curve : Calibration curve.
    expected_normalized_calibration_error : The error in bins of the predicted standard deviation.

    Notes
    -----
    .. math:: \frac1m \sum_j |p_j - \hat p(p_j)|, \quad \hat p(p) = \frac1n \sum_i 1\{F_i(y_i) \le p\}

    The cost is the same as for `regression_calibration_curve`.

    References
    ----------
    .. [1] Chung et al. (2021), Uncertainty Toolbox, section 3. https://doi.org/10.48550/arXiv.2109.10254

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_loss, mean_absolute_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = Normal(x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = Normal(np.zeros(2000), np.full(2000, np.sqrt(1.09)))  # the same for every row
    >>> [round(mean_absolute_calibration_error(y, dist), 2) for dist in (useful, climatology)]
    [0.04, 0.01]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    kernel = curve_of_levels(levels, kind, calibration_error)
    return value_of(kernel, *check_forecast(y_true, y_pred, sample_weight))


@metric(
    "rmsce",
    title="RMSCE",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="distribution",
    small_sample=True,
    source="Zelikman et al. 2020; Wibbeke et al. 2025, eq. 13; Chung et al. 2021",
    kernel=partial(curve_of_levels, error=root_calibration_error),
    meaning="the root mean square error of the predicted probabilities is {value}",
)
def root_mean_squared_calibration_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = 99,
    kind: str = "quantile",
) -> float:
    r"""Return the root mean squared calibration error (RMSCE).

    The smaller the better, minimum is zero. The error is the root mean square distance between observed
    shares and nominal levels. Large gaps at a few levels have more influence than in
    `mean_absolute_calibration_error`. The metric is not proper: a forecast that ignores X can have a better
    value than a useful, slightly miscalibrated model (see the example). Select models by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int or array-like of shape (k,), default=99
        Probabilities in [0, 1]. An integer m means the levels 1/(m+1), ..., m/(m+1). Uncertainty Toolbox
        uses ``np.linspace(0, 1, 100)`` and ``kind="interval"``.
    kind : {"quantile", "interval"}, default="quantile"
        Definition of the observed share at level p. "quantile" is the share of targets that are at most the
        quantile at level p. "interval" is the share of targets inside the central interval of coverage p. Eq.
        13 of [2]_ uses "quantile". With "interval", a bias may remain undetected.

    Returns
    -------
    error : float
        In [0, 0.58] for an integer ``levels``, and in [0, 1] for others. For a calibrated forecast, the
        expected error is about ``0.37 / sqrt(n)``.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    mean_absolute_calibration_error : Mean of the distances. Large gaps have less influence on the mean.
    calibration_score_loss : The sum of the squared distances over the levels.

    Notes
    -----
    .. math:: \sqrt{\frac1m \sum_j (p_j - \hat p(p_j))^2},
        \quad \hat p(p) = \frac1n \sum_i 1\{F_i(y_i) \le p\}

    The cost is the same as for `regression_calibration_curve`.

    References
    ----------
    .. [1] Zelikman et al. (2020), CRUDE: calibrating regression uncertainty distributions empirically.
       https://doi.org/10.48550/arXiv.2005.12496
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 13. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_loss, root_mean_squared_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = Normal(x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = Normal(np.zeros(2000), np.full(2000, np.std(y)))  # the same for every row
    >>> [round(root_mean_squared_calibration_error(y, dist), 2) for dist in (useful, climatology)]
    [0.05, 0.01]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    kernel = curve_of_levels(levels, kind, root_calibration_error)
    return value_of(kernel, *check_forecast(y_true, y_pred, sample_weight))
