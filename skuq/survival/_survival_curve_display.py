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
from skuq.displays._display import CurveMixin, Display, Fold, event_of_folds
from skuq.displays._drawing import (
    REFERENCE,
    Style,
    check_matplotlib,
    draw_legend,
    has_label,
    merge_style,
    percent,
)
from skuq.distributions import as_distribution
from skuq.survival._kaplan_meier import KaplanMeierCurve, kaplan_meier_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.lines import Line2D

_N_TIMES = 200


@dataclass(kw_only=True, eq=False, repr=False)
class SurvivalCurveDisplay(CurveMixin, Display):
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
    observed_line_ : matplotlib.lines.Line2D
        The Kaplan-Meier estimate.
    band_ : matplotlib.collections.PolyCollection
        The confidence band of the Kaplan-Meier estimate.
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
            [(self.times, self.predicted)], self.name if name is None else name, line_kwargs, zorder=2.4
        )
        self.spread_ = None
        if rows_band:
            label = f"Curves of {percent(self.coverage)} of the rows"
            default = {"color": color, "alpha": 0.1, "linewidth": 0.0, "zorder": 1.8, "gid": REFERENCE}
            self.spread_ = self._fill(
                self.times, self.low, self.high, label, default, rows_kwargs, "rows_kwargs"
            )
        self._draw_observed(color, observed_kwargs, fill_kwargs)
        self.ax_.set(xlabel="Time t (units of y)", ylabel="Probability of y > t", ylim=(0.0, 1.02))
        draw_legend(self.ax_)
        return self

    def _draw_observed(self, color: Any, line_style: Style, fill_style: Style) -> None:
        curve = self.observed
        times = np.concatenate([[min(self.times[0], curve.times[0])], curve.times])
        survival, low, high = (
            np.concatenate([[1.0], values]) for values in (curve.survival, curve.low, curve.high)
        )
        label = f"{percent(self.confidence)} confidence band"
        default = {"color": color, "alpha": 0.3, "linewidth": 0.0, "zorder": 2.0, "gid": REFERENCE}
        self.band_ = self._fill(
            times, low, high, label, {**default, "step": "post"}, fill_style, "fill_kwargs"
        )
        line = {
            "color": color,
            "linewidth": 1.0,
            "linestyle": (0, (3, 1.5)),
            "drawstyle": "steps-post",
            "zorder": 2.3,
            "gid": REFERENCE,
        }
        if not has_label(self.ax_, "Kaplan-Meier"):
            line["label"] = "Kaplan-Meier"
        merged = merge_style("lines.Line2D", line, line_style, "observed_kwargs")
        self.observed_line_: Line2D = self.ax_.plot(times, survival, **merged)[0]

    def _fill(
        self,
        times: FloatArray,
        low: FloatArray,
        high: FloatArray,
        label: str,
        default: dict[str, Any],
        style: Style,
        name: str,
    ) -> PolyCollection:
        step = default.pop("step", None)
        if not has_label(self.ax_, label):
            default["label"] = label
        merged = merge_style("collections.PolyCollection", default, style, name)
        return self.ax_.fill_between(times, low, high, step=step, **merged)

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
