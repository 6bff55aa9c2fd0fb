"""Columns of a table as numbers and as codes of categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from skuq._fitting.columns import as_table
from skuq._fitting.table_encoder import TableEncoder
from skuq._typing import BoolArray, FloatArray

FEW_CATEGORIES = 3
"""Largest number of categories of a column that becomes indicators in networks with embeddings."""


def table_of(X: Any) -> pd.DataFrame | None:
    """Return X if it is a data frame with columns of strings, categories or dates, otherwise None."""
    table = as_table(X) if hasattr(X, "columns") else None
    if table is None or all(pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes):
        return None
    return table


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of the training rows: numbers, and codes of categories.

    The code 0 stands for missing and unknown categories. Columns with at most ``max_indicators`` categories
    become indicators, which are numbers. Columns of numbers with missing training values, marked in ``gaps``,
    also get an indicator.
    """

    encoder: TableEncoder | None
    gaps: BoolArray
    sizes: tuple[int, ...]  # number of codes of each column of categories
    max_indicators: float

    @classmethod
    def fit(cls, X: Any, max_indicators: float) -> Self:
        """Find the categories, and the columns with missing values, of a data frame or an array."""
        encoder = None if isinstance(X, np.ndarray) else TableEncoder("codes").fit(X)
        numbers, codes = _encoded(encoder, X)
        sizes = (1 + codes.max(axis=0)).astype(int).tolist()
        gaps: BoolArray = np.asarray(np.isnan(numbers).any(axis=0))
        return cls(encoder, gaps, tuple(sizes), max_indicators)

    @property
    def embedded(self) -> BoolArray:
        """Mask of the columns of categories that are not indicators."""
        return np.array([size > 1 + self.max_indicators for size in self.sizes], dtype=bool)

    def __call__(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return the numbers and indicators, NaN for missing numbers, and the codes of embedded columns."""
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
