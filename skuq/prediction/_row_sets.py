"""Sets of row numbers: as masks, whose operations take time in proportion to the number of rows; held out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from skuq._typing import BoolArray, IntArray
from skuq._validation import check_number

__all__ = [
    "check_calibration_size",
    "check_disjoint",
    "columns_of_rows",
    "n_held_out",
    "row_mask",
    "rows_outside",
]


def row_mask(rows: IntArray, n: int) -> BoolArray:
    """Return a mask of shape (n,) that is True at the given row numbers, in any order and repeated or not."""
    mask = np.zeros(n, dtype=np.bool_)
    mask[rows] = True
    return mask


def rows_outside(rows: IntArray, n: int) -> IntArray:
    """Return those of n row numbers that are not among ``rows``, in increasing order."""
    return np.flatnonzero(~row_mask(rows, n))


def columns_of_rows(X: Any, rows: IntArray | None) -> Any:
    """Return X, or of a matrix between rows (a precomputed kernel) the columns of the given training rows."""
    return X if rows is None else np.asarray(X)[:, rows]


def check_disjoint(splits: Iterable[tuple[IntArray, IntArray]], n: int) -> None:
    """Raise if a fold has one of n rows among both its training and its test rows."""
    for fold, (train, test) in enumerate(splits):
        fitted = row_mask(train, n)
        if fitted[test].any():
            raise ValueError(
                "`cv` must keep the rows on which a model is fitted apart from those that it predicts, but "
                f"fold {fold} has row {test[np.argmax(fitted[test])]} among both."
            )


def check_calibration_size(size: Any) -> float | int:
    """Return a share strictly between 0 and 1 or a number of rows."""
    number = check_number(size, "calibration_size", positive=True)
    if number == int(number) and not isinstance(size, float | np.floating):
        return int(number)
    if number >= 1:
        raise ValueError(
            "`calibration_size` must be a share strictly between 0 and 1 or a whole number of rows, got "
            f"{size}."
        )
    return number


def n_held_out(size: float | int, n: int) -> int:
    """Return the number of rows that calibrate, at least one and not all."""
    if isinstance(size, float):
        return min(max(int(np.ceil(size * n)), 1), n - 1)
    if size >= n:
        raise ValueError(
            f"`calibration_size` must leave rows to train on, got {size} of {n} rows. Use fewer, or pass "
            "a FrozenEstimator, for which all rows calibrate."
        )
    return size
