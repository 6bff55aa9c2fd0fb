"""Base class of regressors that predict several targets."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import process_routing

from skuq._fitting.metadata import routed_groups, router_for
from skuq._fitting.progress import Progress
from skuq._fitting.training_data import TrainingData, check_rows, check_wrapped
from skuq._sklearn_compat import CallbackSupportMixin, routing_enabled, with_callbacks
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_new, check_X
from skuq._versioned import versioned
from skuq.distributions import JointDistribution
from skuq.multivariate._targets import check_targets, column_labels


@versioned
class BaseJointRegressor(
    CallbackSupportMixin, MultiOutputMixin, RegressorMixin, BaseEstimator, metaclass=ABCMeta
):
    """Base class of regressors that predict a joint distribution of several targets.

    A subclass has the parameters ``estimator`` (one estimator or a list) and ``cv``. In ``TrainingData``,
    ``y`` has shape (n, d), and ``params`` maps the name of each wrapped estimator to arguments of ``fit``.
    """

    estimator: Any
    cv: Any
    _several_targets: ClassVar[bool] = True

    n_outputs_: int
    target_names_: np.ndarray | None

    @abstractmethod
    def _children(self) -> dict[str, Any]:
        """Return the unfitted wrapped estimators by name."""

    @abstractmethod
    def _splits_by_groups(self) -> bool:
        """Return whether ``groups`` is passed to the splitter ``cv`` and not to the wrapped estimators."""

    @abstractmethod
    def _fit(self, data: TrainingData, progress: Progress) -> None:
        """Fit to checked data."""

    @abstractmethod
    def _predict_joint(self, X: Any) -> JointDistribution:
        """Return the joint distribution of each row. The features X are already checked."""

    @abstractmethod
    def _points(self, X: Any) -> FloatArray:
        """Return the point predictions, shape (n, d)."""

    def _n_tasks(self) -> int | None:
        return None

    @with_callbacks
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
            Further arguments. ``groups`` is passed to the splitter. All other arguments are passed to ``fit``
            of the wrapped estimators. Values with one entry per row are divided into folds, like X.

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

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        for one in as_list(self.estimator):
            check_wrapped(one)
        check_X(X)
        targets = check_targets(y, self)
        X, weight, metadata = check_rows(self, X, targets.values, sample_weight, fit_params)
        d = targets.values.shape[1]
        if isinstance(self.estimator, list | tuple) and len(self.estimator) != d:
            raise ValueError(
                f"`estimator` must be one estimator or a list of {d}, one per column of `y`, got a list of "
                f"{len(self.estimator)}."
            )
        self.n_outputs_ = d
        self.target_names_ = None if targets.names is None else np.array(targets.names, dtype=object)
        params, groups = self._split_metadata(metadata, caller)
        return TrainingData(
            X,
            targets.values,
            weight,
            params=params,
            groups=groups,
            metadata=metadata,
            target_names=targets.names,
        )

    def _split_metadata(self, metadata: dict[str, Any], caller: str) -> tuple[dict[str, Any], Any]:
        names = self._children()
        if routing_enabled():
            routed = process_routing(self, caller, **metadata)
            return {name: dict(routed[name].fit) for name in names}, routed_groups(routed)
        params = dict(metadata)
        groups = params.pop("groups", None) if self._splits_by_groups() else None
        return dict.fromkeys(names, params), groups

    def _labels(self) -> list[str]:
        names = None if self.target_names_ is None else tuple(self.target_names_)
        return column_labels(self.n_outputs_, names)

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

    # ------------------------------------------------------------------------- scikit-learn

    def get_metadata_routing(self) -> Any:
        """Return the metadata routing.

        ``groups`` is passed to the splitter, and all other metadata to the wrapped ``fit``.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        return router_for(self, **self._children())

    def __sklearn_tags__(self) -> Tags:
        """Return the tags. An input tag is set if all wrapped estimators have it."""
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        try:
            children = [get_tags(one) for one in as_list(self.estimator)]
        except Exception:  # estimators of other packages may lack tags; invalid estimators raise in fit
            return tags
        for name in ("allow_nan", "sparse", "pairwise", "string", "categorical"):
            setattr(tags.input_tags, name, all(getattr(child.input_tags, name) for child in children))
        tags.non_deterministic = any(child.non_deterministic for child in children)
        return tags


def as_list(estimator: Any) -> list[Any]:
    return list(estimator) if isinstance(estimator, list | tuple) else [estimator]
