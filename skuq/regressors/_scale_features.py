"""Features of the default scale model: the columns of X as numbers, and the point prediction.

The default scale model is a small gradient boosting and needs a dense table of numbers, while X may be a data
frame with strings, a sparse matrix, text or images. If X has no columns that can be used, the point
prediction is the only feature; the size of errors often depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from skuq._fitting.columns import as_numbers, as_table, categories_of, numbers_of
from skuq._typing import FloatArray

__all__ = ["ScaleFeatures"]


@dataclass(frozen=True, eq=False)
class ScaleFeatures:
    """Numerical columns of X, other columns as integer categories, and the point prediction."""

    categories: tuple[pd.Index | None, ...]

    @classmethod
    def from_columns(cls, X: Any, *, pairwise: bool = False) -> Self:
        """Return the features of training rows; ``pairwise`` if the columns of X belong to training rows."""
        if not pairwise and (numbers := as_numbers(X)) is not None:
            return cls((None,) * numbers.shape[1])
        table = None if pairwise else as_table(X)
        return cls(
            () if table is None else tuple(categories_of(table.iloc[:, j]) for j in range(table.shape[1]))
        )

    def __call__(self, X: Any, prediction: FloatArray) -> FloatArray:
        """Return an array with the columns of X and the prediction; NaN where X is missing."""
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
