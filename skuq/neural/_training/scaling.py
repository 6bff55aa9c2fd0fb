"""Standardization of features and target, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skuq._fitting.column_scale import column_scale
from skuq._typing import FloatArray


@dataclass(frozen=True, eq=False)
class Standardizer:
    """Means and standard deviations of the training rows. A weight is a number of repetitions."""

    # A constant column has an infinite scale, so that it does not change predictions. A constant target has
    # the scale 0, and its prediction is certain. Codes of classes have the mean 0 and the scale 1.

    X_mean: FloatArray
    X_scale: FloatArray
    y_mean: float
    y_scale: float

    @classmethod
    def fit(cls, X: FloatArray, y: FloatArray, weight: FloatArray | None) -> Self:
        share = _shares(weight, len(y))
        X_mean, X_scale = _units_of_columns(X, share)
        start = float(y[share > 0][0])
        y_mean = start + float(share @ (y - start))
        y_scale = float(column_scale(y[:, np.newaxis], np.array([y_mean]), share)[0])
        return cls(X_mean, X_scale, y_mean, 0.0 if np.isinf(y_scale) else y_scale)

    @classmethod
    def fit_features(cls, X: FloatArray, weight: FloatArray | None, standardize: Any) -> Self:
        """Return the standardizer of the features.

        With "all", all columns have the same mean and the same scale.
        """
        if not standardize:
            return cls(np.zeros(()), np.ones(()), 0.0, 1.0)
        mean, scale = _units_of_columns(X, _shares(weight, len(X)))
        if standardize == "columns":
            return cls(mean, scale, 0.0, 1.0)
        # total variance: within and between columns
        common = np.full(len(mean), mean.mean())
        within, between = np.where(np.isinf(scale), 0.0, scale), mean - common
        spread = column_scale(np.hypot(within, between)[:, np.newaxis], np.zeros(1), np.ones(len(mean)))
        constant = spread <= 4 * np.finfo(np.float64).eps * np.abs(mean).max()
        return cls(common[0], np.where(constant, np.inf, spread)[0], 0.0, 1.0)

    def features(self, X: FloatArray) -> FloatArray:
        standardized: FloatArray = X - self.X_mean
        standardized /= self.X_scale  # in place, because X may be large
        return standardized

    def target(self, y: FloatArray) -> FloatArray:
        return (y - self.y_mean) / self.y_scale if self.y_scale > 0 else np.zeros_like(y)

    def loc(self, standardized: FloatArray) -> FloatArray:
        return self.y_mean + self.y_scale * standardized

    def scale(self, variance: FloatArray) -> FloatArray:
        return self.y_scale * np.sqrt(variance)


def _shares(weight: FloatArray | None, n: int) -> FloatArray:
    return np.full(n, 1.0 / n) if weight is None else weight / weight.sum()


def _units_of_columns(X: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    counted = X[share > 0][0] if len(X) else 0.0  # subtracted to avoid rounding errors
    mean = counted + share @ (X - counted)
    return mean, column_scale(X, mean, share)
