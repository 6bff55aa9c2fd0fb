"""Conversion of numerical columns to integer bins with edges from the training rows.

Trees that are fitted to bins do not depend on the units of a column. Missing values have their own bin. A
threshold needs only two bytes of memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from skuq._typing import FloatArray

_MOST_EDGES = 254


@dataclass(frozen=True, eq=False)
class Bins:
    """Increasing bin edges of each column.

    Bin 0 contains missing values, and bin j + 1 contains the values above j edges.
    """

    edges: tuple[FloatArray, ...]

    @classmethod
    def of_table(cls, table: FloatArray) -> Self:
        """Return bins that contain about equal numbers of training rows. The table has the shape (n, d)."""
        return cls(tuple(_edges(column[~np.isnan(column)]) for column in table.T))

    def __call__(self, table: FloatArray) -> NDArray[np.int16]:
        codes = np.empty(table.shape, dtype=np.int16)
        for j, edges in enumerate(self.edges):
            codes[:, j] = np.searchsorted(edges, table[:, j]) + 1
        codes[np.isnan(table)] = 0
        return codes


def _edges(values: FloatArray) -> FloatArray:
    """Return the midpoints between distinct values.

    If there are too many midpoints, a subset with about equal counts between adjacent midpoints is returned.
    """
    distinct, last = np.unique(np.sort(values), return_index=True)
    if len(distinct) > _MOST_EDGES + 1:
        ranks = len(values) * np.arange(1, _MOST_EDGES + 1) / (_MOST_EDGES + 1)
        below = np.unique(np.searchsorted(last, ranks, side="right")) - 1
        below = below[below < len(distinct) - 1]
    else:
        below = np.arange(len(distinct) - 1)
    return np.asarray(distinct[below] / 2 + distinct[below + 1] / 2)
