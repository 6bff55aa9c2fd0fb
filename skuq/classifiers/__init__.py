"""Classifiers with prediction sets."""

from skuq.classifiers._conformal.classifier import ConformalClassifier

__all__ = ["ConformalClassifier"]
