"""What is inside scikit-learn's containers, as far as names and parameters go."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

__all__ = ["child_of", "last_step", "name_of"]


def child_of(estimator: Any) -> Any:
    """Return what GridSearchCV, TransformedTargetRegressor and their like wrap; None for others."""
    child = getattr(estimator, "estimator", None)  # a forest, as it has members, may be false: not `or`
    return getattr(estimator, "regressor", None) if child is None else child


def last_step(estimator: Any) -> Any:
    """Return the estimator at the end of nested Pipelines."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def name_of(estimator: Any) -> str:
    """Return the class of the innermost estimator and, where it is inside another, that one's."""
    inner = last_step(estimator)
    while hasattr(child := last_step(child_of(inner)), "fit"):
        inner = child
    name, outer = type(inner).__name__, type(estimator).__name__
    return name if inner is estimator else f"{name} in {outer}"
