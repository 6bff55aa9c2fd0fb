"""Final choice among the best candidates and their pool, with and without a recalibrator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from sklearn.exceptions import FitFailedWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skuq._fitting.cross_fit import fold_masks, other_rows_masks
from skuq._fitting.recalibrators import fit_recalibrator
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE
from skuq._warnings import warn_user
from skuq.distributions import Distribution, concat
from skuq.model_selection._auto.budget import clock
from skuq.model_selection._auto.evaluation import Evaluator
from skuq.model_selection._auto.trial import Summary, Trial, summarize
from skuq.regressors import MixtureRegressor
from skuq.regressors._pool.criterion import COMBINATIONS

COMBINE: Literal["linear", "quantiles"] = "quantiles"
"""Functions that a pool averages. An average of quantile functions is fast to compute, and its width is the
mean width of the members."""
CRPS_TOLERANCE = 1.005
"""Two recalibrations of the same forecasts are equally good if the ratio of their CRPS is at most this
factor."""
LEAST_WEIGHT = 0.02
"""Candidates with a smaller weight are not members of a pool."""
WEIGHT_ROWS = 10_000
"""The weights of a pool are computed from at most this number of rows."""
_RECALIBRATION = "recalibration"

Forecasts: TypeAlias = "tuple[tuple[Trial, ...], FloatArray, Distribution, Distribution]"
"""Members, weights, forecasts with these weights, and forecasts with weights from other folds."""


@dataclass(frozen=True, eq=False)
class TestedRows:
    """Tested rows in the order of the folds. If there is a single fold, its rows are divided into halves."""

    rows: IntArray
    masks: list[BoolArray]  # rows of each fold
    others: list[BoolArray]  # rows of the other folds

    @classmethod
    def from_evaluator(cls, evaluator: Evaluator) -> Self:
        folds = evaluator.test_rows
        if len(folds) == 1:
            folds = np.array_split(folds[0], 2)
        return cls(np.concatenate(folds), fold_masks(folds), other_rows_masks(folds))


@dataclass(frozen=True, eq=False)
class Finalist:
    """Candidates with weights and a recalibrator, and their out-of-fold forecasts."""

    members: tuple[Trial, ...]  # a single trial, or the members of a pool
    weights: FloatArray
    recalibration: str
    recalibrator: Any  # not fitted
    in_sample: Distribution  # forecasts to which the recalibrator is fitted
    out_of_fold: Distribution  # forecasts with weights and a recalibrator from other folds
    summary: Summary  # scores of `out_of_fold`

    def fit(self, evaluator: Evaluator) -> Any:
        missing = [trial for trial in self.members if trial.fitted is None]
        fitted = evaluator.refit(missing)
        for trial, estimator in zip(missing, fitted, strict=True):
            trial.fitted = estimator
        data = evaluator.data
        steps = [self._steps(trial, evaluator) for trial in self.members]
        if len(self.members) > 1:
            members = [
                (str(trial.candidate.base), FrozenEstimator(_as_estimator(own)))
                for trial, own in zip(self.members, steps, strict=True)
            ]
            pool = MixtureRegressor(members, weights=self.weights, combine=COMBINE).fit(data.X, data.y)
            steps = [[("model", pool)]]
        if self.recalibrator is not None:
            rows = np.concatenate(evaluator.test_rows)
            recalibrator = fit_recalibrator(self.recalibrator, self.in_sample, data, rows)
            steps[0].append(("recalibrator", recalibrator))
        return _as_estimator(steps[0])

    def _steps(self, trial: Trial, evaluator: Evaluator) -> list[tuple[str, Any]]:
        encoder = evaluator.encoder(trial.candidate.base)
        model = ("model", trial.fitted)
        return [model] if encoder is None else [("encoder", encoder), model]


def _as_estimator(steps: list[tuple[str, Any]]) -> Any:
    return Pipeline(steps) if len(steps) > 1 else steps[0][1]


def finalists(trials: Sequence[Trial], evaluator: Evaluator, pool: bool) -> list[Finalist]:
    """Return all combinations of a forecast and a recalibrator for which there is time.

    The forecasts are the trials and their pool.
    """
    folds = TestedRows.from_evaluator(evaluator)
    entries: list[Forecasts] = [((one,), np.ones(1), one.out_of_fold(), one.out_of_fold()) for one in trials]
    if pool and len(trials) > 1 and all(inside.any() for inside in folds.masks):
        pooled = _pooled(entries, evaluator, folds)
        if len(pooled[0]) > 1:
            entries.insert(0, pooled)
    needed = sum(evaluator.refit_seconds(trial) for trial in trials)
    found: list[Finalist] = []
    errors: dict[str, Exception] = {}
    for entry in entries:
        for name, recalibrator in evaluator.space.recalibrators.items():
            seconds = evaluator.budget.expected(_RECALIBRATION, 1)
            is_late = evaluator.budget.latest_start(seconds, needed) < clock()
            if recalibrator is not None and found and is_late:
                continue
            start = clock()
            try:
                found.append(_recalibrated(entry, name, recalibrator, evaluator, folds))
            except Exception as error:  # for example, a target is outside the support
                errors.setdefault(name, error)
            evaluator.budget.observe(_RECALIBRATION, 1, clock() - start)
    if not found:
        raise next(iter(errors.values()))
    for name in sorted(errors.keys() - {one.recalibration for one in found}):
        warn_user(
            f"recalibrator {name!r} is not used, because its fit to the out-of-fold forecasts failed: "
            f"{type(errors[name]).__name__}: {errors[name]}",
            FitFailedWarning,
        )
    return found


def _recalibrated(
    entry: Forecasts, name: str, recalibrator: Any, evaluator: Evaluator, folds: TestedRows
) -> Finalist:
    members, weights, in_sample, dist = entry
    data, rows = evaluator.data, folds.rows
    if recalibrator is not None:
        parts = [
            fit_recalibrator(recalibrator, dist[other], data, rows[other]).transform(dist[inside])
            for inside, other in zip(folds.masks, folds.others, strict=True)
        ]
        dist = concat(parts)
    summary = summarize(dist, data.y[rows], data.repetitions[rows])
    return Finalist(members, weights, name, recalibrator, in_sample, dist, summary)


def _pooled(entries: Sequence[Forecasts], evaluator: Evaluator, folds: TestedRows) -> Forecasts:
    data, rows = evaluator.data, folds.rows
    repetitions = data.repetitions_of(rows)
    forecasts = [dist for _, _, dist, _ in entries]
    some = np.zeros(len(rows), dtype=bool)
    some[np.random.RandomState(evaluator.seed).permutation(len(rows))[:WEIGHT_ROWS]] = True
    weights = COMBINATIONS[COMBINE].from_members(forecasts, data.y[rows], repetitions).weights(some)
    used = np.flatnonzero(weights >= LEAST_WEIGHT).tolist()
    pool = COMBINATIONS[COMBINE].from_members([forecasts[i] for i in used], data.y[rows], repetitions)
    weights = pool.weights(some)
    parts = [
        pool.forecast(pool.weights(other & some), inside)
        for inside, other in zip(folds.masks, folds.others, strict=True)
    ]
    members = tuple(entries[i][0][0] for i in used)
    return members, weights, pool.forecast(weights, np.ones(len(rows), dtype=bool)), concat(parts)


def best_of(found: Sequence[Finalist], violation: Callable[[Summary], float]) -> Finalist:
    best = min(found, key=lambda one: (violation(one.summary), one.summary.crps))
    close = [
        one
        for one in found
        if one.members == best.members
        and violation(one.summary) <= violation(best.summary)
        and one.summary.crps <= CRPS_TOLERANCE * best.summary.crps
    ]
    return min(close, key=lambda one: abs(one.summary.coverage - DEFAULT_COVERAGE))
