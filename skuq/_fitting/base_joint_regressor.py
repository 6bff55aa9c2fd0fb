"""Base class of regressors that predict several targets."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags

from skuq._fitting.progress import Progress
from skuq._fitting.training_data import TrainingData
from skuq._sklearn_compat import CallbackSupportMixin, with_callbacks
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_new
from skuq._versioned import versioned
from skuq.distributions import JointDistribution


@versioned
class BaseJointRegressor(
    CallbackSupportMixin, MultiOutputMixin, RegressorMixin, BaseEstimator, metaclass=ABCMeta
):
    """Base class of regressors that predict a joint distribution of several targets.

    A subclass implements ``_read``, ``_fit``, ``_predict_joint`` and ``_points``. In ``TrainingData``, ``y``
    has shape (n, d).
    """

    n_outputs_: int
    target_names_: np.ndarray | None

    @abstractmethod
    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        """Return the checked arguments of ``fit``."""

    @abstractmethod
    def _fit(self, data: TrainingData, progress: Progress) -> None:
        """Fit to checked data."""

    @abstractmethod
    def _predict_joint(self, X: Any) -> JointDistribution:
        """Return the joint distribution of each row of checked X."""

    @abstractmethod
    def _points(self, X: Any) -> FloatArray:
        """Return the point predictions, shape (n, d)."""

    def _n_tasks(self) -> int | None:
        """Return the number of reported tasks, or None if it is unknown."""
        return None

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Fit the joint distribution of the targets given X.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Training features. They are passed to the wrapped estimators unchanged.
        y : array-like or DataFrame of shape (n, d)
            Targets, one column per target. NaN is a missing value.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.
        **fit_params : dict
            Further arguments. ``groups`` is passed to the splitter, and all others are passed to ``fit`` of
            the wrapped estimators. Values with one entry per row are divided into folds, like X.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        data = self._read(X, y, sample_weight, fit_params, "fit")
        progress = Progress(self, self._n_tasks())
        self._fit(data, progress)
        progress.close()
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return point predictions.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.

        Returns
        -------
        y_pred : ndarray of shape (n, d)
            Predictions in the units of each target.
        """
        check_new(self, X)
        return self._points(X)

    def predict_dist(self, X: Any) -> JointDistribution:
        """Return the joint predictive distribution of the targets of each row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.

        Returns
        -------
        dist : JointDistribution of shape (n, d)
            Joint distribution in the units of the targets.
        """
        check_new(self, X)
        return self._predict_joint(X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        return tags
