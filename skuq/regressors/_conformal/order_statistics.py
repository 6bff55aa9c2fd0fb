"""Order statistics of sums, a prediction plus a score, without the matrix of all sums.

A bound of CV+ or of the jackknife+ is the k-th smallest of the n sums mu_i(x) + R_i, where mu_i is the
model fitted without row i and R_i the score of the row, and each test row x has its own sums. Both kernels
use that, with r the k-th smallest score, the k-th smallest sum lies between r plus the smallest and r plus
the largest of the predictions mu_i(x). Models fitted on nearly the same rows predict nearly the same, so
that few sums lie there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.distributions._numerics.ranks import RANK_TOLERANCE, WeightedRanks

__all__ = ["FoldScores", "SortedScores", "smallest_fold_sums"]

_WINDOW = 16
"""Number of sums of one fold from which on they are sorted rather than searched any further."""

_STEP_OF_ENDS = 2
"""Step of the search at which the ends of the brackets are counted: after one pivot on either side."""

_CHUNK_FLOATS = 1 << 18
"""Number of sums held at a time: 2 MB, so that they stay in the cache."""

_EPSILON = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)


class FoldScores:
    """The scores of each fold, sorted, to which one prediction a fold is added.

    Parameters
    ----------
    scores : sequence of ndarray
        Scores of each fold, in any order; not all of them empty.
    weights : sequence of ndarray, default=None
        Positive weights of the scores, all 1 if None.

    Attributes
    ----------
    scores : list of ndarray
        Sorted; equal scores of a fold are one score with the sum of their weights, so that brackets of few
        sums are reached with many ties too.
    pooled : WeightedRanks
        Scores of all folds.
    counted : bool
        Whether weights are counts: no weights, and no ties within a fold.
    shares : ndarray of shape (K,)
        Weight of each fold, as a share of all.
    flat, flat_weights, offsets : ndarray
        All folds end to end, each followed by a window of infinities without weight, so that every window
        of a fold is within the array.
    """

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
        """Return the weight per length of the pooled scores near ``value``: 2 sqrt(n) scores to each side."""
        values, last = self.pooled.values, len(self.pooled) - 1
        centre = values.searchsorted(value)
        near = 2 * math.isqrt(len(values))
        first, final = np.clip(centre - near, 0, last), np.clip(centre + near, 0, last)
        length = values[final] - values[first]
        weight = self.pooled.cumulative[final] - self.pooled.cumulative[first]
        with np.errstate(over="ignore"):  # a length as small as 1e-310: infinite, as of equal scores
            density: FloatArray = np.divide(
                weight, length, out=np.full(np.shape(value), np.inf), where=length > 0
            )
        return density

    def count_below(self, values: FloatArray) -> IntArray:
        """Return the number of scores of each fold below ``values``, both of shape (K, c)."""
        count = np.empty(values.shape, dtype=np.intp)
        for fold, scores in enumerate(self.scores):
            count[fold] = scores.searchsorted(values[fold])
        return count

    def weight_of(self, count: IntArray) -> FloatArray:
        """Return the weight of the ``count`` smallest scores of each fold, summed over folds, (c,)."""
        if self.counted:
            return np.asarray(count.sum(axis=0), dtype=np.float64)
        parts = [weights.take(n_below) for weights, n_below in zip(self._cumulative, count, strict=True)]
        return np.asarray(sum(parts))


def _distinct(scores: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the distinct scores, sorted, and the weight of each."""
    if weights is None:
        values, counts = np.unique(scores, return_counts=True)
        return values, counts.astype(np.float64)
    values, inverse = np.unique(scores, return_inverse=True)
    return values, np.asarray(np.bincount(inverse, weights, values.size), dtype=np.float64)


def smallest_fold_sums(centres: FloatArray, scores: FoldScores, targets: FloatArray) -> FloatArray:
    """Return for each row the smallest sum up to which the sums have at least each target weight.

    Parameters
    ----------
    centres : ndarray of shape (K, m)
        Prediction of each row by the model of each fold.
    scores : FoldScores
        Added to the prediction of their fold.
    targets : ndarray of shape (L,)
        Ranks, or weights.

    Returns
    -------
    sums : ndarray of shape (m, L)
        Each is one of the row's sums, to rounding; +inf where the target exceeds the total weight.

    Notes
    -----
    Sums below a value are counted by a binary search in each fold's scores: score < value - centre.
    Pivots, interpolated between the counts at both ends of a bracket, close in on the target from both
    sides until few sums are left, which are sorted. O((n + m K L) log n) time, O(n + m (K + L)) memory.
    """
    n_rows = centres.shape[1]
    score_quantile = scores.pooled.quantile(targets)
    sums = np.full((targets.size, n_rows), np.inf)
    levels = np.flatnonzero(np.isfinite(score_quantile))
    target_weight = _least_weight(targets, scores.counted)
    density = scores.density_at(score_quantile)
    # every pair of row and level is a column of its own; a chunk of columns ends with K windows each
    step = max(1, _CHUNK_FLOATS // (len(centres) * _WINDOW))
    for start in range(0, levels.size * n_rows, step):
        column = np.arange(start, min(start + step, levels.size * n_rows))
        which, row = np.divmod(column, n_rows)
        level = levels[which]
        brackets = _first_brackets(
            centres[:, row], scores, score_quantile[level], density[level], target_weight[level]
        )
        sums[level, row] = _search(scores, brackets)
    return sums.T


def _least_weight(targets: FloatArray, counted: bool) -> FloatArray:
    """Return the weight that the sums must have, less what rounding may have added to the target.

    It is positive: rank 0 is taken as the first, so that the smallest sum is found and not none.
    """
    weight = targets * (1 - RANK_TOLERANCE)
    return np.maximum(np.ceil(weight), 1.0) if counted else np.maximum(weight, _TINY)


class _Brackets(NamedTuple):
    """Brackets around order statistics, one in each of c columns, for K folds.

    Attributes
    ----------
    centres : ndarray of shape (K, c)
        Prediction of the model of each fold.
    target : ndarray of shape (c,)
        Weight of the sums up to the order statistic.
    density : ndarray of shape (c,)
        Weight of the scores per length near the order statistic.
    rounding : ndarray of shape (c,)
        Bound of the rounding errors of the sums.
    start, stop : ndarray of shape (c,)
        Ends of the bracket; the order statistic is in between.
    low, high : ndarray of shape (K, c)
        Number of scores of each fold whose sums are below ``start`` and below ``stop``.
    below, upto : ndarray of shape (c,)
        Weights of these scores; below < target <= upto.
    pivot : ndarray of shape (c,)
        Value at which the sums are counted next.
    weight : ndarray of shape (c,)
        Weight of the sums below the last pivot.
    """

    centres: FloatArray
    target: FloatArray
    density: FloatArray
    rounding: FloatArray
    start: FloatArray
    stop: FloatArray
    low: IntArray
    high: IntArray
    below: FloatArray
    upto: FloatArray
    pivot: FloatArray
    weight: FloatArray

    def take(self, columns: BoolArray) -> _Brackets:
        """Return some of the columns."""
        chosen = np.flatnonzero(columns)
        return _Brackets._make(values[..., chosen] for values in self)


def _first_brackets(
    centres: FloatArray,
    scores: FoldScores,
    score_quantile: FloatArray,
    density: FloatArray,
    target: FloatArray,
) -> _Brackets:
    """Return brackets that surely hold the order statistics.

    With r the same order statistic of the scores alone, that of the sums lies in [r + min c_f, r + max c_f],
    c_f the centre of fold f: each sum is at least its score plus the smallest centre, and at most its score
    plus the largest.
    """
    least, most = centres.min(axis=0), centres.max(axis=0)
    size = np.maximum(np.abs(score_quantile), np.maximum(np.abs(least), np.abs(most)))
    rounding = np.maximum(8 * _EPSILON * size, _TINY)
    low = np.zeros(centres.shape, dtype=np.intp)
    high = np.empty(centres.shape, dtype=np.intp)
    high.T[:] = [len(fold) for fold in scores.scores]
    below = np.zeros(target.shape)
    return _Brackets(
        centres,
        target,
        density,
        rounding,
        start=least + score_quantile - rounding,
        stop=most + score_quantile + rounding,
        low=low,
        high=high,
        below=below,
        upto=np.full(target.shape, scores.pooled.total),
        pivot=scores.shares @ centres + score_quantile,  # exact where all models predict the same
        weight=below,
    )


def _search(scores: FoldScores, brackets: _Brackets) -> FloatArray:
    """Return the order statistic of each column."""
    found = np.empty(brackets.target.shape)
    column = np.arange(brackets.target.size)
    for step in itertools.count():
        few = (brackets.high - brackets.low).max(axis=0) <= _WINDOW
        done = few
        if step > _STEP_OF_ENDS:
            # Sums that differ by rounding alone are one value. Before the ends are counted, `low` may be 0
            # where many sums lie below the start, and the first sum would not be this value.
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
    """Return where the sums are counted next."""
    if step == 0:
        return brackets.pivot
    if step == 1:
        # A Newton step, by (target - weight) / density, and by sqrt(|target - weight|) + 4 scores further:
        # so many more or fewer may lie there by chance, and the target should be between the two pivots.
        gap = brackets.target - brackets.weight
        ahead = gap + np.where(gap > 0, 1.0, -1.0) * (np.sqrt(np.abs(gap)) + 4)
        pivot: FloatArray = np.clip(brackets.pivot + ahead / brackets.density, brackets.start, brackets.stop)
        return pivot
    if step % 4 == 3:  # bisection now and then, so that steps in the weights cannot hold up the search
        share: FloatArray | float = 0.5
    else:
        # Linear interpolation between the weights at both ends, by sqrt(weight) to one side and then to the
        # other, so that both ends move.
        weight = brackets.upto - brackets.below
        aim = brackets.target - brackets.below + np.sqrt(weight) * (1 if step % 2 else -1)
        share = np.clip(aim / weight, 0.01, 0.99)
    return brackets.start + share * (brackets.stop - brackets.start)


def _count(scores: FoldScores, brackets: _Brackets) -> _Brackets:
    """Count the sums below the pivot, which becomes the end of the bracket on its side."""
    pivot = brackets.pivot
    count = scores.count_below(pivot - brackets.centres)
    weight = scores.weight_of(count)
    small = weight < brackets.target  # then the order statistic is not below the pivot
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
    """Count the sums below the ends that no pivot has replaced, in place.

    Two pivots mostly enclose the target, so that these ends, which cost as much as a pivot, are few.
    """
    first = np.flatnonzero(brackets.below == 0)
    brackets.low[:, first] = scores.count_below(brackets.start[first] - brackets.centres[:, first])
    brackets.below[first] = scores.weight_of(brackets.low[:, first])
    last = np.flatnonzero(brackets.upto == scores.pooled.total)
    brackets.high[:, last] = scores.count_below(brackets.stop[last] - brackets.centres[:, last])
    brackets.upto[last] = scores.weight_of(brackets.high[:, last])


def _sort(scores: FoldScores, brackets: _Brackets, columns: BoolArray, few: BoolArray) -> FloatArray:
    """Return the order statistics of columns with few sums left, or with sums that are all the same.

    The sums from ``low`` on, a window of each fold, are sorted; the order statistic is the first up to which
    they have the rest of the target weight, target - below. A window that extends beyond ``high`` does no
    harm: the sums there are larger than the order statistic.
    """
    low, rest = brackets.low[:, columns], brackets.target[columns] - brackets.below[columns]
    index = (low + scores.offsets[:, np.newaxis]).T[:, :, np.newaxis] + np.arange(_WINDOW)
    sums = scores.flat[index]
    sums += brackets.centres[:, columns].T[:, :, np.newaxis]
    sums = sums.reshape(len(sums), -1)
    if scores.counted:
        sums.sort(axis=1)
        rank = rest.astype(np.intp) - 1
    else:
        order = np.argsort(sums, axis=1)
        weights = np.take_along_axis(scores.flat_weights[index].reshape(sums.shape), order, axis=1)
        sums = np.take_along_axis(sums, order, axis=1)
        rank = (np.cumsum(weights, axis=1) < rest[:, np.newaxis]).sum(axis=1)
    # where not few, the windows may end before the rank, but all sums of the bracket are the same
    rank = np.where(few, np.minimum(rank, sums.shape[1] - 1), 0)
    return np.asarray(sums[np.arange(len(sums)), rank])


class SortedScores:
    """Scores in ascending order, to each of which every test row adds its own prediction.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        In any order.
    weights : ndarray of shape (n,), default=None
        Positive weights of the scores, all 1 if None.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Row of the j-th smallest score.
    ranks : WeightedRanks
        Sorted scores.
    """

    def __init__(self, scores: FloatArray, weights: FloatArray | None = None) -> None:
        self.order: IntArray = np.argsort(scores, kind="stable")
        self.ranks = WeightedRanks(scores, weights)

    def window(self, targets: FloatArray, lowest: FloatArray, highest: FloatArray) -> slice:
        """Return the positions of the scores whose sums may be the order statistics.

        With r the order statistic of the scores and d the largest difference between predictions of a row,
        a score below r - d has a smaller sum than r has with any prediction, and one above r + d a larger.

        Parameters
        ----------
        targets : ndarray of shape (L,)
            Ranks, or weights.
        lowest, highest : ndarray of shape (r,)
            Bounds of the predictions of each row.
        """
        quantile = self.ranks.quantile(targets)
        quantile = quantile[np.isfinite(quantile)]
        if not quantile.size:
            return slice(0, 0)
        spread = float((highest - lowest).max())
        size = max(float(np.abs(part).max()) for part in (quantile, lowest, highest))
        spread += 1e-12 * size  # means of predictions, as rounded, may lie outside of them
        start = self.ranks.values.searchsorted(quantile.min() - spread)
        stop = self.ranks.values.searchsorted(quantile.max() + spread, side="right")
        return slice(int(start), int(stop))

    def smallest(self, sums: FloatArray, window: slice, targets: FloatArray) -> FloatArray:
        """Return for each row the smallest sum up to which the sums have at least each target weight.

        Parameters
        ----------
        sums : ndarray of shape (r, s)
            Sums of the scores in the window; overwritten.
        window : slice
            Positions of the scores, from `window`, of length s.
        targets : ndarray of shape (L,)
            Ranks, or weights.

        Returns
        -------
        smallest : ndarray of shape (r, L)
            +inf where the target exceeds the total weight.
        """
        weights = self.ranks.weights
        target_weight = _least_weight(targets, weights is None)
        smallest = np.full((len(sums), targets.size), np.inf)
        within = np.flatnonzero(np.isfinite(self.ranks.quantile(targets)))
        if not within.size:
            return smallest
        if weights is None:
            # all sums of the scores before the window are smaller than those in it that matter
            rank = target_weight[within].astype(np.intp) - 1 - window.start
            if (rank == rank[0]).all():
                sums.partition(rank[0], axis=1)
            else:  # one sort is faster than a partition by several ranks
                sums.sort(axis=1)
            smallest[:, within] = sums[:, rank]
            return smallest
        order = np.argsort(sums, axis=1)
        before = float(self.ranks.weight_of(np.asarray(window.start)))
        cumulative = before + np.cumsum(weights[window][order], axis=1)
        for level in within:
            # the minimum is for a cumulative weight that rounding, in another order, left below the total
            rank = np.minimum((cumulative < target_weight[level]).sum(axis=1), sums.shape[1] - 1)
            chosen = np.take_along_axis(order, rank[:, np.newaxis], axis=1)
            smallest[:, level] = np.take_along_axis(sums, chosen, axis=1)[:, 0]
        return smallest
