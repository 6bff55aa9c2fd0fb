"""Base class of the displays for classifiers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd

from skuq._sklearn_compat import count_rows, safe_indexing
from skuq._typing import ArrayLike
from skuq._validation import check_sample_weight
from skuq.displays._display import CurveMixin, check_cv_results, models_of_cv, one_or_list
from skuq.displays._drawing import check_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class ClassDisplay(CurveMixin, ABC):
    """Base class of displays of class probabilities and prediction sets, with one table per curve."""

    table: pd.DataFrame | list[pd.DataFrame]
    name: str | None = None

    plot: ClassVar[Callable[..., Any]]  # each display has keywords of its own

    _options: ClassVar[tuple[str, ...]]
    """Keywords for `_table`; all other keywords go to `plot`."""

    @classmethod
    @abstractmethod
    def _table(cls, y_true: ArrayLike, y_pred: Any, **options: Any) -> pd.DataFrame:
        """Return the plotted numbers."""

    @classmethod
    @abstractmethod
    def _predict(cls, estimator: Any, X: Any, options: dict[str, Any]) -> Any:
        """Return the predictions of a fitted estimator in the form required by `_table`."""

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
        """Draw the predictions of a fitted classifier.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba``, or a meta-estimator around one.
        X : array-like of shape (n, p)
            Features. Use rows on which the estimator was not trained.
        y : array-like of shape (n,)
            Observed classes.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        name : str, default=None
            Name of the curve in the legend; None takes the class of the estimator.
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
        return cls._of_models([(estimator, np.arange(count_rows(X)))], X, y, sample_weight, name, ax, kwargs)

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
        """Draw the predictions of the models of a cross-validation, one curve per fold.

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
            Name of the curves in the legend; None takes the class of the estimator.
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
        check_cv_results(cv_results)
        return cls._of_models(models_of_cv(cv_results, np.shape(y)[0]), X, y, sample_weight, name, ax, kwargs)

    @classmethod
    def _of_models(
        cls,
        models: list[tuple[Any, Any]],
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        name: str | None,
        ax: Axes | None,
        kwargs: dict[str, Any],
    ) -> Self:
        target = np.asarray(y)
        weight = check_sample_weight(sample_weight, len(target))
        options = {key: kwargs.pop(key) for key in cls._options if key in kwargs}
        tables = []
        for estimator, rows in models:
            forecast = cls._predict(estimator, safe_indexing(X, rows), options)
            given = {"labels": estimator.classes_} | options
            given["sample_weight"] = None if weight is None else weight[rows]
            tables.append(cls._table(target[rows], forecast, **given))
        label = type(models[0][0]).__name__ if name is None else name
        display: Self = cls(table=one_or_list(tables), name=label).plot(ax, **kwargs)
        return display
