"""Columns of a table as numbers or categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from skuq._typing import FloatArray

__all__ = ["as_numbers", "as_table", "categories_of", "numbers_of"]


def as_numbers(X: Any) -> FloatArray | None:
    """Return a table of numbers as an array with NaN for infinities, or None, in one fast pass."""
    if isinstance(X, pd.DataFrame):
        if not all(pd.api.types.is_numeric_dtype(dtype) for dtype in X.dtypes):
            return None
        array = X.to_numpy(dtype=np.float64, na_value=np.nan)
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf":
        array = np.asarray(X, dtype=np.float64)
    else:
        return None
    # C order for any X, since sums over columns depend on the order in the last bit
    return np.ascontiguousarray(np.where(np.isfinite(array), array, np.nan))


def as_table(X: Any) -> pd.DataFrame | None:
    if isinstance(X, pd.DataFrame):
        return X
    if hasattr(X, "columns") and hasattr(X, "to_dict"):  # data frame of another package
        return pd.DataFrame({str(name): np.asarray(X[name]) for name in X.columns})
    if sparse.issparse(X) or np.ndim(X) != 2:
        return None
    return pd.DataFrame(np.asarray(X))


def categories_of(column: pd.Series) -> pd.Index | None:
    """Return the distinct values of a column in their order of appearance, or None for numbers."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return None
    if _converted(column).notna().equals(column.notna()):
        return None
    distinct: pd.Index = pd.Index(column.dropna().unique())
    return distinct


def numbers_of(column: pd.Series, categories: pd.Index | None) -> FloatArray:
    """Return the numbers of a column, or the positions of its values among the categories (-1: unknown)."""
    if categories is not None:
        return categories.get_indexer(pd.Index(column)).astype(np.float64)
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        numbers = _converted(column).to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _converted(column: pd.Series) -> pd.Series:
    """Return the values of a column as numbers, durations in seconds; NaN if not convertible."""
    if pd.api.types.is_timedelta64_dtype(column.dtype):
        seconds: pd.Series = column.dt.total_seconds()
        return seconds
    numbers: pd.Series = pd.to_numeric(column, errors="coerce")
    return numbers.mask(column.isna())  # NaT is converted to a number
