"""Records of the rules that return the distribution of an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from skuq.distributions import Distribution

Predict: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class MetaEstimatorRule:
    """Rule for a meta-estimator that has a distribution if all its inner estimators have one."""

    # Function of the estimator that returns whether the rule applies.
    matches: Callable[[Any], bool]
    # Function of the estimator, X and `predict_dist`. It calls `predict_dist` for inner estimators.
    predict: Callable[[Any, Any, Predict], Any]
    # Function of the estimator, fitted or not, that returns its inner estimators. Several of them form a
    # mixture. None and strings represent absent estimators.
    parts: Callable[[Any], Sequence[Any]]
    # Whether the prediction is the prediction of one inner estimator for the same rows. In this case,
    # `predict` may also be called with a function that returns prediction sets instead of `predict_dist`.
    passes_on: bool = False


@dataclass(frozen=True)
class EstimatorRule:
    """Rule for an estimator that has a distribution and follows scikit-learn's conventions."""

    # Function of the estimator that returns whether the rule applies.
    matches: Callable[[Any], bool]
    # Function of the fitted estimator and X that returns the distribution.
    predict: Callable[[Any, Any], Distribution]
    # Function of the estimator that returns whether it has a distribution after fitting.
    supports: Callable[[Any], bool] = lambda estimator: True
    # Whether the distribution is the exact posterior predictive distribution of the model.
    exact: bool = False
