"""Cross-conformal prediction: every row calibrates, predicted by models fitted without it."""

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
from skuq.prediction._wrapped import fit_wrapped
from skuq.regressors._conformal.cross_bounds import (
    BoundsOfRows,
    Centres,
    FoldBounds,
    MeanOfUnseen,
    MedianOfUnseen,
    OwnModel,
    PairBounds,
)
from skuq.regressors._conformal.order_statistics import FoldScores, SortedScores
from skuq.regressors._conformal.settings import ConformalSettings, warn_of_few_rows
from skuq.regressors._fit_inputs import TrainingData
from skuq.regressors._members import predict_member
from skuq.regressors._progress import Progress
from skuq.regressors._random import seeded_clone

__all__ = ["CrossConformal", "fit_cross"]

_BLOCK_FLOATS = 1 << 22
"""Predictions held at a time, of all models."""

_FEW_IN_A_FOLD = 32
"""Rows a fold below which sums are looked at one by one rather than counted fold by fold."""

_TAIL_LEVELS = np.array([0.995, 0.999, 0.9995, 0.9999])
"""Levels beyond 99 % of the predictive distribution."""


# --------------------------------------------------------------------------------------- fitting


def fit_cross(data: TrainingData, settings: ConformalSettings, progress: Progress) -> CrossConformal:
    """Fit a model a fold, or a resample, and one on all rows."""
    _check_settings(settings)
    effective_rows(data.sample_weight, len(data))  # ranks need repetitions, so relative weights raise
    estimator = seeded_clone(settings.estimator, settings.model_seed, settings.random_state)
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
    seen = None
    if is_pairwise(estimator):
        seen = tuple(train for train, _ in split_rows(resolve_cv(splits), data.X, data.y, None))
    return CrossConformal(estimator, folds.estimators, seen, bounds, n_calibration, settings)


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
            f"'jackknife+ab', got {settings.cv!r}. `n_estimators` says how many resamples to draw."
        )


def _splits(data: TrainingData, settings: ConformalSettings) -> list[Split] | LeaveOneOut:
    """Return, fold by fold, the rows that a model is fitted on and those it predicts."""
    if settings.method == "jackknife+":
        return LeaveOneOut()  # as it is: its n folds take n squared integers
    if settings.method == "jackknife+ab" and settings.cv is None:
        return _resamples(len(data), settings.n_estimators, settings.split_seed)
    splits = split_rows(resolve_cv(settings.cv, settings.split_seed), data.X, data.y, data.groups)
    for fold, (train, test) in enumerate(splits):
        seen = np.zeros(len(data), dtype=bool)
        seen[train] = True
        if seen[test].any():
            raise ValueError(
                "`cv` must keep the rows that a model sees apart from those that it predicts, but fold "
                f"{fold} has row {test[np.argmax(seen[test])]} among both."
            )
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
    """Return what a fold is called in errors."""
    return "resample" if settings.method == "jackknife+ab" else "fold"


def _fold_bounds(
    folds: CrossFit, data: TrainingData, settings: ConformalSettings
) -> tuple[BoundsOfRows, float]:
    """Return the bounds of CV+ and of the jackknife+, and how many rows calibrate them.

    A row that is tested several times counts once, each of its tests for a part of it: then the
    comparisons of any two rows still add up to at most one, on which the guarantee rests. A row that
    is never tested does not count.
    """
    rows, predicted = folds.tested()
    fold = np.repeat(np.arange(len(folds.test_rows)), [len(part) for part in folds.test_rows])
    residual = data.y[rows] - predicted
    times = np.bincount(rows, minlength=len(data))[rows]
    weight = _weight_of(rows, None if (times == 1).all() else 1.0 / times, data)
    if weight is not None:
        counted = weight > 0
        fold, residual, weight = fold[counted], residual[counted], weight[counted]
    n_calibration = float(len(residual) if weight is None else weight.sum())
    n_folds = len(folds.test_rows)
    if len(residual) < _FEW_IN_A_FOLD * n_folds:
        return _pair_bounds(OwnModel(fold), residual, weight, settings), n_calibration
    ends = np.cumsum(np.bincount(fold, minlength=n_folds))[:-1]
    weights = None if weight is None else np.split(weight, ends)
    above = np.abs(residual) if settings.symmetric else residual
    high = FoldScores(np.split(above, ends), weights)
    low = high if settings.symmetric else FoldScores(np.split(-residual, ends), weights)
    return FoldBounds(low, high), n_calibration


def _bagged_bounds(
    folds: CrossFit, data: TrainingData, settings: ConformalSettings
) -> tuple[BoundsOfRows, float]:
    """Return the bounds of the jackknife+-after-bootstrap, and how many rows calibrate them."""
    predicted = np.full((len(folds.estimators), len(data)), np.nan)
    for member, (rows, prediction) in enumerate(zip(folds.test_rows, folds.predictions, strict=True)):
        predicted[member, rows] = prediction
    weight = _weight_of(np.arange(len(data)), None, data)
    counted = np.arange(len(data)) if weight is None else np.flatnonzero(weight)
    predicted, weight = predicted[:, counted], None if weight is None else weight[counted]
    unseen = ~np.isnan(predicted)
    _check_left_out(unseen, counted, settings)
    mean = settings.aggregate == "mean"
    centre = np.nanmean(predicted, axis=0) if mean else np.nanmedian(predicted, axis=0)
    center_of = MeanOfUnseen(unseen) if mean else MedianOfUnseen(unseen)
    bounds = _pair_bounds(center_of, data.y[counted] - centre, weight, settings)
    return bounds, float(len(counted) if weight is None else weight.sum())


def _pair_bounds(
    center_of: Centres, residual: FloatArray, weight: FloatArray | None, settings: ConformalSettings
) -> PairBounds:
    high = SortedScores(np.abs(residual) if settings.symmetric else residual, weight)
    return PairBounds(center_of, high if settings.symmetric else SortedScores(-residual, weight), high)


def _weight_of(rows: IntArray, share: FloatArray | None, data: TrainingData) -> FloatArray | None:
    """Return how many observations each test stands for; None if each stands for one."""
    if data.sample_weight is None:
        return share
    weight = data.sample_weight[rows] if share is None else share * data.sample_weight[rows]
    if not weight.any():
        raise ValueError(
            "`sample_weight` must be positive for some of the rows that `cv` tests, got zeros for all of "
            "them."
        )
    return weight


def _check_left_out(unseen: BoolArray, rows: IntArray, settings: ConformalSettings) -> None:
    """Raise where every model has seen a row."""
    known = ~unseen.any(axis=0)
    if known.any():
        advice = (
            f"Raise `n_estimators`, {settings.n_estimators} here, to 50 or so."
            if settings.cv is None
            else "Give `cv` more resamples, or resamples that leave more rows out."
        )
        raise ValueError(
            "each row must be left out of at least one resample, whose model then predicts it, but "
            f"{int(known.sum())} of {known.size} rows are left out of none, first row "
            f"{rows[np.argmax(known)]}. {advice}"
        )


# ------------------------------------------------------------------------------------ prediction


@dataclass(frozen=True, eq=False)
class CrossConformal:
    """The models of all folds or resamples, and how the rows that calibrate compare with them.

    Attributes
    ----------
    estimator : estimator
        Fitted on all rows; predicts points.
    members : tuple
        The models of folds or resamples.
    seen : tuple of ndarray or None
        Rows each of them was fitted on, where X has a column for each row of `fit`.
    calibration : BoundsOfRows
        The scores.
    n_calibration : float
        Number of rows that calibrate, weights counted.
    settings : ConformalSettings
        Method and options.
    """

    estimator: Any
    members: tuple[Any, ...]
    seen: tuple[IntArray, ...] | None
    calibration: BoundsOfRows
    n_calibration: float
    settings: ConformalSettings

    def point(self, X: Any) -> FloatArray:
        """Return the predictions of the model that knows all rows, shape (n,)."""
        return point_predict(self.estimator, X)

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        """Return the intervals of each coverage, shape (n, 2, k).

        At low coverage bounds may cross; exchanged, they hold more than the empty interval they were.
        """
        bounds = self._bounds(X, score_level(coverages, self.settings.symmetric))
        warn_of_few_rows(coverages, self.settings.symmetric, self.n_calibration)
        bounds.sort(axis=1)
        return bounds

    def dist(self, X: Any) -> Quantiles:
        """Return the distributions through the one-sided bounds, monotone where bounds cross."""
        probabilities, upper = self._grid()
        bounds = self._bounds(X, probabilities)
        low, high = bounds[:, 0], bounds[:, 1]
        # The bounds of the first probability enclose the median from both sides.
        median = (low[:, :1] + high[:, :1]) / 2
        values = np.concatenate([low[:, :0:-1], median, high[:, 1:]], axis=1)
        return Quantiles(np.concatenate([1 - upper[::-1], [0.5], upper]), values)

    def _grid(self) -> tuple[FloatArray, FloatArray]:
        """Return the rank levels of the bounds of the distribution, and the levels of upper bounds.

        The ranks that there are, as far as they are no more than those of the levels in whole per
        cent. The first probability is that of both bounds at the median.
        """
        known, symmetric = self.n_calibration, self.settings.symmetric
        n_ranks = min(math.floor(known), 49 if symmetric else 99)
        tails = 2 * _TAIL_LEVELS - 1 if symmetric else _TAIL_LEVELS
        first = 0.0 if symmetric else 0.5
        inner = np.arange(1, n_ranks + 1) / (n_ranks + 1)
        last = [known / (known + 1)] if n_ranks == math.floor(known) else []
        requested = np.unique(np.concatenate([inner, last, tails]))
        reached = requested * (known + 1) * (1 - RANK_TOLERANCE) <= known
        requested = requested[(requested > first) & reached]
        if not requested.size:
            raise ValueError(
                f"a predictive distribution needs more calibration rows: {known:g} leave no quantile but the "
                "median with a finite bound."
            )
        return np.append(first, requested), 0.5 + requested / 2 if symmetric else requested

    def _bounds(self, X: Any, probabilities: FloatArray) -> FloatArray:
        """Return lower and upper bounds at these rank levels, shape (n, 2, k)."""
        targets = probabilities * (self.n_calibration + 1)
        n = count_rows(X)
        bounds = np.empty((n, 2, targets.size))
        step = max(1, _BLOCK_FLOATS // len(self.members))
        if self.settings.block_size is not None and isinstance(self.calibration, PairBounds):
            step = min(step, self.settings.block_size)
        for start in range(0, n, step):
            part = X if n <= step else safe_indexing(X, slice(start, start + step))
            bounds[start : start + step] = self.calibration.bounds(self._ask(part), targets)
        return bounds

    def _ask(self, X: Any) -> FloatArray:
        """Return what each member predicts for each row, shape (M, n)."""
        inputs = [X] * len(self.members) if self.seen is None else [np.asarray(X)[:, c] for c in self.seen]
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
