"""Reliability diagram of a regression: observed errors against predicted standard deviations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.stats import chi2

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_repetitions, check_single_coverage
from skuq.displays._display import CurveDisplay, as_folds, as_list, one_or_list
from skuq.displays._drawing import Axes, Style, check_matplotlib, percent, with_unit
from skuq.metrics import reliability_table
from skuq.monitoring import MetricAccumulator

INTERVAL_COVERAGE = 0.9
"""Default coverage of the confidence intervals of the errors."""


@dataclass(kw_only=True, eq=False, repr=False)
class ReliabilityDisplay(CurveDisplay):
    """Root mean squared error against the predicted standard deviation, in bins of the standard deviation.

    The plot shows at which predicted standard deviations a model is overconfident. The curve of a calibrated
    model is near the diagonal. Above the diagonal, the errors are larger than predicted. If the curve is
    flat, the predicted standard deviation does not distinguish certain from uncertain rows. The curve does
    not depend on the shape of the distribution.

    The vertical lines are confidence intervals of the error of a bin. The intervals assume normal errors.
    They are too short for errors with heavy tails.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. To add another model to
    the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    table : DataFrame, or list of DataFrame
        Table from `skuq.metrics.reliability_table`. A list has one table per fold.
    unit : str, default=None
        Unit of the target. Shown in the axis labels.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D or list of Line2D
        The curve. A list has one line per fold.
    intervals_ : matplotlib.collections.LineCollection or None
        The intervals of the errors. None if `confidence` is None, or if there are several folds.
    ref_line_ : matplotlib.lines.AxLine or None
        The diagonal. None if `ref_line` is False, or if an earlier display has drawn the diagonal on the same
        axes.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.metrics.reliability_table : Computes the plotted numbers.
    skuq.metrics.expected_normalized_calibration_error : The mean relative distance from the diagonal.
    ResidualScaleDisplay : Errors of individual rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.displays import ReliabilityDisplay
    >>> rng = np.random.default_rng(0)
    >>> scale = rng.uniform(0.5, 3.0, size=1000)
    >>> y = rng.normal(scale=scale)
    >>> dist = Normal(np.zeros(1000), scale)
    >>> display = ReliabilityDisplay.from_predictions(y, dist, n_bins=5, name="model")
    >>> display.table["rmse"].round(1).tolist()
    [0.8, 1.4, 2.0, 2.3, 2.6]
    """

    table: pd.DataFrame | list[pd.DataFrame]
    unit: str | None = None
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        confidence: float | None = INTERVAL_COVERAGE,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
        interval_kwargs: Style = None,
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
        confidence : float or None, default=0.9
            Probability of the confidence intervals of the root mean squared errors, in (0, 1). None draws no
            intervals. No intervals are drawn for the results of several folds.
        line_kwargs : dict, default=None
            Keywords for the curve, passed to ``Axes.plot``.
        ref_line_kwargs : dict, default=None
            Keywords for the diagonal, passed to ``Axes.plot``.
        interval_kwargs : dict, default=None
            Keywords for the intervals of the errors, passed to ``Axes.vlines``.

        Returns
        -------
        display : ReliabilityDisplay
            The display itself.
        """
        self._use_axes(ax, (5.2, 5.2))
        tables: list[pd.DataFrame] = as_list(self.table)
        curves = [(table["rmv"].to_numpy(), table["rmse"].to_numpy()) for table in tables]
        color = self._draw_curves(curves, name, line_kwargs, markersize=4.5)
        self.intervals_ = None
        if confidence is not None and len(tables) == 1:
            share = check_single_coverage(confidence, "confidence")
            x, y, n = (tables[0][column].to_numpy() for column in ("rmv", "rmse", "n"))
            label = f"{percent(share)} interval of the error"
            self.intervals_ = self._draw_intervals(
                x, *rmse_interval(y, n, share), interval_kwargs, "interval_kwargs", color=color, label=label
            )
        self.ref_line_ = self._draw_diagonal(ref_line, ref_line_kwargs)
        self._use_equal_limits(least=0.0)
        return self._finish(
            with_unit("Predicted standard deviation", self.unit),
            with_unit("Root mean squared error", self.unit),
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        n_bins: int = 10,
        strategy: str = "quantile",
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
            Forecast of every target. Mean and standard deviation must be finite.
        n_bins : int, default=10
            Number of bins. About 100 rows per bin are enough.
        strategy : {"quantile", "uniform"}, default="quantile"
            "quantile" makes bins of equal total weight. "uniform" makes bins of equal width.
        unit : str, default=None
            Unit of the target. Shown in the axis labels.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row. If the weights are not counts, draw no intervals.
        name : str, default=None
            Name of the curve in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : ReliabilityDisplay
            The drawn display.
        """
        check_matplotlib("ReliabilityDisplay.from_predictions")
        folds = as_folds(y_true, y_pred, sample_weight)
        table = one_or_list(
            [fold.call(reliability_table, n_bins=n_bins, strategy=strategy) for fold in folds]
        )
        if kwargs.get("confidence", INTERVAL_COVERAGE) is not None:
            for fold in folds:
                fold.count_rows()
        return cls(table=table, unit=unit, name=name).plot(ax, **kwargs)

    @classmethod
    def from_accumulator(
        cls,
        accumulator: MetricAccumulator,
        *,
        unit: str | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the reliability diagram of accumulated rows.

        Parameters
        ----------
        accumulator : MetricAccumulator
            Accumulator that was created with "reliability" in `curves`.
        unit : str, default=None
            Unit of the target. Shown in the axis labels.
        name : str, default=None
            Name of the curve in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : ReliabilityDisplay
            The drawn display.
        """
        check_matplotlib("ReliabilityDisplay.from_accumulator")
        table = accumulator.reliability_table()
        if kwargs.get("confidence", INTERVAL_COVERAGE) is not None:
            check_repetitions(accumulator.total_weight, accumulator.n_rows)
        return cls(table=table, unit=unit, name=name).plot(ax, **kwargs)


def rmse_interval(rmse: FloatArray, n: FloatArray, coverage: float) -> tuple[FloatArray, FloatArray]:
    tail = (1 - coverage) / 2
    lower, upper = (rmse * np.sqrt(n / chi2.ppf(p, n)) for p in (1 - tail, tail))
    return lower, upper
