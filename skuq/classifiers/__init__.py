"""Classifiers with prediction sets."""

from skuq.classifiers._conformal import ConformalClassifier

__all__ = ["ConformalClassifier"]
