"""The last choice: the best candidate of each base model, a pool of them, and recalibrators after each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skuq._typing import FloatArray
from skuq._validation import DEFAULT_COVERAGE
from skuq.distributions import Distribution, concat
from skuq.model_selection._auto.evaluation import Evaluator
from skuq.model_selection._auto.trial import Summary, Trial, summarise
from skuq.prediction._cross_fit import fold_masks
from skuq.regressors import MixtureRegressor
from skuq.regressors._pool.criterion import COMBINATIONS
from skuq.regressors._recalibrated import fit_recalibrator

__all__ = ["POOL", "Finalist", "best_of", "finalists"]

POOL = "pool"
COMBINE: Literal["linear", "quantiles"] = "quantiles"
"""How a pool combines its members, as in `MixtureRegressor`: averages of quantiles, unlike mixtures, are no
wider than their members and are evaluated fast."""
CLOSE = 1.005
"""Recalibrations of the same forecasts differ by chance within this factor of the smallest CRPS."""
LEAST_WEIGHT = 0.02
"""Members of less weight are not worth a fit."""


@dataclass(frozen=True, eq=False)
class Finalist:
    """Candidates with weights and a recalibrator, and their out-of-fold forecasts.

    Attributes
    ----------
    members : tuple of Trial
        One, or those of a pool.
    weights : ndarray of shape (m,)
        Weights of the members.
    recalibration : str
        Name of the recalibrator.
    recalibrator : recalibrator or None
        Unfitted.
    in_sample : Distribution
        Out-of-fold forecasts of the members, combined, to which the recalibrator is fitted.
    out_of_fold : Distribution
        The same, with weights and recalibrator from the other folds.
    summary : Summary
        Scores of the latter.
    """

    members: tuple[Trial, ...]
    weights: FloatArray
    recalibration: str
    recalibrator: Any
    in_sample: Distribution
    out_of_fold: Distribution
    summary: Summary

    def fit(self, evaluator: Evaluator) -> Any:
        """Return the fitted estimator."""
        missing = [trial for trial in self.members if trial.fitted is None]
        fitted = evaluator.refit([trial.candidate for trial in missing])
        for trial, estimator in zip(missing, fitted, strict=True):
            trial.fitted = estimator
        data = evaluator.data
        model = self.members[0].fitted
        if len(self.members) > 1:
            members = [(f"{t.candidate.base}", FrozenEstimator(t.fitted)) for t in self.members]
            model = MixtureRegressor(members, weights=self.weights, combine=COMBINE).fit(data.X, data.y)
        if self.recalibrator is None:
            return model
        rows = np.concatenate(evaluator.test_rows)
        recalibrator = fit_recalibrator(self.recalibrator, self.in_sample, data, rows)
        return Pipeline([("model", model), ("recalibrator", recalibrator)])


def finalists(trials: Sequence[Trial], evaluator: Evaluator, pool: bool) -> list[Finalist]:
    """Return each complete trial, and with ``pool`` the pool of them, with every recalibrator."""
    data = evaluator.data
    test_rows = evaluator.test_rows
    rows = np.concatenate(test_rows)
    masks = fold_masks(test_rows)
    # of a single fold, there are no others to learn from
    others = [~inside for inside in masks] if len(masks) > 1 else masks
    entries: list[tuple[tuple[Trial, ...], FloatArray, Distribution, Distribution]] = [
        ((trial,), np.ones(1), dist, dist) for trial in trials for dist in [trial.out_of_fold()]
    ]
    if pool and len(trials) > 1:
        entries.append(_pooled(entries, evaluator, masks, others))
    found = []
    for members, weights, in_sample, out_of_fold in entries:
        for name, recalibrator in evaluator.space.recalibrators.items():
            dist = out_of_fold
            if recalibrator is not None:
                parts = [
                    fit_recalibrator(recalibrator, dist[other], data, rows[other]).transform(dist[inside])
                    for inside, other in zip(masks, others, strict=True)
                ]
                dist = concat(parts)
            summary = summarise(dist, data.y[rows], data.repetitions[rows])
            found.append(Finalist(members, weights, name, recalibrator, in_sample, dist, summary))
    return found


def _pooled(
    entries: Sequence[tuple[tuple[Trial, ...], FloatArray, Distribution, Distribution]],
    evaluator: Evaluator,
    masks: Sequence[Any],
    others: Sequence[Any],
) -> tuple[tuple[Trial, ...], FloatArray, Distribution, Distribution]:
    """Return the members of a pool with their weights, and its forecasts."""
    data = evaluator.data
    rows = np.concatenate(evaluator.test_rows)
    weight = None if data.sample_weight is None else data.sample_weight[rows]
    forecasts = [dist for _, _, dist, _ in entries]
    everything = np.ones(len(rows), dtype=bool)
    weights = COMBINATIONS[COMBINE].of(forecasts, data.y[rows], weight).weights(everything)
    used = np.flatnonzero(weights >= LEAST_WEIGHT).tolist()
    pool = COMBINATIONS[COMBINE].of([forecasts[i] for i in used], data.y[rows], weight)
    weights = pool.weights(everything)
    parts = [pool.forecast(pool.weights(other), inside) for inside, other in zip(masks, others, strict=True)]
    members = tuple(entries[i][0][0] for i in used)
    return members, weights, pool.forecast(weights, everything), concat(parts)


def best_of(found: Sequence[Finalist], violation: Callable[[Summary], float]) -> Finalist:
    """Return the finalist with the least violation of constraints and, of those, the smallest CRPS.

    Of recalibrations of the same forecasts that are about as good, it is the one whose coverage is nearest to
    the nominal one.
    """
    best = min(found, key=lambda one: (violation(one.summary), one.summary.crps))
    close = [
        one
        for one in found
        if one.members == best.members
        and violation(one.summary) <= violation(best.summary)
        and one.summary.crps <= CLOSE * best.summary.crps
    ]
    return min(close, key=lambda one: abs(one.summary.coverage - DEFAULT_COVERAGE))
