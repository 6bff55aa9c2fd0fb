"""Width of prediction intervals, divided by the spread of the targets. A penalty for misses can be added."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from skuq._numeric import reaches, standard_deviation
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_number, check_option, check_target
from skuq.metrics._inputs import Forecast, check_forecast_or_bounds, interval_bounds
from skuq.metrics._intervals import mean_width
from skuq.metrics._kernels import covered
from skuq.metrics._spec import Means, metric, value_of

SCALES = ("range", "std")
FORMULAS = ("khosravi", "mapie")


def width_and_hit_rows(
    y: FloatArray, forecast: Forecast, *, coverage: float
) -> tuple[FloatArray, FloatArray]:
    lower, upper = interval_bounds(y, forecast, coverage).T
    return upper - lower, covered(y, lower, upper)


def normalized_width(coverage: float, scale: str | float, y_train: ArrayLike | None) -> Means:
    rows, unit = mean_width(coverage).rows, width_unit(scale, y_train)
    if unit is None:
        return Means(rows, relative_width, spread=scale)  # type: ignore[arg-type]
    return Means(rows, lambda means: relative_width(means, unit))


def relative_width(means: FloatArray, unit: float | FloatArray) -> FloatArray:
    width = means[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((width == 0) & (unit == 0), 0.0, width / unit)


def width_unit(scale: str | float, y_train: ArrayLike | None) -> float | None:
    """Return the unit of the widths, or None if it is computed from the targets."""
    if not isinstance(scale, str):
        if y_train is not None:
            raise ValueError(f"`y_train` must be omitted if `scale` is a number, got scale={scale!r}.")
        return check_number(scale, "scale", positive=True)
    check_option(scale, "scale", SCALES)
    if y_train is None:
        return None
    target = check_target(y_train, "y_train")
    return float(np.ptp(target)) if scale == "range" else standard_deviation(target)


@metric(
    "nmpiw",
    title="NMPIW",
    bounds=(0.0, np.inf),
    needs="interval",
    source="Khosravi et al. 2011; Wibbeke et al. 2025, eq. 2; Kompa et al. 2021",
    meaning="the mean interval width is {percent} of the spread of the targets",
    kernel=normalized_width,
)
def normalized_mean_interval_width(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    scale: str | float = "range",
    y_train: ArrayLike | None = None,
) -> float:
    r"""Return the mean interval width relative to the spread of the target (NMPIW, PINAW).

    The smaller the better at equal coverage, minimum is zero. Report the width together with the coverage.
    Relative widths can be compared between data sets. The metric is not proper: intervals of width 0 have the
    best value, but contain no target (see the example). Do not select models by this metric.

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
    scale : {"range", "std"} or float, default="range"
        Unit of the widths: range of the targets [1]_, standard deviation of the targets, or a number above 0.
    y_train : array-like of shape (m,), default=None
        Targets whose range or standard deviation is the unit. None means `y_true`. The definition of [3]_
        uses the training targets and ``scale="std"``. For cross-validation, use ``make_scorer("nmpiw",
        monitoring=True, scale="std", y_train=y)``, so that all folds have the same unit.

    Returns
    -------
    width : float
        Mean width as a fraction of the unit. Infinite if an interval is infinite, or if all targets are
        equal.

    See Also
    --------
    mean_interval_width : The width in the units of y.
    coverage_width_loss : The width with a penalty for low coverage.

    Notes
    -----
    .. math:: \mathrm{NMPIW} = \frac1R \frac1n \sum_i (u_i - l_i)

    References
    ----------
    .. [1] Khosravi et al. (2011), Lower upper bound estimation method for construction of neural
       network-based prediction intervals. https://doi.org/10.1109/TNN.2010.2096824
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 2-3. https://doi.org/10.48550/arXiv.2508.17761
    .. [3] Kompa et al. (2021), Empirical frequentist coverage of deep learning uncertainty quantification
       procedures. https://doi.org/10.3390/e23121608

    Examples
    --------
    >>> from skuq.metrics import normalized_mean_interval_width
    >>> bounds = [[0.0, 2.0], [1.0, 5.0]]
    >>> normalized_mean_interval_width([1.0, 4.0], bounds)
    1.0
    >>> normalized_mean_interval_width([1.0, 4.0], bounds, scale="std", y_train=[0.0, 4.0])
    1.5

    Intervals of width 0 contain no target:

    >>> normalized_mean_interval_width([0.0, 1.0], [[7.0, 7.0], [7.0, 7.0]])
    0.0
    """
    given = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    return value_of(normalized_width(coverage, scale, y_train), *given)


def coverage_width(
    coverage: float, eta: float, scale: str | float, y_train: ArrayLike | None, formula: str
) -> Means:
    check_option(formula, "formula", FORMULAS)
    if check_number(eta, "eta") < 0 and formula == "khosravi":
        raise ValueError(f"`eta` must be non-negative, got {eta!r}. A negative value rewards misses.")
    relative = normalized_width(coverage, scale, y_train)

    def criterion(means: FloatArray, *spread: FloatArray) -> FloatArray:
        width, excess = relative.combine(means, *spread), means[..., 1] - coverage
        with np.errstate(over="ignore", invalid="ignore"):
            if formula == "mapie":
                factor = np.exp(-eta * excess**2)
                return np.where(factor > 0, (width - 1) * factor, 0.0)
            penalty = np.where(reaches(excess, 0.0), 0.0, np.exp(-eta * excess))
            return np.where(width == 0, 0.0, width * (1 + penalty))

    return replace(relative, rows=partial(width_and_hit_rows, coverage=coverage), combine=criterion)


@metric(
    "cwc",
    title="CWC",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="interval",
    small_sample=True,
    source="Khosravi et al. 2011; Wibbeke et al. 2025, eq. 4",
    kernel=coverage_width,
)
def coverage_width_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    eta: float = 50.0,
    scale: str | float = "range",
    y_train: ArrayLike | None = None,
    formula: str = "khosravi",
) -> float:
    r"""Return the coverage width-based criterion (CWC): the width with a penalty for low coverage.

    The smaller the better, minimum is zero. In the study of [2]_, the criterion detects miscalibration
    reliably. The metric is not proper: intervals of width 0 have the smallest value. The criterion jumps at
    the nominal coverage. A ranking of calibrated models by this criterion therefore depends on chance (see
    the example). `interval_score_loss` combines width and coverage in a proper score.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval. If `y_pred` holds bounds, they must have this coverage.
    eta : float, default=50.0
        Strength of the penalty for a coverage below nominal. The default is the value of [1]_ and [2]_.
    scale : {"range", "std"} or float, default="range"
        Unit of the width. See `normalized_mean_interval_width`.
    y_train : array-like of shape (m,), default=None
        Targets whose range or standard deviation is the unit. None means `y_true`.
    formula : {"khosravi", "mapie"}, default="khosravi"
        "khosravi" is the formula of [1]_. "mapie" is minus the score of the package MAPIE. The score of MAPIE
        penalizes a coverage above nominal as much as a coverage below nominal. The best value of "mapie" is
        -1. With "mapie", `eta` is the factor of a squared difference (see Notes).

    Returns
    -------
    loss : float
        Width with the penalty, as a fraction of the unit. Infinite if an interval is infinite, or if all
        targets are equal.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    interval_score_loss : Width and coverage in one proper score.
    normalized_mean_interval_width : The width alone.

    Notes
    -----
    .. math:: \mathrm{CWC} = \mathrm{NMPIW}
        \bigl(1 + 1\{\mathrm{PICP} < c\} e^{-\eta (\mathrm{PICP} - c)}\bigr)

    where c is the nominal coverage. The score of MAPIE is :math:`(1 - \mathrm{NMPIW}) e^{-\eta (\mathrm{PICP}
    - c)^2}`.

    References
    ----------
    .. [1] Khosravi et al. (2011), Lower upper bound estimation method for construction of neural
       network-based prediction intervals. https://doi.org/10.1109/TNN.2010.2096824
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 4 and section 4.5. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import coverage_width_loss, interval_score_loss
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> calibrated = Normal(np.zeros(1000), np.ones(1000))
    >>> round(coverage_width_loss(y, calibrated), 2)
    0.47
    >>> certain = np.full((1000, 2), 99.0)  # width 0, all targets missed
    >>> coverage_width_loss(y, certain)
    0.0
    >>> interval_score_loss(y, calibrated) < interval_score_loss(y, certain)
    True
    """
    given = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    return value_of(coverage_width(coverage, eta, scale, y_train, formula), *given)
