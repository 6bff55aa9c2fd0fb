"""What is inside scikit-learn's containers, as far as names and parameters go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

__all__ = ["child_of", "inwards", "is_search", "last_step", "name_of"]


def child_of(estimator: Any) -> Any:
    """Return what GridSearchCV, TransformedTargetRegressor and their like wrap; None for others."""
    child = getattr(estimator, "estimator", None)  # a forest, as it has members, may be false: not `or`
    return getattr(estimator, "regressor", None) if child is None else child


def last_step(estimator: Any) -> Any:
    """Return the estimator at the end of nested Pipelines."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def inwards(estimator: Any) -> Iterator[Any]:
    """Yield the estimator, then what it wraps: the last step of a Pipeline, or the child."""
    while hasattr(estimator, "fit"):
        yield estimator
        if not isinstance(estimator, Pipeline):
            estimator = child_of(estimator)
        else:
            estimator = estimator.steps[-1][1] if estimator.steps else None


def is_search(estimator: Any) -> bool:
    """Return whether it is a search: scikit-learn's, or another package's with the same attributes.

    A FrozenEstimator around one, which has them too, is none.
    """
    if isinstance(estimator, FrozenEstimator):
        return False
    if hasattr(estimator, "best_estimator_"):
        return True
    return hasattr(estimator, "refit") and hasattr(estimator, "estimator")


def name_of(estimator: Any) -> str:
    """Return the class of the innermost estimator and, where it is inside another, that one's."""
    *_, inner = estimator, *inwards(estimator)
    name, outer = type(inner).__name__, type(estimator).__name__
    return name if inner is estimator else f"{name} in {outer}"
