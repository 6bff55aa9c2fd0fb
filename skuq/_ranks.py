"""Ranks and order statistics of a weighted sample, for conformal intervals."""

from __future__ import annotations

import math
from copy import copy
from functools import cached_property

import numpy as np

from skuq._rounding import level_rounding
from skuq._typing import BoolArray, FloatArray, IntArray

RANK_TOLERANCE = 1e-12
"""Relative rounding error of a rank. With this tolerance, 0.9 * 10 gives rank 9 even if the computed product
is slightly larger than 9."""


def rows_needed(coverage: float) -> int:
    """Return the smallest number n of rows with ceil((n + 1) coverage) <= n."""
    # The condition (n + 1) c <= n is equivalent to n >= c / (1 - c).
    level = coverage * (1 - RANK_TOLERANCE)
    return math.ceil(level / (1 - level))


def has_rank(
    level: FloatArray | float, calibration_weight: FloatArray | float, test_weight: FloatArray | float
) -> BoolArray:
    rank = np.asarray(level) * (np.asarray(calibration_weight) + test_weight)
    return np.asarray(rank * (1 - RANK_TOLERANCE) <= calibration_weight)


def score_level(coverage: FloatArray | float, symmetric: bool) -> FloatArray:
    level = np.asarray(coverage, dtype=np.float64)
    return level if symmetric else (1 + level) / 2


def rank_target(target: FloatArray, total: float) -> FloatArray:
    return np.asarray(target - np.maximum(RANK_TOLERANCE * target, level_rounding(target / total) * total))


class WeightedRanks:
    """Sorted weighted sample with its cumulative weights. Values may be inf but not NaN."""

    def __init__(self, values: FloatArray, weights: FloatArray | None = None) -> None:
        if weights is None:
            self._set(np.sort(values), None)
            return
        if not weights.all():
            # Values of weight 0 are dropped, so that the smallest value has a positive weight.
            values, weights = values[weights > 0], weights[weights > 0]
        order = np.argsort(values, kind="stable")
        self._set(values[order], weights[order])

    def _set(self, values: FloatArray, weights: FloatArray | None) -> None:
        self.values, self.weights = values, weights
        self.cumulative = np.arange(1.0, values.size + 1) if weights is None else np.cumsum(weights)
        self.total = float(self.cumulative[-1])

    def followed_by(self, added: FloatArray, weights: FloatArray, removed: FloatArray) -> WeightedRanks:
        """Return updated ranks in O(n). Of several equal values, the earliest added value is removed."""
        values, kept_weights = self.values, self.weights
        if removed.size:
            # Equal values are stored in the order of their addition, so the first one is the earliest.
            removed = np.sort(removed)
            nth = np.arange(removed.size) - removed.searchsorted(removed)
            position = (values.searchsorted(removed) + nth).tolist()
            values = _without(values, position)
            kept_weights = None if kept_weights is None else _without(kept_weights, position)
        if kept_weights is None and (weights != 1).any():
            kept_weights = np.ones(values.size)
        order = added.argsort(kind="stable")
        added = added[order]
        position = values.searchsorted(added, side="right").tolist()
        ranks = copy(self)
        ranks.__dict__.pop("_cumulative_from_top", None)
        ranks._set(
            _with(values, position, added),
            None if kept_weights is None else _with(kept_weights, position, weights[order]),
        )
        return ranks

    def __len__(self) -> int:
        return int(self.values.size)

    @cached_property
    def _cumulative_from_top(self) -> FloatArray:
        """Return the cumulative weights, beginning at the largest value."""
        return self.cumulative if self.weights is None else np.cumsum(self.weights[::-1])

    def quantile(self, target: FloatArray | float) -> FloatArray:
        return _value_at(self.values, self.cumulative, target, np.inf)

    def quantile_from_top(self, target: FloatArray | float) -> FloatArray:
        return _value_at(self.values[::-1], self._cumulative_from_top, target, -np.inf)

    @property
    def median(self) -> float:
        return float(self.quantile(self.total / 2) + self.quantile_from_top(self.total / 2)) / 2

    def weight_of(self, count: IntArray) -> FloatArray:
        # A count of 0 must give 0, but cumulative[count - 1] would be the total.
        return np.asarray(np.where(count > 0, self.cumulative[np.maximum(count, 1) - 1], 0.0))


def _without(values: FloatArray, positions: list[int]) -> FloatArray:
    """Remove the values at a few ascending positions."""
    starts = [0, *(position + 1 for position in positions)]
    return np.concatenate([values[i:j] for i, j in zip(starts, [*positions, None], strict=True)])


def _with(values: FloatArray, positions: list[int], added: FloatArray) -> FloatArray:
    """Insert a few values before ascending positions."""
    pieces, last = [], 0
    for number, position in enumerate(positions):
        pieces += [values[last:position], added[number : number + 1]]
        last = position
    return np.concatenate([*pieces, values[last:]])


def _value_at(
    values: FloatArray, cumulative: FloatArray, target: FloatArray | float, beyond: float
) -> FloatArray:
    # side="left" returns the first j with cumulative[j] >= target, or k if there is none.
    index = np.searchsorted(cumulative, rank_target(np.asarray(target), cumulative[-1]), side="left")
    found = values[np.minimum(index, values.size - 1)]
    return np.asarray(np.where(index < values.size, found, beyond))


def count_reached(values: FloatArray, loc: FloatArray, scale: FloatArray, y: FloatArray) -> IntArray:
    """Return the number of sorted ``values`` z with ``loc + scale * z <= y`` for each row."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Because of rounding errors, this count may be wrong by one value. With scale 0 and y = loc, the
        # quotient is NaN. searchsorted places NaN at the end, which is correct, because all sums then equal
        # y.
        count = np.searchsorted(values, (y - loc) / scale, side="right")
        # The count is correct if the last counted sum is at most y and the next sum is larger than y.
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
        # The minimum keeps the indices of finished rows inside the array.
        reached = loc + scale * values[np.minimum(middle, values.size - 1)] <= y
        low = np.where(open_rows & reached, middle + 1, low)
        high = np.where(open_rows & ~reached, middle, high)
    return low
