"""Cross-conformal prediction: each row calibrates models that are fitted without this row."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._fitting.cross_fit import CrossFit, Split
from skuq._fitting.point_predict import point_predict, predict_member
from skuq._fitting.training_data import TrainingData
from skuq._ranks import RANK_TOLERANCE, score_level
from skuq._sklearn_compat import count_rows, delayed, run_parallel, safe_indexing
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.conformal._cross_bounds import (
    Centring,
    CrossBounds,
    FoldBounds,
    LeftOutMean,
    LeftOutMedian,
    ModelOfFold,
    PairBounds,
)
from skuq.conformal._fold_models import FoldModel, check_tested_weight, warn_of_few_rows
from skuq.conformal._order_statistics import FoldScores, SortedScores
from skuq.distributions import Quantiles

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
    n_tests = np.bincount(rows, minlength=len(data))[rows]
    weight = _weight_of(rows, None if (n_tests == 1).all() else 1.0 / n_tests, data)
    if weight is not None:
        counted = weight > 0
        fold, residual, weight = fold[counted], residual[counted], weight[counted]
    n_calibration = float(len(residual) if weight is None else weight.sum())
    n_folds = len(folds.test_rows)
    if len(residual) < _FEW_IN_A_FOLD * n_folds:
        return _pair_bounds(ModelOfFold(fold), residual, weight, symmetric), n_calibration
    ends = np.cumsum(np.bincount(fold, minlength=n_folds))[:-1]
    weights = None if weight is None else np.split(weight, ends)
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
    weight = _weight_of(np.arange(len(data)), None, data)
    counted = np.arange(len(data)) if weight is None else np.flatnonzero(weight)
    predicted, weight = predicted[:, counted], None if weight is None else weight[counted]
    left_out = ~np.isnan(predicted)
    _check_left_out(left_out, counted)
    mean = aggregate == "mean"
    center = np.nanmean(predicted, axis=0) if mean else np.nanmedian(predicted, axis=0)
    centering = LeftOutMean(left_out) if mean else LeftOutMedian(left_out)
    bounds = _pair_bounds(centering, data.y[counted] - center, weight, symmetric)
    return bounds, float(len(counted) if weight is None else weight.sum())


def _pair_bounds(
    centering: Centring, residual: FloatArray, weight: FloatArray | None, symmetric: bool
) -> PairBounds:
    high = SortedScores(np.abs(residual) if symmetric else residual, weight)
    return PairBounds(centering, high if symmetric else SortedScores(-residual, weight), high)


def _weight_of(rows: IntArray, share: FloatArray | None, data: TrainingData) -> FloatArray | None:
    if data.sample_weight is None:
        return share
    weight = data.sample_weight[rows]
    return check_tested_weight(weight if share is None else share * weight)


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
            calls = (delayed(predict_member)(*task) for task in tasks)
            parts = run_parallel(calls, n_jobs=self.n_jobs, one_by_one=True, prefer="threads")
        for row, part in zip(predictions, parts, strict=True):
            row[:] = part
        return predictions
