"""Metrics and learners for ``AutoML`` of FLAML. The package FLAML is required."""

from skuq.integrations.flaml._flaml import learner, metric

__all__ = ["learner", "metric"]
