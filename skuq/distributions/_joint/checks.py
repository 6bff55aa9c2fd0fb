"""Validation of the arguments of joint distributions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array


def check_names(names: Any, d: int) -> tuple[str, ...] | None:
    """Return the names of d targets as a tuple, or None."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"`names` must be a sequence of strings, got {names!r}.")
    listed = tuple(names)
    wrong = [name for name in listed if not isinstance(name, str)]
    if wrong:
        raise TypeError(f"`names` must contain only strings, got {wrong[0]!r}.")
    if len(listed) != d:
        raise ValueError(f"`names` must have {d} entries, one per target, got {len(listed)}.")
    double = [name for name in listed if listed.count(name) > 1]
    if double:
        raise ValueError(f"`names` must be distinct, got {double[0]!r} twice.")
    return tuple(str(name) for name in listed)


def find_target(target: Any, names: tuple[str, ...] | None, d: int) -> int:
    """Return the column of a target. The argument is a name or a column."""
    if isinstance(target, str):
        if names is None:
            raise ValueError(
                f"`target` must be a column from 0 to {d - 1}, got {target!r}. The targets have no names."
            )
        if target not in names:
            raise ValueError(f"`target` must be one of {', '.join(map(repr, names))}, got {target!r}.")
        return names.index(target)
    if isinstance(target, bool | np.bool_) or not isinstance(target, int | np.integer):
        raise TypeError(f"`target` must be the name or the column of a target, got {target!r}.")
    if not -d <= target < d:
        raise ValueError(f"`target` must be a column from 0 to {d - 1}, got {target}.")
    return int(target) % d


def check_targets(
    y: ArrayLike, name: str, shape: tuple[int, int], names: tuple[str, ...] | None = None
) -> FloatArray:
    """Return values of several targets as a float array of the given shape. The array may contain NaN."""
    columns = getattr(y, "columns", None)
    if columns is not None and names is not None and tuple(map(str, columns)) != names:
        raise ValueError(
            f"`{name}` must have the columns {', '.join(names)}, in this order, got "
            f"{', '.join(map(str, columns))}."
        )
    array = as_float_array(y, name)
    n, d = shape
    if array.ndim == 1 and d == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] != d:
        raise ValueError(f"`{name}` must have shape ({n}, {d}), one column per target, got {array.shape}.")
    if array.shape[0] != n:
        raise ValueError(f"`{name}` must have {n} rows, one per sample, got {array.shape[0]}.")
    return array


def check_values(values: Any, shape: tuple[int, int], name: str, rows: slice | IntArray) -> FloatArray:
    """Return the values of a function at the points of a block of rows.

    Raise an error if a value is not finite.
    """
    array = as_float_array(values, f"the result of {name}")
    if array.shape != shape:
        raise ValueError(
            f"`{name}` must map points of shape (..., d) to values of shape (...), but points of shape "
            f"{(*shape, 'd')} gave {array.shape}. Reduce the last axis, as in y.sum(axis=-1)."
        )
    finite = np.isfinite(array)
    if not finite.all():
        block, point = np.argwhere(~finite)[0]
        first = rows.start + block if isinstance(rows, slice) else rows[block]
        raise ValueError(
            f"`{name}` must be finite at all points of the distribution, got {array[block, point]} at row "
            f"{first}."
        )
    return array
