"""Calibration curve: the observed share of targets against the nominal level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy.stats import binom, kstwo

from skuq._numeric import weighted_mean
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_option,
    check_repetitions,
    check_sample_weight,
    check_single_coverage,
)
from skuq.displays._display import CurveDisplay, as_folds, as_list, event_of_folds, one_or_list
from skuq.displays._drawing import GRAY, Axes, Style, check_matplotlib, percent
from skuq.metrics import regression_calibration_curve
from skuq.monitoring import MetricAccumulator

Kind = Literal["quantile", "interval"]
Band = Literal["simultaneous", "pointwise"]

_LABELS = {
    "quantile": ("Predicted probability level (%)", "Observed frequency below the quantile (%)"),
    "interval": ("Nominal coverage of the central interval (%)", "Observed coverage (%)"),
}
_BAND = "sampling band"


@dataclass(kw_only=True, eq=False, repr=False)
class CalibrationCurveDisplay(CurveDisplay):
    """Observed share of targets against the nominal level.

    The plot shows whether predicted probabilities agree with observed frequencies on average. The curve of a
    calibrated model lies in the sampling band around the diagonal. With ``kind="quantile"``, a curve above
    the diagonal means that predictions are too high, and an S shape means that distributions are too narrow
    or too wide. With ``kind="interval"``, a curve below the diagonal means that intervals are too narrow. The
    curve does not show sharpness, and it does not show whether parts of the data are calibrated.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. To compare two models,
    or a model before and after recalibration, pass ``ax=display.ax_``. The second curve is then drawn on the
    same axes.

    Parameters
    ----------
    levels : ndarray of shape (k,)
        Nominal levels, in [0, 1].
    proportions : ndarray of shape (k,), or list of ndarray
        Observed proportions at the levels. A list has one array per fold.
    n_rows : float
        Number of rows per curve. The sampling band depends on this number.
    kind : {"quantile", "interval"}, default="quantile"
        Whether the levels belong to quantiles or to central intervals.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D or list of Line2D
        The curve. A list has one line per fold.
    ref_line_ : matplotlib.lines.AxLine or None
        The diagonal. None if `ref_line` is False, or if an earlier display has drawn the diagonal on the same
        axes.
    band_ : matplotlib.collections.PolyCollection or None
        The sampling band. None if `band` is None, or if an earlier display has drawn the band on the same
        axes.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.metrics.regression_calibration_curve : Computes the plotted numbers.
    PITHistogramDisplay : Histogram of the PIT values.
    IntervalDisplay : The intervals of individual rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import CalibrationCurveDisplay
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> overconfident = Normal(np.zeros(500), np.full(500, 0.5))
    >>> display = CalibrationCurveDisplay.from_predictions(y, overconfident, name="before")
    >>> display = CalibrationCurveDisplay.from_predictions(
    ...     y, Normal(np.zeros(500), np.ones(500)), name="after", ax=display.ax_
    ... )
    >>> display.ax_.get_xlabel()
    'Predicted probability level (%)'
    """

    levels: FloatArray
    proportions: FloatArray | list[FloatArray]
    n_rows: float
    kind: Kind = "quantile"
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        band: Band | None = "simultaneous",
        confidence: float = DEFAULT_COVERAGE,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
        fill_kwargs: Style = None,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        ref_line : bool, default=True
            Whether to draw the diagonal. It is drawn only once on the same axes.
        band : {"simultaneous", "pointwise"} or None, default="simultaneous"
            Region around the diagonal that contains the curve of a perfectly calibrated model with this
            number of rows. With "simultaneous", the region contains the whole curve with probability
            `confidence` (Kolmogorov-Smirnov). With "pointwise", the region contains each single point of
            the curve with this probability (binomial). The region is drawn only once on the same axes.
        confidence : float, default=0.9
            Probability of the band, in (0, 1).
        line_kwargs : dict, default=None
            Keywords for the curve, passed to ``Axes.plot``.
        ref_line_kwargs : dict, default=None
            Keywords for the diagonal, passed to ``Axes.plot``.
        fill_kwargs : dict, default=None
            Keywords for the band, passed to ``Axes.fill_between``.

        Returns
        -------
        display : CalibrationCurveDisplay
            The display itself.
        """
        self._use_axes(ax, (5.2, 5.2))
        check_option(self.kind, "kind", list(_LABELS))
        check_option(band, "band", ["simultaneous", "pointwise", None])
        probability = check_single_coverage(confidence, "confidence")
        self.band_ = None
        if band is not None and not any(_BAND in text for text in self.ax_.get_legend_handles_labels()[1]):
            grid = np.linspace(0.0, 1.0, 401)
            lower, upper = sampling_band(grid, self.n_rows, band, probability)
            label = f"{percent(probability)} {_BAND} (n = {self.n_rows:.0f})"
            style: dict[str, Any] = {"color": GRAY, "alpha": 0.22, "label": label, "zorder": 1.0}
            self.band_ = self._draw_fill(100 * grid, 100 * lower, 100 * upper, fill_kwargs, **style)
        self.ref_line_ = self._draw_diagonal(ref_line, ref_line_kwargs)
        levels = np.concatenate([[0.0], self.levels, [1.0]])
        curves = [
            (100 * levels, 100 * np.concatenate([[0.0], observed, [1.0]]))
            for observed in as_list(self.proportions)
        ]
        self._draw_curves(curves, name, line_kwargs)
        xlabel, ylabel = _LABELS[self.kind]
        self.ax_.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
        self.ax_.set_xticks(range(0, 101, 20))
        self.ax_.set_yticks(range(0, 101, 20))
        return self._finish(xlabel, ylabel)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        levels: int | ArrayLike = 99,
        kind: Kind = "quantile",
        band: Band | None = "simultaneous",
        event: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the calibration curve of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which the model was not trained.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target.
        levels : int or array-like of shape (k,), default=99
            Nominal levels in [0, 1]. An integer k means k evenly spaced levels. For example, 99 gives one
            level per percent.
        kind : {"quantile", "interval"}, default="quantile"
            Whether the levels belong to quantiles or to central intervals.
        band : {"simultaneous", "pointwise"} or None, default="simultaneous"
            Kind of sampling band. See `plot`. Use None if the weights are not counts of rows.
        event : array-like of bool, shape (n,), default=None
            True if the target is observed. False if the target is only known to be larger than y. None means
            that all targets are observed. With censored rows, the band is computed for the number of observed
            rows.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        name : str, default=None
            Name of the curve in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : CalibrationCurveDisplay
            The drawn display.
        """
        check_matplotlib("CalibrationCurveDisplay.from_predictions")
        folds = as_folds(y_true, y_pred, sample_weight)
        proportions, n_rows = [], []
        for fold in folds:
            mask = event_of_folds(event, [fold])
            curve = fold.call(regression_calibration_curve, levels=levels, kind=kind, event=mask)
            proportions.append(curve.observed)
            n = len(np.asarray(fold.y_true))
            rows = n if band is None else fold.count_rows()
            weight = check_sample_weight(fold.sample_weight, n)
            n_rows.append(
                rows if mask is None else rows * weighted_mean(np.asarray(mask, np.float64), weight)
            )
        return cls(
            levels=curve.levels,
            proportions=one_or_list(proportions),
            n_rows=float(min(n_rows)),
            kind=kind,
            name=name,
        ).plot(ax, band=band, **kwargs)

    @classmethod
    def from_accumulator(
        cls,
        accumulator: MetricAccumulator,
        *,
        band: Band | None = "simultaneous",
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the calibration curve of accumulated rows.

        Parameters
        ----------
        accumulator : MetricAccumulator
            Accumulator that was created with "calibration" in `curves`.
        band : {"simultaneous", "pointwise"} or None, default="simultaneous"
            Kind of sampling band. See `plot`. Use None if the weights are not counts of rows.
        name : str, default=None
            Name of the curve in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : CalibrationCurveDisplay
            The drawn display.
        """
        check_matplotlib("CalibrationCurveDisplay.from_accumulator")
        curve = accumulator.calibration_curve()
        n = accumulator.total_weight
        if band is not None:
            check_repetitions(n, accumulator.n_rows)
        display = cls(levels=curve.levels, proportions=curve.observed, n_rows=n, name=name)
        return display.plot(ax, band=band, **kwargs)


def sampling_band(
    levels: FloatArray, n_rows: float, band: Band, probability: float
) -> tuple[FloatArray, FloatArray]:
    # For any calibrated model, the number of rows below a level is binomial, and the largest distance from
    # the diagonal has the Kolmogorov-Smirnov distribution.
    rows = max(round(n_rows), 1)
    if band == "pointwise":
        tail = (1 - probability) / 2
        lower, upper = (np.asarray(binom.ppf(p, rows, levels) / rows) for p in (tail, 1 - tail))
        return lower, upper
    distance = float(kstwo.ppf(probability, rows))
    return np.maximum(levels - distance, 0.0), np.minimum(levels + distance, 1.0)
