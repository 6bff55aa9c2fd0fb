"""Isotonic regression of means and quantiles, for several forecasts at once.

A section contains n targets, sorted by one forecast of the targets. All arrays have shape (s, n) for s
sections, and each section has its own fit. Rows with equal forecasts have equal fitted values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from skuq._typing import BoolArray, FloatArray, IntArray

_LARGEST_WHOLE = 2.0**53
"""Sums of whole numbers are exact up to this value."""


def isotonic_means(values: FloatArray, last: BoolArray, weight: FloatArray | None) -> FloatArray:
    """Return the increasing function of the forecast that minimizes the weighted squared error."""
    sections, n = values.shape
    flat, mass = values.ravel(), np.ones(values.size) if weight is None else weight.ravel()
    starts = np.concatenate([[0], np.flatnonzero(last.ravel()[:-1]) + 1])
    masses, sums = np.add.reduceat(mass, starts), np.add.reduceat(mass * flat, starts)
    counted = masses > 0  # Rows that a bootstrap sample omits have weight 0.
    masses, sums, section = masses[counted], sums[counted], starts[counted] // n
    # All sections are fitted in one call. An offset per section keeps their fits independent.
    low, high = flat.min(), flat.max()
    offset = section * (2 * (high - low) + 1.0)
    blocks = isotonic_regression(sums / masses - low + offset, weights=masses).blocks
    # The means are computed again, because the offset causes rounding errors.
    means = np.add.reduceat(sums, blocks[:-1]) / np.add.reduceat(masses, blocks[:-1])
    of_group = np.repeat(means, np.diff(blocks))[np.maximum(np.cumsum(counted) - 1, 0)]
    return np.asarray(np.repeat(of_group, np.diff(starts, append=flat.size)).reshape(sections, n))


def isotonic_quantile_ranks(
    rank: IntArray, last: BoolArray, level: FloatArray, weight: FloatArray | None
) -> IntArray:
    """Return the rank of the target that is the isotonic quantile at each row.

    Each row has a range of possible ranks, which is halved in each round. Consecutive rows with the same
    range form a segment. The middle of the range divides the segment into rows with smaller and rows with
    larger quantiles. The best division maximizes the sum of 1{rank <= middle} - level over the first rows.
    """
    sections, n = rank.shape
    size = sections * n
    flat, tied = rank.ravel(), None if last.all() else ~last.ravel()
    mass = None if weight is None else _as_integers(weight.ravel())
    mass_before = np.arange(size + 1) if mass is None else np.concatenate([[0], np.cumsum(mass)])
    expected = np.repeat(level, n) * mass_before[1:]
    starts = np.arange(0, size, n)
    low, high = np.zeros(sections, dtype=np.intp), np.full(sections, n - 1, dtype=np.intp)
    while (low < high).any():
        lengths = np.diff(starts, append=size)
        middle = (low + high) // 2
        below = flat <= np.repeat(middle, lengths)
        counted: Any = np.cumsum(below if mass is None else below * mass)
        at_start = np.where(starts > 0, counted[starts - 1], 0) - level[starts // n] * mass_before[starts]
        gain = counted - expected
        if tied is not None:
            gain[tied] = -np.inf
        cut = _best_cuts(gain, at_start, starts, lengths)
        cut[low == high] = (starts + lengths)[low == high]
        # The first part of a segment keeps the lower half of the ranks. The second part keeps the upper half.
        begins = np.column_stack([starts, cut]).ravel()
        lows = np.column_stack([low, middle + 1]).ravel()
        highs = np.column_stack([np.where(low == high, high, middle), high]).ravel()
        filled = np.diff(begins, append=size) > 0
        starts, low, high = begins[filled], lows[filled], highs[filled]
    return np.asarray(np.repeat(low, np.diff(starts, append=size)).reshape(sections, n))


def _as_integers(weight: FloatArray) -> FloatArray | IntArray:
    whole = weight.sum() < _LARGEST_WHOLE and np.array_equal(weight, np.round(weight))
    return weight.astype(np.int64) if whole else weight


def _best_cuts(gain: FloatArray, at_start: FloatArray, starts: IntArray, lengths: IntArray) -> IntArray:
    best = np.maximum.reduceat(gain, starts)
    reached = np.flatnonzero(gain == np.repeat(best, lengths))
    ends = reached[np.searchsorted(reached, starts + lengths) - 1] + 1
    return np.asarray(np.where(best >= at_start, ends, starts))
