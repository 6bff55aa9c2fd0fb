"""State of a search. Both engines (Optuna and successive halving) use the same state."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skuq._units import standard_deviation
from skuq.model_selection._auto.evaluation import Evaluator
from skuq.model_selection._auto.space import Candidate
from skuq.model_selection._auto.trial import Summary, Trial

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

    def first_fold_seconds(self, candidate: Candidate) -> float:
        return self.evaluator.forecast(candidate, len(self.evaluator.folds[0][0])).likely

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
