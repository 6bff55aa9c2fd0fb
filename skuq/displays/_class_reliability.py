"""Reliability diagram of class probabilities: observed frequencies against predicted probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.stats import beta

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_single_coverage
from skuq.displays._display import CurveDisplay, as_folds, as_list, one_or_list
from skuq.displays._drawing import Axes, Style, check_matplotlib, percent
from skuq.evaluation import probability_reliability_curve
from skuq.metrics import class_reliability_table
from skuq.monitoring import ClassMetricAccumulator


@dataclass(kw_only=True, eq=False, repr=False)
class ClassReliabilityDisplay(CurveDisplay):
    """Observed frequencies of classes against predicted probabilities, in bins of the probability.

    The plot shows at which probabilities a classifier is overconfident. The classifier may have any number of
    classes. By default, the plot describes the most probable class of each row, and the observed frequency is
    the accuracy. With `of_class`, the plot describes one class. The curve of a calibrated classifier is near
    the diagonal. A point below the diagonal means that the class is observed less often than predicted. The
    vertical lines are confidence intervals of the observed frequency of a bin.

    With ``strategy="isotonic"``, the curve is the isotonic regression of the class on the probability,
    without bins. The consistency band contains most curves of calibrated probabilities. The confidence band
    shows the uncertainty of the curve itself.

    Create the display with `from_estimator`, `from_predictions`, `from_cv_results` or `from_accumulator`. To
    add another model or another class to the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    table : DataFrame, or list of DataFrame
        Table from `skuq.metrics.class_reliability_table`, or curve from
        `skuq.evaluation.probability_reliability_curve`. A list has one table per fold.
    confidence : float or None, default=0.9
        Probability of the intervals of the frequencies, or of the band of a curve. Shown in the legend. None
        draws no intervals.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D or list of Line2D
        The curve. A list has one line per fold.
    intervals_ : matplotlib.collections.LineCollection or None
        The intervals of the frequencies. None if `confidence` is None, if there are several folds, or
        if the strategy is "isotonic".
    band_ : matplotlib.collections.PolyCollection or None
        The band of a curve. None if the plot shows bins, if `band` is None, or if there are several folds.
    ref_line_ : matplotlib.lines.AxLine or None
        The diagonal. None if `ref_line` is False, or if an earlier display has drawn the diagonal on the same
        axes.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.metrics.expected_calibration_error : The mean distance from the diagonal.
    skuq.evaluation.score_decomposition : The part of the Brier score or log loss due to miscalibration.
    sklearn.calibration.CalibrationDisplay : Reliability diagram of scikit-learn. It supports two classes.
    ReliabilityDisplay : Reliability diagram of predictive distributions.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.displays import ClassReliabilityDisplay
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (rng.random((1000, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    >>> display = ClassReliabilityDisplay.from_predictions(y, proba, n_bins=5, name="model")
    >>> display.table["observed"].round(2).tolist()
    [0.48, 0.51, 0.7, 0.86]
    """

    _of_classes = True

    table: pd.DataFrame | list[pd.DataFrame]
    confidence: float | None = 0.9
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        line_kwargs: Style = None,
        ref_line_kwargs: Style = None,
        interval_kwargs: Style = None,
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
        interval_kwargs : dict, default=None
            Keywords for the intervals, passed to ``Axes.vlines``.
        fill_kwargs : dict, default=None
            Keywords for the band, passed to ``Axes.fill_between``.

        Returns
        -------
        display : ClassReliabilityDisplay
            The display itself.
        """
        self._use_axes(ax, (5.2, 5.2))
        tables: list[pd.DataFrame] = as_list(self.table)
        binned = "predicted" in tables[0]
        x, y = ("predicted", "observed") if binned else ("forecast", "recalibrated")
        curves = [(table[x].to_numpy(), table[y].to_numpy()) for table in tables]
        marker: dict[str, Any] = {"markersize": 4.5} if binned else {}
        color = self._draw_curves(curves, name, line_kwargs, **marker)
        self.band_ = self.intervals_ = None
        if self.confidence is not None and len(tables) == 1:
            share = check_single_coverage(self.confidence, "confidence")
            self.band_ = self._draw_curve_band(tables[0], share, color, fill_kwargs)
            if binned:
                lower, upper = frequency_interval(tables[0], share)
                label = f"{percent(share)} confidence interval"
                self.intervals_ = self._draw_intervals(
                    curves[0][0], lower, upper, interval_kwargs, "interval_kwargs", color=color, label=label
                )
        self.ref_line_ = self._draw_diagonal(ref_line, ref_line_kwargs)
        self.ax_.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        return self._finish("Predicted probability", "Observed frequency")

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        of_class: Any = None,
        n_bins: int = 15,
        strategy: str = "uniform",
        confidence: float | None = 0.9,
        band: str | None = "consistency",
        n_draws: int = 200,
        random_state: int | None = 0,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the reliability diagram of given probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Class labels of rows on which the model was not trained.
        y_pred : array-like of shape (n, K)
            Forecast of every target. Class probabilities, as returned by ``predict_proba``.
        labels : array-like of shape (K,), default=None
            Class of each column, such as ``estimator.classes_``. None means the sorted classes in `y_true`,
            which must then contain all classes.
        of_class : object, default=None
            Label of the class to draw. None draws the most probable class of each row.
        n_bins : int, default=15
            Number of bins of the probability.
        strategy : {"uniform", "quantile", "isotonic"}, default="uniform"
            "uniform" makes bins of equal width in [0, 1]. "quantile" makes bins of equal total weight.
            "isotonic" draws an isotonic regression without bins.
        confidence : float or None, default=0.9
            Probability, strictly between 0 and 1: of the confidence interval of each frequency, or that the
            band of an isotonic curve contains the curve at a single predicted probability. None draws no
            intervals. No intervals are drawn for the results of several folds.
        band : {"consistency", "confidence"} or None, default="consistency"
            "consistency" draws the range of the curves of calibrated probabilities. "confidence" draws the
            range of the curves of resampled rows. None draws no band. This parameter and the next two
            require ``strategy="isotonic"``.
        n_draws : int, default=200
            Number of draws of targets, or of resamples of the rows, for the band.
        random_state : int or None, default=0
            Controls the random draws of the band.
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
        display : ClassReliabilityDisplay
            The drawn display.
        """
        check_matplotlib("ClassReliabilityDisplay.from_predictions")
        folds = as_folds(y_true, y_pred, sample_weight)
        options: dict[str, Any] = {"of_class": of_class}
        if labels is not None:
            options["labels"] = labels
        if strategy == "isotonic":
            make: Any = probability_reliability_curve
            options |= {"band": band if len(folds) == 1 else None, "confidence": confidence}
            options |= {"n_draws": n_draws, "random_state": random_state}
        else:
            make = class_reliability_table
            options |= {"n_bins": n_bins, "strategy": strategy}
        table = one_or_list([fold.call(make, **options) for fold in folds])
        return cls(table=table, confidence=confidence, name=name).plot(ax, **kwargs)

    @classmethod
    def from_accumulator(
        cls,
        accumulator: ClassMetricAccumulator,
        *,
        confidence: float | None = 0.9,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the reliability diagram of accumulated rows.

        Parameters
        ----------
        accumulator : ClassMetricAccumulator
            Accumulator of the rows.
        confidence : float or None, default=0.9
            Probability of the confidence interval of each frequency, strictly between 0 and 1. None draws no
            intervals.
        name : str, default=None
            Name of the curve in the legend.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `plot`.

        Returns
        -------
        display : ClassReliabilityDisplay
            The drawn display.
        """
        check_matplotlib("ClassReliabilityDisplay.from_accumulator")
        table = accumulator.reliability_table()
        return cls(table=table, confidence=confidence, name=name).plot(ax, **kwargs)


def frequency_interval(table: pd.DataFrame, coverage: float) -> list[FloatArray]:
    hits = table["n"] * table["observed"]
    ends = (1 - coverage) / 2, (1 + coverage) / 2
    return [np.asarray(beta.ppf(p, hits + 0.5, table["n"] - hits + 0.5)) for p in ends]
