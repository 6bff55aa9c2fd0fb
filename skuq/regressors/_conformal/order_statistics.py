"""Order statistics of sums, a prediction plus a score, without the matrix of all sums.

A bound of CV+ or of the jackknife+ is the k-th smallest of n sums, and each test row has sums of its
own. Both kernels start from one fact: with r the k-th smallest score, the k-th smallest sum lies
between r plus the smallest and r plus the largest of the row's predictions. Models that have seen
nearly the same rows predict nearly the same, so that hardly any sum is left to look at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.distributions._numerics.ranks import RANK_TOLERANCE, WeightedRanks

__all__ = ["FoldScores", "SortedScores", "smallest_fold_sums"]

_WINDOW = 16
"""Sums of one fold that are sorted rather than searched any further."""

_CHUNK_FLOATS = 1 << 18
"""Sums held at a time, so that they stay in the cache."""

_EPSILON = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)


class FoldScores:
    """The scores of each fold, sorted, to which one prediction a fold is added.

    Parameters
    ----------
    scores : sequence of ndarray
        The scores of each fold, in any order; not all of them empty.
    weights : sequence of ndarray, default=None
        Positive; how often each score counts. Once if None.

    Attributes
    ----------
    scores : list of ndarray
        Sorted; scores that are equal within a fold are there once.
    pooled : WeightedRanks
        The scores of all folds.
    counted : bool
        Whether ranks are whole numbers: no weights, and no ties within a fold.
    shares : ndarray of shape (K,)
        Weight of each fold, as a share of all.
    flat, flat_weights, offsets : ndarray
        All folds end to end, each followed by a window of infinities without weight.
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
        """Return the weight of the pooled scores near ``value`` over the length they take up."""
        values, last = self.pooled.values, len(self.pooled) - 1
        place = values.searchsorted(value)
        near = 2 * math.isqrt(len(values))
        first, final = np.clip(place - near, 0, last), np.clip(place + near, 0, last)
        length = values[final] - values[first]
        weight = self.pooled.cumulative[final] - self.pooled.cumulative[first]
        density: FloatArray = np.divide(
            weight, length, out=np.full(np.shape(value), np.inf), where=length > 0
        )
        return density

    def count_below(self, values: FloatArray) -> IntArray:
        """Return how many scores of each fold are below ``values``, both of shape (K, c)."""
        count = np.empty(values.shape, dtype=np.intp)
        for fold, scores in enumerate(self.scores):
            count[fold] = scores.searchsorted(values[fold])
        return count

    def weight_of(self, count: IntArray) -> FloatArray:
        """Return the weight of the ``count`` smallest scores of each fold, summed over folds, (c,)."""
        if self.counted:
            return np.asarray(count.sum(axis=0), dtype=np.float64)
        parts = [known.take(found) for known, found in zip(self._cumulative, count, strict=True)]
        return np.asarray(sum(parts))


def _distinct(scores: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the distinct scores, sorted, and the weight of each."""
    if weights is None:
        values, counts = np.unique(scores, return_counts=True)
        return values, counts.astype(np.float64)
    values, inverse = np.unique(scores, return_inverse=True)
    return values, np.asarray(np.bincount(inverse, weights, values.size), dtype=np.float64)


def smallest_fold_sums(centres: FloatArray, scores: FoldScores, targets: FloatArray) -> FloatArray:
    """Return for each row the smallest sum up to which the sums weigh at least each target.

    Parameters
    ----------
    centres : ndarray of shape (K, m)
        What the model of each fold predicts for each row.
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
    Sums below a value are counted by a binary search in each fold's scores. Pivots, placed where
    the counts at both ends of the bracket say, close in on the target from both sides until few
    sums are left, which are sorted. O((n + m K L) log n) time, O(n + m (K + L)) memory.
    """
    n_rows = centres.shape[1]
    reached = scores.pooled.quantile(targets)
    sums = np.full((targets.size, n_rows), np.inf)
    levels = np.flatnonzero(np.isfinite(reached))
    wanted = _least_weight(targets, scores.counted)
    density = scores.density_at(reached)
    step = max(1, _CHUNK_FLOATS // (len(centres) * _WINDOW))
    for start in range(0, levels.size * n_rows, step):
        item = np.arange(start, min(start + step, levels.size * n_rows))
        which, row = np.divmod(item, n_rows)
        level = levels[which]
        search = _Search(centres[:, row], scores, reached[level], density[level], wanted[level])
        sums[level, row] = search.run()
    return sums.T


def _least_weight(targets: FloatArray, counted: bool) -> FloatArray:
    """Return the weight to be reached, rounding forgiven, and never nothing: the lowest rank is the first."""
    weight = targets * (1 - RANK_TOLERANCE)
    return np.maximum(np.ceil(weight), 1.0) if counted else np.maximum(weight, _TINY)


class _Search:
    """Brackets around order statistics, one a column, that pivots narrow.

    Scores in front of ``low`` (K, c), which weigh ``below``, are known to be too small; those from
    ``high`` on are known to be too large, and the scores in front of them weigh ``upto``.
    """

    def __init__(
        self,
        centres: FloatArray,
        scores: FoldScores,
        reached: FloatArray,
        density: FloatArray,
        wanted: FloatArray,
    ) -> None:
        self.scores = scores
        self.centres, self.wanted, self.density = centres, wanted, density
        least, most = centres.min(axis=0), centres.max(axis=0)
        size = np.maximum(np.abs(reached), np.maximum(np.abs(least), np.abs(most)))
        self.rounding = np.maximum(8 * _EPSILON * size, _TINY)
        self.start, self.stop = least + reached - self.rounding, most + reached + self.rounding
        self.pivot = scores.shares @ centres + reached
        self.low = np.zeros(centres.shape, dtype=np.intp)
        self.high = np.empty(centres.shape, dtype=np.intp)
        self.high.T[:] = [len(fold) for fold in scores.scores]
        self.below, self.upto = np.zeros(wanted.shape), np.full(wanted.shape, scores.pooled.total)
        self.weight = self.below

    def run(self) -> FloatArray:
        """Return the order statistics."""
        found = np.empty(self.wanted.shape)
        column = np.arange(self.wanted.size)
        step = 0
        while True:
            few = (self.high - self.low).max(axis=0) <= _WINDOW
            # Nothing is known of the scores in front of an end that has not been counted yet.
            done = few if step < 3 else few | (self.stop - self.start <= 4 * self.rounding)
            if done.any():
                found[column[done]] = self._sort(done, few[done])
                if done.all():
                    return found
                column = column[~done]
                self._keep(~done)
            self._place_pivot(step)
            self._count()
            step += 1

    def _keep(self, columns: BoolArray) -> None:
        """Forget the other columns."""
        rows = np.flatnonzero(columns)
        for name in ("centres", "low", "high"):
            setattr(self, name, getattr(self, name)[:, rows])
        for name in ("wanted", "density", "rounding", "start", "stop", "pivot", "below", "upto", "weight"):
            setattr(self, name, getattr(self, name)[rows])

    def _place_pivot(self, step: int) -> None:
        """Choose where the sums are counted next; the first pivot is the order statistic of equal models."""
        if step == 1:
            # where the density of the scores says, and a little beyond, to have it between two pivots
            gap = self.wanted - self.weight
            ahead = gap + np.where(gap > 0, 1.0, -1.0) * (np.sqrt(np.abs(gap)) + 4)
            self.pivot = np.clip(self.pivot + ahead / self.density, self.start, self.stop)
        elif step > 1:
            if step == 2:
                self._count_ends()
            # A little to one side of where the target should be, then to the other; and halved now and
            # then, so that steps in the weights cannot hold up the search.
            weight = self.upto - self.below
            aim = self.wanted - self.below + np.sqrt(weight) * (1 if step % 2 else -1)
            share = np.clip(aim / weight, 0.01, 0.99) if step % 4 < 3 else 0.5
            self.pivot = self.start + share * (self.stop - self.start)

    def _count(self) -> None:
        """Count the sums below the pivot, which becomes the end of the bracket on its side."""
        count = self.scores.count_below(self.pivot - self.centres)
        self.weight = weight = self.scores.weight_of(count)
        small = weight < self.wanted
        self.start, self.stop = (
            np.where(small, self.pivot, self.start),
            np.where(small, self.stop, self.pivot),
        )
        self.low, self.high = np.where(small, count, self.low), np.where(small, self.high, count)
        self.below, self.upto = np.where(small, weight, self.below), np.where(small, self.upto, weight)

    def _count_ends(self) -> None:
        """Count the sums below the ends that no pivot has replaced."""
        first = np.flatnonzero(self.below == 0)
        last = np.flatnonzero(self.upto == self.scores.pooled.total)
        self.low[:, first] = self.scores.count_below(self.start[first] - self.centres[:, first])
        self.below[first] = self.scores.weight_of(self.low[:, first])
        self.high[:, last] = self.scores.count_below(self.stop[last] - self.centres[:, last])
        self.upto[last] = self.scores.weight_of(self.high[:, last])

    def _sort(self, columns: BoolArray, few: BoolArray) -> FloatArray:
        """Return the order statistics of columns with few sums left, or with sums that are all the same.

        A window that reaches beyond ``high`` does no harm: the sums there are too large to be picked.
        """
        low, wanted = self.low[:, columns], self.wanted[columns] - self.below[columns]
        index = (low + self.scores.offsets[:, np.newaxis]).T[:, :, np.newaxis] + np.arange(_WINDOW)
        sums = self.scores.flat[index]
        sums += self.centres[:, columns].T[:, :, np.newaxis]
        sums = sums.reshape(len(sums), -1)
        if self.scores.counted:
            sums.sort(axis=1)
            rank = wanted.astype(np.intp) - 1
        else:
            order = np.argsort(sums, axis=1)
            weights = np.take_along_axis(self.scores.flat_weights[index].reshape(sums.shape), order, axis=1)
            sums = np.take_along_axis(sums, order, axis=1)
            rank = (np.cumsum(weights, axis=1) < wanted[:, np.newaxis]).sum(axis=1)
        rank = np.where(few, np.minimum(rank, sums.shape[1] - 1), 0)
        return np.asarray(sums[np.arange(len(sums)), rank])


class SortedScores:
    """Scores in ascending order, to each of which every test row adds a prediction of its own.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        In any order.
    weights : ndarray of shape (n,), default=None
        Positive; how often each score counts. Once if None.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Which score is the j-th smallest.
    ranks : WeightedRanks
        The scores, sorted.
    """

    def __init__(self, scores: FloatArray, weights: FloatArray | None = None) -> None:
        self.order: IntArray = np.argsort(scores, kind="stable")
        self.ranks = WeightedRanks(scores, weights)

    def window(self, targets: FloatArray, lowest: FloatArray, highest: FloatArray) -> slice:
        """Return the places of the scores whose sums may be the order statistics.

        Parameters
        ----------
        targets : ndarray of shape (L,)
            Ranks, or weights.
        lowest, highest : ndarray of shape (r,)
            Between which the predictions of each row lie.
        """
        reached = self.ranks.quantile(targets)
        reached = reached[np.isfinite(reached)]
        if not reached.size:
            return slice(0, 0)
        spread = float((highest - lowest).max())
        size = max(float(np.abs(part).max()) for part in (reached, lowest, highest))
        spread += 1e-12 * size  # means of predictions, as rounded, may lie outside of them
        start = self.ranks.values.searchsorted(reached.min() - spread)
        stop = self.ranks.values.searchsorted(reached.max() + spread, side="right")
        return slice(int(start), int(stop))

    def smallest(self, sums: FloatArray, window: slice, targets: FloatArray) -> FloatArray:
        """Return for each row the smallest sum up to which the sums weigh at least each target.

        Parameters
        ----------
        sums : ndarray of shape (r, s)
            Of the scores in the window; overwritten.
        window : slice
            As `window` gave it, of length s.
        targets : ndarray of shape (L,)
            Ranks, or weights.

        Returns
        -------
        smallest : ndarray of shape (r, L)
            +inf where the target exceeds the total weight.
        """
        weights = self.ranks.weights
        wanted = _least_weight(targets, weights is None)
        smallest = np.full((len(sums), targets.size), np.inf)
        within = np.flatnonzero(np.isfinite(self.ranks.quantile(targets)))
        if not within.size:
            return smallest
        if weights is None:
            rank = wanted[within].astype(np.intp) - 1 - window.start
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
            place = np.minimum((cumulative < wanted[level]).sum(axis=1), sums.shape[1] - 1)
            chosen = np.take_along_axis(order, place[:, np.newaxis], axis=1)
            smallest[:, level] = np.take_along_axis(sums, chosen, axis=1)[:, 0]
        return smallest
