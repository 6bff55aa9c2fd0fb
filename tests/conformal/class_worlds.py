"""A classifier whose features are its probabilities, and rows whose labels it predicts badly."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

CLASSES = np.array(["ant", "bee", "cat", "dog"])


class GivenProba(ClassifierMixin, BaseEstimator):
    """Predicts the rows of X as probabilities of classes that are known beforehand."""

    def __init__(self, classes=tuple(CLASSES)):
        self.classes = classes

    @property
    def classes_(self):
        return np.asarray(self.classes)

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, X):
        return np.array(X, dtype=np.float64)

    def predict(self, X):
        return self.classes_[np.argmax(X, axis=1)]


def miscalibrated_rows(n, rng):
    """Probabilities without ties, and labels drawn from others: flatter, in another order of classes."""
    proba = rng.dirichlet([0.4, 0.6, 0.8, 1.0], size=n)
    truth = 0.5 * proba + 0.3 * proba[:, [1, 2, 3, 0]] + 0.05
    labels = (truth.cumsum(axis=1) < rng.random((n, 1)) * truth.sum(axis=1, keepdims=True)).sum(axis=1)
    return proba, CLASSES[np.minimum(labels, 3)]


def contains(sets, labels, classes=CLASSES):
    """Return which sets contain the label of their row; a label that is none of the classes is in none."""
    return (sets & (np.asarray(labels)[:, np.newaxis] == classes)).any(axis=1)
