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
    REFERENCE,
    Style,
    check_matplotlib,
    get_axes,
    has_label,
    merge_style,
    next_color,
    percent,
)
from skuq.distributions import concat
from skuq.prediction import predict_dist
from skuq.prediction._predict_set import class_proba

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.patches import StepPatch


_HISTOGRAM = "skuq-histogram"


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


class AxesMixin:
    """Axes of a display."""

    ax_: Axes
    figure_: Figure | SubFigure

    def _use_axes(self, ax: Axes | None, figsize: tuple[float, float]) -> None:
        check_matplotlib(f"{type(self).__name__}.plot")
        self.ax_ = get_axes(ax, figsize)
        self.figure_ = self.ax_.figure
        self.ax_.spines[["top", "right"]].set_visible(False)

    def _draw_title(self, title: str | None) -> None:
        if title is not None:
            self.ax_.set_title(title, loc="left")


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


class CurveMixin(AxesMixin):
    """Curves of a display, one per fold. A subclass inherits from this class before `Display`."""

    _takes_class_name = True
    line_: Line2D | list[Line2D]

    def _draw_curves(
        self,
        curves: Sequence[tuple[FloatArray, FloatArray]],
        name: str | None,
        style: Style,
        *,
        note: str | None = None,
        **default: Any,
    ) -> Any:
        """Draw the curves of one model with one legend entry, and return their color."""
        notes = [f"{len(curves)} folds"] if len(curves) > 1 else []
        notes += [note] if note is not None else []
        label = label_of(name, ", ".join(notes))
        base: dict[str, Any] = {
            "linewidth": 2.0,
            "color": next_color(self.ax_),
            "solid_capstyle": "round",
            **default,
        }
        if len(curves) > 1:
            base.update(linewidth=1.2, alpha=0.65)
        merged = merge_style("lines.Line2D", base, style, "line_kwargs")
        lines = []
        for i, (x, y) in enumerate(curves):
            first = {"label": label, **merged} if i == 0 and label is not None else merged
            lines.extend(self.ax_.plot(x, y, **first))
        lines[0].set_gid(CURVE)
        self.line_ = lines[0] if len(lines) == 1 else lines
        return merged["color"]

    def _draw_intervals(
        self, x: ArrayLike, lower: ArrayLike, upper: ArrayLike, label: str, color: Any, style: Style
    ) -> LineCollection:
        """Draw vertical intervals in the color of the curve."""
        default = {"color": color, "alpha": 0.4, "linewidth": 2.5, "zorder": 2.1, "gid": REFERENCE}
        if not has_label(self.ax_, label):
            default["label"] = label
        merged = merge_style("collections.LineCollection", default, style, "interval_kwargs")
        return self.ax_.vlines(x, lower, upper, **merged)

    def _draw_curve_band(self, curve: pd.DataFrame, coverage: float, color: Any, style: Style) -> Any:
        """Draw the band of a curve from `skuq.evaluation`, if the curve has a band."""
        for kind in ("consistency", "confidence"):
            if f"{kind}_low" in curve:
                ends = curve["forecast"], curve[f"{kind}_low"], curve[f"{kind}_high"]
                label = f"{percent(coverage)} {kind} band"
                default = {"color": color, "alpha": 0.18, "linewidth": 0.0, "zorder": 2.0, "gid": REFERENCE}
                if not has_label(self.ax_, label):
                    default["label"] = label
                merged = merge_style("collections.PolyCollection", default, style, "fill_kwargs")
                return self.ax_.fill_between(*ends, **merged)
        return None


class HistogramMixin(AxesMixin):
    """Histogram of a display. All histograms on the same axes have the same bin width."""

    def _bin_width(self, bin_width: float | None, auto: float) -> float:
        if bin_width is not None:
            return check_number(bin_width, "bin_width", positive=True)
        earlier: list[Any] = [patch for patch in self.ax_.patches if patch.get_gid() == _HISTOGRAM]
        return float(np.diff(earlier[0].get_data().edges[:2])[0]) if earlier else auto

    def _draw_histogram(
        self, values: FloatArray, edges: FloatArray, weight: FloatArray | None, color: Any, style: Style
    ) -> StepPatch:
        inside = np.clip(values, edges[0], edges[-1])  # Rounding may move a value beyond the edges.
        share = np.histogram(inside, edges, weights=weight)[0]
        default = {"facecolor": color, "alpha": 0.35, "linewidth": 0.0, "fill": True, "gid": _HISTOGRAM}
        merged = merge_style("patches.StepPatch", default, style, "hist_kwargs")
        return self.ax_.stairs(100 * share / share.sum(), edges, **merged)


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


def tables_of_folds(
    table: Callable[..., pd.DataFrame], folds: Sequence[Fold], names: Sequence[str], options: dict[str, Any]
) -> Any:
    given = {name: options.pop(name) for name in names if name in options}
    tables = []
    for fold in folds:
        labels = {} if fold.labels is None else {"labels": fold.labels}
        keywords = {**labels, **given, "sample_weight": fold.sample_weight}
        tables.append(table(fold.y_true, fold.y_pred, **keywords))
    return one_or_list(tables)


def event_of_folds(event: Any, folds: Sequence[Fold]) -> Any:
    """Return the events of the test rows of all folds, in the order of the folds."""
    if event is None or any(fold.rows is None for fold in folds):
        return event
    return np.concatenate([np.asarray(event)[fold.rows] for fold in folds])
