"""The records of how one kind of estimator is turned into a distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from skuq.distributions import Distribution

__all__ = ["Container", "Native", "Predict"]

Predict: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Container:
    """A meta-estimator, which gives a distribution if all of its parts do.

    Attributes
    ----------
    matches : callable
        ``matches(estimator)``: whether the record applies.
    predict : callable
        ``predict(estimator, X, predict_dist)``, given the resolver itself for the parts.
    parts : callable
        ``parts(estimator)``: the estimators that determine the distribution, fitted or not; empty where
        there are none, several where it is their mixture. None and strings stand for absent ones.
    passes_on : bool
        Whether the prediction is that of the one part, for the same rows: then any kind of prediction, such
        as the prediction sets of classifiers, is reached by ``predict`` with another resolver.
    """

    matches: Callable[[Any], bool]
    predict: Callable[[Any, Any, Predict], Any]
    parts: Callable[[Any], Sequence[Any]]
    passes_on: bool = False


@dataclass(frozen=True)
class Native:
    """An estimator of scikit-learn's conventions that gives a distribution itself.

    Attributes
    ----------
    matches : callable
        ``matches(estimator)``: whether the record applies.
    predict : callable
        ``predict(estimator, X)``.
    supports : callable
        ``supports(estimator)``: whether it will be able to.
    exact : bool
        Whether the distribution is the exact posterior predictive distribution of the estimator's model.
    """

    matches: Callable[[Any], bool]
    predict: Callable[[Any, Any], Distribution]
    supports: Callable[[Any], bool] = lambda estimator: True
    exact: bool = False
