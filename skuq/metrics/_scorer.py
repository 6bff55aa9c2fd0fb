"""Scorers for scikit-learn's searches and cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skuq._sklearn_compat import BaseScorer
from skuq._validation import DEFAULT_COVERAGE
from skuq.distributions import Distribution
from skuq.metrics._spec import MetricFunction, find_spec
from skuq.prediction import predict_dist
from skuq.prediction._predict_set import class_proba, predict_set


class MetricScorer(BaseScorer):
    """Scorer with the signature ``scorer(estimator, X, y)``; returned by `get_scorer` and `make_scorer`.

    The larger the score the better: a loss is multiplied by -1. A scorer for monitoring returns the metric.
    Its larger values are neither better nor worse. If a search has several scorers, each model
    predicts only once for all of them.
    """

    def __init__(
        self, metric: MetricFunction, greater_is_better: bool | None, options: dict[str, Any], name: str
    ) -> None:
        # scikit-learn checks that the estimator has the response method. Every estimator has "predict".
        super().__init__(metric, -1 if greater_is_better is False else 1, options, response_method="predict")
        self.greater_is_better = greater_is_better
        self.__name__ = name if greater_is_better is not False else f"neg_{name}"

    @property
    def metric_name(self) -> str:
        return self.__name__.removeprefix("neg_")

    def __repr__(self) -> str:
        spec = find_spec(self._score_func)
        metric = (
            getattr(self._score_func, "__name__", repr(self._score_func))
            if spec is None
            else repr(spec.abbreviation)
        )
        options = dict(self._kwargs)
        if spec is None or spec.direction is None:
            better = self.greater_is_better
            kind = {"monitoring": True} if better is None else {"greater_is_better": better}
            options = {**kind, **options}
        return f"make_scorer({', '.join([metric, *(f'{key}={value!r}' for key, value in options.items())])})"

    def _compute(self) -> MetricFunction:
        spec = find_spec(self._score_func)
        compute: MetricFunction = self._score_func if spec is None else spec.compute
        return compute


class DistributionScorer(MetricScorer):
    """Scorer of the predictive distributions from `~skuq.prediction.predict_dist`."""

    def _score(
        self, method_caller: Callable[..., Any], estimator: Any, X: Any, y_true: Any, **metadata: Any
    ) -> float:
        dist = _cached(method_caller, "skuq.predict_dist", lambda: predict_dist(estimator, X))
        return float(self._sign * self.metric_value(y_true, dist, X, **metadata))

    def metric_value(self, y_true: Any, dist: Distribution, X: Any, **metadata: Any) -> float:
        spec = find_spec(self._score_func)
        features = (X,) if spec is not None and spec.needs_X else ()
        return float(self._compute()(y_true, dist, *features, **{**self._kwargs, **metadata}))


class ClassScorer(MetricScorer):
    """Scorer of class probabilities, or of the prediction sets from `~skuq.conformal.predict_set`."""

    def _score(
        self, method_caller: Callable[..., Any], estimator: Any, X: Any, y_true: Any, **metadata: Any
    ) -> float:
        spec = find_spec(self._score_func)
        if spec is not None and spec.needs == "set":
            coverage = self._kwargs.get("coverage", DEFAULT_COVERAGE)
            key = f"skuq.predict_set {coverage!r}"
            forecast = _cached(method_caller, key, lambda: predict_set(estimator, X, coverage))
        else:
            forecast = _cached(method_caller, "skuq.predict_proba", lambda: class_proba(estimator, X))
        options = {"labels": estimator.classes_, **self._kwargs, **metadata}
        return float(self._sign * self._compute()(y_true, forecast, **options))


def _cached(method_caller: Callable[..., Any], key: str, predict: Callable[[], Any]) -> Any:
    bound = getattr(method_caller, "args", ())
    cache = bound[0] if bound and isinstance(bound[0], dict) else {}
    if key not in cache:
        cache[key] = predict()
    return cache[key]
