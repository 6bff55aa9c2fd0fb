"""Sets of row numbers, and held-out rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from skuq._typing import BoolArray, IntArray
from skuq._validation import check_number, check_random_state


def row_mask(rows: IntArray, n: int) -> BoolArray:
    mask = np.zeros(n, dtype=np.bool_)
    mask[rows] = True
    return mask


def rows_outside(rows: IntArray, n: int) -> IntArray:
    return np.flatnonzero(~row_mask(rows, n))


def columns_of_rows(X: Any, rows: IntArray | None) -> Any:
    """Return X. For a precomputed kernel, return the columns of the training rows."""
    return X if rows is None else np.asarray(X)[:, rows]


def check_disjoint(splits: Iterable[tuple[IntArray, IntArray]], n: int) -> None:
    """Raise an error if a row is in the training rows and in the test rows of a fold."""
    for fold, (train, test) in enumerate(splits):
        fitted = row_mask(train, n)
        if fitted[test].any():
            raise ValueError(
                f"`cv` must return disjoint training and test rows, but fold {fold} has row "
                f"{test[np.argmax(fitted[test])]} in both."
            )


def check_held_out_size(size: Any) -> float | int:
    number = check_number(size, "held_out_size", positive=True)
    if number == int(number) and not isinstance(size, float | np.floating):
        return int(number)
    if number >= 1:
        raise ValueError(
            f"`held_out_size` must be a share strictly between 0 and 1 or a whole number of rows, got {size}."
        )
    return number


def n_held_out(size: float | int, n: int) -> int:
    if isinstance(size, float):
        return min(max(int(np.ceil(size * n)), 1), n - 1)
    if size >= n:
        raise ValueError(
            f"`held_out_size` must leave rows to train on, got {size} of {n} rows. Use a smaller size, or "
            "pass a FrozenEstimator, which uses all rows for calibration."
        )
    return size


def stratified_split(
    labels: np.ndarray, n_held_out: int, seed: int, *, exchangeable: bool = False
) -> tuple[IntArray, IntArray]:
    """Return training rows and held-out rows, stratified by class.

    With ``exchangeable``, the held-out rows are drawn like new rows, whose label may not occur in the
    training rows. Otherwise, the only row of a class is a training row if possible.
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
    # Systematic sampling from the rows, sorted by class. Rounding may move the last position beyond the end.
    places = (np.arange(n_held_out) + rng.random_sample()) * (len(by_class) / n_held_out)
    held_out = np.sort(by_class.take(places.astype(np.intp), mode="clip"))
    return rows_outside(held_out, n), held_out
