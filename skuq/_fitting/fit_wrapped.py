"""Fitting of wrapped estimators, including networks with outputs of shape (n, 1)."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.dummy import DummyRegressor

from skuq._fitting.fit_errors import (
    is_constant,
    note_constant_target,
    note_foundation_model,
    note_missing_encoder,
)
from skuq._sklearn_compat import sequential_in_cluster_task
from skuq.prediction._child import iter_wrapped
from skuq.prediction._resolve import supports_dist

_TORCH_WARNS = "Using a target size"
"""First words of torch's warning about targets of shape (n,) and outputs of shape (n, 1)."""


def wraps_skorch(estimator: Any) -> bool:
    classes = (cls for one in iter_wrapped(estimator) for cls in type(one).__mro__)
    return any((cls.__module__, cls.__name__) == ("skorch.net", "NeuralNet") for cls in classes)


def fit_wrapped(estimator: Any, X: Any, y: Any, **params: Any) -> Any:
    """Fit and return the estimator, or a constant model if the estimator does not support a constant y."""
    try:
        with sequential_in_cluster_task():
            _fit(estimator, X, y, params)
    except Exception as error:
        about_constant = _is_about_constant(error)
        if about_constant and is_constant(y) and not supports_dist(estimator):
            return DummyRegressor().fit(X, y)
        note_missing_encoder(error, estimator, X)
        note_foundation_model(error, estimator, X)
        note_constant_target(error, estimator, y, about_constant=about_constant)
        raise
    return estimator


def _is_about_constant(error: Exception) -> bool:
    return type(error).__name__ == "CatBoostError" and "targets are equal" in str(error)


def _fit(estimator: Any, X: Any, y: Any, params: dict[str, Any]) -> None:
    """Fit the estimator. The warning of torch about the shape of y becomes an error."""
    if not wraps_skorch(estimator):
        estimator.fit(X, y, **params)
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=_TORCH_WARNS)
        try:
            estimator.fit(X, y, **params)
        except UserWarning as warning:
            if not str(warning).startswith(_TORCH_WARNS):
                raise
            raise ValueError(
                f"`y` must have the same shape as the outputs of the network. Otherwise, the loss compares "
                f"each output with all targets. Torch's warning: {str(warning).split('. ')[0]}. If the "
                f"network "
                "returns a column, pass y of shape (n, 1), or add torch.nn.Flatten(0) as its last layer and "
                "pass y of shape (n,)."
            ) from warning
