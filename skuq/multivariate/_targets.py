"""Validation of a target with several columns, which may have missing values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from skuq._typing import FloatArray
from skuq._validation import as_array, as_float_array, check_unmasked


class Targets(NamedTuple):
    """Values of shape (n, d), with NaN for missing values, and the column names of a DataFrame."""

    values: FloatArray
    names: tuple[str, ...] | None

    @property
    def labels(self) -> list[str]:
        """Return the names of the columns for error messages."""
        return column_labels(self.values.shape[1], self.names)


def column_labels(d: int, names: tuple[str, ...] | None) -> list[str]:
    return [f"column {j}" for j in range(d)] if names is None else [f"column {name!r}" for name in names]


def check_targets(y: Any, owner: Any) -> Targets:
    """Return the targets as a float array of shape (n, d), with clear errors for each column.

    Each row must have at least one value, and each column must have two different values.
    """
    targets = read_targets(y, owner)
    _check_columns(targets)
    return targets


def read_targets(y: Any, owner: Any) -> Targets:
    """Return finite or missing targets as a float array of shape (n, d)."""
    name = type(owner).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    names = _column_names(y)
    values = _as_columns(y, names)
    if values.ndim == 1:
        raise ValueError(
            f"`y` must have shape (n, d), one column per target, got {values.shape}. Reshape your data with "
            f"`y.reshape(-1, 1)`, or use UncertaintyRegressor, which predicts one target."
        )
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"`y` must have shape (n, d), one column per target, got {values.shape}.")
    targets = Targets(np.ascontiguousarray(values), names)
    _check_no_infinity(targets)
    return targets


def check_complete(values: FloatArray, labels: list[str]) -> None:
    """Raise an error for a missing value."""
    missing = np.isnan(values)
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise ValueError(
            f"Input y contains NaN. `y` must have no missing values, got NaN in {labels[column]} at "
            f"row {row}. Remove such rows."
        )


def _column_names(y: Any) -> tuple[str, ...] | None:
    """Return the column names of a DataFrame, or None. Raise an error for duplicates."""
    if not hasattr(y, "columns"):
        return None
    names = tuple(str(column) for column in y.columns)
    duplicates = sorted({column for column in names if names.count(column) > 1})
    if duplicates:
        raise ValueError(f"`y` must have distinct column names, got {duplicates} more than once.")
    return names


def _as_columns(y: Any, names: tuple[str, ...] | None) -> FloatArray:
    if names is not None:
        if not names:
            raise ValueError("`y` must have at least one column, got a DataFrame without columns.")
        table = y if isinstance(y, pd.DataFrame) else None
        return np.column_stack([_as_numbers(y, table, j, name) for j, name in enumerate(names)])
    if not sparse.issparse(y):
        check_unmasked(y, "y")
        if np.iscomplexobj(as_array(y, "y")):
            raise ValueError("Complex data not supported: `y` must hold real numbers.")
    return as_float_array(y, "y")


def _as_numbers(y: Any, table: pd.DataFrame | None, j: int, name: str) -> FloatArray:
    column = y[y.columns[j]] if table is None else table.iloc[:, j]
    if table is not None and pd.api.types.is_numeric_dtype(column.dtype):
        column = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return as_float_array(column, f"y[{name!r}]")


def _check_no_infinity(targets: Targets) -> None:
    for column, label in zip(targets.values.T, targets.labels, strict=True):
        infinite = np.isinf(column)
        if infinite.any():
            row = int(np.argmax(infinite))
            raise ValueError(
                "Input y contains infinity or a value too large for dtype('float64'). `y` must be finite or "
                f"NaN, got {column[row]} in {label} at row {row}."
            )


def _check_columns(targets: Targets) -> None:
    for column, label in zip(targets.values.T, targets.labels, strict=True):
        known = column[~np.isnan(column)]
        if known.size > 1 and known.min() == known.max():
            raise ValueError(
                f"`y` must have different values in each column, got {known[0]:g} in all rows of {label}. "
                "Leave the constant column out."
            )
    missing = np.isnan(targets.values).all(axis=1)
    if missing.any():
        raise ValueError(
            "Input y contains NaN in all columns of a row. `y` must have at least one value in each row, got "
            f"none in {int(missing.sum())} rows. The first of these rows is row {int(np.argmax(missing))}. "
            "Remove these rows."
        )
