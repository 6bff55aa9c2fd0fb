"""Ranks of a weighted sample, the order statistics of conformal intervals."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from skuq._rounding import level_rounding
from skuq._typing import BoolArray, FloatArray, IntArray

RANK_TOLERANCE = 1e-12
"""Rounding error of a rank: 0.9 times 10 must give rank 9, even if the product rounds to more than 9."""


def rows_needed(coverage: float) -> int:
    """Return the smallest n for which the conformal rank exists: ceil((n + 1) coverage) <= n."""
    # (n + 1) c <= n is equivalent to n >= c / (1 - c)
    level = coverage * (1 - RANK_TOLERANCE)
    return math.ceil(level / (1 - level))


def has_rank(
    level: FloatArray | float, calibration_weight: FloatArray | float, test_weight: FloatArray | float
) -> BoolArray:
    rank = np.asarray(level) * (np.asarray(calibration_weight) + test_weight)
    return np.asarray(rank * (1 - RANK_TOLERANCE) <= calibration_weight)


def score_level(coverage: FloatArray | float, symmetric: bool) -> FloatArray:
    """Return the quantile level of the scores for an interval of this coverage.

    A symmetric interval uses the coverage itself. An interval with one score per bound divides the
    miscoverage equally: 1 - (1 - coverage) / 2.
    """
    level = np.asarray(coverage, dtype=np.float64)
    return level if symmetric else (1 + level) / 2


def rank_target(target: FloatArray, total: float) -> FloatArray:
    """Return the rank ``target`` out of ``total``, reduced by its rounding error.

    The error comes from the rank and from the level. Without the reduction, 0.55 * 100, which rounds to more
    than 55, would select the 56th value.
    """
    return np.asarray(target - np.maximum(RANK_TOLERANCE * target, level_rounding(target / total) * total))


class WeightedRanks:
    """Sorted weighted sample with its cumulative weights and order statistics.

    ``values`` of shape (k,), k >= 1, may be +inf but not NaN. Values of zero weight are dropped.
    ``cumulative`` is the sum of weights up to each sorted value, and ``total`` the sum of all weights.
    """

    def __init__(self, values: FloatArray, weights: FloatArray | None = None) -> None:
        self.weights: FloatArray | None = None
        if weights is None:
            self.values = np.sort(values)
            self.cumulative = np.arange(1.0, values.size + 1)
        else:
            if not weights.all():
                # With target 0, the quantile is the smallest value, which must have a positive weight.
                values, weights = values[weights > 0], weights[weights > 0]
            order = np.argsort(values, kind="stable")
            self.values, self.weights = values[order], weights[order]
            self.cumulative = np.cumsum(self.weights)
        self.total = float(self.cumulative[-1])

    def __len__(self) -> int:
        return int(self.values.size)

    @cached_property
    def _cumulative_from_top(self) -> FloatArray:
        """Cumulative weights from the largest value down.

        ``total - cumulative`` rounds differently, but ranks from the top must equal ranks of negated values.
        """
        return self.cumulative if self.weights is None else np.cumsum(self.weights[::-1])

    def quantile(self, target: FloatArray | float) -> FloatArray:
        """Return the smallest value with cumulative weight at least ``target``, or +inf beyond the total."""
        return _value_at(self.values, self.cumulative, target, np.inf)

    def quantile_from_top(self, target: FloatArray | float) -> FloatArray:
        """Return the largest v for which the values >= v have at least the weight ``target``, or -inf."""
        return _value_at(self.values[::-1], self._cumulative_from_top, target, -np.inf)

    @property
    def median(self) -> float:
        return float(self.quantile(self.total / 2) + self.quantile_from_top(self.total / 2)) / 2

    def weight_of(self, count: IntArray) -> FloatArray:
        # cumulative[-1] would be the total for a count of 0
        return np.asarray(np.where(count > 0, self.cumulative[np.maximum(count, 1) - 1], 0.0))


def _value_at(
    values: FloatArray, cumulative: FloatArray, target: FloatArray | float, beyond: float
) -> FloatArray:
    # side="left" gives the first j with cumulative[j] >= target, or k if there is none
    index = np.searchsorted(cumulative, rank_target(np.asarray(target), cumulative[-1]), side="left")
    found = values[np.minimum(index, values.size - 1)]
    return np.asarray(np.where(index < values.size, found, beyond))


def count_reached(values: FloatArray, loc: FloatArray, scale: FloatArray, y: FloatArray) -> IntArray:
    """Return the number of sorted ``values`` z with ``loc + scale * z <= y`` for each row, shape (n,).

    The comparison uses the rounded sums, because a quantile of the row is such a sum. A y equal to the row's
    quantile then always counts as reached.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Rounding of (y - loc) / scale may select a neighboring value. With scale 0 and y = loc, the quotient
        # is NaN. searchsorted places NaN at the end, which is correct because all sums then equal y.
        count = np.searchsorted(values, (y - loc) / scale, side="right")
        # The count is correct if the sum of the last counted value is at most y and the next sum is larger
        # than y.
        last = loc + scale * values[np.maximum(count, 1) - 1]
        following = loc + scale * values[np.minimum(count, values.size - 1)]
        wrong = np.flatnonzero(((last > y) & (count > 0)) | ((following <= y) & (count < values.size)))
        if wrong.size:
            count[wrong] = _bisect(values, loc[wrong], scale[wrong], y[wrong])
    return np.asarray(count)


def _bisect(values: FloatArray, loc: FloatArray, scale: FloatArray, y: FloatArray) -> IntArray:
    """Return the count by bisection on the rounded sums, in log2(k) steps for all rows."""
    low, high = np.zeros(y.shape, dtype=np.intp), np.full(y.shape, values.size, dtype=np.intp)
    while (open_rows := low < high).any():
        middle = (low + high) // 2
        # the minimum keeps indices of finished rows within the array
        reached = loc + scale * values[np.minimum(middle, values.size - 1)] <= y
        low = np.where(open_rows & reached, middle + 1, low)
        high = np.where(open_rows & ~reached, middle, high)
    return low
