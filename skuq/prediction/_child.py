"""Estimators inside Pipelines, searches and other meta-estimators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline


def child_of(estimator: Any) -> Any:
    # `or` cannot be used, because an unfitted forest has length 0 and is therefore false.
    child = getattr(estimator, "estimator", None)
    return getattr(estimator, "regressor", None) if child is None else child


def last_step(estimator: Any) -> Any:
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def iter_wrapped(estimator: Any) -> Iterator[Any]:
    """Yield the estimator and all inner estimators, from the outermost to the innermost."""
    while hasattr(estimator, "fit"):
        yield estimator
        if not isinstance(estimator, Pipeline):
            estimator = child_of(estimator)
        else:
            estimator = estimator.steps[-1][1] if estimator.steps else None


def is_search(estimator: Any) -> bool:
    if isinstance(estimator, FrozenEstimator):
        return False
    if hasattr(estimator, "best_estimator_"):
        return True
    return hasattr(estimator, "refit") and hasattr(estimator, "estimator")


def name_of(estimator: Any) -> str:
    *_, inner = estimator, *iter_wrapped(estimator)
    name, outer = type(inner).__name__, type(estimator).__name__
    return name if inner is estimator else f"{name} in {outer}"
