"""Fitting of wrapped estimators, including networks with outputs of shape (n, 1)."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.dummy import DummyRegressor

from skuq._fitting.fit_errors import is_constant, note_constant_target, note_missing_encoder
from skuq._sklearn_compat import sequential_in_cluster_task
from skuq.prediction._child import iter_wrapped
from skuq.prediction._resolve import supports_dist

_TORCH_WARNS = "Using a target size"
"""First words of torch's warning that targets (n,) and outputs (n, 1) are broadcast."""


def wraps_skorch(estimator: Any) -> bool:
    """Return whether the estimator is or contains a skorch net; skorch is not imported.

    The loss of such a net requires a shape and type of the target, often a column. The target of the user is
    therefore passed on unchanged.
    """
    classes = (cls for one in iter_wrapped(estimator) for cls in type(one).__mro__)
    return any((cls.__module__, cls.__name__) == ("skorch.net", "NeuralNet") for cls in classes)


def fit_wrapped(estimator: Any, X: Any, y: Any, **params: Any) -> Any:
    """Fit the estimator and return it, or raise if the shape of y prevents a network from training.

    If ``y`` is constant, as in a fold or a resample, and the estimator does not support it, the constant
    replaces the estimator. Errors get notes about text in X or about a constant target.
    """
    try:
        with sequential_in_cluster_task():
            _fit(estimator, X, y, params)
    except Exception as error:
        about_constant = _is_about_constant(error)
        if about_constant and is_constant(y) and not supports_dist(estimator):
            return DummyRegressor().fit(X, y)
        note_missing_encoder(error, estimator, X)
        note_constant_target(error, estimator, y, about_constant=about_constant)
        raise
    return estimator


def _is_about_constant(error: Exception) -> bool:
    """Return whether CatBoost, possibly inside another estimator, raised the error for a constant target."""
    return type(error).__name__ == "CatBoostError" and "targets are equal" in str(error)


def _fit(estimator: Any, X: Any, y: Any, params: dict[str, Any]) -> None:
    """Fit the estimator; torch's warning about the shape of y becomes an error.

    If the outputs are a column and the targets are not, torch compares each output with every target, and the
    network learns to predict the mean of all targets. Torch itself only warns.
    """
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
                "`y` must have the shape of the network's outputs. Otherwise, each output is compared with "
                "all targets, and the network predicts their mean. Torch's warning: "
                f"{str(warning).split('. ')[0]}. Pass y of shape (n, 1) to a network that returns a column, "
                "or end the network in torch.nn.Flatten(0) and pass y of shape (n,)."
            ) from warning
