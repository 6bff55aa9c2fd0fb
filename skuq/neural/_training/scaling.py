"""Features of networks: standardized numbers, and codes of categories, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skuq._fitting.column_scale import column_scale
from skuq._fitting.training_data import TrainingData
from skuq._typing import FloatArray
from skuq.neural._training.features import Columns


@dataclass(frozen=True, eq=False)
class Standardizer:
    """Means and standard deviations of the training rows; weights count repetitions.

    A constant column has an infinite scale, so that it does not change predictions. Missing numbers become 0,
    the mean. Codes of categories follow the numbers unchanged. A constant target has the scale 0, and its
    prediction is certain. Codes of classes have the mean 0 and the scale 1.
    """

    columns: Columns
    X_mean: FloatArray
    X_scale: FloatArray
    y_mean: float
    y_scale: float

    @classmethod
    def fit(cls, data: TrainingData, max_indicators: float) -> Self:
        columns, y = Columns.fit(data.X, max_indicators), data.y
        share = _shares(data.sample_weight, len(y))
        X_mean, X_scale = _units_of_columns(columns(data.X)[0], share)
        start = float(y[share > 0][0])
        y_mean = start + float(share @ (y - start))
        y_scale = float(column_scale(y[:, np.newaxis], np.array([y_mean]), share)[0])
        return cls(columns, X_mean, X_scale, y_mean, 0.0 if np.isinf(y_scale) else y_scale)

    @classmethod
    def fit_features(cls, data: TrainingData, standardize: Any) -> Self:
        """Return the standardizer of the features: per column, common to "all" columns, or without effect."""
        columns = Columns.fit(data.X, np.inf)
        if not standardize:
            return cls(columns, np.zeros(()), np.ones(()), 0.0, 1.0)
        mean, scale = _units_of_columns(columns(data.X)[0], _shares(data.sample_weight, len(data)))
        if standardize == "columns" or not len(mean):
            return cls(columns, mean, scale, 0.0, 1.0)
        # variance of all values, within and between columns
        common = np.full(len(mean), mean.mean())
        within, between = np.where(np.isinf(scale), 0.0, scale), mean - common
        spread = column_scale(np.hypot(within, between)[:, np.newaxis], np.zeros(1), np.ones(len(mean)))
        constant = spread <= 4 * np.finfo(np.float64).eps * np.abs(mean).max()
        return cls(columns, common[0], np.where(constant, np.inf, spread)[0], 0.0, 1.0)

    @property
    def n_codes(self) -> list[int]:
        """Number of codes of each column of codes."""
        sizes, embedded = self.columns.sizes, self.columns.embedded
        return [size for size, is_embedded in zip(sizes, embedded, strict=True) if is_embedded]

    def features(self, X: Any) -> FloatArray:
        numbers, codes = self.columns(X)
        standardized: FloatArray = numbers - self.X_mean
        standardized /= self.X_scale  # in place, as X may fill much of the memory
        standardized[np.isnan(standardized)] = 0.0
        return np.hstack([standardized, codes]) if codes.shape[1] else standardized

    def target(self, y: FloatArray) -> FloatArray:
        return (y - self.y_mean) / self.y_scale if self.y_scale > 0 else np.zeros_like(y)

    def loc(self, standardized: FloatArray) -> FloatArray:
        """Return means in the units of y."""
        return self.y_mean + self.y_scale * standardized

    def scale(self, variance: FloatArray) -> FloatArray:
        """Return standard deviations in the units of y."""
        return self.y_scale * np.sqrt(variance)


def _shares(weight: FloatArray | None, n: int) -> FloatArray:
    return np.full(n, 1.0 / n) if weight is None else weight / weight.sum()


def _units_of_columns(X: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    X = _filled(X, share)
    counted = X[share > 0][0] if len(X) else 0.0  # subtracted first, because large means would cost precision
    mean = counted + share @ (X - counted)
    return mean, column_scale(X, mean, share)


def _filled(X: FloatArray, share: FloatArray) -> FloatArray:
    """Return X with the mean of the other values of the column in place of missing values."""
    missing = np.isnan(X)
    if not missing.any():
        return X
    weight = share[:, np.newaxis] * ~missing
    total = weight.sum(axis=0)
    first = np.nan_to_num(X[(weight > 0).argmax(axis=0), np.arange(X.shape[1])])
    mean = first + (weight * np.nan_to_num(X - first)).sum(axis=0) / np.where(total > 0, total, 1.0)
    return np.where(missing, mean, X)
