"""Kernels that several families of metrics share.

They work on the position of the target in its distribution: its PIT u = F(y) or, where all rows are
of one location-scale family, z = (y - loc) / scale, whose order statistics are compared with
standard quantiles so that no n-fold cdf is needed.
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
"""Bin or count of each row; small integer types take less memory and time."""

BLOCK = 1 << 15
"""Rows per block; the intermediate results of a block fit into the processor's cache."""

MOST_LEVELS = 10**6
"""More equidistant levels than any number of rows resolves."""

FEW = 16
"""Thresholds up to which comparing all values with each threshold is the fastest."""

CELLS = 1 << 12
"""Cells of the lookup table for more thresholds."""


def weighted_mean(values: FloatArray, weight: FloatArray | None) -> float:
    """Return the mean of a value per row, in which weights count repetitions."""
    if weight is None:
        return float(values.mean())
    return weighted_sum(values, weight) / float(weight.sum())


def weighted_means(columns: tuple[FloatArray, ...], weight: FloatArray | None) -> FloatArray:
    """Return the weighted means of several values per row, shape (c,)."""
    return np.array([weighted_mean(column, weight) for column in columns])


def weighted_sum(values: FloatArray, weight: FloatArray | None) -> float:
    """Return the sum of a value per row times its weight."""
    if weight is None:
        return float(values.sum())
    with np.errstate(invalid="ignore"):
        total = float(weight @ values)
    return float(weighted(values, weight).sum()) if np.isnan(total) else total


def weighted(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Return values times weights, where 0 times infinity is 0: a row without weight does not count."""
    if weight is None:
        return values
    with np.errstate(invalid="ignore"):
        product = values * weight
    return np.where(weight > 0, product, 0.0) if np.isnan(product).any() else product


def covered(y: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return 1.0 where an interval, bounds included, holds its target, and 0.0 elsewhere."""
    return ((lower <= y) & (y <= upper)).astype(np.float64)


def level_grid(levels: int | ArrayLike, name: str = "levels", *, closed: bool = False) -> FloatArray:
    """Return probability levels: an integer m stands for i / (m + 1), i = 1..m.

    `closed` admits 0 and 1 themselves.
    """
    if isinstance(levels, int | np.integer):
        m = check_integer(levels, name)
        if m > MOST_LEVELS:
            raise ValueError(f"`{name}` must be at most {MOST_LEVELS} levels, got {m}.")
        return np.arange(1, m + 1) / (m + 1)
    grid = np.atleast_1d(as_float_array(levels, name))
    if grid.ndim != 1 or grid.size == 0:
        raise ValueError(
            f"`{name}` must be an integer, a number or a non-empty 1-D array, got shape {grid.shape}."
        )
    good = (grid >= 0) & (grid <= 1) if closed else (grid > 0) & (grid < 1)
    if not good.all():
        where = "in [0, 1]" if closed else "strictly between 0 and 1"
        raise ValueError(f"`{name}` must lie {where}, got {grid[~good][0]:g}.")
    return grid


def count_below(thresholds: FloatArray, values: FloatArray, side: str = "right") -> BinIndex:
    """Return for each value how many of the increasing thresholds lie below it, or at it (``side="right"``).

    The same as ``np.searchsorted(thresholds, values, side)``, in a small integer type where that is faster.
    """
    # Infinite thresholds leave no finite width for the table; finite values are above -inf and below inf.
    finite = np.isfinite(thresholds)
    if not finite.all() and np.isfinite(values).all():
        below_all = int(np.count_nonzero(thresholds == -np.inf))
        return count_below(thresholds[finite], values, side) + below_all
    # Preparing the table costs more than a search of few values.
    count = _counter(thresholds, side) if finite.all() and values.size >= 1000 else None
    if count is None:
        return np.asarray(np.searchsorted(thresholds, values, side="left" if side == "left" else "right"))
    kind: Any = np.uint8 if thresholds.size < 256 else np.uint16
    below: BinIndex = np.empty(values.size, dtype=kind)
    for start in range(0, values.size, BLOCK):
        part = slice(start, start + BLOCK)
        count(values[part], below[part])
    return below


def _counter(thresholds: FloatArray, side: str) -> Callable[[FloatArray, BinIndex], None] | None:
    """Return a function that writes the counts of `count_below` to an array; None where a search is faster.

    Few thresholds are compared with all values one by one. For more, a table of equal cells gives the number
    of thresholds before the cell of a value, and one comparison with the threshold in the cell completes it:
    O(1) for a value, where a search takes log k steps.
    """
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
    with np.errstate(all="ignore"):  # equal thresholds, or ones too near to or too far from each other
        factor = (CELLS - 1) / (thresholds[-1] - low)
    if not np.isfinite(factor):
        return None

    def cell_of(values: FloatArray) -> IntArray:
        with np.errstate(over="ignore"):  # values far outside go to the first or the last cell
            position = (values - low) * factor
        return np.asarray(np.clip(position, 0, CELLS - 1, out=position).astype(np.intp))

    # Rounding is monotone: a threshold in an earlier cell is below a value, one in a later cell above it.
    occupied = cell_of(thresholds)
    if (np.diff(occupied) == 0).any():  # two thresholds in a cell would need two comparisons
        return None
    before = np.searchsorted(occupied, np.arange(CELLS)).astype(np.uint16)
    inside = np.full(CELLS, np.inf)  # no value reaches it, so that cells without a threshold add 0
    inside[occupied] = thresholds

    def by_cell(values: FloatArray, out: BinIndex) -> None:
        cell = cell_of(values)
        out[:] = before[cell]
        out += compare(values, inside[cell])

    return by_cell


def standardised(y: FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray:
    """Return (y - loc) / scale, infinite where the quotient overflows."""
    z = y - loc
    with np.errstate(over="ignore"):
        z /= scale
    return z


def central_bounds(standard: Distribution, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of the central intervals of one row; coverages 0 and 1 are allowed."""
    bounds = np.empty((2, levels.size))
    standard._interval((1 - levels) / 2, bounds)
    return bounds[0], bounds[1]


def location_scale(dist: Distribution) -> tuple[FloatArray, FloatArray, Distribution] | None:
    """Return (loc, scale, standard distribution) where the family has one and every scale is positive."""
    form = dist._standard_form()
    return None if form is None or not np.all(form[1] > 0) else form
