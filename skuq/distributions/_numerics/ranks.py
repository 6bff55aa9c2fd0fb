"""Ranks of a weighted sample: the order statistics behind conformal intervals."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from skuq._typing import FloatArray, IntArray
from skuq.distributions._numerics.levels import level_rounding

RANK_TOLERANCE = 1e-12
"""A rank may exceed a whole number by rounding alone: 0.9 times 10 has to be rank 9, never the tenth."""


def rows_needed(coverage: float) -> int:
    """Smallest n for which the conformal rank exists: ceil((n + 1) coverage) <= n."""
    target = coverage * (1 - RANK_TOLERANCE)
    return math.ceil(target / (1 - target))


def rank_target(target: FloatArray, total: float) -> FloatArray:
    """Return the cumulative weight that has to be reached for a rank ``target`` out of ``total``.

    It is less by what rounding may have added to the rank, or to the level that it was computed from.
    """
    return np.asarray(target - np.maximum(RANK_TOLERANCE * target, level_rounding(target / total) * total))


class WeightedRanks:
    """A sorted sample with its cumulative weights, with order statistics by weight.

    Parameters
    ----------
    values : ndarray of shape (k,)
        Finite, in any order, at least one.
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
        Weight of the values up to and with each.
    total : float
        Weight of all.
    """

    def __init__(self, values: FloatArray, weights: FloatArray | None = None) -> None:
        self.weights: FloatArray | None = None
        if weights is None:
            self.values = np.sort(values)
            self.cumulative = np.arange(1.0, values.size + 1)
        else:
            if not weights.all():
                values, weights = values[weights > 0], weights[weights > 0]
            order = np.argsort(values, kind="stable")
            self.values, self.weights = values[order], weights[order]
            self.cumulative = np.cumsum(self.weights)
        self.total = float(self.cumulative[-1])

    def __len__(self) -> int:
        return int(self.values.size)

    @cached_property
    def _from_top(self) -> FloatArray:
        """Weight of the values down to and with each, the largest value first."""
        return self.cumulative if self.weights is None else np.cumsum(self.weights[::-1])

    def reach(self, target: FloatArray | float) -> FloatArray:
        """Smallest value whose cumulative weight is at least ``target``; +inf beyond the total."""
        return _value_at(self.values, self.cumulative, target, np.inf)

    def reach_down(self, target: FloatArray | float) -> FloatArray:
        """Largest value such that the weight from it upwards is at least ``target``; else -inf."""
        return _value_at(self.values[::-1], self._from_top, target, -np.inf)

    @property
    def median(self) -> float:
        """The median, halfway between two values where each has half the weight on its side."""
        return float(self.reach(self.total / 2) + self.reach_down(self.total / 2)) / 2

    def weight_of(self, count: IntArray) -> FloatArray:
        """Weight of the ``count`` smallest values."""
        return np.asarray(np.where(count > 0, self.cumulative[np.maximum(count, 1) - 1], 0.0))

    def weight_of_largest(self, count: IntArray) -> FloatArray:
        """Weight of the ``count`` largest values."""
        return np.asarray(np.where(count > 0, self._from_top[np.maximum(count, 1) - 1], 0.0))


def _value_at(
    values: FloatArray, cumulative: FloatArray, target: FloatArray | float, beyond: float
) -> FloatArray:
    index = np.searchsorted(cumulative, rank_target(np.asarray(target), cumulative[-1]), side="left")
    found = values[np.minimum(index, values.size - 1)]
    return np.asarray(np.where(index < values.size, found, beyond))


def count_reached(values: FloatArray, loc: FloatArray, scale: FloatArray, y: FloatArray) -> IntArray:
    """Number of sorted ``values`` z with ``loc + scale * z <= y`` for each row, all of them (n,).

    The comparison is that of the rounded sums, so that a row's own quantile always counts as reached;
    the standardised y only says where to look.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # a NaN, where scale is 0 and y is loc, is sorted to the end
        count = np.searchsorted(values, (y - loc) / scale, side="right")
        last = loc + scale * values[np.maximum(count, 1) - 1]
        following = loc + scale * values[np.minimum(count, values.size - 1)]
        wrong = np.flatnonzero(((last > y) & (count > 0)) | ((following <= y) & (count < values.size)))
        if wrong.size:
            count[wrong] = _bisect(values, loc[wrong], scale[wrong], y[wrong])
    return np.asarray(count)


def _bisect(values: FloatArray, loc: FloatArray, scale: FloatArray, y: FloatArray) -> IntArray:
    low, high = np.zeros(y.shape, dtype=np.intp), np.full(y.shape, values.size, dtype=np.intp)
    while (open_rows := low < high).any():
        middle = (low + high) // 2
        reached = loc + scale * values[np.minimum(middle, values.size - 1)] <= y
        low = np.where(open_rows & reached, middle + 1, low)
        high = np.where(open_rows & ~reached, middle, high)
    return low
