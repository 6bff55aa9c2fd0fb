"""Columns of a table as numbers or categories, and the features of the forest of errors.

The forest of errors needs a dense table of numbers, but X may be a data frame with strings, a sparse
matrix, text or images. The features are the usable columns of X and the point prediction. The point
prediction is a feature, because the size of errors often depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse

from skuq._typing import FloatArray


@dataclass(frozen=True, eq=False)
class ScaleFeatures:
    """Columns of X as numbers or integer categories, and the point prediction."""

    categories: tuple[pd.Index | None, ...]

    @classmethod
    def from_columns(cls, X: Any, *, pairwise: bool = False) -> Self:
        """Return the features for training rows X. With ``pairwise``, X is a precomputed kernel."""
        if not pairwise and (numbers := as_numbers(X)) is not None:
            return cls((None,) * numbers.shape[1])
        table = None if pairwise else as_table(X)
        return cls(
            () if table is None else tuple(categories_of(table.iloc[:, j]) for j in range(table.shape[1]))
        )

    def __call__(self, X: Any, prediction: FloatArray) -> FloatArray:
        if not self.categories:
            return prediction[:, np.newaxis]
        numbers = as_numbers(X) if all(known is None for known in self.categories) else None
        if numbers is not None:
            return np.column_stack([numbers[:, : len(self.categories)], prediction])
        table = as_table(X)
        if table is None:
            return prediction[:, np.newaxis]
        columns = [numbers_of(table.iloc[:, j], known) for j, known in enumerate(self.categories)]
        return np.column_stack([*columns, prediction])


def as_numbers(X: Any) -> FloatArray | None:
    if isinstance(X, pd.DataFrame):
        if not all(pd.api.types.is_numeric_dtype(dtype) for dtype in X.dtypes):
            return None
        array = X.to_numpy(dtype=np.float64, na_value=np.nan)
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf":
        array = np.asarray(X, dtype=np.float64)
    else:
        return None
    # The array is in C order, because the memory order affects the rounding of sums over columns.
    return np.ascontiguousarray(np.where(np.isfinite(array), array, np.nan))


def as_table(X: Any) -> pd.DataFrame | None:
    if isinstance(X, pd.DataFrame):
        return X
    # X is a data frame of another package, such as polars.
    if hasattr(X, "columns") and hasattr(X, "to_dict"):
        return pd.DataFrame({str(name): np.asarray(X[name]) for name in X.columns})
    if sparse.issparse(X):
        return None
    array = np.asarray(X)
    return pd.DataFrame(array) if array.ndim == 2 else None


def categories_of(column: pd.Series) -> pd.Index | None:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return None
    if _converted(column).notna().equals(column.notna()):
        return None
    distinct: pd.Index = pd.Index(column.dropna().unique())
    return distinct


def numbers_of(column: pd.Series, categories: pd.Index | None) -> FloatArray:
    """Return the numbers of a column, or the index of each value in the categories (NaN if unknown)."""
    if categories is not None:
        index = categories.get_indexer(pd.Index(column))
        return np.where(index < 0, np.nan, index)
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        numbers = _converted(column).to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _converted(column: pd.Series) -> pd.Series:
    if pd.api.types.is_timedelta64_dtype(column.dtype):
        seconds: pd.Series = column.dt.total_seconds()
        return seconds
    numbers: pd.Series = pd.to_numeric(column, errors="coerce")
    return numbers.mask(column.isna())  # `to_numeric` converts NaT to a number, which must be NaN.
