"""Sets of row numbers as masks, whose operations take time in proportion to the number of rows."""

from __future__ import annotations

import numpy as np

from skuq._typing import BoolArray, IntArray

__all__ = ["row_mask", "rows_outside"]


def row_mask(rows: IntArray, n: int) -> BoolArray:
    """Return a mask of shape (n,) that is True at the given row numbers, in any order and repeated or not."""
    mask = np.zeros(n, dtype=np.bool_)
    mask[rows] = True
    return mask


def rows_outside(rows: IntArray, n: int) -> IntArray:
    """Return those of n row numbers that are not among ``rows``, in increasing order."""
    return np.flatnonzero(~row_mask(rows, n))
