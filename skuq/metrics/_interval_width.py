"""Width of prediction intervals relative to the target's spread, alone and with a penalty for misses."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_number, check_option, check_single_coverage, check_target
from skuq.metrics._inputs import check_interval_forecast
from skuq.metrics._intervals import interval_coverage
from skuq.metrics._kernels import weighted_mean
from skuq.metrics._rounding import reaches
from skuq.metrics._spec import metric

NORMS = ("range", "std")
FORMULAS = ("khosravi", "mapie")


@metric(
    "nmpiw",
    title="NMPIW",
    units=0,
    direction=None,
    optimum=None,
    needs="interval",
    proper=False,
    source="Khosravi et al. 2011; Wibbeke et al. 2025, eq. 2; Kompa et al. 2021",
    meaning="the intervals are {percent} as wide as the targets spread",
)
def normalized_mean_interval_width(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    norm: str | float = "range",
    y_train: ArrayLike | None = None,
) -> float:
    r"""Mean width of the prediction intervals relative to the spread of the target (NMPIW, PINAW).

    How precise are the intervals, on a scale that compares data sets? To be read beside their coverage: among
    intervals that hold, narrower is better. It is not proper: intervals of no width are narrowest and never
    hold (see the example), so do not select by it.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets; their spread is the unit where `y_train` and a number for `norm` are missing.
    y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target; an array holds lower and upper bounds.
    sample_weight : array-like of shape (n,), default=None
        Repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage of the central interval that is formed. Bounds are taken as they are.
    norm : {"range", "std"} or float, default="range"
        The unit: largest less smallest target [1]_, the targets' standard deviation, or a positive number.
    y_train : array-like of shape (m,), default=None
        Targets whose spread is the unit instead: with those the model was fitted on and ``norm="std"``, the
        width of [3]_. Make the scorer by ``make_scorer("nmpiw", norm="std", y_train=y)``, for the spread
        of a test fold changes from fold to fold.

    Returns
    -------
    width : float
        A fraction; narrower is sharper. Infinite if an interval is, or if the targets do not vary.

    See Also
    --------
    mean_interval_width : In the units of y.
    coverage_width_loss : With a penalty for missing coverage.

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
    >>> normalized_mean_interval_width([1.0, 4.0], bounds, norm="std", y_train=[0.0, 4.0])
    1.5

    Narrowest, and always wrong:

    >>> normalized_mean_interval_width([0.0, 1.0], [[7.0, 7.0], [7.0, 7.0]])
    0.0
    """
    y, lower, upper, weight = check_interval_forecast(y_true, y_pred, coverage, sample_weight)
    return relative_width(weighted_mean(upper - lower, weight), width_unit(norm, y, weight, y_train))


def width_unit(
    norm: str | float, y: FloatArray, weight: FloatArray | None, y_train: ArrayLike | None
) -> float:
    """Return the number that widths are divided by: the spread of the targets, or the number itself."""
    if not isinstance(norm, str):
        if y_train is not None:
            raise ValueError(f"`y_train` must be left out where `norm` is a number, got norm={norm!r}.")
        return check_number(norm, "norm", positive=True)
    check_option(norm, "norm", NORMS)
    if y_train is not None:
        y, weight = check_target(y_train, "y_train"), None
    if norm == "range":
        return float(y.max() - y.min())
    centre = y[0]  # a shift that makes the spread of equal values exactly 0
    mean = weighted_mean(y - centre, weight)
    return float(np.sqrt(weighted_mean(np.square(y - centre - mean), weight)))


def relative_width(width: float, unit: float) -> float:
    """Return width / unit; 0 / 0, no width where nothing varies, counts as 0."""
    if unit > 0:
        return width / unit
    return 0.0 if width == 0 else np.inf


@metric(
    "cwc",
    title="CWC",
    units=0,
    direction="lower",
    optimum=0.0,
    needs="interval",
    proper=False,
    small_sample=True,
    source="Khosravi et al. 2011; Wibbeke et al. 2025, eq. 4",
)
def coverage_width_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    eta: float = 50.0,
    norm: str | float = "range",
    y_train: ArrayLike | None = None,
    formula: str = "khosravi",
) -> float:
    r"""Coverage width-based criterion (CWC): the width of the intervals, blown up where they miss too often.

    Which intervals are narrow among those that hold? The criterion of Khosravi et al., which [2]_ found to
    detect miscalibration reliably. It is not proper: intervals of no width are perfect to it, and it jumps
    where the coverage reaches its nominal value, so that chance decides between models that are calibrated
    (see the example). `interval_score_loss` trades width for coverage properly.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Targets; their spread is the unit where `y_train` and a number for `norm` are missing.
    y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target; an array holds lower and upper bounds.
    sample_weight : array-like of shape (n,), default=None
        Repetitions of each row.
    coverage : float, default=0.9
        Nominal coverage: of the central interval that is formed, or that the bounds claim.
    eta : float, default=50.0
        How hard a coverage below nominal is punished; 50 is that of [1]_ and [2]_.
    norm : {"range", "std"} or float, default="range"
        Unit of the width, as in `normalized_mean_interval_width`.
    y_train : array-like of shape (m,), default=None
        Targets whose spread is the unit instead.
    formula : {"khosravi", "mapie"}, default="khosravi"
        That of [1]_, or minus the score of the package MAPIE, where larger is better: it punishes too
        high a coverage like too low a one, is at best -1, and gives `eta` another meaning.

    Returns
    -------
    loss : float
        A fraction; lower is better, at best 0. Infinite if an interval is, or if the targets do not vary.

    Warns
    -----
    SmallSampleWarning
        Below 500 rows.

    See Also
    --------
    interval_score_loss : Width and coverage in one proper score.
    normalized_mean_interval_width : The width alone.

    Notes
    -----
    .. math:: \mathrm{CWC} = \mathrm{NMPIW}
        \big(1 + 1\{\mathrm{PICP} < c\} e^{-\eta (\mathrm{PICP} - c)}\big)

    and MAPIE's :math:`(1 - \mathrm{NMPIW}) e^{-\eta (\mathrm{PICP} - c)^2}`, with c the nominal coverage.

    References
    ----------
    .. [1] Khosravi et al. (2011), Lower upper bound estimation method for construction of neural
       network-based prediction intervals. https://doi.org/10.1109/TNN.2010.2096824
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 4 and section 4.5. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import coverage_width_loss, interval_score_loss
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> honest = (np.zeros(1000), np.ones(1000))
    >>> round(coverage_width_loss(y, honest), 2)
    0.47
    >>> certain = np.full((1000, 2), 99.0)  # no width, no hit
    >>> coverage_width_loss(y, certain)
    0.0
    >>> interval_score_loss(y, honest) < interval_score_loss(y, certain)
    True
    """
    check_option(formula, "formula", FORMULAS)
    strength = check_number(eta, "eta")
    if strength < 0 and formula == "khosravi":
        raise ValueError(f"`eta` must be non-negative, got {eta!r}: a negative one rewards misses.")
    y, lower, upper, weight = check_interval_forecast(y_true, y_pred, coverage, sample_weight)
    unit = width_unit(norm, y, weight, y_train)
    width = relative_width(weighted_mean(upper - lower, weight), unit)
    excess_coverage = interval_coverage(y, lower, upper, weight) - check_single_coverage(coverage)
    return coverage_width(width, excess_coverage, strength, formula)


def coverage_width(width: float, excess_coverage: float, eta: float, formula: str) -> float:
    """Return the criterion from the relative width and the coverage above nominal."""
    with np.errstate(over="ignore"):
        if formula == "mapie":
            factor = float(np.exp(-eta * excess_coverage**2))
            return (width - 1) * factor if factor > 0 else 0.0
        if reaches(excess_coverage, 0.0) or width == 0:
            return width
        return width * (1 + float(np.exp(-eta * excess_coverage)))
