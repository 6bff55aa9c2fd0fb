"""Fitting a wrapped estimator, a network among them, whose target must have the shape of its outputs."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.dummy import DummyRegressor

from skuq._sklearn_compat import sequential_in_cluster_task
from skuq.prediction._child import inwards
from skuq.prediction._failures import hint_at_constant, hint_at_words, is_constant
from skuq.prediction._resolve import supports_dist

__all__ = ["fit_wrapped", "wraps_skorch"]

_TORCH_WARNS = "Using a target size"
"""How torch begins its warning that targets (n,) and outputs (n, 1) are compared each with each."""


def wraps_skorch(estimator: Any) -> bool:
    """Return whether ``fit`` of the estimator ends in that of a skorch net; skorch is not imported.

    Such a net takes the target in the shape and type that its module and its loss need, most often a
    column, so that the target must reach it as the user gave it.
    """
    classes = (cls for one in inwards(estimator) for cls in type(one).__mro__)
    return any((cls.__module__, cls.__name__) == ("skorch.net", "NeuralNet") for cls in classes)


def fit_wrapped(estimator: Any, X: Any, y: Any, **params: Any) -> Any:
    """Fit the estimator and return it; a network that could learn nothing raises.

    Where ``y`` has one value, as in a fold or a resample, and the estimator has no fit to such a target, the
    constant takes its place. Errors about words in X get a note on encoders, and others one on the target
    where that has one value; their type stays.
    """
    try:
        with sequential_in_cluster_task():
            _fit(estimator, X, y, params)
    except Exception as error:
        about_constant = _is_about_constant(error)
        if about_constant and is_constant(y) and not supports_dist(estimator):
            return DummyRegressor().fit(X, y)
        hint_at_words(error, estimator, X)
        hint_at_constant(error, estimator, y, about_constant=about_constant)
        raise
    return estimator


def _is_about_constant(error: Exception) -> bool:
    """Return whether it is CatBoost's error for a target of one value; CatBoost is not imported.

    It may come from rows that the estimator selects itself, as the folds of a StackingRegressor.
    """
    return type(error).__name__ == "CatBoostError" and "targets are equal" in str(error)


def _fit(estimator: Any, X: Any, y: Any, params: dict[str, Any]) -> None:
    """Fit the estimator; torch's warning of a wrong shape of y becomes an error.

    Where outputs are a column and targets are not, torch compares each output with every target, and the
    network learns the mean of all targets. Torch only warns of it.
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
                "`y` must have the shape of the network's outputs, else each output is compared with every "
                f"target and nothing is learnt; torch's warning: {str(warning).split('. ')[0]}. Pass y of "
                "shape (n, 1) to a network that gives a column; or let it end in torch.nn.Flatten(0), and "
                "pass y of shape (n,)."
            ) from warning
