"""Metrics as other packages name them: by abbreviation, or as a scorer of skuq with options."""

from __future__ import annotations

from typing import Any

from skuq.metrics import make_scorer
from skuq.metrics._scorer import DistributionScorer

__all__ = ["as_scorer"]


def as_scorer(metric: Any, name: str) -> DistributionScorer:
    """Return the scorer of a metric by its name, and a scorer of skuq as it is."""
    if isinstance(metric, str):
        return make_scorer(metric)
    if not isinstance(metric, DistributionScorer):
        raise TypeError(
            f"`{name}` must be the name of a metric, as 'crps', or a scorer of skuq, got {metric!r}. For "
            "options, or a function of your own, use skuq.metrics.make_scorer."
        )
    return metric
