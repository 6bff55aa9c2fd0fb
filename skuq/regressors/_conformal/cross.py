"""Cross-conformal prediction: every row calibrates by its prediction from models fitted without it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import LeaveOneOut

from skuq._sklearn_compat import count_rows, delayed, is_pairwise, run_parallel, safe_indexing
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import effective_rows
from skuq.distributions import Quantiles
from skuq.distributions._numerics.ranks import RANK_TOLERANCE, score_level
from skuq.prediction._cross_fit import CrossFit, Split, cross_fit, resolve_cv, split_rows
from skuq.prediction._point import point_predict
from skuq.prediction._random import seeded_clone
from skuq.prediction._refit_check import find_mismatch, warn_of_mismatch
from skuq.prediction._row_sets import check_disjoint
from skuq.prediction._target_units import in_target_units
from skuq.prediction._wrapped import fit_wrapped
from skuq.regressors._conformal.cross_bounds import (
    Centring,
    CrossBounds,
    FoldBounds,
    FoldModel,
    LeftOutMean,
    LeftOutMedian,
    PairBounds,
)
from skuq.regressors._conformal.order_statistics import FoldScores, SortedScores
from skuq.regressors._conformal.settings import ConformalSettings, warn_of_few_rows
from skuq.regressors._fit_inputs import TrainingData
from skuq.regressors._members import predict_member
from skuq.regressors._progress import Progress

__all__ = ["CrossConformal", "fit_cross"]

_BLOCK_FLOATS = 1 << 22
"""Number of predictions of all models held at a time: 32 MB."""

_FEW_IN_A_FOLD = 32
"""Rows per fold below which forming the sums of pairs is faster than counting them fold by fold."""

_TAIL_LEVELS = np.array([0.995, 0.999, 0.9995, 0.9999])
"""Levels of the predictive distribution beyond 0.99."""


# --------------------------------------------------------------------------------------- fitting


def fit_cross(data: TrainingData, settings: ConformalSettings, progress: Progress) -> CrossConformal:
    """Fit one model per fold or resample, and one on all rows."""
    _check_settings(settings)
    effective_rows(data.sample_weight, len(data))  # ranks need repetitions, so relative weights raise
    estimator = seeded_clone(settings.estimator, settings.model_seed, settings.random_state)
    estimator = in_target_units(estimator, data.y)
    splits = _splits(data, settings)
    folds = cross_fit(
        estimator,
        data.X,
        data.target,
        cv=splits,
        params=data.fit_params,
        n_jobs=settings.n_jobs,
        verbose=settings.verbose,
        predict=point_predict,
        name=_fold_name(settings),
        on_fold=progress.reporter("fold"),
    )
    bounds, n_calibration = (_bagged_bounds if settings.method == "jackknife+ab" else _fold_bounds)(
        folds, data, settings
    )
    with progress.task("model", estimator):
        estimator = fit_wrapped(estimator, data.X, data.target, **data.fit_params)
    warn_of_mismatch(
        find_mismatch(estimator, folds, data.X, data.y, point_predict),
        "intervals come from the latter, and `predict` from the former",
    )
    columns = None
    if is_pairwise(estimator):
        columns = tuple(train for train, _ in split_rows(resolve_cv(splits), data.X, data.y, None))
    return CrossConformal(estimator, folds.estimators, columns, bounds, n_calibration, settings)


def _check_settings(settings: ConformalSettings) -> None:
    """Raise where a parameter contradicts the method."""
    method = settings.method
    if isinstance(settings.estimator, FrozenEstimator):
        raise ValueError(
            f"`estimator` must not be frozen with method {method!r}, which refits it. Take method='split', "
            "which calibrates a finished model on rows that are new to it."
        )
    if method == "jackknife+" and settings.cv is not None:
        raise ValueError(
            f"`cv` must be None with method 'jackknife+', which leaves out one row at a time, got "
            f"{settings.cv!r}. Take method='cv+' for folds of your own."
        )
    if method == "jackknife+ab" and isinstance(settings.cv, numbers.Integral):
        raise TypeError(
            "`cv` must be a splitter or an iterable of (drawn rows, left-out rows) with method "
            f"'jackknife+ab', got {settings.cv!r}. Without `cv`, `n_estimators` resamples are drawn."
        )


def _splits(data: TrainingData, settings: ConformalSettings) -> list[Split] | LeaveOneOut:
    """Return for each fold the rows on which its model is fitted and those that it predicts."""
    if settings.method == "jackknife+":
        return LeaveOneOut()  # not as a list: the rows of its n folds are n squared integers
    if settings.method == "jackknife+ab" and settings.cv is None:
        return _resamples(len(data), settings.n_estimators, settings.split_seed)
    splits = split_rows(resolve_cv(settings.cv, settings.split_seed), data.X, data.y, data.groups)
    check_disjoint(splits, len(data))
    return splits


def _resamples(n: int, n_resamples: int, seed: int) -> list[Split]:
    """Draw bootstrap resamples, each of which leaves at least one row out."""
    rng = np.random.RandomState(seed)
    splits: list[Split] = []
    while len(splits) < n_resamples:
        drawn = rng.randint(0, n, n)
        left_out = np.flatnonzero(np.bincount(drawn, minlength=n) == 0)
        if left_out.size:
            splits.append((drawn, left_out))
    return splits


def _fold_name(settings: ConformalSettings) -> str:
    """Return the word for a fold in errors."""
    return "resample" if settings.method == "jackknife+ab" else "fold"


def _fold_bounds(
    folds: CrossFit, data: TrainingData, settings: ConformalSettings
) -> tuple[CrossBounds, float]:
    """Return the bounds of CV+ and of the jackknife+, and the number of rows that calibrate them.

    Each of the t tests of a row has weight 1/t, so that the row counts once: then the comparisons of any
    two rows still add up to at most one, on which the guarantee rests (Barber et al. 2021, theorem 1). A row
    that is never tested does not count.
    """
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
        return _pair_bounds(FoldModel(fold), residual, weight, settings), n_calibration
    ends = np.cumsum(np.bincount(fold, minlength=n_folds))[:-1]
    weights = None if weight is None else np.split(weight, ends)
    above = np.abs(residual) if settings.symmetric else residual
    high = FoldScores(np.split(above, ends), weights)
    low = high if settings.symmetric else FoldScores(np.split(-residual, ends), weights)
    return FoldBounds(low, high), n_calibration


def _bagged_bounds(
    folds: CrossFit, data: TrainingData, settings: ConformalSettings
) -> tuple[CrossBounds, float]:
    """Return the bounds of the jackknife+-after-bootstrap, and the number of rows that calibrate them."""
    predicted = np.full((len(folds.estimators), len(data)), np.nan)
    for member, (rows, prediction) in enumerate(zip(folds.test_rows, folds.predictions, strict=True)):
        predicted[member, rows] = prediction
    weight = _weight_of(np.arange(len(data)), None, data)
    counted = np.arange(len(data)) if weight is None else np.flatnonzero(weight)
    predicted, weight = predicted[:, counted], None if weight is None else weight[counted]
    left_out = ~np.isnan(predicted)
    _check_left_out(left_out, counted, settings)
    mean = settings.aggregate == "mean"
    centre = np.nanmean(predicted, axis=0) if mean else np.nanmedian(predicted, axis=0)
    centring = LeftOutMean(left_out) if mean else LeftOutMedian(left_out)
    bounds = _pair_bounds(centring, data.y[counted] - centre, weight, settings)
    return bounds, float(len(counted) if weight is None else weight.sum())


def _pair_bounds(
    centring: Centring, residual: FloatArray, weight: FloatArray | None, settings: ConformalSettings
) -> PairBounds:
    """Return the bounds of calibration rows with these residuals and weights, all 1 if None."""
    high = SortedScores(np.abs(residual) if settings.symmetric else residual, weight)
    return PairBounds(centring, high if settings.symmetric else SortedScores(-residual, weight), high)


def _weight_of(rows: IntArray, share: FloatArray | None, data: TrainingData) -> FloatArray | None:
    """Return the number of observations that each test stands for; None if each stands for one."""
    if data.sample_weight is None:
        return share
    weight = data.sample_weight[rows] if share is None else share * data.sample_weight[rows]
    if not weight.any():
        raise ValueError(
            "`sample_weight` must be positive for some of the rows that `cv` tests, got zeros for all of "
            "them."
        )
    return weight


def _check_left_out(left_out: BoolArray, rows: IntArray, settings: ConformalSettings) -> None:
    """Raise if a row is in every resample."""
    in_all = ~left_out.any(axis=0)
    if in_all.any():
        advice = (
            f"Raise `n_estimators`, {settings.n_estimators} here, to 50 or so."
            if settings.cv is None
            else "Give `cv` more resamples, or resamples that leave more rows out."
        )
        raise ValueError(
            "each row must be left out of at least one resample, whose model then predicts it, but "
            f"{int(in_all.sum())} of {in_all.size} rows are left out of none, first row "
            f"{rows[np.argmax(in_all)]}. {advice}"
        )


# ------------------------------------------------------------------------------------ prediction


@dataclass(frozen=True, eq=False)
class CrossConformal:
    """The models of all folds or resamples, and the scores of the calibration rows.

    Attributes
    ----------
    estimator : estimator
        Fitted on all rows; predicts points.
    members : tuple
        Models of the folds or resamples.
    columns : tuple of ndarray or None
        Columns of X for each member, those of its training rows, where X is a matrix between rows (a
        precomputed kernel).
    calibration : CrossBounds
        Scores of the calibration rows.
    n_calibration : float
        Number of calibration rows, weights counted.
    settings : ConformalSettings
        Method and options.
    """

    estimator: Any
    members: tuple[Any, ...]
    columns: tuple[IntArray, ...] | None
    calibration: CrossBounds
    n_calibration: float
    settings: ConformalSettings

    def point(self, X: Any) -> FloatArray:
        """Return the predictions of the model fitted on all rows, shape (n,)."""
        return point_predict(self.estimator, X)

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        """Return the intervals of each coverage, shape (n, 2, k).

        At low coverage bounds may cross. They are exchanged, which covers more than an empty interval.
        """
        bounds = self._bounds(X, score_level(coverages, self.settings.symmetric))
        warn_of_few_rows(coverages, self.settings.symmetric, self.n_calibration)
        bounds.sort(axis=1)
        return bounds

    def dist(self, X: Any) -> Quantiles:
        """Return the distributions through the one-sided bounds, monotone where bounds cross."""
        score_levels, upper = self._grid()
        bounds = self._bounds(X, score_levels)
        low, high = bounds[:, 0], bounds[:, 1]
        # The bounds of the first level enclose the median from both sides.
        median = (low[:, :1] + high[:, :1]) / 2
        values = np.concatenate([low[:, :0:-1], median, high[:, 1:]], axis=1)
        return Quantiles(np.concatenate([1 - upper[::-1], [0.5], upper]), values)

    def _grid(self) -> tuple[FloatArray, FloatArray]:
        """Return the levels of the scores, and the levels of the upper bounds in the distribution.

        One level for each rank, but no more than the levels in whole per cent, and those of the tails that
        have finite bounds. The first level of the scores, of both bounds at the median, has no upper bound.
        """
        n, symmetric = self.n_calibration, self.settings.symmetric
        n_ranks = min(math.floor(n), 49 if symmetric else 99)
        tails = 2 * _TAIL_LEVELS - 1 if symmetric else _TAIL_LEVELS
        first = 0.0 if symmetric else 0.5
        inner = np.arange(1, n_ranks + 1) / (n_ranks + 1)
        last = [n / (n + 1)] if n_ranks == math.floor(n) else []  # n with weights need not be whole
        levels = np.unique(np.concatenate([inner, last, tails]))
        finite = levels * (n + 1) * (1 - RANK_TOLERANCE) <= n
        levels = levels[(levels > first) & finite]
        if not levels.size:
            raise ValueError(
                f"a predictive distribution needs more calibration rows: {n:g} leave no quantile but the "
                "median with a finite bound."
            )
        return np.append(first, levels), 0.5 + levels / 2 if symmetric else levels

    def _bounds(self, X: Any, score_levels: FloatArray) -> FloatArray:
        """Return lower and upper bounds at these levels of the scores, shape (n, 2, k)."""
        targets = score_levels * (self.n_calibration + 1)
        n = count_rows(X)
        bounds = np.empty((n, 2, targets.size))
        step = max(1, _BLOCK_FLOATS // len(self.members))
        if self.settings.block_size is not None and isinstance(self.calibration, PairBounds):
            step = min(step, self.settings.block_size)
        for start in range(0, n, step):
            part = X if n <= step else safe_indexing(X, slice(start, start + step))
            bounds[start : start + step] = self.calibration.bounds(self._predict_members(part), targets)
        return bounds

    def _predict_members(self, X: Any) -> FloatArray:
        """Return the prediction of each row by each member, shape (M, n)."""
        inputs = [X] * len(self.members)
        if self.columns is not None:
            inputs = [np.asarray(X)[:, columns] for columns in self.columns]
        places = [f"the model of {_fold_name(self.settings)} {k + 1}" for k in range(len(self.members))]
        predictions = np.empty((len(self.members), count_rows(X)))
        if self.settings.n_jobs in (None, 1):  # a thousand members predict faster without joblib
            parts: Iterable[FloatArray] = map(predict_member, self.members, inputs, places)
        else:
            tasks = (
                delayed(predict_member)(*task) for task in zip(self.members, inputs, places, strict=True)
            )
            parts = run_parallel(tasks, n_jobs=self.settings.n_jobs, one_by_one=True, prefer="threads")
        for row, part in zip(predictions, parts, strict=True):
            row[:] = part
        return predictions
