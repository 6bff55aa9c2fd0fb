"""Distributions of the models selected by FLAML, AutoGluon, TPOT and skrub.

Objects that contain an estimator have a `MetaEstimatorRule`. Other objects have an adapter. This module
imports none of the packages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from skuq.distributions import Distribution, Quantiles
from skuq.exceptions import NotProbabilisticError, NotRefittedError
from skuq.prediction._failures import check_predictions
from skuq.prediction._registry import Adapter, is_named
from skuq.prediction._rules.no_distribution import not_fitted
from skuq.prediction._rules.rule import MetaEstimatorRule, Predict


def _named(*qualified_names: str) -> Callable[[Any], bool]:
    names = {name.rpartition(".")[2] for name in qualified_names}

    def matches(estimator: Any) -> bool:
        cls = type(estimator)
        # This test is fast, and most classes fail it.
        if names.isdisjoint([ancestor.__name__ for ancestor in cls.__mro__]):
            return False
        return any(is_named(cls, name) for name in qualified_names)

    return matches


def _flaml_inner(automl: Any, X: Any, predict: Predict) -> Any:
    if automl.model is None:
        raise NotFittedError(
            f"this {type(automl).__name__} has no model. Either `fit` was not called, or every trial failed. "
            "Call `fit`, with `verbose=3` to log each trial."
        )
    return predict(automl.model, automl.preprocess(X))


def _flaml_parts(automl: Any) -> list[Any]:
    return [] if automl.model is None else [automl.model]


def _tpot_inner(tpot: Any, X: Any, predict: Predict) -> Any:
    if not _tpot_parts(tpot):
        raise not_fitted(tpot)
    return predict(tpot.fitted_pipeline_, X)


def _tpot_parts(tpot: Any) -> list[Any]:
    return [tpot.fitted_pipeline_] if hasattr(tpot, "fitted_pipeline_") else []


def _skrub_search_inner(search: Any, X: Any, predict: Predict) -> Any:
    if hasattr(search, "best_learner_"):
        return predict(search.best_learner_, X)
    if hasattr(search, "cv_results_"):
        raise NotRefittedError(
            f"this {type(search).__name__} was fitted with `refit=False` and has no fitted learner. Set "
            f"`refit=True`, or set `refit` to the name of a metric."
        )
    raise not_fitted(search)


def _skrub_search_parts(search: Any) -> list[Any]:
    return [search.best_learner_] if hasattr(search, "best_learner_") else []


def _skrub_learner_dist(learner: Any, X: Any) -> Distribution:
    evaluate = getattr(learner, "_eval_in_mode", None)
    dist = None if evaluate is None else evaluate("predict_dist", X)
    if not isinstance(dist, Distribution):
        raise NotProbabilisticError(
            f"skrub cannot return the distribution of the last estimator of this {type(learner).__name__}. "
            "Make the last estimator an estimator of skuq: X.skb.apply(skuq.UncertaintyRegressor(...), "
            "y=y). Alternatively, name the nodes of X and of the estimator with `.skb.set_name`, and call "
            "`predict_dist` with learner.find_fitted_estimator(name_of_estimator) and "
            "learner.truncated_after(name_of_X).transform(environment)."
        )
    return dist


def _autogluon_dist(predictor: Any, X: Any) -> Quantiles:
    if not _autogluon_supports(predictor):
        raise NotProbabilisticError(
            "this TabularPredictor must predict several quantiles, got problem type "
            f"{predictor.problem_type!r} or a single quantile. Use TabularPredictor(label, "
            "problem_type='quantile', quantile_levels=[0.01, 0.05, 0.1, ..., 0.95, 0.99])."
        )
    levels, order = np.unique(predictor.quantile_levels, return_index=True)
    values = np.asarray(predictor.predict(X), dtype=np.float64)
    return Quantiles(levels, check_predictions(values, predictor)[:, order])


def _autogluon_supports(predictor: Any) -> bool:
    return predictor.problem_type == "quantile" and len(predictor.quantile_levels) > 1


AUTOML_CONTAINERS: tuple[MetaEstimatorRule, ...] = (
    MetaEstimatorRule(
        _named("flaml.automl.automl.AutoML", "flaml.automl.model.BaseEstimator"), _flaml_inner, _flaml_parts
    ),
    MetaEstimatorRule(
        _named("tpot.TPOTEstimator", "tpot.TPOTEstimatorSteadyState"), _tpot_inner, _tpot_parts
    ),
    MetaEstimatorRule(
        _named("skrub.ParamSearch", "skrub.OptunaParamSearch"), _skrub_search_inner, _skrub_search_parts
    ),
)

AUTOML_ADAPTERS: dict[str, Adapter] = {
    "autogluon.tabular.TabularPredictor": Adapter(_autogluon_dist, _autogluon_supports, points=False),
    "skrub.SkrubLearner": Adapter(_skrub_learner_dist, lambda learner: hasattr(learner, "predict")),
}
"""Adapters by the path from which users import the class."""
