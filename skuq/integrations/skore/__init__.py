"""Metrics for the reports of skore. This module does not import skore."""

from skuq.integrations.skore._metric import metric

__all__ = ["metric"]
