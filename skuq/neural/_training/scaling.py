"""Standardisation of features and target, in float64, before anything is cast to the type of the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from skuq._typing import FloatArray
from skuq.regressors._standardise import column_scale

__all__ = ["Standardiser"]


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Means and standard deviations of the training rows, weights counting repetitions.

    Attributes
    ----------
    X_mean, X_scale : ndarray of shape (d,)
        A column without variance has an infinite scale, so that it is 0 everywhere: it was not used in
        training, so it does not change predictions of new rows.
    y_mean, y_scale : float
        A constant target has the scale 0: the prediction is that constant, with certainty.
    """

    X_mean: FloatArray
    X_scale: FloatArray
    y_mean: float
    y_scale: float

    @classmethod
    def learn(cls, X: FloatArray, y: FloatArray, weight: FloatArray | None) -> Self:
        """Learn from training rows."""
        share = np.full(len(y), 1.0 / len(y)) if weight is None else weight / weight.sum()
        counted = X[share > 0][0] if len(X) else 0.0  # about which means are taken, so that no digit is lost
        X_mean = counted + share @ (X - counted)
        X_scale = column_scale(X, X_mean, share)
        start = float(y[share > 0][0])
        y_mean = start + float(share @ (y - start))
        y_scale = float(column_scale(y[:, np.newaxis], np.array([y_mean]), share)[0])
        return cls(X_mean, X_scale, y_mean, 0.0 if np.isinf(y_scale) else y_scale)

    def features(self, X: FloatArray) -> FloatArray:
        """Return standardised features."""
        standardised: FloatArray = (X - self.X_mean) / self.X_scale
        return standardised

    def target(self, y: FloatArray) -> FloatArray:
        """Return the standardised target."""
        return (y - self.y_mean) / self.y_scale if self.y_scale > 0 else np.zeros_like(y)

    def loc(self, standardised: FloatArray) -> FloatArray:
        """Return means in the units of y."""
        return self.y_mean + self.y_scale * standardised

    def scale(self, variance: FloatArray) -> FloatArray:
        """Return standard deviations in the units of y."""
        return self.y_scale * np.sqrt(variance)
