"""Base class of regressors that predict several targets, and the checks of the targets."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import process_routing

from skuq._compat import CallbackSupportMixin, routing_enabled, versioned, with_callbacks
from skuq._fitting.seeds import Progress
from skuq._fitting.training_data import TrainingData, check_rows, check_wrapped, routed_groups, router_for
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_array, as_float_array, check_new, check_unmasked, check_X
from skuq.distributions import JointDistribution


class Targets(NamedTuple):
    """Values of shape (n, d), with NaN for missing values, and the column names of a DataFrame."""

    values: FloatArray
    names: tuple[str, ...] | None

    @property
    def labels(self) -> list[str]:
        """Return the names of the columns for error messages."""
        return column_labels(self.values.shape[1], self.names)


def column_labels(d: int, names: tuple[str, ...] | None) -> list[str]:
    return [f"column {j}" for j in range(d)] if names is None else [f"column {name!r}" for name in names]


def check_targets(y: Any, owner: Any) -> Targets:
    """Return the targets as a float array of shape (n, d), with clear errors for each column.

    Each row must have at least one value, and each column must have two different values.
    """
    targets = read_targets(y, owner)
    _check_columns(targets)
    return targets


def read_targets(y: Any, owner: Any) -> Targets:
    """Return finite or missing targets as a float array of shape (n, d)."""
    name = type(owner).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    names = _column_names(y)
    values = _as_columns(y, names)
    if values.ndim == 1:
        raise ValueError(
            f"`y` must have shape (n, d), one column per target, got {values.shape}. Reshape your data with "
            f"`y.reshape(-1, 1)`, or use UncertaintyRegressor, which predicts one target."
        )
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"`y` must have shape (n, d), one column per target, got {values.shape}.")
    targets = Targets(np.ascontiguousarray(values), names)
    _check_no_infinity(targets)
    return targets


def check_complete(values: FloatArray, labels: list[str]) -> None:
    """Raise an error for a missing value."""
    missing = np.isnan(values)
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise ValueError(
            f"Input y contains NaN. `y` must have no missing values, got NaN in {labels[column]} at "
            f"row {row}. Remove such rows."
        )


def _column_names(y: Any) -> tuple[str, ...] | None:
    """Return the column names of a DataFrame, or None. Raise an error for duplicates."""
    if not hasattr(y, "columns"):
        return None
    names = tuple(str(column) for column in y.columns)
    duplicates = sorted({column for column in names if names.count(column) > 1})
    if duplicates:
        raise ValueError(f"`y` must have distinct column names, got {duplicates} more than once.")
    return names


def _as_columns(y: Any, names: tuple[str, ...] | None) -> FloatArray:
    if names is not None:
        if not names:
            raise ValueError("`y` must have at least one column, got a DataFrame without columns.")
        table = y if isinstance(y, pd.DataFrame) else None
        return np.column_stack([_as_numbers(y, table, j, name) for j, name in enumerate(names)])
    if not sparse.issparse(y):
        check_unmasked(y, "y")
        if np.iscomplexobj(as_array(y, "y")):
            raise ValueError("Complex data not supported: `y` must hold real numbers.")
    return as_float_array(y, "y")


def _as_numbers(y: Any, table: pd.DataFrame | None, j: int, name: str) -> FloatArray:
    column = y[y.columns[j]] if table is None else table.iloc[:, j]
    if table is not None and pd.api.types.is_numeric_dtype(column.dtype):
        column = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return as_float_array(column, f"y[{name!r}]")


def _check_no_infinity(targets: Targets) -> None:
    for column, label in zip(targets.values.T, targets.labels, strict=True):
        infinite = np.isinf(column)
        if infinite.any():
            row = int(np.argmax(infinite))
            raise ValueError(
                "Input y contains infinity or a value too large for dtype('float64'). `y` must be finite or "
                f"NaN, got {column[row]} in {label} at row {row}."
            )


def _check_columns(targets: Targets) -> None:
    for column, label in zip(targets.values.T, targets.labels, strict=True):
        known = column[~np.isnan(column)]
        if known.size > 1 and known.min() == known.max():
            raise ValueError(
                f"`y` must have different values in each column, got {known[0]:g} in all rows of {label}. "
                "Leave the constant column out."
            )
    missing = np.isnan(targets.values).all(axis=1)
    if missing.any():
        raise ValueError(
            "Input y contains NaN in all columns of a row. `y` must have at least one value in each row, got "
            f"none in {int(missing.sum())} rows. The first of these rows is row {int(np.argmax(missing))}. "
            "Remove these rows."
        )


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
