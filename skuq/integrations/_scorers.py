"""Metrics of the integrations. A metric is an abbreviation or a scorer of skuq."""

from __future__ import annotations

from typing import Any, TypeVar

from skuq.metrics import make_scorer
from skuq.metrics._scorer import DistributionScorer, MetricScorer

Scorer = TypeVar("Scorer", bound=MetricScorer)


def as_scorer(metric: Any, name: str, kind: type[Scorer]) -> Scorer:
    """Return the scorer of a metric name, which may have no direction. A scorer of skuq is unchanged."""
    scorer = make_scorer(metric, monitoring=True) if isinstance(metric, str) else metric
    if not isinstance(scorer, kind):
        of = " of distributions" if kind is DistributionScorer else ""
        raise TypeError(
            f"`{name}` must be the name of a metric{of}, such as 'crps', or its scorer, got {metric!r}. For "
            "options or your own function, use skuq.metrics.make_scorer."
        )
    return scorer
