"""Final choice among the best candidates of a search and their pool, and the leaderboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from sklearn.exceptions import FitFailedWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skuq._compat import warn_user
from skuq._fitting.cross_fit import fit_recalibrator, fold_masks, other_rows_masks
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE
from skuq.distributions import Distribution, concat
from skuq.model_selection._auto_search import (
    ALL_ROWS,
    Search,
    Summary,
    Trial,
    clock,
    summarize,
)
from skuq.model_selection._auto_space import POOL, Candidate
from skuq.regressors import MixtureRegressor
from skuq.regressors._mixture_pool import COMBINATIONS

COMBINE: Literal["linear", "quantiles"] = "quantiles"
"""Functions that a pool averages. An average of quantile functions is fast to compute, and its width is the
mean width of the members."""
CRPS_TOLERANCE = 1.005
"""Forecasts are equally good if the ratio of their CRPS is at most this factor."""
LEAST_WEIGHT = 0.02
"""Candidates with a smaller weight are not members of a pool."""
CHOICE_ROWS = 10_000
"""Weights and recalibrators are fitted to at most this number of tested rows, and compared on them."""


Forecasts: TypeAlias = "tuple[FloatArray, Distribution, Distribution]"
"""Weights of the members, forecasts with these weights, and forecasts with weights from other folds."""


@dataclass(frozen=True, eq=False)
class TestedRows:
    """Tested rows in the order of the folds. If there is a single fold, its rows are divided into halves."""

    rows: IntArray
    masks: list[BoolArray]  # rows of each fold
    others: list[BoolArray]  # rows of the other folds
    places: IntArray  # positions of the rows among all tested rows


def tested_rows(search: Search, most: int) -> TestedRows:
    """Return the tested rows, or a random selection of them."""
    folds: list[IntArray] = search.fitter.tests
    if len(folds) == 1:
        folds = np.array_split(folds[0], 2)
    n = sum(map(len, folds))
    chosen = np.zeros(n, dtype=bool)
    chosen[np.random.RandomState(search.fitter.seed).permutation(n)[:most]] = True
    masks = [inside[chosen] for inside in fold_masks(folds)]
    others = [other[chosen] for other in other_rows_masks(folds)]
    return TestedRows(np.concatenate(folds)[chosen], masks, others, np.flatnonzero(chosen))


@dataclass(frozen=True, eq=False)
class Finalist:
    """Candidates with weights and a recalibrator, and their out-of-fold forecasts of the tested rows."""

    members: tuple[Trial, ...]  # a single trial, or the members of a pool
    weights: FloatArray
    in_sample: Distribution  # forecasts to which a recalibrator is fitted
    out_of_fold: Distribution  # forecasts with weights and a recalibrator from other folds
    summary: Summary  # scores of `out_of_fold`
    recalibration: str = "none"
    recalibrator: Any = None  # not fitted


def finalists(search: Search, tested: TestedRows, *, pool: bool) -> list[Finalist]:
    """Return all combinations of a forecast and a recalibrator.

    The forecasts are those of the best trial of each base model, and of the pool of these trials. At the
    deadline, recalibrators are left out.
    """
    data, rows = search.fitter.data, tested.rows
    forecasts: dict[tuple[Trial, ...], Forecasts] = {}
    for trial in search.leaders():
        dist = concat(trial.forecasts)[tested.places]
        forecasts[(trial,)] = np.ones(1), dist, dist
    if pool and len(forecasts) > 1 and all(inside.any() for inside in tested.masks):
        members, pooled = _pool(search, tested, forecasts)
        if len(members) > 1:
            forecasts = {members: pooled, **forecasts}
    found: list[Finalist] = []
    errors: dict[str, Exception] = {}
    end = clock() + (search.deadline - clock()) / 2  # half of the time is left for the final fits
    for members, (weights, in_sample, dist) in forecasts.items():
        for name, recalibrator in search.space.recalibrators.items():
            if found and recalibrator is not None and clock() > end:
                continue
            try:
                changed = dist
                if recalibrator is not None:
                    parts = [
                        fit_recalibrator(recalibrator, dist[other], data, rows[other]).transform(dist[inside])
                        for inside, other in zip(tested.masks, tested.others, strict=True)
                    ]
                    changed = concat(parts)
                summary = summarize(changed, data.y[rows], data.repetitions[rows])
            except Exception as error:  # for example, a target is outside the support
                errors.setdefault(name, error)
                continue
            found.append(Finalist(members, weights, in_sample, changed, summary, name, recalibrator))
    if not found:
        raise next(iter(errors.values()))
    for name in sorted(errors.keys() - {one.recalibration for one in found}):
        warn_user(
            f"recalibrator {name!r} is not used, because its fit to the out-of-fold forecasts failed: "
            f"{type(errors[name]).__name__}: {errors[name]}",
            FitFailedWarning,
        )
    return found


def _pool(
    search: Search, tested: TestedRows, forecasts: Mapping[tuple[Trial, ...], Forecasts]
) -> tuple[tuple[Trial, ...], Forecasts]:
    data, rows = search.fitter.data, tested.rows
    trials = [members[0] for members in forecasts]
    dists = [dist for _, dist, _ in forecasts.values()]
    everywhere = np.ones(len(rows), dtype=bool)
    combination, repetitions = COMBINATIONS[COMBINE], data.repetitions_of(rows)
    weights = combination.from_members(dists, data.y[rows], repetitions).weights(everywhere)
    used = np.flatnonzero(weights >= LEAST_WEIGHT).tolist()
    pool = combination.from_members([dists[i] for i in used], data.y[rows], repetitions)
    weights = pool.weights(everywhere)
    parts = [
        pool.forecast(pool.weights(other), inside)
        for inside, other in zip(tested.masks, tested.others, strict=True)
    ]
    return tuple(trials[i] for i in used), (weights, pool.forecast(weights, everywhere), concat(parts))


def best_of(found: Sequence[Finalist], search: Search) -> Finalist:
    """Return the finalist with the smallest CRPS among those that violate the constraints least.

    A single model is preferred to a pool that is not better, and among recalibrations of the same forecasts
    that are equally good, the one with the coverage closest to nominal is selected.
    """
    best = min(found, key=lambda one: search.value(one.summary))
    close = [
        one
        for one in found
        if search.violation(one.summary) <= search.violation(best.summary)
        and one.summary.crps <= CRPS_TOLERANCE * best.summary.crps
    ]
    alone = [one for one in close if len(one.members) == 1]
    members = min(alone, key=lambda one: one.summary.crps).members if alone else best.members
    return min(
        (one for one in close if one.members == members),
        key=lambda one: abs(one.summary.coverage - DEFAULT_COVERAGE),
    )


def fit_finalist(winner: Finalist, search: Search, tested: TestedRows) -> Any:
    """Return the fitted model of a finalist.

    Its members are fitted to all rows. A member that is not fitted at the deadline is the pool of the models
    of its folds.
    """
    fitter, workers = search.fitter, search.workers
    missing = [one for one in winner.members if search.is_refitted(one)]
    tasks = [(one.candidate, ALL_ROWS) for one in missing]
    for trial, fit in zip(missing, workers.run(tasks, search.deadline), strict=True):
        if fit is not None and fit.error is not None:
            raise fit.error
        if fit is not None:
            trial.models = [fit.model]
    steps = [_steps(trial, search) for trial in winner.members]
    if len(winner.members) > 1:
        members = {
            trial.candidate.base: _as_estimator(own) for trial, own in zip(winner.members, steps, strict=True)
        }
        steps = [[("model", _frozen_pool(members, winner.weights, fitter.full.X, search))]]
    if winner.recalibrator is not None:
        recalibrator = fit_recalibrator(winner.recalibrator, winner.in_sample, fitter.data, tested.rows)
        steps[0].append(("recalibrator", recalibrator))
    return _as_estimator(steps[0])


def _steps(trial: Trial, search: Search) -> list[tuple[str, Any]]:
    (encoder, X), models = search.fitter.encoding(trial.candidate.base), trial.models
    model = models[0]
    if len(models) > 1:
        names = {f"fold{k}": one for k, one in enumerate(models)}
        model = _frozen_pool(names, np.full(len(models), 1 / len(models)), X, search)
    return [("model", model)] if encoder is None else [("encoder", encoder), ("model", model)]


def _frozen_pool(members: dict[str, Any], weights: FloatArray, X: Any, search: Search) -> MixtureRegressor:
    frozen = [(name, FrozenEstimator(model)) for name, model in members.items()]
    pool = MixtureRegressor(frozen, weights=weights, combine=COMBINE, recalibrator=None)
    return pool.fit(X, search.fitter.full.y)


def _as_estimator(steps: list[tuple[str, Any]]) -> Any:
    return Pipeline(steps) if len(steps) > 1 else steps[0][1]


STATES = ("complete", "stored", "pruned", "out of time", "failed", "not tried")
_COLUMNS = [
    *("base", "method", "recalibration", "crps", "standard_error", "coverage", "width", "seconds", "end"),
    *("state", "reason", "params"),
]


def leaderboard(search: Search, found: Sequence[Finalist], winner: Finalist) -> pd.DataFrame:
    """Return the table of trials and finalists, and of base models that were not tried.

    The winner is first. All other rows are sorted by state, violation and CRPS.
    """
    shown = [one.members[0] for one in found if len(one.members) == 1 and one.recalibrator is None]
    trials = [one for one in (*search.trials, *search.stored) if one not in shown]
    tried = {one.candidate.base for one in (*search.trials, *search.stored)}
    reason = "the number of trials was reached" if search.has_all_trials else "no time was left"
    trials += [
        Trial(Candidate(name, base.methods[0]), state="not tried", reason=reason, seconds=np.nan)
        for name, base in search.space.bases.items()
        if name not in tried
    ]

    def key(scored: Trial | Finalist) -> tuple[bool, int, float]:
        state = "complete" if isinstance(scored, Finalist) else scored.state
        return scored is not winner, STATES.index(state), search.value(scored.summary)

    entries: list[Trial | Finalist] = [*found, *trials]
    return pd.DataFrame([_row(one) for one in sorted(entries, key=key)], columns=_COLUMNS)


def _row(scored: Trial | Finalist) -> dict[str, Any]:
    first = scored.members[0] if isinstance(scored, Finalist) else scored
    summary = {} if scored.summary is None else asdict(scored.summary)
    row = {"recalibration": "none"} | vars(first) | vars(first.candidate) | vars(scored) | summary
    if isinstance(scored, Finalist) and len(scored.members) > 1:
        names = [one.candidate.base for one in scored.members]
        row |= {
            "base": POOL,
            "method": "mixture",
            "seconds": sum(one.seconds for one in scored.members),
            "end": max(one.end for one in scored.members),
            "params": dict(zip(names, scored.weights.tolist(), strict=True)),
        }
    return row
