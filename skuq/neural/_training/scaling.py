"""Standardisation of features and target, in float64, before anything is cast to the type of the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skuq._typing import FloatArray
from skuq.regressors._standardise import column_scale

__all__ = ["Standardiser"]


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Means and standard deviations of the training rows, weights counting repetitions.

    Attributes
    ----------
    X_mean, X_scale : ndarray of shape (d,), or of shape () where all columns have the same
        A column without variance has an infinite scale, so that it is 0 everywhere: it was not used in
        training, so it does not change predictions of new rows.
    y_mean, y_scale : float
        A constant target has the scale 0: the prediction is that constant, with certainty. Numbers of classes
        are left as they are, by 0 and 1.
    """

    X_mean: FloatArray
    X_scale: FloatArray
    y_mean: float
    y_scale: float

    @classmethod
    def learn(cls, X: FloatArray, y: FloatArray, weight: FloatArray | None) -> Self:
        """Learn from training rows."""
        share = _shares(weight, len(y))
        X_mean, X_scale = _units_of_columns(X, share)
        start = float(y[share > 0][0])
        y_mean = start + float(share @ (y - start))
        y_scale = float(column_scale(y[:, np.newaxis], np.array([y_mean]), share)[0])
        return cls(X_mean, X_scale, y_mean, 0.0 if np.isinf(y_scale) else y_scale)

    @classmethod
    def of_features(cls, X: FloatArray, weight: FloatArray | None, standardize: Any) -> Self:
        """Learn from training rows, and leave the target as it is.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Features.
        weight : ndarray of shape (n,) or None
            Number of rows that each stands for.
        standardize : {"columns", "all", False}
            Whether each column has a mean and scale of its own, all have the same, or X stays as it is.
        """
        if not standardize:
            return cls(np.zeros(()), np.ones(()), 0.0, 1.0)
        mean, scale = _units_of_columns(X, _shares(weight, len(X)))
        if standardize == "columns":
            return cls(mean, scale, 0.0, 1.0)
        # the values of all columns as one: squares about their mean are those within and between columns
        common = np.full(len(mean), mean.mean())
        within, between = np.where(np.isinf(scale), 0.0, scale), mean - common
        spread = column_scale(np.hypot(within, between)[:, np.newaxis], np.zeros(1), np.ones(len(mean)))
        constant = spread <= 4 * np.finfo(np.float64).eps * np.abs(mean).max()
        return cls(common[0], np.where(constant, np.inf, spread)[0], 0.0, 1.0)

    def features(self, X: FloatArray) -> FloatArray:
        """Return standardised features."""
        standardised: FloatArray = X - self.X_mean
        standardised /= self.X_scale  # in place, as X may fill much of the memory
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


def _shares(weight: FloatArray | None, n: int) -> FloatArray:
    """Return the share of each row."""
    return np.full(n, 1.0 / n) if weight is None else weight / weight.sum()


def _units_of_columns(X: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and scale of each column."""
    counted = X[share > 0][0] if len(X) else 0.0  # about which means are taken, so that no digit is lost
    mean = counted + share @ (X - counted)
    return mean, column_scale(X, mean, share)
