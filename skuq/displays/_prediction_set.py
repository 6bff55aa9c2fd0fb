"""Plot of the coverage or the size of prediction sets against the nominal coverage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_coverage, check_option
from skuq.displays._display import CurveDisplay, as_folds, as_list, one_or_list
from skuq.displays._drawing import REFERENCE, Axes, Style, check_matplotlib
from skuq.metrics import conditional_set_coverage
from skuq.prediction._predict_set import class_proba, predict_set, prediction_set

SHOWN = ("coverage", "size")
CLAIMED, NOMINAL = "Predicted coverage", "Nominal coverage"
COVERAGES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)


@dataclass(kw_only=True, eq=False, repr=False)
class PredictionSetDisplay(CurveDisplay):
    """Observed and predicted coverage of prediction sets, or their size, against the nominal coverage.

    The plot shows whether the sets of a classifier are calibrated, and how large they are. The dotted curve
    is the predicted coverage: the sum of the probabilities of the classes in a set, averaged over the rows.
    The curve of a calibrated classifier is near the dotted curve. If the curve is below the dotted curve, the
    classifier is overconfident. Both curves are above the diagonal, because the last class of a set increases
    the sum of the probabilities above the nominal coverage. For conformal sets, the predicted coverage is the
    nominal coverage, so there is no dotted curve.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. To add another model to
    the same axes, pass ``ax=display.ax_``.

    Parameters
    ----------
    table : DataFrame, or list of DataFrame
        Columns `nominal`, `coverage`, `claimed` and `size`. A list has one table per fold.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D or list of Line2D
        The curve. A list has one line per fold.
    claimed_ : matplotlib.lines.Line2D or None
        The curve of the predicted coverage. None if the plot shows sizes, if there are several folds, or if
        the predicted coverage equals the nominal coverage.
    ref_line_ : matplotlib.lines.AxLine or None
        The diagonal. None if the plot shows sizes, if `ref_line` is False, or if an earlier display has drawn
        the diagonal on the same axes.
    ax_ : matplotlib.axes.Axes
        The axes of the plot.
    figure_ : matplotlib.figure.Figure
        The figure of the plot.

    See Also
    --------
    skuq.metrics.set_coverage_error : The distance between the curves at one nominal coverage.
    ClassReliabilityDisplay : Calibration of the class probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.displays import PredictionSetDisplay
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (rng.random((1000, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    >>> display = PredictionSetDisplay.from_predictions(y, proba, coverage=[0.5, 0.9], name="model")
    >>> display.table.round(2)
       nominal  coverage  claimed  size
    0      0.5      0.72     0.71  1.26
    1      0.9      0.97     0.97  2.44
    """

    _of_classes = True

    table: pd.DataFrame | list[pd.DataFrame]
    name: str | None = None

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        show: str = "coverage",
        ref_line: bool = True,
        line_kwargs: Style = None,
        claimed_kwargs: Style = None,
        ref_line_kwargs: Style = None,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        name : str, default=None
            Name in the legend. None uses the attribute `name`.
        show : {"coverage", "size"}, default="coverage"
            Vertical axis: observed coverage, or mean number of classes in a set.
        ref_line : bool, default=True
            Whether to draw the diagonal. It is drawn only once on the same axes.
        line_kwargs : dict, default=None
            Keywords for the curve, passed to ``Axes.plot``.
        claimed_kwargs : dict, default=None
            Keywords for the predicted coverage, passed to ``Axes.plot``.
        ref_line_kwargs : dict, default=None
            Keywords for the diagonal, passed to ``Axes.plot``.

        Returns
        -------
        display : PredictionSetDisplay
            The display itself.
        """
        column = check_option(show, "show", SHOWN)
        self._use_axes(ax, (5.2, 5.2))
        tables: list[pd.DataFrame] = as_list(self.table)
        curves = [(table["nominal"].to_numpy(), table[column].to_numpy()) for table in tables]
        color = self._draw_curves(curves, name, line_kwargs, markersize=3.5)
        self.claimed_ = self.ref_line_ = None
        if show == "coverage":
            if len(tables) == 1 and not np.array_equal(tables[0]["claimed"], tables[0]["nominal"]):
                ends = tables[0]["nominal"], tables[0]["claimed"]
                style = {"color": color, "linestyle": ":", "linewidth": 1.6, "zorder": 2.1, "gid": REFERENCE}
                self.claimed_ = self._draw_line(
                    *ends, claimed_kwargs, "claimed_kwargs", label=CLAIMED, **style
                )
            self.ref_line_ = self._draw_diagonal(ref_line, ref_line_kwargs, NOMINAL)
            self.ax_.set(xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal")
        ylabel = "Observed coverage" if show == "coverage" else "Mean number of classes in a set"
        return self._finish("Nominal coverage of the sets", ylabel)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        labels: ArrayLike | None = None,
        coverage: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the sets of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed targets. Class labels of rows on which the model was not trained.
        y_pred : array-like of shape (n, K), or of bool and shape (n, K, k)
            Forecast of every target. Class probabilities, or the sets of k coverages. Sets of one coverage
            may have shape (n, K).
        labels : array-like of shape (K,), default=None
            Class of each column, such as ``estimator.classes_``. None means the sorted classes in `y_true`,
            which must then contain all classes.
        coverage : float or array-like of shape (k,), default=None
            Nominal coverages. None means 14 values from 0.05 to 0.99. Required if `y_pred` contains sets.
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
        display : PredictionSetDisplay
            The drawn display.
        """
        check_matplotlib("PredictionSetDisplay.from_predictions")
        options = {"coverage": coverage} | ({} if labels is None else {"labels": labels})
        folds = as_folds(y_true, y_pred, sample_weight)
        table = one_or_list([fold.call(set_table, **options) for fold in folds])
        return cls(table=table, name=name).plot(ax, **kwargs)

    @classmethod
    def _predict(cls, estimator: Any, X: Any, options: dict[str, Any]) -> Any:
        options["coverage"] = coverage = _nominal(options.get("coverage"))
        proba, sets = class_proba(estimator, X), predict_set(estimator, X, coverage)
        return proba if np.array_equal(sets, prediction_set(proba, coverage)) else sets


def set_table(
    y_true: ArrayLike, y_pred: Any, *, coverage: ArrayLike | None = None, **options: Any
) -> pd.DataFrame:
    """Return the nominal, observed and predicted coverage, and the mean size of the sets."""
    nominal = _nominal(coverage)
    forecast = np.asarray(y_pred)
    is_sets = forecast.dtype == np.bool_
    if is_sets and forecast.ndim == 2 and nominal.size == 1:
        forecast = forecast[..., np.newaxis]
    if is_sets and (coverage is None or forecast.shape[2:] != nominal.shape):
        raise ValueError(
            "`y_pred` must have shape (n, K, k) for sets, with one set per row and value of `coverage`, "
            f"got {forecast.shape}."
        )
    together = np.zeros(len(forecast))  # All rows are one group.
    rows = [
        conditional_set_coverage(
            y_true,
            forecast[..., k] if is_sets else forecast,
            coverage=coverage,
            groups=together,
            **options,
        )
        for k, coverage in enumerate(nominal.tolist())
    ]
    table = pd.concat(rows, ignore_index=True)
    table.insert(0, "nominal", nominal)
    return table.rename(columns={"mean_size": "size"})[["nominal", "coverage", "claimed", "size"]]


def _nominal(coverage: ArrayLike | None) -> FloatArray:
    return np.atleast_1d(check_coverage(COVERAGES if coverage is None else coverage, "coverage"))
