"""The scorers: a metric as scikit-learn's searches and cross-validation call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skuq._sklearn_compat import BaseScorer
from skuq._validation import DEFAULT_COVERAGE
from skuq.distributions import Distribution
from skuq.metrics._spec import MetricFunction, find_spec
from skuq.prediction import predict_dist, predict_set
from skuq.prediction._predict_set import class_proba


class MetricScorer(BaseScorer):
    """A metric with the signature ``scorer(estimator, X, y)``.

    Made by `get_scorer`, `make_scorer` and `scorers`. Several scorers of one search share one prediction.
    Higher is better: losses come with their sign changed.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_pred, *, sample_weight=None, **options)``.
    sign : {1, -1}
        -1 for a loss.
    options : dict
        Keyword arguments of the metric.
    name : str
        Becomes ``__name__``, which displays and AutoML tools read.
    """

    def __init__(self, metric: MetricFunction, sign: int, options: dict[str, Any], name: str) -> None:
        # "predict" is what scikit-learn checks for before it scores; every estimator has it.
        super().__init__(metric, sign, options, response_method="predict")
        self.__name__ = name

    @property
    def metric_name(self) -> str:
        """Name of the metric, without ``neg_``."""
        return self.__name__.removeprefix("neg_")

    @property
    def greater_is_better(self) -> bool:
        """Whether larger values of the metric are better; of the scorer they always are."""
        return bool(self._sign > 0)

    def __repr__(self) -> str:
        """Show the call that makes this scorer."""
        spec = find_spec(self._score_func)
        metric = (
            getattr(self._score_func, "__name__", repr(self._score_func))
            if spec is None
            else repr(spec.abbreviation)
        )
        options = dict(self._kwargs)
        if spec is None or spec.direction is None:
            options = {"greater_is_better": self._sign > 0, **options}
        return f"make_scorer({', '.join([metric, *(f'{key}={value!r}' for key, value in options.items())])})"

    def _compute(self) -> MetricFunction:
        """Return the metric without the small-sample warning, which would repeat in every fold."""
        spec = find_spec(self._score_func)
        compute: MetricFunction = self._score_func if spec is None else spec.compute
        return compute


class DistributionScorer(MetricScorer):
    """A metric of predictive distributions, predicted by `~skuq.prediction.predict_dist`.

    The estimator may be anything that function resolves. A metric whose record has ``needs_X`` gets the X of
    the scored rows, too.
    """

    def _score(
        self, method_caller: Callable[..., Any], estimator: Any, X: Any, y_true: Any, **metadata: Any
    ) -> float:
        """Return the signed value of the metric for the estimator's distributions of X."""
        dist = _cached(method_caller, "skuq.predict_dist", lambda: predict_dist(estimator, X))
        return float(self._sign * self.metric_value(y_true, dist, X, **metadata))

    def metric_value(self, y_true: Any, dist: Distribution, X: Any, **metadata: Any) -> float:
        """Return the metric, with its own sign, of distributions that were predicted for X before."""
        spec = find_spec(self._score_func)
        features = (X,) if spec is not None and spec.needs_X else ()
        return float(self._compute()(y_true, dist, *features, **{**self._kwargs, **metadata}))


class ClassScorer(MetricScorer):
    """A metric of class probabilities, or of the prediction sets by `~skuq.prediction.predict_set`.

    The classes of the columns are the estimator's ``classes_``, so that a fold may lack some of them, and
    hold others, which count as misses.
    """

    def _score(
        self, method_caller: Callable[..., Any], estimator: Any, X: Any, y_true: Any, **metadata: Any
    ) -> float:
        """Return the signed value of the metric for the estimator's sets or probabilities of X."""
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
    """Return a prediction, kept in scikit-learn's cache of one multi-metric call.

    The cache is the first bound argument of `method_caller`; it lives for one estimator and one X. An
    entry under a key of our own keeps clear of what scikit-learn stores for ``predict``.
    """
    bound = getattr(method_caller, "args", ())
    cache = bound[0] if bound and isinstance(bound[0], dict) else {}
    if key not in cache:
        cache[key] = predict()
    return cache[key]
