"""Metrics for the reports of skore; this module does not import skore."""

from skuq.integrations.skore._metric import metric

__all__ = ["metric"]
