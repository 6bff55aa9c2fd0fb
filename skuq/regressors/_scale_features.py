"""What the default scale model learns from: the columns of X as numbers, and the point prediction.

The default scale model is a small gradient boosting, whatever the regressor. It needs a dense table of
numbers, while X has the form that the regressor takes: data frames with words, sparse matrices, texts or
images. What has no columns of its own is represented by the point prediction alone, on which the size of
errors often depends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse

from skuq._typing import FloatArray

__all__ = ["ScaleFeatures", "as_numbers", "as_table", "categories_of", "numbers_of"]


@dataclass(frozen=True, eq=False)
class ScaleFeatures:
    """The numerical columns of X, the categories of its other columns as integers, and the point prediction.

    Parameters
    ----------
    categories : tuple of (Index or None)
        Of each column of X: its categories, or None if it is numerical. Empty where X has no columns.
    """

    categories: tuple[pd.Index | None, ...]

    @classmethod
    def of(cls, X: Any, *, pairwise: bool = False) -> Self:
        """Return the features of training rows.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Training features in any form.
        pairwise : bool
            Whether the columns of X belong to training rows, as those of a precomputed kernel do.
        """
        if not pairwise and (numbers := as_numbers(X)) is not None:
            return cls((None,) * numbers.shape[1])
        table = None if pairwise else as_table(X)
        return cls(
            () if table is None else tuple(categories_of(table.iloc[:, j]) for j in range(table.shape[1]))
        )

    def __call__(self, X: Any, prediction: FloatArray) -> FloatArray:
        """Return an array of n rows and a column more than X has, which may be NaN where X is missing."""
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
    """Return a table of numbers as an array with NaN in place of infinities; None for any other X.

    One pass over the table, without a data frame or a Series per column: for one row these cost more than the
    models.
    """
    if isinstance(X, pd.DataFrame):
        if not all(pd.api.types.is_numeric_dtype(dtype) for dtype in X.dtypes):
            return None
        array = X.to_numpy(dtype=np.float64, na_value=np.nan)
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf":
        array = np.asarray(X, dtype=np.float64)
    else:
        return None
    # row by row in memory whatever X is, as sums over columns depend on the order in the last bit
    return np.ascontiguousarray(np.where(np.isfinite(array), array, np.nan))


def as_table(X: Any) -> pd.DataFrame | None:
    """Return X as a pandas data frame, or None if it is not a dense table."""
    if isinstance(X, pd.DataFrame):
        return X
    if hasattr(X, "columns") and hasattr(X, "to_dict"):  # a data frame of another package
        return pd.DataFrame({str(name): np.asarray(X[name]) for name in X.columns})
    if sparse.issparse(X) or np.ndim(X) != 2:
        return None
    return pd.DataFrame(np.asarray(X))


def categories_of(column: pd.Series) -> pd.Index | None:
    """Return the distinct values of a column in their order of appearance, or None if they are numbers."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return None
    if _converted(column).notna().equals(column.notna()):
        return None
    distinct: pd.Index = pd.Index(column.dropna().unique())
    return distinct


def numbers_of(column: pd.Series, categories: pd.Index | None) -> FloatArray:
    """Return the numbers of a column, or the positions of its values among the categories, -1 if unknown."""
    if categories is not None:
        return categories.get_indexer(pd.Index(column)).astype(np.float64)
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        numbers = _converted(column).to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _converted(column: pd.Series) -> pd.Series:
    """Return the values of a column as numbers, durations in seconds; missing where they are none."""
    if pd.api.types.is_timedelta64_dtype(column.dtype):
        seconds: pd.Series = column.dt.total_seconds()
        return seconds
    numbers: pd.Series = pd.to_numeric(column, errors="coerce")
    return numbers.mask(column.isna())  # NaT is converted to a number
