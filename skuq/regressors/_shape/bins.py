"""Conversion of numerical columns to integer bins, whose edges come from the training rows.

Trees that are fitted to bins do not depend on the units of a column. Missing values have a bin of their own,
and a threshold needs two bytes.
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
    """Increasing bin edges of each column. Bin 0 holds missing values, bin j + 1 the values above j edges."""

    edges: tuple[FloatArray, ...]

    @classmethod
    def of_table(cls, table: FloatArray) -> Self:
        """Return the bins of training rows, shape (n, d), with about equal numbers of rows per bin."""
        return cls(tuple(_edges(column[~np.isnan(column)]) for column in table.T))

    def __call__(self, table: FloatArray) -> NDArray[np.int16]:
        codes = np.empty(table.shape, dtype=np.int16)
        for j, edges in enumerate(self.edges):
            codes[:, j] = np.searchsorted(edges, table[:, j]) + 1
        codes[np.isnan(table)] = 0
        return codes


def _edges(values: FloatArray) -> FloatArray:
    """Return midpoints between distinct values; if there are many, some with about equal counts between."""
    distinct, last = np.unique(np.sort(values), return_index=True)
    if len(distinct) > _MOST_EDGES + 1:
        ranks = len(values) * np.arange(1, _MOST_EDGES + 1) / (_MOST_EDGES + 1)
        below = np.unique(np.searchsorted(last, ranks, side="right")) - 1
        below = below[below < len(distinct) - 1]
    else:
        below = np.arange(len(distinct) - 1)
    return np.asarray(distinct[below] / 2 + distinct[below + 1] / 2)
