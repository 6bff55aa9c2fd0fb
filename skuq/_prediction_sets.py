"""Class probabilities and prediction sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._numeric import row_blocks
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import as_float_array, check_no_nan, check_non_negative, check_unmasked

SUM_TOLERANCE = 1e-6
"""Largest accepted difference between 1 and the sum of the probabilities of a row."""

_VALUES_PER_BLOCK, _LEAST_ROWS_PER_BLOCK = 2**16, 1024
"""Number of probabilities per block of rows, and smallest number of rows per block."""


def check_proba(y_proba: ArrayLike, name: str = "y_proba", n: int | None = None) -> np.ndarray:
    """Return class probabilities as an array of shape (n, K).

    Raise an error if the sum of a row is not 1. The floating-point type does not change.
    """
    proba = _as_floats(y_proba, name)
    if proba.ndim != 2:
        raise ValueError(
            f"`{name}` must have shape (n, K), with one column per class, as from `predict_proba`, got "
            f"{proba.shape}. For two classes, pass `np.column_stack([1 - p, p])`."
        )
    if not proba.size:
        raise ValueError(f"`{name}` must have at least one row and one class, got shape {proba.shape}.")
    if n is not None and len(proba) != n:
        raise ValueError(f"`{name}` must have {n} rows, one per sample, got {len(proba)}.")
    if not proba.min() >= 0:  # The comparison is also false for NaN.
        check_no_nan(proba, name)
        check_non_negative(proba, name)
    total = np.einsum("ij->i", proba, dtype=np.float64)  # For short rows, einsum is faster than `sum`.
    wrong = ~(np.abs(total - 1) <= SUM_TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"`{name}` must have rows that sum to 1 within {SUM_TOLERANCE:g}, got {total[row]:.8g} at row "
            f"{row}. Pass the probabilities of all classes, as `predict_proba` returns them. Or convert "
            f"them to float64 and divide each row by its sum."
        )
    return proba


def _as_floats(y_proba: Any, name: str) -> np.ndarray:
    if isinstance(y_proba, np.ndarray) and y_proba.dtype == np.float32:
        check_unmasked(y_proba, name)
        return np.asarray(y_proba)
    return as_float_array(y_proba, name)


def mass_tolerance(proba: np.ndarray) -> float:
    return float(4 * np.finfo(proba.dtype).eps + proba.shape[1] * np.finfo(np.float64).eps)


def mass_sets(proba: np.ndarray, coverages: FloatArray) -> BoolArray:
    targets = np.atleast_1d(coverages) - mass_tolerance(proba)
    n, n_classes = proba.shape
    sets = np.empty((len(targets), n, n_classes), dtype=bool)
    for rows in row_blocks(n, n_classes, max(_VALUES_PER_BLOCK, _LEAST_ROWS_PER_BLOCK * n_classes)):
        _fill(proba[rows], targets, sets[:, rows])
    return np.moveaxis(sets, 0, -1) if np.ndim(coverages) else sets[0]


def _fill(proba: np.ndarray, targets: FloatArray, sets: BoolArray) -> None:
    """Write the sets of a block of rows to ``sets``, shape (k, n, K)."""
    n, n_classes = proba.shape
    ascending = np.sort(proba, axis=1)
    mass, n_before = np.zeros(n), np.zeros((len(targets), n), dtype=np.intp)
    # The least probable class is in the set even if rounding makes the sum smaller than 1.
    for column in range(n_classes - 1, 0, -1):
        mass += ascending[:, column]
        short = mass < targets[:, np.newaxis]
        if not short.any():
            break
        n_before += short
    values = ascending.ravel()
    most_probable = np.arange(n_classes - 1, values.size, n_classes)
    for inside, before in zip(sets, n_before, strict=True):
        crossing = most_probable - before
        threshold = values[crossing]
        np.greater_equal(proba, threshold[:, np.newaxis], out=inside)
        # If the next class is equally probable, the comparison includes this class too.
        tied = np.flatnonzero((before < n_classes - 1) & (values[crossing - 1] == threshold))
        if tied.size:
            inside[tied] = _first_of_ties(proba[tied], threshold[tied], before[tied] + 1)


def _first_of_ties(proba: np.ndarray, threshold: np.ndarray, size: IntArray) -> BoolArray:
    above = proba > threshold[:, np.newaxis]
    equal = proba == threshold[:, np.newaxis]
    room = size - above.sum(axis=1)
    return np.asarray(above | (equal & (np.cumsum(equal, axis=1) <= room[:, np.newaxis])))
