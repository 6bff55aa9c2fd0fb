"""Metrics for skore's reports; does not need skore itself."""

from skuq.integrations.skore._metric import metric

__all__ = ["metric"]
