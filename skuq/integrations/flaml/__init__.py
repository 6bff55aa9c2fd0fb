"""Metrics and learners for FLAML's ``AutoML``; requires FLAML."""

from skuq.integrations.flaml._learner import learner
from skuq.integrations.flaml._metric import metric

__all__ = ["learner", "metric"]
