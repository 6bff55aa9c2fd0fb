"""The function that skore evaluates an estimator by."""

from __future__ import annotations

from typing import Any

from skuq.integrations._scorers import as_scorer
from skuq.metrics._scorer import MetricScorer


class Metric:
    """What `metric` returns: a scorer that skore does not recognise as one of scikit-learn's."""

    def __init__(self, scorer: MetricScorer) -> None:
        self.scorer = scorer
        self.__name__ = scorer.__name__

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the score of a fitted estimator."""
        return float(self.scorer(estimator, X, y))


def metric(scorer: Any) -> Metric:
    """Make a metric for skore's ``report.metrics.add`` from a metric of skuq.

    skore takes a scorer apart and calls its function with the output of ``predict``; the error of skuq's
    metrics, which need distributions, becomes a NaN in the table. It calls a plain function with the
    estimator.

    Parameters
    ----------
    scorer : str or scorer
        A metric by abbreviation or scorer name, or a scorer of `skuq.metrics.make_scorer`, for options.

    Returns
    -------
    metric : callable
        ``metric(estimator, X, y)``, higher is better: the same number as that of the scorer, under the
        scorer's name. To pass to ``report.metrics.add`` of an ``EstimatorReport``, a
        ``CrossValidationReport`` or a ``ComparisonReport``.

    Raises
    ------
    TypeError
        If ``scorer`` is neither a name nor a scorer of skuq.
    ValueError
        If there is no such metric.

    See Also
    --------
    skuq.metrics.uncertainty_report : A table of all metrics of a forecast, with intervals.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.integrations.skore import metric
    >>> X, y = load_diabetes(return_X_y=True)
    >>> crps = metric("crps")
    >>> crps.__name__, round(crps(BayesianRidge().fit(X, y), X, y), 2)
    ('neg_crps', -30.47)

    ``report.metrics.add(crps)`` adds it to ``report.metrics.summarize().frame()``.
    """
    return Metric(as_scorer(scorer, "scorer", MetricScorer))
