"""Records of the rules that return the distribution of an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from skuq.distributions import Distribution

Predict: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class MetaEstimatorRule:
    """A meta-estimator, which has a distribution if all of its parts have one.

    ``matches(estimator)`` selects the rule. ``predict(estimator, X, predict_dist)`` gets the resolver for the
    parts. ``parts(estimator)`` returns the estimators that determine the distribution, fitted or not; several
    parts form a mixture, and None and strings represent absent parts. ``passes_on`` is True if the prediction
    is the prediction of the only part for the same rows. ``predict`` with another resolver then gives, for
    example, prediction sets.
    """

    matches: Callable[[Any], bool]
    predict: Callable[[Any, Any, Predict], Any]
    parts: Callable[[Any], Sequence[Any]]
    passes_on: bool = False


@dataclass(frozen=True)
class EstimatorRule:
    """An estimator with scikit-learn's conventions that has a distribution.

    ``matches(estimator)`` selects the rule, ``predict(estimator, X)`` returns the distribution, and
    ``supports(estimator)`` returns whether it exists after fitting. ``exact`` is True if the distribution is
    the exact posterior predictive distribution of the model.
    """

    matches: Callable[[Any], bool]
    predict: Callable[[Any, Any], Distribution]
    supports: Callable[[Any], bool] = lambda estimator: True
    exact: bool = False
