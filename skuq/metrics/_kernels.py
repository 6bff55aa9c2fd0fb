"""Functions that several families of metrics share.

They use the PIT of the target, u = F(y), or the standardized target z = (y - loc) / scale of a location-scale
family. A comparison of z with standard quantiles needs no cdf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_integer
from skuq.distributions import Distribution

BinIndex = NDArray[np.integer[Any]]
"""Bin or count of each row, in a small integer type."""

BLOCK = 1 << 15
"""Number of rows per block. The intermediate results of a block fit into the processor's cache."""

MOST_LEVELS = 10**6
"""There are at most this number of equally spaced levels."""

FEW = 16
"""With up to this number of thresholds, it is fastest to compare all values with each threshold."""

FEW_VALUES = 2000
"""For up to this number of values, `np.searchsorted` is faster than the construction of the table."""

CELLS = 1 << 12
"""Number of cells of the lookup table. The table is used for more than ``FEW`` thresholds."""


def covered(y: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    return ((lower <= y) & (y <= upper)).astype(np.float64)


def level_grid(levels: int | ArrayLike, name: str = "levels", *, closed: bool = False) -> FloatArray:
    """Return probability levels.

    An integer m means the m levels i / (m + 1), i = 1..m. If ``closed``, 0 and 1 are allowed.
    """
    if isinstance(levels, int | np.integer):
        m = check_integer(levels, name)
        if m > MOST_LEVELS:
            raise ValueError(
                f"`{name}` must be at most {MOST_LEVELS} levels, got {m}. An integer is a number of levels."
            )
        return np.arange(1, m + 1) / (m + 1)
    grid = np.atleast_1d(as_float_array(levels, name))
    if grid.ndim != 1 or grid.size == 0:
        raise ValueError(
            f"`{name}` must be a number of levels (an integer), a level or a non-empty 1-D array of levels, "
            f"got shape {grid.shape}."
        )
    good = (grid >= 0) & (grid <= 1) if closed else (grid > 0) & (grid < 1)
    if not good.all():
        where = "in [0, 1]" if closed else "strictly between 0 and 1"
        raise ValueError(f"`{name}` must lie {where}, got {grid[~good][0]:g}.")
    return grid


def count_below(thresholds: FloatArray, values: FloatArray, side: str = "right") -> BinIndex:
    """Return ``np.searchsorted(thresholds, values, side)`` in a small integer type, but faster."""
    # The table needs finite thresholds. Every finite value is above -inf and below inf.
    finite = np.isfinite(thresholds)
    if not finite.all() and np.isfinite(values).all():
        below_all = int(np.count_nonzero(thresholds == -np.inf))
        return count_below(thresholds[finite], values, side) + below_all
    count = _counter(thresholds, side) if finite.all() and values.size > FEW_VALUES else None
    if count is None:
        return np.asarray(np.searchsorted(thresholds, values, side="left" if side == "left" else "right"))
    kind: Any = np.uint8 if thresholds.size < 256 else np.uint16
    below: BinIndex = np.empty(values.size, dtype=kind)
    for start in range(0, values.size, BLOCK):
        part = slice(start, start + BLOCK)
        count(values[part], below[part])
    return below


def _counter(thresholds: FloatArray, side: str) -> Callable[[FloatArray, BinIndex], None] | None:
    """Return a function that writes the counts to an array. Return None if `np.searchsorted` is faster."""
    compare = np.greater_equal if side == "right" else np.greater
    if thresholds.size <= FEW:

        def by_comparison(values: FloatArray, out: BinIndex) -> None:
            out[:] = 0
            for threshold in thresholds:
                out += compare(values, threshold)

        return by_comparison
    if thresholds.size > CELLS:
        return None
    low = thresholds[0]
    with np.errstate(all="ignore"):  # The width of a cell may underflow or overflow.
        factor = (CELLS - 1) / (thresholds[-1] - low)
    if not np.isfinite(factor):
        return None

    def cell_of(values: FloatArray) -> IntArray:
        # Values outside the range of the thresholds belong to the first or the last cell.
        with np.errstate(over="ignore"):
            position = (values - low) * factor
        return np.asarray(np.clip(position, 0, CELLS - 1, out=position).astype(np.intp))

    # Thresholds in earlier cells are below the value, and thresholds in later cells are above the value.
    occupied = cell_of(thresholds)
    if (np.diff(occupied) == 0).any():  # With two thresholds in one cell, one comparison is not enough.
        return None
    before = np.searchsorted(occupied, np.arange(CELLS)).astype(np.uint16)
    inside = np.full(CELLS, np.inf)  # A cell without a threshold contains inf, which no value exceeds.
    inside[occupied] = thresholds

    def by_cell(values: FloatArray, out: BinIndex) -> None:
        cell = cell_of(values)
        out[:] = before[cell]
        out += compare(values, inside[cell])

    return by_cell


def standardized(y: FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray:
    """Return (y - loc) / scale. The result is infinite if it overflows."""
    z = y - loc
    with np.errstate(over="ignore"):
        z /= scale
    return z


def location_scale(dist: Distribution) -> tuple[FloatArray, FloatArray, Distribution] | None:
    """Return (loc, scale, standard distribution) of a location-scale family with positive scales.

    Return None for other families.
    """
    form = dist._standard_form()
    return None if form is None or not np.all(form[1] > 0) else form
