"""Metrics and learners for ``AutoML`` of FLAML. The package FLAML is required."""

from skuq.integrations.flaml._learner import learner
from skuq.integrations.flaml._metric import metric

__all__ = ["learner", "metric"]
