"""Observed values over the prediction, or over a feature, with the bands that were promised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skuq._sklearn_compat import safe_indexing
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE, check_coverage, check_integer, check_target
from skuq.displays._drawing import (
    BLUE,
    INK,
    Style,
    check_column,
    check_matplotlib,
    choose_rows,
    get_axes,
    merge_style,
    percent,
)
from skuq.displays._interval import finite_bounds
from skuq.distributions import as_distribution
from skuq.prediction import predict_dist

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PredictionBandDisplay:
    """Observed values against predicted ones, with prediction intervals as bands.

    It answers how good the predictions are and whether the band follows the scatter: a band that is
    too narrow at one end and too wide at the other shows here and in no average. Over a feature it
    shows what the model makes of that feature.

    The band at a place is the mean of the bounds over neighbouring rows, at most `max_bins` groups of
    equal size; with fewer rows than that it is the interval of each row.

    Create it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    y_true : ndarray of shape (n,)
        Observed target.
    y_pred : ndarray of shape (n,)
        Point predictions.
    bounds : ndarray of shape (n, 2, k)
        Lower and upper bounds at each coverage.
    coverages : ndarray of shape (k,)
        Nominal coverages, in (0, 1).
    x : ndarray of shape (n,), default=None
        Where the rows lie on the horizontal axis; None takes the predictions.
    target_name : str, default="target"
        What is predicted, with its unit, for the axes.
    x_name : str, default=None
        Name of `x`, with its unit, for the axis.
    name : str, default=None
        Title of the axes.

    Attributes
    ----------
    bands_ : list of matplotlib.collections.PolyCollection
        One band for each coverage, the widest first.
    line_ : matplotlib.lines.Line2D
        The prediction; over itself, the diagonal.
    scatter_ : matplotlib.collections.PathCollection
        The observed values.
    ax_ : matplotlib.axes.Axes
        The axes drawn on.
    figure_ : matplotlib.figure.Figure
        The figure they belong to.

    See Also
    --------
    IntervalDisplay : The interval of each single row.
    CalibrationCurveDisplay : Every level at once.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.displays import PredictionBandDisplay
    >>> rng = np.random.default_rng(0)
    >>> loc = rng.uniform(1.0, 5.0, size=500)
    >>> y = rng.normal(loc, 0.2 * loc)
    >>> display = PredictionBandDisplay.from_predictions(y, (loc, 0.2 * loc), coverage=[0.5, 0.9])
    >>> len(display.bands_)
    2
    """

    def __init__(
        self,
        *,
        y_true: FloatArray,
        y_pred: FloatArray,
        bounds: FloatArray,
        coverages: FloatArray,
        x: FloatArray | None = None,
        target_name: str = "target",
        x_name: str | None = None,
        name: str | None = None,
    ) -> None:
        self.y_true = y_true
        self.y_pred = y_pred
        self.bounds = bounds
        self.coverages = coverages
        self.x = x
        self.target_name = target_name
        self.x_name = x_name
        self.name = name

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        max_rows: int | None = 1000,
        max_bins: int = 40,
        line_kwargs: Style = None,
        scatter_kwargs: Style = None,
        fill_kwargs: Style = None,
    ) -> Self:
        """Draw the bands.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        name : str, default=None
            Title; None takes the one stored.
        max_rows : int or None, default=1000
            At most so many observed values are drawn, evenly spaced from left to right; None draws
            all. The bands come from all rows.
        max_bins : int, default=40
            At most so many groups of neighbouring rows make up the bands.
        line_kwargs : dict, default=None
            Keywords for the prediction, as ``Axes.plot`` takes them.
        scatter_kwargs : dict, default=None
            Keywords for the observed values, as ``Axes.scatter`` takes them.
        fill_kwargs : dict, default=None
            Keywords for the bands, as ``Axes.fill_between`` takes them.

        Returns
        -------
        display : PredictionBandDisplay
            Itself.
        """
        check_matplotlib("PredictionBandDisplay.plot")
        check_integer(max_bins, "max_bins", minimum=2)
        self.ax_ = get_axes(ax, (6.4, 5.4))
        self.figure_ = self.ax_.figure
        x = self.y_pred if self.x is None else self.x
        order = np.argsort(x, kind="stable")
        groups = np.array_split(order, min(max_bins, len(order)))
        # The band reaches to the outermost rows, with the distances from the prediction of their groups.
        ends = order[[0, -1]] if len(order) > max_bins else np.empty(0, dtype=np.intp)
        places = _with_ends(local_means(x, groups), x[ends])
        line = local_means(self.y_pred, groups)
        line = _with_ends(line, self.y_pred[ends] if self.x is None else line[[0, -1]][: len(ends)])
        self._draw_bands(places, line, groups, fill_kwargs)
        self._draw_points(x, order[choose_rows(len(order), max_rows)], scatter_kwargs)
        default = {"color": INK, "linewidth": 1.2, "label": "Prediction"}
        style = merge_style("lines.Line2D", default, line_kwargs, "line_kwargs")
        (self.line_,) = self.ax_.plot(places, line, **style)
        self._decorate(self.name if name is None else name)
        return self

    def _draw_bands(self, places: FloatArray, line: FloatArray, groups: list[IntArray], style: Style) -> None:
        self.bands_ = []
        widest_first = np.argsort(-self.coverages, kind="stable")
        for depth, column in enumerate(widest_first):
            distance = finite_bounds(self.bounds[:, :, column], self.y_true) - self.y_pred[:, np.newaxis]
            mean = np.column_stack([local_means(side, groups) for side in distance.T])
            if len(line) > len(mean):
                mean = mean[[0, *range(len(mean)), -1]]
            default = {
                "color": BLUE,
                "alpha": min(0.22 + 0.12 * depth, 0.6),
                "linewidth": 0.0,
                "label": f"{percent(self.coverages[column])} prediction interval",
            }
            merged = merge_style("collections.PolyCollection", default, style, "fill_kwargs")
            self.bands_.append(self.ax_.fill_between(places, line + mean[:, 0], line + mean[:, 1], **merged))

    def _draw_points(self, x: FloatArray, rows: IntArray, style: Style) -> None:
        shown = "" if len(rows) == len(x) else f" ({len(rows)} of {len(x)} rows)"
        default = {
            "color": INK,
            "s": 9.0 if len(rows) > 300 else 16.0,
            "alpha": 0.35 if len(rows) > 300 else 0.6,
            "linewidths": 0.0,
            "label": f"Observed{shown}",
        }
        merged = merge_style("collections.PathCollection", default, style, "scatter_kwargs")
        self.scatter_ = self.ax_.scatter(x[rows], self.y_true[rows], **merged)

    def _decorate(self, title: str | None) -> None:
        if self.x is None:
            self.ax_.set_xlabel(f"Predicted {self.target_name}")
        else:
            self.ax_.set_xlabel(self.x_name or "x")
        self.ax_.set_ylabel(f"Observed {self.target_name}")
        if title is not None:
            self.ax_.set_title(title, loc="left")
        legend = self.ax_.legend(loc="best", frameon=False)
        for handle in legend.legend_handles:
            if handle is not None and str(handle.get_label()).startswith("Observed"):
                handle.set_alpha(1.0)
        self.ax_.spines[["top", "right"]].set_visible(False)
        self.ax_.margins(x=0.02)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        coverage: ArrayLike = DEFAULT_COVERAGE,
        x: ArrayLike | None = None,
        target_name: str = "target",
        x_name: str | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        max_rows: int | None = 1000,
        max_bins: int = 40,
        line_kwargs: Style = None,
        scatter_kwargs: Style = None,
        fill_kwargs: Style = None,
    ) -> Self:
        """Draw the bands of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Observed target, of rows that the model was not trained on.
        y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
            Predictions for the same rows.
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of each band, in (0, 1).
        x : array-like of shape (n,), default=None
            Where the rows lie on the horizontal axis, as a feature; None takes the predictions.
        target_name : str, default="target"
            What is predicted, with its unit, for the axes.
        x_name : str, default=None
            Name of `x`, with its unit, for the axis.
        name : str, default=None
            Title of the axes.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        max_rows : int or None, default=1000
            At most so many observed values are drawn, evenly spaced from left to right.
        max_bins : int, default=40
            At most so many groups of neighbouring rows make up the bands.
        line_kwargs, scatter_kwargs, fill_kwargs : dict, default=None
            Keywords for the prediction, the observed values and the bands.

        Returns
        -------
        display : PredictionBandDisplay
            The display, drawn.
        """
        check_matplotlib("PredictionBandDisplay.from_predictions")
        target = check_target(y_true, "y_true")
        dist = as_distribution(y_pred)
        if len(dist) != len(target):
            raise ValueError(f"`y_pred` must have {len(target)} rows, as many as `y_true`, got {len(dist)}.")
        coverages = np.atleast_1d(check_coverage(coverage))
        display = cls(
            y_true=target,
            y_pred=dist.mean(),
            bounds=dist.interval(coverages),
            coverages=coverages,
            x=None if x is None else check_column(x, "x", len(target)),
            target_name=target_name,
            x_name=x_name,
            name=name,
        )
        return display.plot(
            ax,
            max_rows=max_rows,
            max_bins=max_bins,
            line_kwargs=line_kwargs,
            scatter_kwargs=scatter_kwargs,
            fill_kwargs=fill_kwargs,
        )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        feature: int | str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the bands of a fitted estimator.

        Parameters
        ----------
        estimator : object
            Fitted estimator that `skuq.predict_dist` understands.
        X : array-like of shape (n, p)
            Features of rows that it was not trained on.
        y : array-like of shape (n,)
            Observed target.
        feature : int or str, default=None
            Column of `X` for the horizontal axis; None takes the predictions.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        **kwargs : dict
            The other keywords of `from_predictions`.

        Returns
        -------
        display : PredictionBandDisplay
            The display, drawn.
        """
        check_matplotlib("PredictionBandDisplay.from_estimator")
        if feature is not None:
            kwargs.setdefault("x", safe_indexing(X, feature, axis=1))
            kwargs.setdefault("x_name", feature if isinstance(feature, str) else f"Feature {feature}")
        return cls.from_predictions(y, predict_dist(estimator, X), ax=ax, **kwargs)


def _with_ends(values: FloatArray, ends: FloatArray) -> FloatArray:
    """Return the values between the two ends, where there are any."""
    return np.concatenate([ends[:1], values, ends[1:]])


def local_means(values: FloatArray, groups: list[IntArray]) -> FloatArray:
    """Return the mean of the values over each group of rows."""
    return np.array([values[rows].mean() for rows in groups])
