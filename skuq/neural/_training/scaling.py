"""Inputs of networks: standardized numbers and codes of categories, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from skuq._fitting.column_scale import column_scale
from skuq._fitting.columns import as_table
from skuq._fitting.table_encoder import TableEncoder
from skuq._fitting.training_data import TrainingData
from skuq._typing import BoolArray, FloatArray

FEW_CATEGORIES = 3
"""In networks with embeddings, a column with at most this number of categories is converted to indicators."""


def table_of(X: Any) -> pd.DataFrame | None:
    table = as_table(X) if hasattr(X, "columns") else None
    if table is None or all(pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes):
        return None
    return table


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of the training rows, with numbers and codes of categories.

    The code 0 means missing and unknown categories. Columns with at most ``max_indicators`` categories are
    converted to indicators, which are numbers. ``gaps`` marks the columns of numbers with missing training
    values. These columns also get an indicator.
    """

    encoder: TableEncoder | None
    gaps: BoolArray
    sizes: tuple[int, ...]  # number of codes of each column of categories
    max_indicators: float

    @classmethod
    def fit(cls, X: Any, max_indicators: float) -> Self:
        """Find the categories of a data frame or an array, and the columns with missing values."""
        encoder = None if isinstance(X, np.ndarray) else TableEncoder("codes").fit(X)
        numbers, codes = _encoded(encoder, X)
        sizes = (1 + codes.max(axis=0)).astype(int).tolist()
        gaps: BoolArray = np.asarray(np.isnan(numbers).any(axis=0))
        return cls(encoder, gaps, tuple(sizes), max_indicators)

    @property
    def embedded(self) -> BoolArray:
        """Return the mask of the columns of categories that are not indicators."""
        return np.array([size > 1 + self.max_indicators for size in self.sizes], dtype=bool)

    def __call__(self, X: Any) -> tuple[FloatArray, FloatArray]:
        numbers, codes = _encoded(self.encoder, X)
        indicators = [
            code[:, np.newaxis] == np.arange(1, size)
            for code, size, embedded in zip(codes.T, self.sizes, self.embedded, strict=True)
            if not embedded
        ]
        if self.gaps.any():
            indicators.insert(0, np.isnan(numbers[:, self.gaps]))
        return np.hstack([numbers, *indicators]) if indicators else numbers, codes[:, self.embedded]


def _encoded(encoder: TableEncoder | None, X: Any) -> tuple[FloatArray, FloatArray]:
    if encoder is None:
        return X, np.empty((len(X), 0))
    encoded = encoder.transform(X)
    n_numbers = encoded.shape[1] - encoder.kinds_.count("words")
    return encoded[:, :n_numbers], np.nan_to_num(1 + encoded[:, n_numbers:])


@dataclass(frozen=True, eq=False)
class Standardizer:
    """Means and standard deviations of the training rows. A weight is a number of repetitions."""

    # A constant column has an infinite scale, so that it does not change predictions. Missing numbers become
    # 0, the mean. Codes of categories follow the numbers unchanged. A constant target has the scale 0, and
    # its prediction is certain. Codes of classes have the mean 0 and the scale 1. `y_mean` and `y_scale` are
    # numbers for one target, and arrays (d,) for several targets.

    columns: Columns
    X_mean: FloatArray
    X_scale: FloatArray
    y_mean: Any
    y_scale: Any

    @classmethod
    def fit(cls, data: TrainingData, max_indicators: float) -> Self:
        columns, y = Columns.fit(data.X, max_indicators), data.y
        share = _shares(data.sample_weight, len(y))
        X_mean, X_scale = _units_of_columns(columns(data.X)[0], share)
        start = y[share > 0][0]
        y_mean = start + share @ (y - start)
        y_scale = column_scale(y.reshape(len(y), -1), np.atleast_1d(y_mean), share)
        y_scale = np.where(np.isinf(y_scale), 0.0, y_scale)
        if y.ndim == 1:
            return cls(columns, X_mean, X_scale, float(y_mean), float(y_scale[0]))
        return cls(columns, X_mean, X_scale, y_mean, y_scale)

    @classmethod
    def fit_features(cls, data: TrainingData, standardize: Any) -> Self:
        """Return the standardizer of the features.

        With "all", all columns have one scale. With False, the features are not changed.
        """
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
        """Return the number of codes of each column of codes."""
        sizes, embedded = self.columns.sizes, self.columns.embedded
        return [size for size, is_embedded in zip(sizes, embedded, strict=True) if is_embedded]

    def features(self, X: Any) -> FloatArray:
        numbers, codes = self.columns(X)
        standardized: FloatArray = numbers - self.X_mean
        standardized /= self.X_scale  # in place, because X may be large
        standardized[np.isnan(standardized)] = 0.0
        return np.hstack([standardized, codes]) if codes.shape[1] else standardized

    def target(self, y: FloatArray) -> FloatArray:
        varies = np.asarray(self.y_scale) > 0
        return np.asarray(np.divide(y - self.y_mean, self.y_scale, out=np.zeros_like(y), where=varies))

    def loc(self, standardized: FloatArray) -> FloatArray:
        return np.asarray(self.y_mean + self.y_scale * standardized)

    def scale(self, variance: FloatArray) -> FloatArray:
        return np.asarray(self.y_scale * np.sqrt(variance))


def _shares(weight: FloatArray | None, n: int) -> FloatArray:
    return np.full(n, 1.0 / n) if weight is None else weight / weight.sum()


def _units_of_columns(X: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    X = _filled(X, share)
    counted = X[share > 0][0] if len(X) else 0.0  # avoids rounding errors of large means
    mean = counted + share @ (X - counted)
    return mean, column_scale(X, mean, share)


def _filled(X: FloatArray, share: FloatArray) -> FloatArray:
    missing = np.isnan(X)
    if not missing.any():
        return X
    weight = share[:, np.newaxis] * ~missing
    total = weight.sum(axis=0)
    first = np.nan_to_num(X[(weight > 0).argmax(axis=0), np.arange(X.shape[1])])
    mean = first + (weight * np.nan_to_num(X - first)).sum(axis=0) / np.where(total > 0, total, 1.0)
    return np.where(missing, mean, X)
