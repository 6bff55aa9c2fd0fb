"""Cross-conformal prediction: order statistics of the sums of predictions and scores.

The order statistics need no matrix of all sums. Let mu_i be the model that is fitted without row i, and R_i
the score of row i. For each test row x, a bound of CV+ or of the jackknife+ is the k-th smallest of the n
sums mu_i(x) + R_i. Let r be the k-th smallest score. The bound then lies between r + min mu_i(x) and r + max
mu_i(x). Few sums lie in this interval, because models of nearly the same rows have similar predictions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from skuq._compat import count_rows, run_parallel, safe_indexing
from skuq._fitting.cross_fit import CrossFit, Split, point_predict, predict_member
from skuq._fitting.training_data import TrainingData
from skuq._numeric import RANK_TOLERANCE, WeightedRanks, score_level
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.conformal._base import FoldModel, check_tested_weight, warn_of_few_rows
from skuq.distributions import Quantiles

_WINDOW = 16
"""The search ends if at most this number of sums per fold is left. The remaining sums are then sorted."""

_CHUNK_FLOATS = 1 << 18
"""Maximum number of sums in memory at the same time (2 MB). The sums fit into the cache."""

_EPSILON = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)


class FoldScores:
    """Sorted scores of each fold, with positive weights. Weights of equal scores are added."""

    def __init__(self, scores: Sequence[FloatArray], weights: Sequence[FloatArray]) -> None:
        self.pooled = WeightedRanks(np.concatenate(scores), np.concatenate(weights))
        parts = []
        for fold, weight in zip(scores, weights, strict=True):
            values, inverse = np.unique(fold, return_inverse=True)
            parts.append((values, np.bincount(inverse, weight, values.size).astype(np.float64)))
        self.scores = [values for values, _ in parts]
        self.counted = self.pooled.weights is None and sum(map(len, self.scores)) == len(self.pooled)
        self._cumulative = [np.append(0.0, np.cumsum(share)) for _, share in parts]
        self.flat = np.concatenate([np.append(values, np.full(_WINDOW, np.inf)) for values in self.scores])
        self.flat_weights = np.concatenate([np.append(share, np.zeros(_WINDOW)) for _, share in parts])
        sizes = [len(values) + _WINDOW for values in self.scores]
        self.offsets: IntArray = np.cumsum([0, *sizes[:-1]])

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
    # Each pair of row and level is a column. The final sort needs K windows per column.
    step = max(1, _CHUNK_FLOATS // (len(centers) * _WINDOW))
    for start in range(0, levels.size * n_rows, step):
        column = np.arange(start, min(start + step, levels.size * n_rows))
        which, row = np.divmod(column, n_rows)
        level = levels[which]
        sums[level, row] = _search(scores, centers[:, row], score_quantile[level], target_weight[level])
    return sums.T


def _least_weight(targets: FloatArray, counted: bool) -> FloatArray:
    """Return the targets minus a tolerance for rounding. The results are positive."""
    weight = targets * (1 - RANK_TOLERANCE)
    return np.maximum(np.ceil(weight), 1.0) if counted else np.maximum(weight, _TINY)


def _search(
    scores: FoldScores, centers: FloatArray, score_quantile: FloatArray, target: FloatArray
) -> FloatArray:
    """Return the order statistics of c columns by bisection.

    ``centers`` has the shape (K, c). The first bracket of a column is [r + min center, r + max center], where
    r is the order statistic of the scores.
    """
    least, most = centers.min(axis=0), centers.max(axis=0)
    size = np.maximum(np.abs(score_quantile), np.maximum(np.abs(least), np.abs(most)))
    rounding = np.maximum(8 * _EPSILON * size, _TINY)
    start, stop = least + score_quantile - rounding, most + score_quantile + rounding
    # Number of scores of each fold whose sums are below `start` and below `stop`, shape (K, c).
    low, high = scores.count_below(start - centers), scores.count_below(stop - centers)
    found, column = np.empty(target.shape), np.arange(target.size)
    while column.size:
        few = (high - low).max(axis=0) <= _WINDOW
        done = few | (stop - start <= 4 * rounding)  # Sums that differ only by rounding count as equal.
        if done.any():
            found[column[done]] = _sort(scores, centers[:, done], low[:, done], target[done], few[done])
            column, centers = column[~done], centers[:, ~done]
            low, high = low[:, ~done], high[:, ~done]
            target, rounding, start, stop = (part[~done] for part in (target, rounding, start, stop))
        pivot = start + (stop - start) / 2
        count = scores.count_below(pivot - centers)
        small = scores.weight_of(count) < target
        start, stop = np.where(small, pivot, start), np.where(small, stop, pivot)
        low, high = np.where(small, count, low), np.where(small, high, count)
    return found


def _sort(
    scores: FoldScores, centers: FloatArray, low: IntArray, target: FloatArray, few: BoolArray
) -> FloatArray:
    """Return the order statistics of columns with few sums in their bracket, or with equal sums.

    The first ``low`` scores of each fold are below the bracket.
    """
    rest = target - scores.weight_of(low)
    index = (low + scores.offsets[:, np.newaxis]).T[:, :, np.newaxis] + np.arange(_WINDOW)
    sums = scores.flat[index]
    sums += centers.T[:, :, np.newaxis]
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
    """Sorted scores with positive weights.

    The number ``order[j]`` is the row of the j-th smallest score.
    """

    def __init__(self, scores: FloatArray, weights: FloatArray) -> None:
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


@dataclass(frozen=True, eq=False)
class FoldBounds:
    """Bounds for many calibration rows per model.

    The scores of the lower and upper bounds are ``low`` and ``high``.
    """

    low: FoldScores
    high: FoldScores

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
        # The k-th largest mu - R is minus the k-th smallest -mu + R.
        lower = -smallest_fold_sums(-predictions, self.low, targets)
        return np.stack([lower, smallest_fold_sums(predictions, self.high, targets)], axis=1)


class Centring(Protocol):
    """Combined prediction of the models that are fitted without a calibration row."""

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return the combined predictions of r new rows for s calibration rows, shape (r, s)."""


@dataclass(frozen=True, eq=False)
class ModelOfFold:
    """Prediction by the model of one fold. The array ``model`` contains the fold of each calibration row."""

    model: IntArray

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        return predictions[self.model[rows]].T


@dataclass(frozen=True, eq=False)
class LeftOutMean:
    """Mean prediction of the models that are fitted without a calibration row.

    The mask ``left_out`` has the shape (M, n).
    """

    left_out: BoolArray

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        left_out = self.left_out[:, rows]
        # All means over subsets of the models are one matrix product.
        return np.asarray(predictions.T @ (left_out / left_out.sum(axis=0)))


@dataclass(frozen=True, eq=False)
class LeftOutMedian:
    """Median prediction of the models that are fitted without a calibration row.

    The mask ``left_out`` has the shape (M, n).
    """

    left_out: BoolArray

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        order = np.argsort(predictions, axis=0)
        ordered = np.take_along_axis(predictions, order, axis=0).T
        n_models = len(predictions)
        # Each step reads and writes the counts of all pairs, so small integer types are faster.
        small = np.uint8 if n_models < np.iinfo(np.uint8).max else np.uint32
        left_out = self.left_out[:, rows].astype(small)
        size = left_out.sum(axis=0, dtype=small)
        shape = (predictions.shape[1], len(rows))
        count, lower, upper = (np.zeros(shape, dtype=small) for _ in range(3))
        for model in order:  # `model` contains, for each new row, the model with the next larger prediction.
            count += left_out[model]
            lower += count < (size + 1) // 2
            upper += count < size // 2 + 1
        first = np.take_along_axis(ordered, lower.astype(np.intp), axis=1)
        return np.asarray((first + np.take_along_axis(ordered, upper.astype(np.intp), axis=1)) / 2)


@dataclass(frozen=True, eq=False)
class PairBounds:
    """Bounds for few calibration rows per model, from all pairs of a new row and a calibration row."""

    centering: Centring
    low: SortedScores
    high: SortedScores

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
        n_rows = predictions.shape[1]
        bounds = np.empty((n_rows, 2, targets.size))
        step = max(1, _CHUNK_FLOATS // len(self.low.order))
        for start in range(0, n_rows, step):
            rows = slice(start, start + step)
            part = np.ascontiguousarray(predictions[:, rows])
            least, most = part.min(axis=0), part.max(axis=0)
            bounds[rows, 0] = -self._smallest(part, self.low, targets, -most, -least, -1.0)
            bounds[rows, 1] = self._smallest(part, self.high, targets, least, most, 1.0)
        return bounds

    def _smallest(
        self,
        predictions: FloatArray,
        scores: SortedScores,
        targets: FloatArray,
        least: FloatArray,
        most: FloatArray,
        sign: float,
    ) -> FloatArray:
        window = scores.window(targets, least, most)
        sums = self.centering.centers(predictions, scores.order[window])
        sums = np.add(sign * sums, scores.ranks.values[window], order="C")
        return scores.smallest(sums, window, targets)


CrossBounds = FoldBounds | PairBounds
"""Calibration scores. Their method ``bounds`` returns the bounds of m rows, shape (m, 2, L).

The arguments are the predictions of the models of the folds, and L ranks or cumulative weights of the scores.
"""

_BLOCK_FLOATS = 1 << 22
"""Maximum number of predictions in memory at the same time (32 MB)."""

_FEW_IN_A_FOLD = 32
"""With fewer rows per fold, `PairBounds` is faster than `FoldBounds`."""

_TAIL_LEVELS = np.array([0.995, 0.999, 0.9995, 0.9999])
"""Additional levels of the predictive distribution above 0.99."""


def bootstrap_splits(n: int, n_resamples: int, seed: int) -> list[Split]:
    """Return bootstrap resamples.

    Each resample is a pair of the drawn rows and the rows that are not drawn. Both are non-empty.
    """
    rng = np.random.RandomState(seed)
    splits: list[Split] = []
    while len(splits) < n_resamples:
        drawn = rng.randint(0, n, n)
        left_out = np.flatnonzero(np.bincount(drawn, minlength=n) == 0)
        if left_out.size:
            splits.append((drawn, left_out))
    return splits


def fold_bounds(folds: CrossFit, data: TrainingData, *, symmetric: bool) -> tuple[CrossBounds, float]:
    """Return the bounds of CV+ or of the jackknife+, and the number of calibration rows."""
    # A row that is tested t times has weight 1/t in each test. The guarantee of Barber et al. (2021, theorem
    # 1) requires that the weights of all comparisons of two rows sum to at most one.
    rows, predicted = folds.tested()
    fold = np.repeat(np.arange(len(folds.test_rows)), [len(part) for part in folds.test_rows])
    residual = data.y[rows] - predicted
    weight = check_tested_weight(data.repetitions_of(rows))
    counted = weight > 0
    fold, residual, weight = fold[counted], residual[counted], weight[counted]
    n_calibration = float(weight.sum())
    n_folds = len(folds.test_rows)
    if len(residual) < _FEW_IN_A_FOLD * n_folds:
        return _pair_bounds(ModelOfFold(fold), residual, weight, symmetric), n_calibration
    ends = np.cumsum(np.bincount(fold, minlength=n_folds))[:-1]
    weights = np.split(weight, ends)
    above = np.abs(residual) if symmetric else residual
    high = FoldScores(np.split(above, ends), weights)
    low = high if symmetric else FoldScores(np.split(-residual, ends), weights)
    return FoldBounds(low, high), n_calibration


def bagged_bounds(
    folds: CrossFit, data: TrainingData, *, symmetric: bool, aggregate: str
) -> tuple[CrossBounds, float]:
    """Return the bounds of the jackknife+-after-bootstrap, and the number of calibration rows."""
    predicted = np.full((len(folds.estimators), len(data)), np.nan)
    for member, (rows, prediction) in enumerate(zip(folds.test_rows, folds.predictions, strict=True)):
        predicted[member, rows] = prediction
    counted = np.flatnonzero(check_tested_weight(data.repetitions))
    predicted, weight = predicted[:, counted], data.repetitions[counted]
    left_out = ~np.isnan(predicted)
    _check_left_out(left_out, counted)
    mean = aggregate == "mean"
    center = np.nanmean(predicted, axis=0) if mean else np.nanmedian(predicted, axis=0)
    centering = LeftOutMean(left_out) if mean else LeftOutMedian(left_out)
    bounds = _pair_bounds(centering, data.y[counted] - center, weight, symmetric)
    return bounds, float(weight.sum())


def _pair_bounds(
    centering: Centring, residual: FloatArray, weight: FloatArray, symmetric: bool
) -> PairBounds:
    high = SortedScores(np.abs(residual) if symmetric else residual, weight)
    return PairBounds(centering, high if symmetric else SortedScores(-residual, weight), high)


def _check_left_out(left_out: BoolArray, rows: IntArray) -> None:
    in_all = ~left_out.any(axis=0)
    if in_all.any():
        raise ValueError(
            f"each row must be left out of at least one resample. {int(in_all.sum())} of {in_all.size} rows "
            f"are in all {len(left_out)} resamples. The first of these rows is {rows[np.argmax(in_all)]}. "
            "Increase `n_estimators` to about 50. With `cv`, pass more resamples, or resamples that contain "
            "fewer rows."
        )


@dataclass(frozen=True, eq=False)
class CrossConformal:
    """Models of all folds or resamples, and the scores of the calibration rows."""

    estimator: Any  # Estimator that is fitted to all rows, for point predictions.
    members: tuple[FoldModel, ...]
    calibration: CrossBounds
    n_calibration: float  # Number of calibration rows, or the sum of their weights.
    symmetric: bool
    # Number of rows per block of `PairBounds`; None means a number that limits the memory.
    block_size: int | None
    n_jobs: int | None
    member_name: str  # Name of a model in errors, such as "fold".

    def point(self, X: Any) -> FloatArray:
        return point_predict(self.estimator, X)

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        levels = score_level(coverages, self.symmetric)
        bounds = self._bounds(X, levels)
        warn_of_few_rows("coverage", coverages, levels, self.n_calibration)
        bounds.sort(axis=1)
        return bounds

    def dist(self, X: Any) -> Quantiles:
        """Return the distributions whose quantiles are the one-sided bounds. Bounds that cross are sorted."""
        score_levels, upper = self._grid()
        bounds = self._bounds(X, score_levels)
        low, high = bounds[:, 0], bounds[:, 1]
        # The median is the mean of both bounds at the first level.
        median = (low[:, :1] + high[:, :1]) / 2
        values = np.concatenate([low[:, :0:-1], median, high[:, 1:]], axis=1)
        return Quantiles(np.concatenate([1 - upper[::-1], [0.5], upper]), values)

    def _grid(self) -> tuple[FloatArray, FloatArray]:
        """Return the levels of the score quantiles and of the upper bounds of the distribution."""
        n, symmetric = self.n_calibration, self.symmetric
        n_ranks = min(math.floor(n), 49 if symmetric else 99)
        tails = 2 * _TAIL_LEVELS - 1 if symmetric else _TAIL_LEVELS
        first = 0.0 if symmetric else 0.5
        inner = np.arange(1, n_ranks + 1) / (n_ranks + 1)
        # If the rows have weights, n may not be an integer.
        last = [n / (n + 1)] if n_ranks == math.floor(n) else []
        levels = np.unique(np.concatenate([inner, last, tails]))
        finite = levels * (n + 1) * (1 - RANK_TOLERANCE) <= n
        levels = levels[(levels > first) & finite]
        if not levels.size:
            raise ValueError(
                f"a predictive distribution needs more calibration rows, got {n:g}. With this number, only "
                "the median is finite. Fit on more rows."
            )
        return np.append(first, levels), 0.5 + levels / 2 if symmetric else levels

    def _bounds(self, X: Any, score_levels: FloatArray) -> FloatArray:
        """Return the lower and upper bounds, shape (n, 2, k)."""
        targets = score_levels * (self.n_calibration + 1)
        n = count_rows(X)
        bounds = np.empty((n, 2, targets.size))
        step = max(1, _BLOCK_FLOATS // len(self.members))
        if self.block_size is not None and isinstance(self.calibration, PairBounds):
            step = min(step, self.block_size)
        for start in range(0, n, step):
            part = X if n <= step else safe_indexing(X, slice(start, start + step))
            bounds[start : start + step] = self.calibration.bounds(self._predict_members(part), targets)
        return bounds

    def _predict_members(self, X: Any) -> FloatArray:
        tasks = [
            (member.estimator, member.model_input(X), f"the model of {self.member_name} {k + 1}")
            for k, member in enumerate(self.members)
        ]
        predictions = np.empty((len(self.members), count_rows(X)))
        if self.n_jobs in (None, 1):  # joblib would take longer than the predictions of a thousand models.
            parts: Iterable[FloatArray] = itertools.starmap(predict_member, tasks)
        else:
            calls = (partial(predict_member, *task) for task in tasks)
            parts = run_parallel(calls, n_jobs=self.n_jobs, one_by_one=True, prefer="threads")
        for row, part in zip(predictions, parts, strict=True):
            row[:] = part
        return predictions
