"""Sets of row numbers: as masks, whose operations take time in proportion to the number of rows; held out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from skuq._typing import BoolArray, IntArray
from skuq._validation import check_number, check_random_state

__all__ = [
    "check_calibration_size",
    "check_disjoint",
    "columns_of_rows",
    "n_held_out",
    "row_mask",
    "rows_outside",
    "stratified_split",
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


def stratified_split(
    labels: np.ndarray, n_held_out: int, seed: int, *, exchangeable: bool = False
) -> tuple[IntArray, IntArray]:
    """Return training and held-out rows with the shares of the classes as near as whole rows allow.

    In contrast to StratifiedShuffleSplit any number of rows and any shares are possible.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Class of each row.
    n_held_out : int
        Number of rows to hold out.
    seed : int
        Seed of the draw.
    exchangeable : bool, default=False
        Whether held-out rows must be like new rows, some of which have a label that no training row has. Then
        classes with fewer than two rows to be held out, by their share, are drawn together as if they were
        one. Else the only row of a class trains, unless there are no others to hold out.
    """
    n = len(labels)
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    class_size = counts[codes]
    if exchangeable:
        codes = np.where(class_size * n_held_out < 2 * n, -1, codes)
    rng = check_random_state(seed)
    shuffled = rng.permutation(n)
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    several = by_class[class_size[by_class] > 1]
    if not exchangeable and len(several) > n_held_out:
        by_class = several
    # at equal distances along the classes laid end to end; rounding may put the last place beyond the end
    places = (np.arange(n_held_out) + rng.random_sample()) * (len(by_class) / n_held_out)
    held_out = np.sort(by_class.take(places.astype(np.intp), mode="clip"))
    return rows_outside(held_out, n), held_out
