"""Plot of the relative economic value against the ratio of the cost to the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq.displays._display import CurveDisplay, as_folds, as_list, one_or_list
from skuq.displays._drawing import Axes, Style, check_matplotlib
from skuq.evaluation import relative_economic_value

_REFERENCE = "Knowledge of the frequency only"
_LEAST = -0.25
"""Lowest value of the axis. Forecasts with negative values are not useful, so lower values are not shown."""


@dataclass(kw_only=True, eq=False, repr=False)
class RelativeEconomicValueDisplay(CurveDisplay):
    """Relative economic value of a forecast against the ratio of cost to loss.

    The plot shows for which users a forecast is useful. A user acts against an event if the predicted
    probability of the event is at least the user's ratio of cost to loss. If the curve is below 0 at a ratio,
    users with this ratio should use the frequency of the event instead of the forecast. Values below -0.25
    are outside the axes.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. To add another model to
    the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    ratios : ndarray of shape (k,)
        Ratios of the cost of acting to the loss that acting prevents.
    values : ndarray of shape (k,), or list of ndarray
        Relative economic value at each ratio. At most 1. A list has one array per fold.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D or list of Line2D
        The curve. A list has one line per fold.
    ref_line_ : matplotlib.lines.Line2D or None
        The line at the value 0. None if `ref_line` is False, or if an earlier display has drawn the line on
        the same axes.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.evaluation.relative_economic_value : Computes the plotted numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import RelativeEconomicValueDisplay
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + np.exp(x / 2) * rng.normal(size=x.size)
    >>> display = RelativeEconomicValueDisplay.from_predictions(
    ...     y, Normal(x, np.exp(x / 2)), threshold=2.0, name="distribution"
    ... )
    >>> display = RelativeEconomicValueDisplay.from_predictions(
    ...     y, Normal(x, 0.0), threshold=2.0, name="point forecast", ax=display.ax_
    ... )
    >>> display.ax_.get_xlabel()
    'Cost of acting / prevented loss'
    """

    ratios: FloatArray
    values: FloatArray | list[FloatArray]
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        ref_line : bool, default=True
            Whether to draw a line at the value 0. It is drawn only once on the same axes.
        line_kwargs : dict, default=None
            Keywords for the curve, passed to ``Axes.plot``.
        ref_line_kwargs : dict, default=None
            Keywords for the value 0, passed to ``Axes.axhline``.

        Returns
        -------
        display : RelativeEconomicValueDisplay
            The display itself.
        """
        self._use_axes(ax, (6.0, 4.0))
        self.ref_line_ = self._draw_level(0.0, ref_line_kwargs, _REFERENCE) if ref_line else None
        curves = [(self.ratios, values) for values in as_list(self.values)]
        self._draw_curves(curves, name, line_kwargs)
        lowest = min(float(np.min(line.get_ydata())) for line in self.ax_.get_lines())
        self.ax_.set(xlim=(0.0, 1.0), ylim=(max(lowest - 0.05, _LEAST), 1.0))
        return self._finish("Cost of acting / prevented loss", "Relative economic value")

    @classmethod
    def from_predictions(  # type: ignore[override]
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        threshold: float,
        above: bool = True,
        ratios: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the value of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Use rows on which the model was not trained.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target.
        threshold : float
            Threshold of the event, in the units of y.
        above : bool, default=True
            Whether the event is a target above the threshold. False means a target below the threshold or
            equal to it.
        ratios : array-like of shape (k,), default=None
            Ratios of the cost of acting to the prevented loss. None means 0.01, 0.02, ..., 0.99.
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
        display : RelativeEconomicValueDisplay
            The drawn display.
        """
        check_matplotlib("RelativeEconomicValueDisplay.from_predictions")
        options = {"threshold": threshold, "above": above, "ratios": ratios}
        folds = as_folds(y_true, y_pred, sample_weight)
        tables = [fold.call(relative_economic_value, **options).sort_index() for fold in folds]
        return cls(
            ratios=tables[0].index.to_numpy(),
            values=one_or_list([table["value"].to_numpy() for table in tables]),
            name=name,
        ).plot(ax, **kwargs)
