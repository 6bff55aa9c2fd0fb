"""What ``fit`` of a regressor is given, checked once and sorted by who gets it.

X is not converted: data frames, missing values and sparse matrices belong to the wrapped estimator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from skuq._sklearn_compat import (
    is_classifying,
    is_regressing,
    routing_enabled,
    safe_indexing,
    slice_fit_params,
    splitter_ignores_groups,
)
from skuq._typing import FloatArray, IntArray
from skuq._validation import as_float_array, check_finite, check_sample_weight, check_unmasked
from skuq._warnings import warn_user
from skuq.prediction import supports_dist
from skuq.prediction._child import child_of, inwards, is_search
from skuq.prediction._rules.no_distribution import one_column_each
from skuq.prediction._wrapped import wraps_skorch

__all__ = [
    "TrainingData",
    "check_new",
    "check_y",
    "read_training",
    "routed_groups",
    "router_for",
    "splitter_of",
    "weight_keyword",
    "weight_params_for",
    "weights_for",
]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The checked arguments of one ``fit``.

    Attributes
    ----------
    X : array-like, DataFrame or sparse matrix of n rows
        As it came.
    y : ndarray of shape (n,)
        The target.
    sample_weight : ndarray of shape (n,) or None
        Number of repetitions of each row.
    params : dict
        What the wrapped estimator's ``fit`` is given besides X, y and the weights.
    weight_params : dict
        The weights, under the keyword by which the wrapped estimator takes them; empty without weights.
    groups : array-like of shape (n,) or None
        What the splitter is given.
    metadata : dict
        Everything that came with X and y, as it came, for refitting the whole regressor on a fold.
    y_original : ndarray of n rows, or None
        The target in the shape and type that it came in, where a skorch net is wrapped.
    """

    X: Any
    y: FloatArray
    sample_weight: FloatArray | None = None
    params: dict[str, Any] = field(default_factory=dict)
    weight_params: dict[str, Any] = field(default_factory=dict)
    groups: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    y_original: Any = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def target(self) -> Any:
        """What the wrapped estimator's ``fit`` is given as y."""
        return self.y if self.y_original is None else self.y_original

    def target_of(self, model: Any, target: FloatArray) -> Any:
        """Return another target, such as the size of residuals, as the given model takes it."""
        if self.y_original is None or not wraps_skorch(model):
            return target
        kind = np.result_type(self.y_original.dtype, np.float32)
        return target.reshape(len(target), *self.y_original.shape[1:]).astype(kind)

    @property
    def fit_params(self) -> dict[str, Any]:
        """All keyword arguments of the wrapped estimator's ``fit``."""
        return {**self.params, **self.weight_params}

    def take(self, rows: IntArray) -> TrainingData:
        """Return the given rows of everything that has rows; groups and metadata stay behind."""
        return TrainingData(
            safe_indexing(self.X, rows),
            self.y[rows],
            None if self.sample_weight is None else self.sample_weight[rows],
            slice_fit_params(self.X, self.params, rows),
            slice_fit_params(self.X, self.weight_params, rows),
            y_original=None if self.y_original is None else self.y_original[rows],
        )


def check_y(y: Any, owner: Any, *, column: bool = False) -> FloatArray:
    """Return the target as a finite float array of shape (n,), with scikit-learn's warnings and errors.

    A target that is a column gives a warning, unless ``column`` is True, for estimators that take columns.
    """
    if y is None:
        raise ValueError(f"{type(owner).__name__} requires y to be passed, but the target y is None.")
    if not sparse.issparse(y) and np.iscomplexobj(np.asarray(y)):
        raise ValueError("Complex data not supported: `y` must hold real numbers.")
    target = as_float_array(y, "y")
    if target.ndim == 2 and target.shape[1] == 1:
        if not column:
            warn_user(
                "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
                "(n_samples,), for example using ravel().",
                DataConversionWarning,
            )
        target = target[:, 0]
    if target.ndim == 2:
        raise ValueError(
            f"`y` must have one column, got {target.shape[1]}; skuq handles one target at a time. "
            + one_column_each(type(owner).__name__)
        )
    if target.ndim != 1:
        raise ValueError(f"`y` must have shape (n,), got {target.shape}.")
    try:
        check_finite(target, "y")
    except ValueError as error:
        kind = "NaN" if np.isnan(target).any() else "infinity or a value too large for dtype('float64')"
        raise ValueError(f"Input y contains {kind}. {error} Remove such rows.") from error
    return np.ascontiguousarray(target)


def check_new(owner: Any, X: Any) -> None:
    """Check that ``owner`` is fitted and that X, passed on as it is, has the columns of the training data."""
    check_is_fitted(owner)
    check_unmasked(X, "X")
    if hasattr(owner, "n_features_in_") and len(getattr(X, "shape", (0, 0))) == 1:
        raise ValueError(
            f"`X` must be 2-dimensional, got shape {X.shape}. Reshape your data: X.reshape(-1, 1) "
            "if it is one feature, X.reshape(1, -1) if it is one sample."
        )
    validate_data(owner, X, reset=False, skip_check_array=True)


def weight_keyword(estimator: Any) -> str | None:
    """Return the keyword by which the estimator's ``fit`` takes sample weights, or None if it takes none.

    A Pipeline takes those of its last step as ``<step>__sample_weight``.
    """
    if isinstance(estimator, FrozenEstimator) or has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = weight_keyword(last)
        return None if inner is None else f"{name}__{inner}"
    child = child_of(estimator)  # which gets every keyword
    return None if child is None else weight_keyword(child)


def splitter_of(estimator: Any) -> Any:
    """Return the splitter behind an estimator's ``cv``, for questions about metadata only."""
    cv = getattr(estimator, "cv", None)
    return cv if hasattr(cv, "split") else KFold()


def router_for(owner: Any, **children: Any) -> MetadataRouter:
    """Return the metadata router of a meta-estimator: groups to the splitter, the rest to the children.

    Weights in ``fit`` are the children's question, as long as the user makes no request on the owner.
    """
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
    """Check what ``fit`` of the regressor ``owner`` was given, and split it by its recipient.

    Parameters
    ----------
    owner : estimator
        Gets ``n_features_in_`` and ``feature_names_in_``.
    X, y, sample_weight, fit_params : object
        The arguments of ``fit``.
    caller : {"fit", "fit_transform"}
        Its name.
    route_weight : bool
        Whether the wrapped estimator is given the weights; False where the rows are resampled by them.
    """
    if hasattr(owner, "estimator"):
        _check_wrapped(owner.estimator)
    y_original = np.asarray(y) if wraps_skorch(getattr(owner, "estimator", None)) else None
    check_unmasked(X, "X")
    target = check_y(y, owner, column=y_original is not None)
    validate_data(owner, X, skip_check_array=True)
    (X,) = indexable(X)  # rows can be selected; nothing else changes
    check_consistent_length(X, target)
    n = len(target)
    if n < 2:
        raise ValueError(f"{type(owner).__name__} needs at least 2 samples, got {n} sample.")
    weight = check_sample_weight(sample_weight, n)
    metadata = dict(fit_params) if weight is None else {**fit_params, "sample_weight": weight}
    routed_weight = weight if route_weight and hasattr(owner, "estimator") else None
    if routing_enabled() and hasattr(owner, "estimator"):
        params, weight_params, groups = _split_routed(owner, caller, routed_weight, fit_params)
    else:
        params, weight_params, groups = _split_plain(owner, routed_weight, fit_params)
    return TrainingData(X, target, weight, params, weight_params, groups, metadata, y_original)


def _check_wrapped(estimator: Any) -> None:
    """Raise unless the wrapped estimator is an instance of a regressor, by its tags or its methods."""
    if isinstance(estimator, type):
        raise TypeError(f"`estimator` must be an instance, got the class {estimator.__name__}.")
    name = type(estimator).__name__
    if is_classifying(estimator):
        raise ValueError(f"`estimator` must be a regressor, got the classifier {name}.")
    _check_inside(estimator)
    # Some regressors have `predict` only once they are fitted, as a StackingRegressor by default.
    if not (is_regressing(estimator) or hasattr(estimator, "predict") or supports_dist(estimator)):
        raise TypeError(
            f"`estimator` must be a regressor with `fit` and `predict`, got {name}. A transformer goes in a "
            "Pipeline in front of a regressor."
        )


def _check_inside(estimator: Any) -> None:
    """Raise for a search that keeps no model, and for a model of several targets, however deep inside."""
    finished = False
    for inner in inwards(estimator):
        finished |= isinstance(inner, FrozenEstimator)  # one fitted to a single column can be used
        if is_search(inner) and not hasattr(inner, "best_estimator_") and not inner.refit:
            raise ValueError(
                f"`estimator` must have a model to predict with, got a {type(inner).__name__} with "
                f"refit={inner.refit!r}. Set `refit=True`, or the name of a metric."
            )
        if isinstance(inner, MultiOutputRegressor | RegressorChain) and not finished:
            name = type(inner).__name__
            raise ValueError(
                f"`estimator` must be a regressor of one target, got a {name}. {one_column_each()}"
            )


def _split_routed(
    owner: Any, caller: str, weight: FloatArray | None, fit_params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Sort metadata by what was requested, with metadata routing enabled."""
    given = dict(fit_params) if weight is None else {**fit_params, "sample_weight": weight}
    routed = process_routing(owner, caller, **given)
    params = dict(routed.estimator.fit)
    weight_params = {"sample_weight": params.pop("sample_weight")} if "sample_weight" in params else {}
    return params, weight_params, routed_groups(routed) if hasattr(owner, "cv") else None


def routed_groups(routed: Any) -> Any:
    """Return the groups that metadata routing gives to the splitter, or None."""
    split = dict(routed.splitter.split)
    groups = split.pop("groups", None)
    if split:
        raise ValueError(f"`cv` requests {sorted(split)}, but only `groups` can be passed on to a splitter.")
    return groups


def _split_plain(
    owner: Any, weight: FloatArray | None, fit_params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Sort parameters by name: groups to the splitter, everything else to the wrapped estimator."""
    params = dict(fit_params)
    groups = params.pop("groups", None)
    if groups is not None and (not hasattr(owner, "cv") or splitter_ignores_groups(splitter_of(owner))):
        advice = (
            "pass cv=GroupKFold(5)"
            if hasattr(owner, "cv")
            else "wrap it in RecalibratedRegressor(cv=GroupKFold(5))"
        )
        raise ValueError(
            f"`groups` is given, but {type(owner).__name__} with these parameters makes no use of it: "
            f"{advice}, or leave `groups` out."
        )
    if params and not hasattr(owner, "estimator"):
        raise TypeError(f"{type(owner).__name__}.fit takes no parameters {sorted(params)}.")
    return params, weight_params_for(owner.estimator, weight) if weight is not None else {}, groups


def weight_params_for(estimator: Any, weight: FloatArray) -> dict[str, FloatArray]:
    """Return the weights under the keyword by which the estimator's ``fit`` takes them."""
    keyword = weight_keyword(estimator)
    if keyword is None:
        raise ValueError(
            f"`sample_weight` is given, but {type(estimator).__name__} takes none in `fit`. Leave it "
            "out, use an estimator that takes weights, or BootstrapRegressor, which resamples by them."
        )
    return {keyword: weight}


def weights_for(estimator: Any, weight: FloatArray | None, name: str) -> dict[str, Any]:
    """Return the keyword arguments that give ``weight`` to a second model, the parameter ``name``."""
    if weight is None:
        return {}
    keyword = weight_keyword(estimator)
    if keyword is None:
        raise ValueError(
            f"`sample_weight` is given, but `{name}` {type(estimator).__name__} takes none in `fit`. "
            "Leave it out or use an estimator that takes weights."
        )
    return {"sample_weight" if routing_enabled() else keyword: weight}
