"""Fitting a wrapped estimator, a network among them, whose target must have the shape of its outputs."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.dummy import DummyRegressor
from sklearn.pipeline import Pipeline

from skuq._sklearn_compat import sequential_in_cluster_task
from skuq.prediction._child import child_of
from skuq.prediction._failures import hint_at_words
from skuq.prediction._resolve import supports_dist

__all__ = ["fit_wrapped", "wraps_skorch"]

_TORCH_WARNS = "Using a target size"
"""How torch begins its warning that targets (n,) and outputs (n, 1) are compared each with each."""


def wraps_skorch(estimator: Any) -> bool:
    """Say whether ``fit`` of the estimator ends in that of a skorch net; skorch is not imported.

    Such a net takes the target in the shape and type that its module and its loss want, most often a
    column, so that the target must reach it as the user gave it.
    """
    if isinstance(estimator, Pipeline):
        return wraps_skorch(estimator.steps[-1][1])
    if any((cls.__module__, cls.__name__) == ("skorch.net", "NeuralNet") for cls in type(estimator).__mro__):
        return True
    child = child_of(estimator)
    return child is not None and wraps_skorch(child)


def fit_wrapped(estimator: Any, X: Any, y: Any, **params: Any) -> Any:
    """Fit the estimator and return it; a network that could learn nothing raises.

    An estimator that refuses a target of one value, as a fold or a resample may have it, is replaced by the
    constant. Errors about words in X get a note on encoders; their type stays.
    """
    try:
        _fit(estimator, X, y, params)
    except Exception as error:
        if _refuses_constant(error) and not supports_dist(estimator):
            return DummyRegressor().fit(X, y)
        hint_at_words(error, estimator, X)
        raise
    return estimator


def _refuses_constant(error: Exception) -> bool:
    """Say whether it is CatBoost's error for a target of one value; CatBoost is not imported."""
    return type(error).__name__ == "CatBoostError" and "targets are equal" in str(error)


def _fit(estimator: Any, X: Any, y: Any, params: dict[str, Any]) -> None:
    """Fit the estimator; torch's warning of a wrong shape of y becomes an error.

    Where outputs are a column and targets are not, torch compares each output with every target, and the
    network learns the mean of all targets. Torch only warns of it.
    """
    if not wraps_skorch(estimator):
        with sequential_in_cluster_task():
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
                f"target and nothing is learnt; torch says: {str(warning).split('. ')[0]}. Pass y of shape "
                "(n, 1) to a network that gives a column; or let it end in torch.nn.Flatten(0), and pass y "
                "of shape (n,)."
            ) from warning
