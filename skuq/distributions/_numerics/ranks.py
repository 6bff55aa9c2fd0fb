"""Ranks of a weighted sample: the order statistics behind conformal intervals."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.distributions._numerics.levels import level_rounding

RANK_TOLERANCE = 1e-12
"""A rank may exceed a whole number by rounding alone: 0.9 times 10 has to be rank 9, never the tenth."""


def rows_needed(coverage: float) -> int:
    """Return the smallest n for which the conformal rank exists: ceil((n + 1) coverage) <= n."""
    # (n + 1) c <= n is the same as n >= c / (1 - c)
    level = coverage * (1 - RANK_TOLERANCE)
    return math.ceil(level / (1 - level))


def has_rank(
    level: FloatArray | float, calibration_weight: FloatArray | float, test_weight: FloatArray | float
) -> BoolArray:
    """Return whether the rank of a level is that of a calibration row, for a new row of the given weight."""
    rank = np.asarray(level) * (np.asarray(calibration_weight) + test_weight)
    return np.asarray(rank * (1 - RANK_TOLERANCE) <= calibration_weight)


def score_level(coverage: FloatArray | float, symmetric: bool) -> FloatArray:
    """Return the quantile level of the scores that an interval of this coverage takes.

    One score for both bounds takes the coverage itself. With a score for each bound, the miscoverage is
    divided equally between the two: 1 - (1 - coverage) / 2.
    """
    level = np.asarray(coverage, dtype=np.float64)
    return level if symmetric else (1 + level) / 2


def rank_target(target: FloatArray, total: float) -> FloatArray:
    """Return the cumulative weight that a value of rank ``target`` out of ``total`` must have.

    It is less than ``target`` by what rounding may have added to the rank, or to the level from which the
    rank was computed: otherwise 0.55 * 100, which is rounded to more than 55, would be the 56th value.
    """
    return np.asarray(target - np.maximum(RANK_TOLERANCE * target, level_rounding(target / total) * total))


class WeightedRanks:
    """A sorted sample with its cumulative weights, and its order statistics by weight.

    Parameters
    ----------
    values : ndarray of shape (k,)
        In any order, at least one; not NaN, but +inf where no bound or set reaches the target.
    weights : ndarray of shape (k,), default=None
        Non-negative with a positive sum; each value counts once if None. Values of zero weight are
        dropped.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Sorted.
    weights : ndarray of shape (k,) or None
        In the order of ``values``.
    cumulative : ndarray of shape (k,)
        Sum of the weights of each value and of those before it.
    total : float
        Sum of all weights.
    """

    def __init__(self, values: FloatArray, weights: FloatArray | None = None) -> None:
        self.weights: FloatArray | None = None
        if weights is None:
            self.values = np.sort(values)
            self.cumulative = np.arange(1.0, values.size + 1)
        else:
            if not weights.all():
                # else a smallest value without weight would be the quantile of a target of 0
                values, weights = values[weights > 0], weights[weights > 0]
            order = np.argsort(values, kind="stable")
            self.values, self.weights = values[order], weights[order]
            self.cumulative = np.cumsum(self.weights)
        self.total = float(self.cumulative[-1])

    def __len__(self) -> int:
        return int(self.values.size)

    @cached_property
    def _cumulative_from_top(self) -> FloatArray:
        """Sum of the weights of each value and of those after it, the largest value first.

        Summed anew, not ``total - cumulative``, which rounds differently: the ranks from the top are those
        of the negated values.
        """
        return self.cumulative if self.weights is None else np.cumsum(self.weights[::-1])

    def quantile(self, target: FloatArray | float) -> FloatArray:
        """Return the smallest value whose cumulative weight is at least ``target``; +inf beyond the total."""
        return _value_at(self.values, self.cumulative, target, np.inf)

    def quantile_from_top(self, target: FloatArray | float) -> FloatArray:
        """Return the largest value from which upwards the weight is at least ``target``; -inf if none."""
        return _value_at(self.values[::-1], self._cumulative_from_top, target, -np.inf)

    @property
    def median(self) -> float:
        """The median, halfway between two values where each has half the weight on its side."""
        return float(self.quantile(self.total / 2) + self.quantile_from_top(self.total / 2)) / 2

    def weight_of(self, count: IntArray) -> FloatArray:
        """Return the weight of the ``count`` smallest values."""
        # cumulative[-1] would be the total where count is 0, hence the two steps
        return np.asarray(np.where(count > 0, self.cumulative[np.maximum(count, 1) - 1], 0.0))


def _value_at(
    values: FloatArray, cumulative: FloatArray, target: FloatArray | float, beyond: float
) -> FloatArray:
    """Return the first of the values whose cumulative weight reaches the target, else ``beyond``."""
    # side="left" gives the first j with cumulative[j] >= target, and k where there is none
    index = np.searchsorted(cumulative, rank_target(np.asarray(target), cumulative[-1]), side="left")
    found = values[np.minimum(index, values.size - 1)]
    return np.asarray(np.where(index < values.size, found, beyond))


def count_reached(values: FloatArray, loc: FloatArray, scale: FloatArray, y: FloatArray) -> IntArray:
    """Return the number of sorted ``values`` z with ``loc + scale * z <= y`` for each row, shape (n,).

    The sums are compared as they are rounded, since a quantile of the row is such a sum: a y equal to the
    row's own quantile then always counts as reached.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # z <= (y - loc) / scale, which rounding may put on the wrong side of a value next to it. A NaN, where
        # scale is 0 and y is loc, is sorted to the end, where it belongs: all sums are then equal to y.
        count = np.searchsorted(values, (y - loc) / scale, side="right")
        # The count is right if the sum of the last value counted is at most y and the next sum is not.
        last = loc + scale * values[np.maximum(count, 1) - 1]
        following = loc + scale * values[np.minimum(count, values.size - 1)]
        wrong = np.flatnonzero(((last > y) & (count > 0)) | ((following <= y) & (count < values.size)))
        if wrong.size:
            count[wrong] = _bisect(values, loc[wrong], scale[wrong], y[wrong])
    return np.asarray(count)


def _bisect(values: FloatArray, loc: FloatArray, scale: FloatArray, y: FloatArray) -> IntArray:
    """Return the same by bisection on the rounded sums, which increase with z: log2(k) steps for all rows."""
    low, high = np.zeros(y.shape, dtype=np.intp), np.full(y.shape, values.size, dtype=np.intp)
    while (open_rows := low < high).any():
        middle = (low + high) // 2
        # the minimum only keeps the index of closed rows within the array
        reached = loc + scale * values[np.minimum(middle, values.size - 1)] <= y
        low = np.where(open_rows & reached, middle + 1, low)
        high = np.where(open_rows & ~reached, middle, high)
    return low
