"""Plot of the mean predicted survival curve and the Kaplan-Meier estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skuq._numeric import weighted_mean, weighted_quantiles
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    as_float_array,
    check_finite,
    check_increasing,
    check_option,
    check_sample_weight,
    check_single_coverage,
    check_target,
    effective_rows,
)
from skuq.displays._display import Display, Fold, event_of_folds
from skuq.displays._drawing import REFERENCE, Style, check_matplotlib, percent
from skuq.distributions import as_distribution
from skuq.survival._kaplan_meier import KaplanMeierCurve, kaplan_meier_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_N_TIMES = 200


@dataclass(kw_only=True, eq=False, repr=False)
class SurvivalCurveDisplay(Display):
    """Mean predicted survival curve, with the Kaplan-Meier estimate and its confidence band.

    The survival curve is the probability that the target is larger than a time. If a forecast is calibrated,
    the mean predicted curve lies in the band of the Kaplan-Meier estimate. A second band shows how much the
    curves of individual rows differ. At each time, it contains the share `coverage` of these curves. Draw
    groups of rows one after another on the same axes.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. To add another group or
    model to the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    times : ndarray of shape (k,)
        Times of the predicted curve, in the units of y.
    predicted : ndarray of shape (k,)
        Mean predicted survival, in [0, 1].
    low, high : ndarray of shape (k,)
        Bounds of the band of the rows' curves: quantiles, over the rows, of the predicted survival.
    observed : KaplanMeierCurve
        Kaplan-Meier estimate with confidence intervals.
    coverage : float, default=0.9
        Share of rows between `low` and `high`.
    confidence : float, default=0.95
        Nominal coverage of the confidence intervals.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D
        The mean predicted curve.
    spread_ : matplotlib.collections.PolyCollection or None
        The band of the rows' curves.
    observed_line_ : matplotlib.lines.Line2D or None
        The Kaplan-Meier estimate. None if an earlier display has drawn the same estimate on the same axes.
    band_ : matplotlib.collections.PolyCollection or None
        The confidence band of the Kaplan-Meier estimate. None if `observed_line_` is None.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.displays.CalibrationCurveDisplay : Calibration at all levels. It also accepts ``event``.
    skuq.survival.survival_calibration_table : Calibration at one time, in bins of the prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.survival import SurvivalCurveDisplay
    >>> rng = np.random.default_rng(0)
    >>> T, C = rng.normal(5.0, size=300), rng.normal(6.0, size=300)
    >>> y, event = np.minimum(T, C), T <= C
    >>> dist = Normal(np.full(300, 5.0), np.ones(300))
    >>> display = SurvivalCurveDisplay.from_predictions(y, dist, event=event, times=[4.0, 5.0, 6.0])
    >>> display.predicted.round(2), display.observed([4.0, 5.0, 6.0]).round(2)
    (array([0.84, 0.5 , 0.16]), array([0.82, 0.46, 0.17]))
    """

    _takes_class_name = True

    times: FloatArray
    predicted: FloatArray
    low: FloatArray
    high: FloatArray
    observed: KaplanMeierCurve
    coverage: float = DEFAULT_COVERAGE
    confidence: float = 0.95
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        rows_band: bool = True,
        line_kwargs: Style = None,
        rows_kwargs: Style = None,
        observed_kwargs: Style = None,
        fill_kwargs: Style = None,
    ) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        rows_band : bool, default=True
            Whether to draw the band of the rows' curves.
        line_kwargs : dict, default=None
            Keywords for the mean predicted curve, passed to ``Axes.plot``.
        rows_kwargs : dict, default=None
            Keywords for the band of the rows' curves, passed to ``Axes.fill_between``.
        observed_kwargs : dict, default=None
            Keywords for the Kaplan-Meier estimate, passed to ``Axes.plot``.
        fill_kwargs : dict, default=None
            Keywords for the confidence band, passed to ``Axes.fill_between``.

        Returns
        -------
        display : SurvivalCurveDisplay
            The display itself.
        """
        self._use_axes(ax, (6.4, 4.2))
        check_option(rows_band, "rows_band", (True, False))
        color = self._draw_curves(
            [(self.times, self.predicted)], self.name if name is None else name, line_kwargs
        )
        self.spread_ = None
        if rows_band:
            ends, label = (self.low, self.high), f"Curves of {percent(self.coverage)} of the rows"
            style = {"color": color, "alpha": 0.1, "zorder": 1.8, "label": label}
            self.spread_ = self._draw_fill(self.times, *ends, rows_kwargs, "rows_kwargs", **style)
        self._draw_observed(color, observed_kwargs, fill_kwargs)
        self.ax_.set(ylim=(0.0, 1.02))
        return self._finish("Time t (units of y)", "Probability of y > t")

    def _draw_observed(self, color: Any, line_style: Style, fill_style: Style) -> None:
        curve = self.observed
        times = np.concatenate([[min(self.times[0], curve.times[0])], curve.times])
        survival, low, high = (
            np.concatenate([[1.0], values]) for values in (curve.survival, curve.low, curve.high)
        )
        self.band_ = self.observed_line_ = None
        if self._has_reference(times, survival):
            return
        label = f"{percent(self.confidence)} confidence band"
        self.band_ = self._draw_fill(
            times, low, high, fill_style, step="post", color=color, alpha=0.3, label=label
        )
        style = {"color": color, "linewidth": 1.0, "linestyle": (0, (3, 1.5)), "drawstyle": "steps-post"}
        style |= {"zorder": 2.3, "label": "Kaplan-Meier", "gid": REFERENCE}
        self.observed_line_ = self._draw_line(times, survival, line_style, "observed_kwargs", **style)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        event: ArrayLike | None = None,
        times: ArrayLike | None = None,
        coverage: float = DEFAULT_COVERAGE,
        confidence: float = 0.95,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the survival curves of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. For a censored row, the time of censoring. Use rows on which the model
            was not trained.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target.
        event : array-like of bool, shape (n,), default=None
            True if the target is observed. False if the target is only known to be larger than y. None means
            that all targets are observed.
        times : array-like of shape (k,), default=None
            Increasing times of the predicted curve. None means 200 equally spaced times. They start at 0, or
            at the smallest y if it is negative, and end at the largest y.
        coverage : float, default=0.9
            Share of rows in the band of the rows' curves. Strictly between 0 and 1.
        confidence : float, default=0.95
            Probability of the pointwise confidence band. Strictly between 0 and 1.
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
        display : SurvivalCurveDisplay
            The drawn display.
        """
        check_matplotlib("SurvivalCurveDisplay.from_predictions")
        dist = as_distribution(y_pred, y_true=y_true)
        y = check_target(y_true, n=len(dist))
        weight = check_sample_weight(sample_weight, len(y))
        effective_rows(weight, len(y))  # raises for relative weights
        share = check_single_coverage(coverage, "coverage")
        observed = kaplan_meier_curve(y, event, sample_weight=weight, confidence=confidence)
        if times is None:
            grid = np.linspace(min(0.0, float(y.min())), float(y.max()), _N_TIMES)
        else:
            grid = check_increasing(check_finite(as_float_array(times, "times"), "times"), "times")
        survival = [dist.sf(t) for t in grid.tolist()]
        tails = [(1 - share) / 2, (1 + share) / 2]
        low, high = np.transpose([weighted_quantiles(values, tails, weight) for values in survival])
        display = cls(
            times=grid,
            predicted=np.array([weighted_mean(values, weight) for values in survival]),
            low=low,
            high=high,
            observed=observed,
            coverage=share,
            confidence=confidence,
            name=name,
        )
        return display.plot(ax, **kwargs)

    @classmethod
    def _from_folds(cls, folds: Sequence[Fold], *, event: Any = None, **kwargs: Any) -> Self:
        return super()._from_folds(folds, event=event_of_folds(event, folds), **kwargs)
