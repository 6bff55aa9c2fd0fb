"""Records of the rules that return the distribution of an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from skuq.distributions import Distribution

Predict: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class MetaEstimatorRule:
    """Rule for a meta-estimator, which has a distribution if all of its inner estimators have a distribution.

    ``matches(estimator)`` returns whether the rule applies. ``predict(estimator, X, predict_dist)`` calls
    ``predict_dist`` for inner estimators. ``parts(estimator)`` returns the inner estimators that determine
    the distribution, fitted or not. Several inner estimators form a mixture; None and strings represent
    absent estimators. ``passes_on`` is True if the prediction equals the prediction of a single inner
    estimator for the same rows. Such a ``predict`` may also be called with a function for prediction sets
    instead of ``predict_dist``, and then returns prediction sets.
    """

    matches: Callable[[Any], bool]
    predict: Callable[[Any, Any, Predict], Any]
    parts: Callable[[Any], Sequence[Any]]
    passes_on: bool = False


@dataclass(frozen=True)
class EstimatorRule:
    """Rule for an estimator that has a distribution and follows scikit-learn's conventions.

    ``matches(estimator)`` returns whether the rule applies, ``predict(estimator, X)`` returns the
    distribution, and ``supports(estimator)`` returns whether the fitted estimator has a distribution.
    ``exact`` is True if the distribution is the exact posterior predictive distribution of the model.
    """

    matches: Callable[[Any], bool]
    predict: Callable[[Any, Any], Distribution]
    supports: Callable[[Any], bool] = lambda estimator: True
    exact: bool = False
