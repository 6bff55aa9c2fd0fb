"""Kernels that several families of metrics share.

The currency is the place of the target in its distribution: its PIT u = F(y) or, where all rows are
of one location-scale family, z = (y - loc) / scale, whose order statistics are compared with
standard quantiles so that no n-fold cdf is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_integer, check_option
from skuq.distributions import Distribution

Places = NDArray[np.integer[Any]]
"""Small whole numbers, of whichever integer type is at hand."""

KINDS = ("quantile", "interval")

BLOCK = 1 << 15
"""Rows that are worked on together, so that what is computed of them stays in the cache."""

FEW = 16
"""Thresholds up to which comparing with each in turn is the fastest."""

CELLS = 1 << 12
"""Cells of the table by which values are placed among more thresholds."""


def weighted_mean(values: FloatArray, weight: FloatArray | None) -> float:
    """Return the mean of a value per row, in which weights count repetitions."""
    if weight is None:
        return float(values.mean())
    return float(weight @ values / weight.sum())


def level_grid(levels: int | ArrayLike, name: str = "levels", *, closed: bool = False) -> FloatArray:
    """Return probability levels: an integer m stands for i / (m + 1), i = 1..m.

    `closed` admits 0 and 1 themselves.
    """
    if np.ndim(levels) == 0 and isinstance(levels, int | np.integer):
        m = check_integer(levels, name)
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


def count_passed(thresholds: FloatArray, values: FloatArray, side: str = "right") -> Places:
    """Return for each value how many of the increasing thresholds lie below it, or at it (``side="right"``).

    The same as ``np.searchsorted(thresholds, values, side)``, in a small integer type where that is faster.
    """
    finite = np.isfinite(thresholds)
    if not finite.all() and np.isfinite(values).all():
        passed_by_all = int(np.count_nonzero(thresholds == -np.inf))
        return count_passed(thresholds[finite], values, side) + passed_by_all
    count = _counter(thresholds, side) if finite.all() and values.size >= 1000 else None
    if count is None:
        return np.asarray(np.searchsorted(thresholds, values, side="left" if side == "left" else "right"))
    kind: Any = np.uint8 if thresholds.size < 256 else np.uint16
    passed: Places = np.empty(values.size, dtype=kind)
    for start in range(0, values.size, BLOCK):
        part = slice(start, start + BLOCK)
        count(values[part], passed[part])
    return passed


def _counter(thresholds: FloatArray, side: str) -> Callable[[FloatArray, Places], None] | None:
    """Return a function that counts passed thresholds into an array, or None where a search is better."""
    compare = np.greater_equal if side == "right" else np.greater
    if thresholds.size <= FEW:

        def by_comparison(values: FloatArray, out: Places) -> None:
            out[:] = 0
            for threshold in thresholds:
                out += compare(values, threshold)

        return by_comparison
    if thresholds.size > CELLS:
        return None
    low = thresholds[0]
    with np.errstate(all="ignore"):
        factor = (CELLS - 1) / (thresholds[-1] - low)
    if not np.isfinite(factor):
        return None

    def cell_of(values: FloatArray) -> IntArray:
        with np.errstate(over="ignore"):
            position = (values - low) * factor
        return np.asarray(np.clip(position, 0, CELLS - 1, out=position).astype(np.intp))

    # Rounding keeps the order of values, so only a threshold in its own cell needs comparing with.
    occupied = cell_of(thresholds)
    if (np.diff(occupied) == 0).any():
        return None
    before = np.searchsorted(occupied, np.arange(CELLS)).astype(np.uint16)
    inside = np.full(CELLS, np.inf)
    inside[occupied] = thresholds

    def by_cell(values: FloatArray, out: Places) -> None:
        cell = cell_of(values)
        out[:] = before[cell]
        out += compare(values, inside[cell])

    return by_cell


def first_levels(y: FloatArray, dist: Distribution, levels: FloatArray, kind: str) -> Places:
    """Return for each row the first of the increasing levels that takes the target in, else their number.

    ``kind="quantile"`` takes in y <= Q(p), ``kind="interval"`` Q((1-p)/2) <= y <= Q((1+p)/2); what a level
    takes in, every higher one does.
    """
    check_option(kind, "kind", KINDS)
    if kind == "quantile":
        return _first_quantile(y, dist, levels)
    if not dist.has_density:
        above = _first_level_above(y, dist, (1 + levels) / 2, strict=False)
        under = _first_level_above(y, dist, (1 - levels[::-1]) / 2, strict=True)
        return np.asarray(np.maximum(above, levels.size - under))
    form = location_scale(dist)
    if form is None:
        place, lower, upper = dist.cdf(y), (1 - levels) / 2, (1 + levels) / 2
    else:
        place = standardised(y, form[0], form[1])
        lower, upper = central_bounds(form[2], levels)
        if np.array_equal(lower, -upper):
            return count_passed(upper, np.abs(place, out=place), "left")
    below = count_passed(lower[::-1], place, "right")
    return np.asarray(np.maximum(count_passed(upper, place, "left"), levels.size - below))


def _first_quantile(y: FloatArray, dist: Distribution, levels: FloatArray) -> Places:
    """Return for each row the first of the increasing levels whose quantile is not below the target."""
    if not dist.has_density:
        return _first_level_above(y, dist, levels, strict=False)
    form = location_scale(dist)
    if form is None:
        return count_passed(levels, dist.cdf(y), "left")
    loc, scale, standard = form
    quantiles = np.array([standard._ppf(p)[0] for p in levels])
    return count_passed(quantiles, standardised(y, loc, scale), "left")


def standardised(y: FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray:
    """Return (y - loc) / scale; beyond what a float can hold it is infinite."""
    z = y - loc
    with np.errstate(over="ignore"):
        z /= scale
    return z


def central_bounds(standard: Distribution, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of the central intervals of one row; coverages 0 and 1 are allowed."""
    bounds = np.empty((levels.size, 2, 1))
    for each, tail in zip(bounds, (1 - levels) / 2, strict=True):
        standard._interval(tail, each)
    return bounds[:, 0, 0], bounds[:, 1, 0]


def location_scale(dist: Distribution) -> tuple[FloatArray, FloatArray, Distribution] | None:
    """Return (loc, scale, standard distribution) where the family has one and every scale is positive."""
    form = dist._standard_form()
    return None if form is None or not np.all(form[1] > 0) else form


def observed_proportions(
    y: FloatArray, dist: Distribution, levels: FloatArray, kind: str, weight: FloatArray | None
) -> FloatArray:
    """Return for each level the share of targets that the quantile or central interval takes in."""
    ordered, place = np.unique(levels, return_inverse=True)
    counts = np.bincount(first_levels(y, dist, ordered, kind), weight, ordered.size + 1)
    share = np.cumsum(counts)[:-1] / counts.sum()
    return np.asarray(share[place.ravel()], dtype=np.float64)


def _first_level_above(y: FloatArray, dist: Distribution, levels: FloatArray, *, strict: bool) -> IntArray:
    """Return per row the first of the increasing levels whose quantile is not below y, by bisection.

    A quantile function is monotone, so log2(k) calls of ``ppf`` replace k.
    """
    low = np.zeros(y.size, dtype=np.intp)
    high = np.full(y.size, levels.size, dtype=np.intp)
    while np.any(low < high):
        middle = (low + high) // 2
        quantile = dist._ppf(levels[np.minimum(middle, levels.size - 1)])
        above = (quantile > y) if strict else (quantile >= y)
        active = low < high
        high = np.where(active & above, middle, high)
        low = np.where(active & ~above, middle + 1, low)
    return low
