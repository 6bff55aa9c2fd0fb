"""Fitting a wrapped estimator, a network among them, whose target must have the shape of its outputs."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.pipeline import Pipeline

__all__ = ["child_of", "fit_wrapped", "wraps_skorch"]

_TORCH_WARNS = "Using a target size"
"""How torch begins its warning that targets (n,) and outputs (n, 1) are compared each with each."""


def child_of(estimator: Any) -> Any:
    """Return what GridSearchCV, TransformedTargetRegressor and their like wrap; None for others."""
    child = getattr(estimator, "estimator", None)  # a forest, as it has members, may be false: not `or`
    return getattr(estimator, "regressor", None) if child is None else child


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
    """Fit the estimator and return what its ``fit`` returns; a network that could learn nothing raises.

    Where outputs are a column and targets are not, torch compares each output with every target, and the
    network learns the mean of all targets. Torch only warns of it.
    """
    if not wraps_skorch(estimator):
        return estimator.fit(X, y, **params)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=_TORCH_WARNS)
        try:
            return estimator.fit(X, y, **params)
        except UserWarning as warning:
            if not str(warning).startswith(_TORCH_WARNS):
                raise
            raise ValueError(
                "`y` must have the shape of the network's outputs, else each output is compared with every "
                f"target and nothing is learnt; torch says: {str(warning).split('. ')[0]}. Pass y of shape "
                "(n, 1) to a network that gives a column; or let it end in torch.nn.Flatten(0), and pass y "
                "of shape (n,)."
            ) from warning
