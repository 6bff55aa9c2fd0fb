"""Search by Optuna's tree-structured Parzen estimator, or by successive halving."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import pandas as pd
from sklearn.exceptions import FitFailedWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skuq._compat import warn_user
from skuq._fitting.cross_fit import fit_recalibrator, fold_masks, other_rows_masks
from skuq._numeric import standard_deviation
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE
from skuq.distributions import Distribution, concat
from skuq.model_selection._auto_evaluation import Evaluator, Summary, Trial, summarize
from skuq.model_selection._auto_space import POOL, Candidate, clock
from skuq.regressors import MixtureRegressor
from skuq.regressors._pool import COMBINATIONS

COLUMNS = (
    "base",
    "method",
    "recalibration",
    "crps",
    "standard_error",
    "coverage",
    "width",
    "seconds",
    "state",
    "params",
)
STATES = ("complete", "stored", "pruned", "out of time", "failed")


def leaderboard(
    trials: Iterable[Trial],
    finalists: Iterable[Finalist],
    stored: Iterable[Trial],
    violation: Callable[[Summary], float],
    chosen: Finalist,
) -> pd.DataFrame:
    """Return the table of trials and finalists.

    The winner is first. All other rows are sorted by state, violation and CRPS.
    """
    finalists = list(finalists)
    shown = {id(one.members[0]) for one in finalists if len(one.members) == 1 and one.recalibrator is None}
    entries = [
        (_key(one.summary, "complete", violation, one is chosen), _row_of_finalist(one)) for one in finalists
    ]
    for state, group in ((None, trials), ("stored", stored)):
        for trial in group:
            if id(trial) not in shown and (trial.summary is not None or trial.error is not None):
                row = _row_of_trial(trial, state or trial.state)
                entries.append((_key(trial.summary, row["state"], violation, False), row))
    entries.sort(key=lambda entry: entry[0])
    return pd.DataFrame([row for _, row in entries], columns=list(COLUMNS))


def _key(
    summary: Summary | None, state: str, violation: Callable[[Summary], float], chosen: bool
) -> tuple[bool, int, float, float]:
    worst = (np.inf, np.inf) if summary is None else (violation(summary), summary.crps)
    return (not chosen, STATES.index(state), *worst)


def _row_of_trial(trial: Trial, state: str) -> dict[str, Any]:
    return {
        "base": trial.candidate.base,
        "method": trial.candidate.method,
        "recalibration": "none",
        **_numbers(trial.summary),
        "seconds": trial.seconds,
        "state": state,
        "params": trial.candidate.params,
    }


def _row_of_finalist(finalist: Finalist) -> dict[str, Any]:
    alone = len(finalist.members) == 1
    first = finalist.members[0].candidate
    weights = {
        trial.candidate.base: float(weight)
        for trial, weight in zip(finalist.members, finalist.weights, strict=True)
    }
    return {
        "base": first.base if alone else POOL,
        "method": first.method if alone else "mixture",
        "recalibration": finalist.recalibration,
        **_numbers(finalist.summary),
        "seconds": sum(trial.seconds for trial in finalist.members),
        "state": "complete",
        "params": first.params if alone else weights,
    }


def _numbers(summary: Summary | None) -> dict[str, float]:
    names = ("crps", "standard_error", "coverage", "width")
    return {name: np.nan if summary is None else getattr(summary, name) for name in names}


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


TRIALS_PER_ROUND = 4
"""Number of trials per round. It is constant, so that results do not depend on ``n_jobs``."""
CAUTION = 1.2
"""A candidate starts only if the remaining time is at least its expected time multiplied by this factor."""
OVERRUN, OVERRUN_SECONDS = 0.1, 1.0
"""Share of the remaining time, and number of seconds, by which the first candidate may exceed the time."""
MEMBERS = 6
"""Maximum number of members of a pool."""
FINAL_BUDGET_SHARE = 0.07
"""Share of the time budget for the final choice."""
PENALTY = 1e6
"""Penalty for a relative violation of 1, in standard deviations of the target."""


@dataclass(eq=False)
class Search:
    """State of a search, with all trials and the best trial of each base model."""

    evaluator: Evaluator
    n_trials: int | None  # largest number of trials
    violation: Callable[[Any], float]  # relative violation of the constraints; 0 if all are satisfied
    pool: bool  # whether a pool is a candidate in the final choice
    on_trial: Callable[[Trial], object]
    trials: list[Trial] = field(default_factory=list)
    best: dict[str, Trial] = field(default_factory=dict)
    seen: set[Hashable] = field(default_factory=set)  # keys of candidates that are not tried again
    closed: set[tuple[str, str]] = field(default_factory=set)  # kinds that failed or take too long

    def advance(self, trials: list[Trial]) -> None:
        """Fit the next fold of each trial. Until a trial is complete, fits may exceed the time."""
        self.evaluator.advance(trials, self.reserve() if self.best else None)

    @property
    def width(self) -> int:
        """Return the number of parallel trials.

        The number is 1 until a trial is complete. After that, it is the number of jobs if there is a budget.
        """
        if not self.best:
            return 1
        return (
            TRIALS_PER_ROUND
            if self.evaluator.budget.seconds is None
            else min(TRIALS_PER_ROUND, self.evaluator.jobs)
        )

    def draw(self, rng: np.random.RandomState, elsewhere: Iterable[Hashable] = ()) -> Candidate | None:
        late: set[Hashable] = set(elsewhere)
        space = self.evaluator.space
        while (candidate := space.draw_new(rng, self.seen | late, self.closed)) is not None:
            if self.admits(candidate):
                return candidate
            late.add(space.key(candidate))
        return None

    def choose(self, candidates: Sequence[Candidate]) -> Candidate | None:
        """Return the first candidate for which there is time.

        If no trial is complete, a candidate is returned even if there is no time.
        """
        candidates = [one for one in candidates if one.kind not in self.closed]
        if self.best or not candidates or self.evaluator.budget.seconds is None:
            return next(filter(self.admits, candidates), None)
        seconds = {}
        for candidate in candidates:
            for version in (candidate, self.evaluator.space.smallest(candidate)):
                remaining = self.evaluator.budget.remaining()
                needed = self.evaluator.foresee(version, remaining)
                if needed <= remaining + max(OVERRUN * remaining, OVERRUN_SECONDS):
                    return version
                seconds[needed] = version
        return seconds[min(seconds)]

    def admits(self, candidate: Candidate, committed: float = 0.0) -> bool:
        """Return whether there is time for a candidate.

        If the fastest fit of this kind of candidate takes too long, close the kind.
        """
        if candidate.kind in self.closed:
            return False
        if self.evaluator.budget.seconds is None:
            return True
        available = (self.evaluator.budget.remaining() - self.reserve() - committed) / CAUTION
        if self.evaluator.foresee(candidate, available) <= available:
            return True
        if self.evaluator.foresee(self.evaluator.space.smallest(candidate), available) > available:
            self.closed.add(candidate.kind)
        return False

    def open(self, candidate: Candidate, handle: Any = None) -> Trial:
        self.seen.add(self.evaluator.space.key(candidate))
        self.trials.append(Trial(candidate, handle=handle))
        return self.trials[-1]

    def close(self, trial: Trial) -> None:
        """Record a finished trial. Only the best trial of each base model keeps its forecasts."""
        base = trial.candidate.base
        worse: Trial | None = trial
        best = self.best.get(base)
        if trial.state == "complete" and (best is None or self.rank(trial) < self.rank(best)):
            self.best[base] = trial
            worse = best
        if worse is not None:
            worse.forecasts, worse.fitted = [], None
        self._close_kind(trial)
        self.on_trial(trial)

    def _close_kind(self, trial: Trial) -> None:
        """Close the kind of a failed trial if no other trial of this kind has forecasts."""
        kind = trial.candidate.kind
        works = any(
            one.candidate.kind == kind and one.state != "failed" and one.summary is not None
            for one in self.trials
        )
        if trial.state == "failed" and not works:
            self.closed.add(kind)

    def rank(self, trial: Trial) -> tuple[float, float]:
        if trial.summary is None:
            return np.inf, np.inf
        return self.violation(trial.summary), trial.summary.crps

    def penalty(self, summary: Summary) -> float:
        """Return a penalty for violations. CRPS plus penalty orders the trials in the same way as `rank`."""
        return PENALTY * (standard_deviation(self.evaluator.data.y) or 1.0) * self.violation(summary)

    def leaders(self) -> list[Trial]:
        return sorted(self.best.values(), key=self.rank)[:MEMBERS]

    def affordable(self) -> list[Trial]:
        ranked = self.leaders()
        found: list[Trial] = []
        remaining = self.evaluator.budget.remaining()
        for trial in ranked:
            seconds = self.evaluator.refit_seconds(trial)
            if seconds <= remaining:
                found.append(trial)
                remaining -= seconds if self.pool else 0.0
        return found or sorted(ranked, key=self.evaluator.refit_seconds)[:1]

    def reserve(self) -> float:
        seconds = [self.evaluator.refit_seconds(trial) for trial in self.leaders()]
        total = self.evaluator.budget.seconds or 0.0
        return (sum(seconds) if self.pool else max(seconds, default=0.0)) + FINAL_BUDGET_SHARE * total

    def is_over(self) -> bool:
        if self.n_trials is not None and len(self.trials) >= self.n_trials:
            return True
        if self.closed.issuperset(self.evaluator.space.kinds()):
            return True
        remaining = self.evaluator.budget.remaining()
        if self.best:
            return remaining <= self.reserve()
        return remaining <= 0 and any(trial.state == "failed" for trial in self.trials)


BRACKET = 9
"""Number of candidates at the start of a bracket (a group of candidates)."""
REDUCTION_FACTOR = 3
"""Each fold divides the number of candidates by this factor."""


def search_by_halving(search: Search, rng: np.random.RandomState) -> None:
    """Evaluate base models with their own parameters, and then random candidates, in groups (brackets)."""
    waiting = list(search.evaluator.space.first())
    while not search.is_over():
        if search.best:
            bracket, waiting = _bracket(search, waiting, rng)
        else:  # start one trial at a time, until a trial is complete
            candidate = search.choose(waiting)
            bracket = [] if candidate is None else [search.open(candidate)]
            waiting = [one for one in waiting if candidate is not None and one.kind != candidate.kind]
        if not bracket:  # all other candidates are evaluated or take too long
            return
        _halve(search, bracket)


def _bracket(
    search: Search, waiting: list[Candidate], rng: np.random.RandomState
) -> tuple[list[Trial], list[Candidate]]:
    """Start the trials of a bracket. Return these trials, and the base models that are not started."""
    size = BRACKET
    if search.n_trials is not None:
        size = min(size, search.n_trials - len(search.trials))
    bracket: list[Trial] = []
    committed = 0.0
    waiting = list(waiting)
    drawn = not waiting
    while len(bracket) < size and (waiting or drawn):
        candidate = waiting.pop(0) if waiting else search.draw(rng)
        if candidate is None:
            break
        if search.admits(candidate, committed):
            # only the time of the first fold is counted, because most candidates stop after this fold
            committed += search.evaluator.forecast(candidate, len(search.evaluator.folds[0][0])).likely
            bracket.append(search.open(candidate))
        elif drawn:
            break
    return bracket, waiting


def _halve(search: Search, running: list[Trial]) -> None:
    while running:
        for begin in range(0, len(running), TRIALS_PER_ROUND):  # in the order of their scores
            search.advance(running[begin : begin + TRIALS_PER_ROUND])
        left = sorted((trial for trial in running if trial.state == "running"), key=search.rank)
        for trial in left[-(-len(left) // REDUCTION_FACTOR) :]:
            trial.state = "pruned"
        for trial in running:
            if trial.state != "running":
                search.close(trial)
        running = [trial for trial in left if trial.state == "running"]
