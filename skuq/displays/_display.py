"""Base classes of the displays: predictions, axes and curves of several folds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from skuq._sklearn_compat import count_rows, safe_indexing
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_sample_weight, check_target
from skuq.displays._drawing import CURVE, Style, check_matplotlib, get_axes, merge_style, next_colour
from skuq.distributions import concat
from skuq.prediction import predict_dist

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D


@dataclass(frozen=True)
class Fold:
    """Test rows of one model and its predictions."""

    y_true: ArrayLike
    y_pred: Any
    sample_weight: ArrayLike | None = None
    rows: IntArray | None = None


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
    """Whether the default name is the class of the estimator, as in displays with names in a legend."""

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
            Fitted estimator that `~skuq.prediction.predict_dist` supports.
        X : array-like of shape (n, p)
            Features. Use rows on which the estimator was not trained.
        y : array-like of shape (n,)
            Observed target.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        name : str, default=None
            Name in the legend, or title. None takes the estimator's class for a legend, and no title.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        **kwargs : dict
            The other keywords of `from_predictions`.

        Returns
        -------
        display : object of this class
            The drawn display.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator")
        dist = predict_dist(estimator, X)
        label = cls._name_of(estimator, name)
        return cls.from_predictions(y, dist, sample_weight=sample_weight, name=label, ax=ax, **kwargs)

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
        """Draw the predictions of the models of a cross-validation, each for its test rows.

        Displays of curves draw one curve per fold, in one color and with one legend entry; `line_` is then a
        list. Displays of rows show the test rows of all folds together.

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
            Name in the legend, or title. None takes the estimator's class for a legend, and no title.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        **kwargs : dict
            The other keywords of `from_predictions`.

        Returns
        -------
        display : object of this class
            The drawn display.
        """
        check_matplotlib(f"{cls.__name__}.from_cv_results")
        folds = folds_of_cv(cv_results, X, y, sample_weight)
        label = cls._name_of(cv_results["estimator"][0], name)
        return cls._from_folds(folds, name=label, ax=ax, **kwargs)

    @classmethod
    def _from_folds(cls, folds: Sequence[Fold], **kwargs: Any) -> Self:
        """Draw the rows of all folds together; displays of curves draw one curve per fold instead."""
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
    """Curves of a display, one per model or per fold. Inherit from this class before `Display`."""

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
        """Draw the curves of one model, add the note to its legend entry, and return the color."""
        notes = [f"{len(curves)} folds"] if len(curves) > 1 else []
        notes += [note] if note is not None else []
        label = label_of(name, ", ".join(notes))
        base: dict[str, Any] = {
            "linewidth": 2.0,
            "color": next_colour(self.ax_),
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


def folds_of_cv(
    cv_results: Mapping[str, Any], X: Any, y: ArrayLike, sample_weight: ArrayLike | None
) -> list[Fold]:
    """Return the test rows of each fold of a cross-validation and their predictions."""
    check_cv_results(cv_results)
    target = check_target(y, "y", count_rows(X))
    weight = check_sample_weight(sample_weight, len(target))
    return [
        Fold(
            target[rows],
            predict_dist(estimator, safe_indexing(X, rows)),
            None if weight is None else weight[rows],
            rows,
        )
        for estimator, rows in models_of_cv(cv_results, len(target))
    ]


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
    """Return the model and the test rows of each fold of a cross-validation."""
    tests = [np.asarray(rows) for rows in cv_results["indices"]["test"]]
    last = max(int(rows.max(initial=-1)) for rows in tests)
    if last >= n:
        raise ValueError(
            f"`X` must be the X passed to cross_validate, got {n} rows, but the test rows include row {last}."
        )
    return list(zip(cv_results["estimator"], tests, strict=True))


def label_of(name: str | None, note: str) -> str | None:
    """Return the legend entry, "name (note)"; either part may be missing."""
    return f"{name} ({note})" if name and note else name or note or None


def as_list(values: Any) -> list[Any]:
    """Return a list unchanged and any other value as a list of length 1."""
    return values if isinstance(values, list) else [values]


def one_or_list(values: list[Any]) -> Any:
    """Return the value of a list of length 1, otherwise the list."""
    return values[0] if len(values) == 1 else values
