"""Checked arguments of ``fit``, divided by recipient: the regressor, its splitter and the wrapped estimator.

X is not converted, because the wrapped estimator validates it. X may be a data frame or a sparse matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, column_or_1d, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import has_fit_parameter, validate_data

from skuq._compat import (
    estimator_kind,
    routing_enabled,
    safe_indexing,
    slice_fit_params,
    splitter_ignores_groups,
    warn_user,
)
from skuq._fitting.fit_wrapped import wraps_skorch
from skuq._typing import FloatArray, IntArray
from skuq._validation import (
    ONE_MODEL_EACH,
    as_array,
    as_float_array,
    as_labels,
    check_finite,
    check_same_rows,
    check_sample_weight,
    check_size,
    check_unmasked,
    check_X,
    one_column,
    repeated_rows,
    warn_of_few_rows,
)
from skuq.prediction import supports_dist
from skuq.prediction._register import child_of, is_search, iter_wrapped


def check_labels(y: Any, owner: Any) -> np.ndarray:
    """Return the class labels as an array of shape (n,), with the warnings and errors of scikit-learn."""
    if y is None:
        raise ValueError(f"{type(owner).__name__} requires y to be passed, but the target y is None.")
    check_unmasked(y, "y")
    array = as_array(y, "y")
    labels = column_or_1d(array if array.dtype.kind in "biuf" else as_labels(y, "y"), warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return np.asarray(labels)


def codes_of(labels: np.ndarray, classes: np.ndarray) -> IntArray:
    return np.asarray(pd.Index(classes).get_indexer(pd.Index(labels)), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Checked arguments of one ``fit``, divided by recipient.

    Attributes
    ----------
    X : array-like, DataFrame or sparse matrix of n rows
        Unchanged features.
    y : ndarray of shape (n,)
        Target: finite numbers, class labels (for a `ConformalClassifier`), or codes of `classes`.
    sample_weight : ndarray of shape (n,) or None
        Number of repetitions of each row.
    params, weight_params : dict
        Keyword arguments of the wrapped estimator's ``fit``, without and with weights.
    groups : array-like of shape (n,) or None
        Argument of the splitter.
    metadata : dict
        All arguments of ``fit`` except X and y, to refit the whole regressor on a fold.
    y_original : ndarray of n rows, or None
        Target in its original shape and type, for a wrapped skorch net.
    classes : ndarray of shape (K,) or None
        Classes of a neural classifier.
    target_names : tuple of d str, or None
        Names of several targets. The target then has the shape (n, d).
    """

    X: Any
    y: FloatArray
    sample_weight: FloatArray | None = None
    params: dict[str, Any] = field(default_factory=dict)
    weight_params: dict[str, Any] = field(default_factory=dict)
    groups: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    y_original: Any = None
    classes: Any = None
    target_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.groups is None:
            return
        try:
            np.unique(np.asarray(self.groups))
        except TypeError as error:
            types = sorted({type(label).__name__ for label in np.asarray(self.groups).ravel()})
            raise TypeError(
                f"`groups` must have labels that can be compared, got labels of the types {types}. Convert "
                "the labels to strings."
            ) from error

    def __len__(self) -> int:
        return len(self.y)

    @property
    def repetitions(self) -> FloatArray:
        """Return the number of repetitions of each row, shape (n,)."""
        return np.ones(len(self)) if self.sample_weight is None else self.sample_weight

    def repetitions_of(self, rows: IntArray) -> FloatArray:
        return self.repetitions[rows] / np.bincount(rows)[rows]

    def independent_rows(self, rows: IntArray) -> float:
        rows = np.unique(rows)
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        n = repeated_rows(weight, len(rows))
        if self.groups is None:
            return n
        counted = rows if weight is None else rows[weight > 0]
        return min(n, float(len(np.unique(np.asarray(self.groups)[counted]))))

    def warn_of_few_rows(self, rows: IntArray) -> None:
        warn_of_few_rows(self.independent_rows(rows), "rows" if self.groups is None else "groups of rows")

    @property
    def target(self) -> Any:
        """Return the target for ``fit`` of the wrapped estimator."""
        if self.target_names is not None:
            return pd.DataFrame(self.y, columns=list(self.target_names))
        return self.y if self.y_original is None else self.y_original

    def target_of(self, model: Any, target: FloatArray) -> Any:
        if self.y_original is None or not wraps_skorch(model):
            return target
        kind = np.result_type(self.y_original.dtype, np.float32)
        return target.reshape(len(target), *self.y_original.shape[1:]).astype(kind)

    @property
    def fit_params(self) -> dict[str, Any]:
        return {**self.params, **self.weight_params}

    def take(self, rows: IntArray) -> TrainingData:
        return TrainingData(
            safe_indexing(self.X, rows),
            self.y[rows],
            None if self.sample_weight is None else self.sample_weight[rows],
            slice_fit_params(self.X, self.params, rows),
            slice_fit_params(self.X, self.weight_params, rows),
            y_original=None if self.y_original is None else self.y_original[rows],
        )


def check_y(y: Any, owner: Any, *, column: bool = False) -> FloatArray:
    """Return the target as a finite float array of shape (n,).

    Warnings and errors are the same as in scikit-learn.
    """
    if y is None:
        raise ValueError(f"{type(owner).__name__} requires y to be passed, but the target y is None.")
    if not sparse.issparse(y) and np.iscomplexobj(as_array(y, "y")):
        raise ValueError("Complex data not supported: `y` must hold real numbers.")
    target = as_float_array(y, "y")
    if target.ndim == 2 and target.shape[1] == 1 and not column:
        warn_user(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
            "(n_samples,), for example using ravel().",
            DataConversionWarning,
        )
    target = one_column(target, "y")
    try:
        check_finite(target, "y")
    except ValueError as error:
        kind = "NaN" if np.isnan(target).any() else "infinity or a value too large for dtype('float64')"
        raise ValueError(f"Input y contains {kind}. {error} Remove such rows.") from error
    return np.ascontiguousarray(check_size(target, "y"))


def has_several_columns(y: Any) -> bool:
    """Return whether the target has two or more columns. The target is not yet checked."""
    try:
        shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    except ValueError:  # lists of different lengths
        return False
    return len(shape) == 2 and shape[1] > 1


def read_training(
    owner: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    fit_params: dict[str, Any],
    caller: str,
    *,
    route_weight: bool,
) -> TrainingData:
    """Validate the arguments of ``fit`` of the regressor ``owner``, and split them by recipient."""
    if hasattr(owner, "estimator"):
        check_wrapped(owner.estimator)
    y_original = np.asarray(y) if wraps_skorch(getattr(owner, "estimator", None)) else None
    check_X(X)
    target = check_y(y, owner, column=y_original is not None)
    X, weight, metadata = check_rows(owner, X, target, sample_weight, fit_params)
    routed_weight = weight if route_weight and hasattr(owner, "estimator") else None
    params, weight_params, groups = split_metadata(owner, caller, routed_weight, fit_params)
    return TrainingData(X, target, weight, params, weight_params, groups, metadata, y_original)


def check_rows(
    owner: Any, X: Any, target: FloatArray, sample_weight: Any, fit_params: dict[str, Any]
) -> tuple[Any, FloatArray | None, dict[str, Any]]:
    """Check X and the weights. Return X, the weights, and all arguments of ``fit`` except X and y."""
    validate_data(owner, X, skip_check_array=True)
    (X,) = indexable(X)  # This function converts X only if its rows cannot be selected.
    check_same_rows(X, target)
    n = len(target)
    check_two_rows(owner, n)
    weight = check_sample_weight(sample_weight, n)
    return X, weight, dict(fit_params) if weight is None else {**fit_params, "sample_weight": weight}


def check_two_rows(owner: Any, n: int) -> None:
    if n < 2:
        raise ValueError(f"{type(owner).__name__} needs at least 2 samples, got {n} sample.")


def check_wrapped(estimator: Any) -> None:
    """Raise an error if skuq cannot wrap the estimator, or if a search in it has no refit."""
    if isinstance(estimator, type):
        raise TypeError(f"`estimator` must be an instance, got the class {estimator.__name__}.")
    name, kind = type(estimator).__name__, estimator_kind(estimator)
    if kind == "classifier":
        raise ValueError(f"`estimator` must be a regressor, got the classifier {name}.")
    finished = False
    for inner in iter_wrapped(estimator):
        # A frozen multi-output model may predict one column, so it is not checked.
        finished |= isinstance(inner, FrozenEstimator)
        if is_search(inner) and not hasattr(inner, "best_estimator_") and not inner.refit:
            raise ValueError(
                f"`estimator` must have a fitted model for predictions, got a {type(inner).__name__} with "
                f"refit={inner.refit!r}. Set `refit` to True or to the name of a metric."
            )
        if isinstance(inner, MultiOutputRegressor | RegressorChain) and not finished:
            raise ValueError(
                f"`estimator` must be a regressor of one target, got a {type(inner).__name__}. "
                f"{ONE_MODEL_EACH}"
            )
    # Some regressors have `predict` only after `fit`, such as StackingRegressor.
    if not (kind == "regressor" or hasattr(estimator, "predict") or supports_dist(estimator)):
        raise TypeError(
            f"`estimator` must be a regressor with `fit` and `predict`, got {name}. To use a transformer, "
            "put it in a Pipeline before a regressor."
        )
    check_clonable(estimator)


def check_clonable(estimator: Any) -> None:
    """Raise an error if the estimator returns copies of its parameters, which scikit-learn cannot clone."""
    for inner in iter_wrapped(estimator):
        if isinstance(inner, FrozenEstimator) or not hasattr(inner, "get_params"):
            return
        again = inner.get_params(deep=False)
        for name, value in inner.get_params(deep=False).items():
            if value is not again[name]:
                owner, kind = type(inner).__name__, type(value).__name__
                shown = repr(tuple(value)) if isinstance(value, list) else "(...)"
                raise TypeError(
                    f"`{name}` of {owner} must be a tuple, got a {kind}. scikit-learn cannot clone this "
                    f"{owner}, because it copies a {kind}. Pass {owner}({name}={shown})."
                )


def weight_keyword(estimator: Any) -> str | None:
    if isinstance(estimator, FrozenEstimator) or has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = weight_keyword(last)
        return None if inner is None else f"{name}__{inner}"
    # The ``fit`` of a meta-estimator may accept every keyword, so its child is checked.
    child = child_of(estimator)
    return None if child is None else weight_keyword(child)


def splitter_of(estimator: Any) -> Any:
    cv = getattr(estimator, "cv", None)
    return cv if hasattr(cv, "split") else KFold()


def router_for(owner: Any, **children: Any) -> MetadataRouter:
    own = BaseEstimator.get_metadata_routing(owner)
    if own.fit.requests.get("sample_weight", True) is None:
        own.fit.requests.pop("sample_weight")
    router = MetadataRouter(owner=type(owner).__name__).add_self_request(own)
    fits = MethodMapping().add(caller="fit", callee="fit").add(caller="fit_transform", callee="fit")
    router.add(**children, method_mapping=fits)
    if hasattr(owner, "cv"):
        splits = MethodMapping().add(caller="fit", callee="split").add(caller="fit_transform", callee="split")
        router.add(splitter=splitter_of(owner), method_mapping=splits)
    return router


def split_metadata(
    owner: Any, caller: str, weight: FloatArray | None, fit_params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Split the arguments of ``fit`` except X and y by recipient.

    The results are the arguments of the wrapped estimator's ``fit`` without weights, its weights as keyword
    arguments, and the groups for the splitter.
    """
    if routing_enabled() and hasattr(owner, "estimator"):
        given = dict(fit_params) if weight is None else {**fit_params, "sample_weight": weight}
        routed = process_routing(owner, caller, **given)
        params = dict(routed.estimator.fit)
        weight_params = {"sample_weight": params.pop("sample_weight")} if "sample_weight" in params else {}
        return params, weight_params, routed_groups(routed) if hasattr(owner, "cv") else None
    params = dict(fit_params)
    groups = params.pop("groups", None)
    if groups is not None and (not hasattr(owner, "cv") or splitter_ignores_groups(splitter_of(owner))):
        advice = (
            "pass cv=GroupKFold(5)"
            if hasattr(owner, "cv")
            else "pass the estimator to RecalibratedRegressor(..., cv=GroupKFold(5))"
        )
        raise ValueError(
            f"`groups` is given, but {type(owner).__name__} with these parameters does not use groups. "
            f"Remedy: {advice}, or leave `groups` out."
        )
    if params and not hasattr(owner, "estimator"):
        raise TypeError(f"{type(owner).__name__}.fit does not accept the parameters {sorted(params)}.")
    return params, weight_params_for(owner.estimator, weight) if weight is not None else {}, groups


def routed_groups(routed: Any) -> Any:
    split = dict(routed.splitter.split)
    groups = split.pop("groups", None)
    if split:
        raise ValueError(
            f"`cv` must not request metadata except `groups`, got a request for {sorted(split)}."
        )
    return groups


def weight_params_for(estimator: Any, weight: FloatArray) -> dict[str, FloatArray]:
    keyword = weight_keyword(estimator)
    if keyword is None:
        raise ValueError(
            f"`sample_weight` is given, but `fit` of {type(estimator).__name__} does not accept weights. "
            "Leave `sample_weight` out, use an estimator that accepts weights, or use BootstrapRegressor, "
            "which draws rows in proportion to the weights."
        )
    return {keyword: weight}


def weights_for(estimator: Any, weight: FloatArray | None, name: str) -> dict[str, Any]:
    if weight is None:
        return {}
    keyword = weight_keyword(estimator)
    if keyword is None:
        raise ValueError(
            f"`sample_weight` is given, but `fit` of the `{name}` {type(estimator).__name__} does not accept "
            "weights. Leave `sample_weight` out, or use an estimator that accepts weights."
        )
    return {"sample_weight" if routing_enabled() else keyword: weight}
