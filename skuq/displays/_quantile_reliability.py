"""The reliability diagram of a quantile, with the quantile of the targets against the forecast quantile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import pandas as pd

from skuq._typing import ArrayLike
from skuq.displays._display import CurveDisplay, as_folds, as_list, one_or_list
from skuq.displays._drawing import Axes, Style, check_matplotlib, percent, with_unit
from skuq.evaluation import quantile_reliability_curve


@dataclass(kw_only=True, eq=False, repr=False)
class QuantileReliabilityDisplay(CurveDisplay):
    """Quantile of the targets given the forecast quantile, estimated by isotonic regression.

    The plot shows at which values the forecast quantile is too low or too high. The curve of a calibrated
    forecast is near the diagonal. Above the diagonal, the forecast quantile is too low. The consistency band
    contains most curves of calibrated forecasts. The confidence band shows the uncertainty of the curve
    itself.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. To add another model or
    another level to the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    table : DataFrame, or list of DataFrame
        Curve from `skuq.evaluation.quantile_reliability_curve`. A list has one curve per fold.
    levels : float, default=0.5
        Level of the quantile. Shown in the axis labels.
    confidence : float, default=0.9
        Probability of the band. Shown in the legend.
    unit : str, default=None
        Unit of the target. Shown in the axis labels.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D or list of Line2D
        The curve. A list has one line per fold.
    band_ : matplotlib.collections.PolyCollection or None
        The band. None if `band` is None, or if there are several folds.
    ref_line_ : matplotlib.lines.AxLine or None
        The diagonal. None if `ref_line` is False, or if an earlier display has drawn the diagonal on the same
        axes.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.evaluation.quantile_reliability_curve : Computes the plotted numbers.
    ClassReliabilityDisplay : Reliability diagram of class probabilities.
    CalibrationCurveDisplay : The observed share of targets at each nominal level.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import QuantileReliabilityDisplay
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=300)
    >>> y = x + rng.normal(size=300)
    >>> dist = Normal(x, np.ones(300))
    >>> display = QuantileReliabilityDisplay.from_predictions(y, dist, levels=0.9, random_state=0)
    >>> display.ax_.get_xlabel()
    'Forecast 90 % quantile'
    """

    table: pd.DataFrame | list[pd.DataFrame]
    levels: float = 0.5
    confidence: float = 0.9
    unit: str | None = None
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
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
        line_kwargs : dict, default=None
            Keywords for the curve, passed to ``Axes.plot``.
        ref_line_kwargs : dict, default=None
            Keywords for the diagonal, passed to ``Axes.plot``.
        fill_kwargs : dict, default=None
            Keywords for the band, passed to ``Axes.fill_between``.

        Returns
        -------
        display : QuantileReliabilityDisplay
            The display itself.
        """
        self._use_axes(ax, (5.2, 5.2))
        tables: list[pd.DataFrame] = as_list(self.table)
        curves = [(table["forecast"].to_numpy(), table["recalibrated"].to_numpy()) for table in tables]
        color = self._draw_curves(curves, name, line_kwargs)
        self.band_ = None
        if len(tables) == 1:
            self.band_ = self._draw_curve_band(tables[0], self.confidence, color, fill_kwargs)
        self.ref_line_ = self._draw_diagonal(ref_line, ref_line_kwargs)
        self._use_equal_limits()
        what = f"{percent(self.levels)} quantile"
        ylabel = with_unit(f"Conditional {what} of the targets", self.unit)
        return self._finish(with_unit(f"Forecast {what}", self.unit), ylabel)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        levels: float = 0.5,
        band: str | None = "consistency",
        confidence: float = 0.9,
        n_draws: int = 200,
        random_state: int | None = 0,
        unit: str | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the reliability diagram of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which the model was not trained.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target.
        levels : float, default=0.5
            Level of the quantile, in (0, 1).
        band : {"consistency", "confidence"} or None, default="consistency"
            "consistency" draws the range of the curves of calibrated forecasts. "confidence" draws the range
            of the curves of resampled rows. None draws no band.
        confidence : float, default=0.9
            Probability that the band contains the curve at a single forecast.
        n_draws : int, default=200
            Number of draws of targets, or of resamples of the rows, for the band.
        random_state : int or None, default=0
            Controls the random draws of the band.
        unit : str, default=None
            Unit of the target. Shown in the axis labels.
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
        display : QuantileReliabilityDisplay
            The drawn display.
        """
        check_matplotlib("QuantileReliabilityDisplay.from_predictions")
        folds = as_folds(y_true, y_pred, sample_weight)
        options: dict[str, Any] = {"levels": levels, "confidence": confidence, "n_draws": n_draws}
        options |= {"band": band if len(folds) == 1 else None, "random_state": random_state}
        table = one_or_list([fold.call(quantile_reliability_curve, **options) for fold in folds])
        return cls(table=table, levels=levels, confidence=confidence, unit=unit, name=name).plot(ax, **kwargs)
