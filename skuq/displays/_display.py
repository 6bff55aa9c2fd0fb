"""Base classes of the displays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd

from skuq._compat import count_rows, safe_indexing
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_number, check_sample_weight, check_target, effective_rows
from skuq.displays._drawing import (
    CURVE,
    CURVES,
    DASHES,
    MARKERS,
    PERFECT,
    REFERENCE,
    Axes,
    Style,
    check_matplotlib,
    draw_endless_line,
    draw_legend,
    get_axes,
    has_label,
    ink,
    merge_style,
    percent,
    width_of,
    wrapped,
)
from skuq.distributions import concat
from skuq.prediction import predict_dist
from skuq.prediction._predict_set import class_proba

if TYPE_CHECKING:
    from matplotlib.collections import FillBetweenPolyCollection, LineCollection, PathCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import AxLine, Line2D
    from matplotlib.patches import Rectangle, StepPatch


_HISTOGRAM = "skuq-histogram"
_FILL = 0.35


@dataclass(frozen=True)
class Fold:
    """Test rows of one model, and its predictions for these rows."""

    y_true: ArrayLike
    y_pred: Any
    sample_weight: ArrayLike | None = None
    rows: IntArray | None = None
    labels: ArrayLike | None = None

    def count_rows(self) -> float:
        """Return the number of repetitions of all rows. Raise an error if weights are not repetitions."""
        n = len(np.asarray(self.y_true))
        return effective_rows(check_sample_weight(self.sample_weight, n), n)

    def call(self, function: Callable[..., Any], **options: Any) -> Any:
        """Return the function of the rows. The labels of the model are the default of the option `labels`."""
        if self.labels is not None:
            options = {"labels": self.labels, **options}
        return function(self.y_true, self.y_pred, sample_weight=self.sample_weight, **options)


class Folds(list[Fold]):
    """Forecasts of cross-validated models, passed to `from_predictions` of displays with a curve per fold."""


def as_folds(y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None) -> Folds:
    """Return the folds, or one fold with all rows."""
    return y_pred if isinstance(y_pred, Folds) else Folds([Fold(y_true, y_pred, sample_weight)])


class AxesMixin:
    """Axes of a display, and the artists that several displays draw on them.

    The user passes ``style``. The other keywords are the defaults of the artist.
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D | list[Line2D]
    name: str | None

    def _use_axes(self, ax: Axes | None, figsize: tuple[float, float]) -> None:
        check_matplotlib(f"{type(self).__name__}.plot")
        self.ax_ = get_axes(ax, figsize)
        self.figure_ = self.ax_.figure
        self.ax_.spines[["top", "right"]].set_visible(False)
        self._ink = ink(self.ax_)

    def _finish(self, xlabel: str, ylabel: str, **legend: Any) -> Self:
        """Label the axes, draw the legend and return the display."""
        self.ax_.set(xlabel=xlabel, ylabel=ylabel)
        draw_legend(self.ax_, **legend)
        return self

    def _next_style(self, *, marker: bool = False) -> dict[str, Any]:
        """Return the color of the next curve, and its dashes or its marker."""
        place = sum(artist.get_gid() == CURVE for artist in self.ax_.get_children()) % len(CURVES)
        shape = {"marker": MARKERS[place]} if marker else {"linestyle": DASHES[place]}
        return {"color": CURVES[place], **shape, "gid": CURVE}

    def _reference_line(self) -> dict[str, Any]:
        return {
            "color": self._ink,
            "linestyle": (0, (4, 3)),
            "linewidth": 1.0,
            "zorder": 1.5,
            "gid": REFERENCE,
        }

    def _draw_title(self, title: str | None, **options: Any) -> None:
        if title is not None:
            size = self.ax_.title.get_fontsize()
            self.ax_.set_title(wrapped(title, width_of(self.ax_), size), loc="left", **options)

    def _style(self, artist: str, default: Mapping[str, Any], style: Style, name: str) -> dict[str, Any]:
        """Return the keywords of an artist. Entries of the legend that describe all models appear once."""
        default = dict(default)
        if default.get("gid") == REFERENCE and has_label(self.ax_, default.get("label")):
            default.pop("label", None)
        return merge_style(artist, default, style, name)

    def _has_reference(self, x: ArrayLike, y: ArrayLike) -> bool:
        """Return whether an earlier display has drawn this curve as a reference."""
        points = np.column_stack([x, y])
        drawn = [
            np.asarray(line.get_xydata()) for line in self.ax_.get_lines() if line.get_gid() == REFERENCE
        ]
        return any(other.shape == points.shape and np.allclose(other, points) for other in drawn)

    def _draw_line(
        self, x: ArrayLike, y: ArrayLike, style: Style, name: str = "line_kwargs", **default: Any
    ) -> Line2D:
        return self.ax_.plot(x, y, **self._style("lines.Line2D", default, style, name))[0]

    def _draw_points(
        self, x: ArrayLike, y: ArrayLike, style: Style, name: str = "scatter_kwargs", **default: Any
    ) -> PathCollection:
        return self.ax_.scatter(x, y, **self._style("collections.PathCollection", default, style, name))

    def _draw_rows(self, x: FloatArray, y: FloatArray, n: int, label: str, style: Style) -> PathCollection:
        """Draw points of rows. The legend states how many of the n rows are drawn."""
        size, alpha = (9.0, 0.35) if len(x) > 300 else (16.0, 0.6)
        label += "" if len(x) == n else f" ({len(x)} of {n} rows)"
        return self._draw_points(
            x, y, style, color=self._ink, s=size, alpha=alpha, linewidths=0.0, label=label
        )

    def _draw_curves(
        self,
        curves: Sequence[tuple[FloatArray, FloatArray]],
        name: str | None,
        style: Style,
        *,
        note: str | None = None,
        **default: Any,
    ) -> Any:
        """Draw the curves of one model with one legend entry, and return their color.

        The name None means the name of the display.
        """
        name = self.name if name is None else name
        notes = [f"{len(curves)} folds"] if len(curves) > 1 else []
        notes += [note] if note is not None else []
        base = {**self._next_style(marker="markersize" in default), "linewidth": 2.0, "zorder": 2.2}
        base |= {"solid_capstyle": "round", **default, "label": label_of(name, ", ".join(notes))}
        if len(curves) > 1:
            base |= {"linewidth": 1.2, "alpha": 0.65}
        lines = []
        for x, y in curves:
            lines.append(self._draw_line(x, y, style, **base))
            base |= {"gid": None, "label": None}
        self.line_ = one_or_list(lines)
        return lines[0].get_color()

    def _draw_fill(
        self,
        x: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
        style: Style,
        name: str = "fill_kwargs",
        *,
        step: Any = None,
        **default: Any,
    ) -> FillBetweenPolyCollection:
        """Draw a band between two curves."""
        default = {"alpha": 0.18, "linewidth": 0.0, "zorder": 2.0, "gid": REFERENCE, **default}
        merged = self._style("collections.PolyCollection", default, style, name)
        return self.ax_.fill_between(x, lower, upper, step=step, **merged)

    def _draw_intervals(
        self, x: ArrayLike, lower: ArrayLike, upper: ArrayLike, style: Style, name: str, **default: Any
    ) -> LineCollection:
        """Draw vertical intervals."""
        default = {"alpha": 0.4, "linewidth": 2.5, "zorder": 2.1, "gid": REFERENCE, **default}
        merged = self._style("collections.LineCollection", default, style, name)
        return self.ax_.vlines(x, lower, upper, **merged)

    def _draw_level(
        self, value: float, style: Style, label: str | None = None, *, vertical: bool = False
    ) -> Line2D | None:
        """Draw a reference line, unless an earlier display has drawn it on the same axes."""
        if has_label(self.ax_, label):
            return None
        default = {**self._reference_line(), "label": label}
        merged = merge_style("lines.Line2D", default, style, "ref_line_kwargs")
        return (self.ax_.axvline if vertical else self.ax_.axhline)(value, **merged)

    def _draw_span(
        self, lower: float, upper: float, style: Style, *, vertical: bool = False, **default: Any
    ) -> Rectangle | None:
        """Draw a band of constant width, unless an earlier display has drawn it on the same axes."""
        if has_label(self.ax_, default.get("label")):
            return None
        default = {"alpha": 0.25, "linewidth": 0.0, "zorder": 0.5, "gid": REFERENCE, **default}
        merged = merge_style("patches.Rectangle", default, style, "fill_kwargs")
        return (self.ax_.axvspan if vertical else self.ax_.axhspan)(lower, upper, **merged)

    def _draw_diagonal(self, ref_line: bool, style: Style, label: str = PERFECT) -> AxLine | None:
        """Draw the line y = x, unless an earlier display has drawn it on the same axes."""
        if not ref_line or has_label(self.ax_, label):
            return None
        default = {**self._reference_line(), "label": label}
        merged = merge_style("lines.Line2D", default, style, "ref_line_kwargs")
        return draw_endless_line(self.ax_, (0.0, 0.0), 1.0, merged)

    def _use_equal_limits(self, least: float = -np.inf) -> None:
        """Give both axes the limits of all values, so that the diagonal of the axes is y = x."""
        low, high = float(np.min(self.ax_.dataLim.min)), float(np.max(self.ax_.dataLim.max))
        margin = 0.05 * (high - low or high or 1.0)
        limits = max(low - margin, least), high + margin
        self.ax_.set(xlim=limits, ylim=limits, aspect="equal")


class Display(AxesMixin, ABC):
    """Base class of displays created from an estimator, predictions or cross-validation results."""

    _takes_class_name: ClassVar[bool] = False
    """Whether the default name in the legend is the name of the estimator's class."""

    _of_classes: ClassVar[bool] = False

    _of_joints: ClassVar[bool] = False
    """Whether the display takes joint distributions of several targets."""

    @classmethod
    @abstractmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw given predictions."""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the predictions of a fitted estimator.

        Parameters
        ----------
        estimator : object
            Fitted regressor that `~skuq.prediction.predict_dist` supports. Displays of classes require a
            fitted classifier with ``predict_proba``, or a meta-estimator that contains such a classifier.
        X : array-like of shape (n, p)
            Features. Use rows on which the estimator was not trained.
        y : array-like of shape (n,)
            Observed targets or classes.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        name : str, default=None
            Name in the legend, or title of the plot. If None, the legend contains the name of the estimator's
            class, and the plot has no title.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `from_predictions`.

        Returns
        -------
        display : object of this class
            The drawn display.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        forecast, labels = cls._predict(estimator, X, kwargs), getattr(estimator, "classes_", None)
        folds = [Fold(y, forecast, sample_weight, labels=labels)]
        return cls._from_folds(folds, name=cls._name_of(estimator, name), ax=ax, **kwargs)

    @classmethod
    def from_cv_results(
        cls,
        cv_results: Mapping[str, Any],
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the predictions of cross-validated models for their test rows.

        Displays of curves draw one curve per fold. All curves have the same color and share one legend entry.
        The attribute `line_` is then a list. Displays of rows draw the test rows of all folds together.

        Parameters
        ----------
        cv_results : dict
            Result of scikit-learn's ``cross_validate(..., return_estimator=True, return_indices=True)``.
        X : array-like of shape (n, p)
            Features passed to ``cross_validate``.
        y : array-like of shape (n,)
            Target passed to ``cross_validate``.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        name : str, default=None
            Name in the legend, or title of the plot. If None, the legend contains the name of the estimator's
            class, and the plot has no title.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on. None makes a new figure.
        **kwargs : dict
            The other keywords of `from_predictions`.

        Returns
        -------
        display : object of this class
            The drawn display.
        """
        check_matplotlib(f"{cls.__name__}.from_cv_results")
        folds = cls._folds_of_cv(cv_results, X, y, sample_weight, kwargs)
        label = cls._name_of(cv_results["estimator"][0], name)
        return cls._from_folds(folds, name=label, ax=ax, **kwargs)

    @classmethod
    def _folds_of_cv(
        cls,
        cv_results: Mapping[str, Any],
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        options: dict[str, Any],
    ) -> list[Fold]:
        check_cv_results(cv_results)
        as_given = cls._of_classes or cls._of_joints
        target = np.asarray(y) if as_given else check_target(y, "y", count_rows(X))
        weight = check_sample_weight(sample_weight, len(target))
        return [
            Fold(
                target[rows],
                cls._predict(estimator, safe_indexing(X, rows), options),
                None if weight is None else weight[rows],
                rows,
                getattr(estimator, "classes_", None),
            )
            for estimator, rows in models_of_cv(cv_results, len(target))
        ]

    @classmethod
    def _predict(cls, estimator: Any, X: Any, options: dict[str, Any]) -> Any:
        return class_proba(estimator, X) if cls._of_classes else predict_dist(estimator, X)

    @classmethod
    def _from_folds(cls, folds: Sequence[Fold], **kwargs: Any) -> Self:
        """Draw the rows of all folds as one data set. Displays of curves override this method."""
        if len(folds) == 1:
            (fold,) = folds
            return cls.from_predictions(fold.y_true, fold.y_pred, sample_weight=fold.sample_weight, **kwargs)
        parts = [fold.sample_weight for fold in folds if fold.sample_weight is not None]
        return cls.from_predictions(
            np.concatenate([fold.y_true for fold in folds]),
            concat([fold.y_pred for fold in folds]),
            sample_weight=np.concatenate(parts) if parts else None,
            **kwargs,
        )

    @classmethod
    def _name_of(cls, estimator: object, name: str | None) -> str | None:
        return type(estimator).__name__ if name is None and cls._takes_class_name else name


class CurveDisplay(Display):
    """Display with a curve for each fold of a cross-validation. `from_predictions` also takes `Folds`."""

    _takes_class_name = True

    @classmethod
    def _from_folds(cls, folds: Sequence[Fold], **kwargs: Any) -> Self:
        return cls.from_predictions([], Folds(folds), **kwargs)

    def _draw_curve_band(self, curve: pd.DataFrame, coverage: float, color: Any, style: Style) -> Any:
        """Draw the band of a curve from `skuq.evaluation`, if the curve has a band."""
        for kind in ("consistency", "confidence"):
            if f"{kind}_low" in curve:
                ends = curve["forecast"], curve[f"{kind}_low"], curve[f"{kind}_high"]
                label = f"{percent(coverage)} {kind} band"
                return self._draw_fill(*ends, style, color=color, label=label)
        return None


class HistogramMixin(AxesMixin):
    """Histogram of a display. All histograms on the same axes have the same bin width."""

    def _histograms(self) -> list[Any]:
        return [patch for patch in self.ax_.patches if patch.get_gid() == _HISTOGRAM]

    def _bin_width(self, bin_width: float | None, auto: float) -> float:
        if bin_width is not None:
            return check_number(bin_width, "bin_width", positive=True)
        earlier = self._histograms()
        return float(np.diff(earlier[0].get_data().edges[:2])[0]) if earlier else auto

    def _draw_histogram(
        self,
        values: FloatArray,
        edges: FloatArray,
        weight: FloatArray | None,
        color: Any,
        style: Style,
        linewidth: float = 1.2,
    ) -> StepPatch:
        from matplotlib.colors import to_rgba

        inside = np.clip(values, edges[0], edges[-1])  # Rounding may move a value beyond the edges.
        share = np.histogram(inside, edges, weights=weight)[0]
        default = {"facecolor": to_rgba(color, _FILL), "edgecolor": color, "linewidth": linewidth}
        default |= {"fill": True, "gid": _HISTOGRAM}
        merged = merge_style("patches.StepPatch", default, style, "hist_kwargs")
        drawn = self.ax_.stairs(100 * share / share.sum(), edges, **merged)
        histograms = self._histograms()
        if len(histograms) > 2:  # The colors of more than two areas on each other cannot be distinguished.
            for patch in histograms:
                patch.set_facecolor(to_rgba(patch.get_facecolor(), _FILL / len(histograms) ** 2))
        return drawn


def check_cv_results(cv_results: Any) -> None:
    if not isinstance(cv_results, Mapping):
        raise TypeError(
            f"`cv_results` must be the dictionary from cross_validate, got {type(cv_results).__name__}."
        )
    if not {"estimator", "indices"} <= set(cv_results):
        raise ValueError(
            "`cv_results` must contain the fitted estimators and the rows of each fold. Call "
            "cross_validate(..., return_estimator=True, return_indices=True)."
        )


def models_of_cv(cv_results: Mapping[str, Any], n: int) -> list[tuple[Any, IntArray]]:
    tests = [np.asarray(rows) for rows in cv_results["indices"]["test"]]
    last = max(int(rows.max(initial=-1)) for rows in tests)
    if last >= n:
        raise ValueError(
            f"`X` must be the X that was passed to cross_validate, got {n} rows, but the test rows include "
            f"row {last}."
        )
    return list(zip(cv_results["estimator"], tests, strict=True))


def label_of(name: str | None, note: str) -> str | None:
    """Return the legend entry "name (note)". The name or the note may be missing."""
    return f"{name} ({note})" if name and note else name or note or None


def as_list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]


def one_or_list(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


def event_of_folds(event: Any, folds: Sequence[Fold]) -> Any:
    """Return the events of the test rows of all folds, in the order of the folds."""
    if event is None or any(fold.rows is None for fold in folds):
        return event
    return np.concatenate([np.asarray(event)[fold.rows] for fold in folds])
