"""Order statistics of the sums of a prediction and a score, without a matrix of all sums.

Let mu_i be the model that is fitted without row i, and R_i the score of row i. For each test row x, a bound
of CV+ or of the jackknife+ is the k-th smallest of the n sums mu_i(x) + R_i. Let r be the k-th smallest
score. The bound then lies between r + min mu_i(x) and r + max mu_i(x). Few sums lie in this interval, because
models of nearly the same rows have similar predictions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skuq._ranks import RANK_TOLERANCE, WeightedRanks
from skuq._typing import BoolArray, FloatArray, IntArray

_WINDOW = 16
"""The search ends if at most this number of sums per fold is left. The remaining sums are then sorted."""

_STEP_OF_ENDS = 2
"""Number of the step in which the sums below the ends of the intervals are counted."""

_CHUNK_FLOATS = 1 << 18
"""Maximum number of sums in memory at the same time (2 MB). The sums fit into the cache."""

_EPSILON = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)


class FoldScores:
    """Sorted scores of each fold, with optional positive weights. Weights of equal scores are added."""

    def __init__(self, scores: Sequence[FloatArray], weights: Sequence[FloatArray] | None = None) -> None:
        self.pooled = WeightedRanks(
            np.concatenate(scores), None if weights is None else np.concatenate(weights)
        )
        parts = [_distinct(fold, None if weights is None else weights[f]) for f, fold in enumerate(scores)]
        self.scores = [values for values, _ in parts]
        self.counted = weights is None and sum(map(len, self.scores)) == len(self.pooled)
        self._cumulative = [np.append(0.0, np.cumsum(share)) for _, share in parts]
        self.flat = np.concatenate([np.append(values, np.full(_WINDOW, np.inf)) for values in self.scores])
        self.flat_weights = np.concatenate([np.append(share, np.zeros(_WINDOW)) for _, share in parts])
        sizes = [len(values) + _WINDOW for values in self.scores]
        self.offsets: IntArray = np.cumsum([0, *sizes[:-1]])
        self.shares = np.array([share.sum() for _, share in parts]) / self.pooled.total

    def density_at(self, value: FloatArray) -> FloatArray:
        """Return the density of the pooled scores near ``value``. The estimate uses 4 sqrt(n) scores."""
        values, last = self.pooled.values, len(self.pooled) - 1
        center = values.searchsorted(value)
        near = 2 * math.isqrt(len(values))
        first, final = np.clip(center - near, 0, last), np.clip(center + near, 0, last)
        length = values[final] - values[first]
        weight = self.pooled.cumulative[final] - self.pooled.cumulative[first]
        # If the length is nearly 0, the density is infinite, as for equal scores.
        with np.errstate(over="ignore"):
            density: FloatArray = np.divide(
                weight, length, out=np.full(np.shape(value), np.inf), where=length > 0
            )
        return density

    def count_below(self, values: FloatArray) -> IntArray:
        count = np.empty(values.shape, dtype=np.intp)
        for fold, scores in enumerate(self.scores):
            count[fold] = scores.searchsorted(values[fold])
        return count

    def weight_of(self, count: IntArray) -> FloatArray:
        if self.counted:
            return np.asarray(count.sum(axis=0), dtype=np.float64)
        parts = [weights.take(n_below) for weights, n_below in zip(self._cumulative, count, strict=True)]
        return np.asarray(sum(parts))


def _distinct(scores: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    if weights is None:
        values, counts = np.unique(scores, return_counts=True)
        return values, counts.astype(np.float64)
    values, inverse = np.unique(scores, return_inverse=True)
    return values, np.asarray(np.bincount(inverse, weights, values.size), dtype=np.float64)


def smallest_fold_sums(centers: FloatArray, scores: FoldScores, targets: FloatArray) -> FloatArray:
    """Return the order statistics of the sums of scores and fold predictions, shape (m, L).

    ``centers`` of shape (K, m) are the predictions of each row by the model of each fold. ``targets`` of
    shape (L,) are ranks or cumulative weights. The result is inf if the target exceeds the total weight. The
    function searches for the value below which the weight of the sums reaches the target. The sums below a
    value are counted by a binary search in each fold.
    """
    n_rows = centers.shape[1]
    score_quantile = scores.pooled.quantile(targets)
    sums = np.full((targets.size, n_rows), np.inf)
    levels = np.flatnonzero(np.isfinite(score_quantile))
    target_weight = _least_weight(targets, scores.counted)
    density = scores.density_at(score_quantile)
    # Each pair of row and level is a column. The final sort needs K windows per column.
    step = max(1, _CHUNK_FLOATS // (len(centers) * _WINDOW))
    for start in range(0, levels.size * n_rows, step):
        column = np.arange(start, min(start + step, levels.size * n_rows))
        which, row = np.divmod(column, n_rows)
        level = levels[which]
        brackets = _first_brackets(
            centers[:, row], scores, score_quantile[level], density[level], target_weight[level]
        )
        sums[level, row] = _search(scores, brackets)
    return sums.T


def _least_weight(targets: FloatArray, counted: bool) -> FloatArray:
    """Return the targets minus a tolerance for rounding. The results are positive."""
    weight = targets * (1 - RANK_TOLERANCE)
    return np.maximum(np.ceil(weight), 1.0) if counted else np.maximum(weight, _TINY)


class _Brackets(NamedTuple):
    """Intervals that contain the order statistics of c columns.

    All arrays have the shape (c,) unless stated otherwise.
    """

    centers: FloatArray  # Prediction of the model of each fold, shape (K, c).
    target: FloatArray  # Cumulative weight of the order statistic.
    density: FloatArray  # Density of the scores near the order statistic.
    rounding: FloatArray  # Largest rounding error of the sums.
    start: FloatArray  # Ends of the interval.
    stop: FloatArray
    # Number of scores of each fold whose sums are below `start` and below `stop`, shape (K, c).
    low: IntArray
    high: IntArray
    below: FloatArray  # Weights of these scores, so that below < target <= upto.
    upto: FloatArray
    pivot: FloatArray  # Value at which the sums are counted next.
    weight: FloatArray  # Weight of the sums below the last pivot.

    def take(self, columns: BoolArray) -> _Brackets:
        chosen = np.flatnonzero(columns)
        return _Brackets._make(values[..., chosen] for values in self)


def _first_brackets(
    centers: FloatArray,
    scores: FoldScores,
    score_quantile: FloatArray,
    density: FloatArray,
    target: FloatArray,
) -> _Brackets:
    """Return the first brackets of the bounds.

    A bracket is [r + min center, r + max center], where r is the order statistic of the scores.
    """
    least, most = centers.min(axis=0), centers.max(axis=0)
    size = np.maximum(np.abs(score_quantile), np.maximum(np.abs(least), np.abs(most)))
    rounding = np.maximum(8 * _EPSILON * size, _TINY)
    low = np.zeros(centers.shape, dtype=np.intp)
    high = np.empty(centers.shape, dtype=np.intp)
    high.T[:] = [len(fold) for fold in scores.scores]
    below = np.zeros(target.shape)
    return _Brackets(
        centers,
        target,
        density,
        rounding,
        start=least + score_quantile - rounding,
        stop=most + score_quantile + rounding,
        low=low,
        high=high,
        below=below,
        upto=np.full(target.shape, scores.pooled.total),
        # This pivot is exact if all models have the same prediction.
        pivot=scores.shares @ centers + score_quantile,
        weight=below,
    )


def _search(scores: FoldScores, brackets: _Brackets) -> FloatArray:
    found = np.empty(brackets.target.shape)
    column = np.arange(brackets.target.size)
    for step in itertools.count():
        few = (brackets.high - brackets.low).max(axis=0) <= _WINDOW
        done = few
        if step > _STEP_OF_ENDS:
            # Sums that differ only by rounding count as equal. This test is valid only after the ends are
            # counted. Before, `low` may be 0 although there are sums below the start.
            done = few | (brackets.stop - brackets.start <= 4 * brackets.rounding)
        if done.any():
            found[column[done]] = _sort(scores, brackets, done, few[done])
            if done.all():
                break
            column, brackets = column[~done], brackets.take(~done)
        if step == _STEP_OF_ENDS:
            _count_ends(scores, brackets)
        brackets = _count(scores, brackets._replace(pivot=_next_pivot(brackets, step)))
    return found


def _next_pivot(brackets: _Brackets, step: int) -> FloatArray:
    if step == 0:
        return brackets.pivot
    if step == 1:
        # This is a Newton step of (target - weight) / density. The step is longer by sqrt(|target - weight|)
        # + 4 scores, so that the target is almost always between the last two pivots.
        gap = brackets.target - brackets.weight
        ahead = gap + np.where(gap > 0, 1.0, -1.0) * (np.sqrt(np.abs(gap)) + 4)
        pivot: FloatArray = np.clip(brackets.pivot + ahead / brackets.density, brackets.start, brackets.stop)
        return pivot
    if step % 4 == 3:  # Bisection limits the number of steps if the weights jump.
        share: FloatArray | float = 0.5
    else:
        # This is linear interpolation between the weights at both ends. The result is shifted by sqrt(weight)
        # to alternating sides, so that both ends move.
        weight = brackets.upto - brackets.below
        aim = brackets.target - brackets.below + np.sqrt(weight) * (1 if step % 2 else -1)
        share = np.clip(aim / weight, 0.01, 0.99)
    return brackets.start + share * (brackets.stop - brackets.start)


def _count(scores: FoldScores, brackets: _Brackets) -> _Brackets:
    """Count the sums below the pivot, and replace one end of each interval by the pivot."""
    pivot = brackets.pivot
    count = scores.count_below(pivot - brackets.centers)
    weight = scores.weight_of(count)
    small = weight < brackets.target
    return brackets._replace(
        start=np.where(small, pivot, brackets.start),
        stop=np.where(small, brackets.stop, pivot),
        low=np.where(small, count, brackets.low),
        high=np.where(small, brackets.high, count),
        below=np.where(small, weight, brackets.below),
        upto=np.where(small, brackets.upto, weight),
        weight=weight,
    )


def _count_ends(scores: FoldScores, brackets: _Brackets) -> None:
    """Count the sums below the ends that are not pivots, and change the brackets in place."""
    first = np.flatnonzero(brackets.below == 0)
    brackets.low[:, first] = scores.count_below(brackets.start[first] - brackets.centers[:, first])
    brackets.below[first] = scores.weight_of(brackets.low[:, first])
    last = np.flatnonzero(brackets.upto == scores.pooled.total)
    brackets.high[:, last] = scores.count_below(brackets.stop[last] - brackets.centers[:, last])
    brackets.upto[last] = scores.weight_of(brackets.high[:, last])


def _sort(scores: FoldScores, brackets: _Brackets, columns: BoolArray, few: BoolArray) -> FloatArray:
    """Return the order statistics of finished columns.

    A column is finished if few sums are left, or if its sums are equal.
    """
    low, rest = brackets.low[:, columns], brackets.target[columns] - brackets.below[columns]
    index = (low + scores.offsets[:, np.newaxis]).T[:, :, np.newaxis] + np.arange(_WINDOW)
    sums = scores.flat[index]
    sums += brackets.centers[:, columns].T[:, :, np.newaxis]
    sums = sums.reshape(len(sums), -1)
    if scores.counted:
        sums.sort(axis=1)
        rank = rest.astype(np.intp) - 1
    else:
        order = np.argsort(sums, axis=1)
        weights = np.take_along_axis(scores.flat_weights[index].reshape(sums.shape), order, axis=1)
        sums = np.take_along_axis(sums, order, axis=1)
        rank = (np.cumsum(weights, axis=1) < rest[:, np.newaxis]).sum(axis=1)
    # If the sums of a column are equal, every sum is the result, even if the window ends before the rank.
    rank = np.where(few, np.minimum(rank, sums.shape[1] - 1), 0)
    return np.asarray(sums[np.arange(len(sums)), rank])


class SortedScores:
    """Sorted scores with optional positive weights.

    The number ``order[j]`` is the row of the j-th smallest score.
    """

    def __init__(self, scores: FloatArray, weights: FloatArray | None = None) -> None:
        self.order: IntArray = np.argsort(scores, kind="stable")
        self.ranks = WeightedRanks(scores, weights)

    def window(self, targets: FloatArray, lowest: FloatArray, highest: FloatArray) -> slice:
        quantile = self.ranks.quantile(targets)
        quantile = quantile[np.isfinite(quantile)]
        if not quantile.size:
            return slice(0, 0)
        spread = float((highest - lowest).max())
        size = max(float(np.abs(part).max()) for part in (quantile, lowest, highest))
        spread += 1e-12 * size  # Rounded means of predictions may be outside the range of the predictions.
        start = self.ranks.values.searchsorted(quantile.min() - spread)
        stop = self.ranks.values.searchsorted(quantile.max() + spread, side="right")
        return slice(int(start), int(stop))

    def smallest(self, sums: FloatArray, window: slice, targets: FloatArray) -> FloatArray:
        """Return the order statistics of the sums of the scores in the window, shape (r, L)."""
        weights = self.ranks.weights
        target_weight = _least_weight(targets, weights is None)
        smallest = np.full((len(sums), targets.size), np.inf)
        within = np.flatnonzero(np.isfinite(self.ranks.quantile(targets)))
        if not within.size:
            return smallest
        if weights is None:
            # The sums of all scores before the window are smaller than the order statistics.
            rank = target_weight[within].astype(np.intp) - 1 - window.start
            if (rank == rank[0]).all():
                sums.partition(rank[0], axis=1)
            else:  # One sort is faster than a partition by several ranks.
                sums.sort(axis=1)
            smallest[:, within] = sums[:, rank]
            return smallest
        order = np.argsort(sums, axis=1)
        before = float(self.ranks.weight_of(np.asarray(window.start)))
        cumulative = before + np.cumsum(weights[window][order], axis=1)
        for level in within:
            # Because of rounding, the last cumulative weight may be slightly below the target.
            rank = np.minimum((cumulative < target_weight[level]).sum(axis=1), sums.shape[1] - 1)
            chosen = np.take_along_axis(order, rank[:, np.newaxis], axis=1)
            smallest[:, level] = np.take_along_axis(sums, chosen, axis=1)[:, 0]
        return smallest
