"""Metrics for skore."""

from __future__ import annotations

from typing import Any

from skuq.integrations._scorers import as_scorer
from skuq.metrics._scorer import MetricScorer


class Metric:
    """Scorer that skore does not treat as a scikit-learn scorer."""

    def __init__(self, scorer: MetricScorer) -> None:
        self.scorer = scorer
        self.__name__ = scorer.__name__

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        return float(self.scorer(estimator, X, y))


def metric(scorer: Any) -> Metric:
    """Convert a metric of skuq to a metric for skore's ``report.metrics.add``.

    If a scikit-learn scorer is passed to skore, skore calls the metric function of the scorer with the result
    of ``predict``. Metrics of skuq need distributions, so the report would contain NaN for a scorer of skuq.
    If a function that is not a scorer is passed, skore calls this function with the estimator. `metric`
    returns such a function.

    Parameters
    ----------
    scorer : str or scorer
        Abbreviation or scorer name of a metric, or a scorer of `skuq.metrics.make_scorer` with options.

    Returns
    -------
    metric : callable
        ``metric(estimator, X, y)`` returns the value of the scorer. The larger the better, except for metrics
        without a direction, such as "picp". The name of the function is the name of the scorer. Pass the
        function to ``report.metrics.add`` of an ``EstimatorReport``, a ``CrossValidationReport`` or a
        ``ComparisonReport``.

    Raises
    ------
    TypeError
        If ``scorer`` is neither a name nor a skuq scorer.
    ValueError
        If the metric is unknown.

    See Also
    --------
    skuq.evaluation.uncertainty_report : Table of all metrics of a forecast, with intervals.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.integrations.skore import metric
    >>> X, y = load_diabetes(return_X_y=True)
    >>> crps = metric("crps")
    >>> crps.__name__, round(crps(BayesianRidge().fit(X, y), X, y), 2)
    ('neg_crps', -30.47)

    ``report.metrics.add(crps)`` adds the metric to ``report.metrics.summarize().frame()``.
    """
    return Metric(as_scorer(scorer, "scorer", MetricScorer))
