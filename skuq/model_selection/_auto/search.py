"""A search under way, whatever proposes its candidates."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skuq._units import standard_deviation
from skuq.model_selection._auto.evaluation import Evaluator
from skuq.model_selection._auto.space import Candidate
from skuq.model_selection._auto.trial import Summary, Trial

__all__ = ["ROUND", "Search"]

ROUND = 4
"""Trials that are evaluated side by side; a constant, so that results do not depend on ``n_jobs``."""
PATIENCE = 8
"""Trials in a row that were not started for want of time, after which there is no more to try."""
MEMBERS = 6
"""Most members of a pool."""
FINISH = 0.07
"""Share of the budget for the last choice."""
PENALTY = 1e6
"""Of a relative violation of the constraints, in standard deviations of the target: more than any CRPS."""


@dataclass(eq=False)
class Search:
    """A search under way: all trials so far, and the best of each base model.

    Attributes
    ----------
    evaluator : Evaluator
        Fits the candidates.
    n_trials : int or None
        Most trials.
    violation : callable
        Relative violation of the constraints by a Summary; 0 where all hold.
    pool : bool
        Whether several candidates may be fitted in the end.
    on_trial : callable
        Called when a trial is done.
    seen : set
        Keys of the candidates that need no other trial.
    """

    evaluator: Evaluator
    n_trials: int | None
    violation: Callable[[Any], float]
    pool: bool
    on_trial: Callable[[Trial], object]
    trials: list[Trial] = field(default_factory=list)
    best: dict[str, Trial] = field(default_factory=dict)
    seen: set[Hashable] = field(default_factory=set)

    def advance(self, trials: list[Trial]) -> None:
        """Fit the next fold of each trial; the first candidates are fitted whatever time it takes."""
        self.evaluator.advance(trials, self.reserve() if self.best else None)

    @property
    def width(self) -> int:
        """Trials to evaluate side by side; one by one until one is complete."""
        return ROUND if self.best else 1

    def draw(self, rng: np.random.RandomState) -> Candidate | None:
        """Return a candidate drawn at random that has no trial; None where all have."""
        return self.evaluator.space.draw_new(rng, self.seen)

    def open(self, candidate: Candidate, handle: Any = None) -> Trial:
        """Begin a trial."""
        self.seen.add(self.evaluator.space.key(candidate))
        self.trials.append(Trial(candidate, handle=handle))
        return self.trials[-1]

    def close(self, trial: Trial) -> None:
        """Record a trial that is done; forecasts are kept of the best of each base model."""
        base = trial.candidate.base
        worse: Trial | None = trial
        best = self.best.get(base)
        if trial.state == "complete" and (best is None or self.rank(trial) < self.rank(best)):
            self.best[base] = trial
            worse = best
        if worse is not None:
            worse.forecasts, worse.fitted = [], None
        self.on_trial(trial)

    def rank(self, trial: Trial) -> tuple[float, float]:
        """Return what complete trials are ordered by: the violation of constraints, then the CRPS."""
        if trial.summary is None:
            return np.inf, np.inf
        return self.violation(trial.summary), trial.summary.crps

    def penalty(self, summary: Summary) -> float:
        """Return what makes the CRPS a single number in the order of `rank`."""
        return PENALTY * (standard_deviation(self.evaluator.data.y) or 1.0) * self.violation(summary)

    def leaders(self) -> list[Trial]:
        """Return the best of the base models in their order, as many as a pool may have."""
        return sorted(self.best.values(), key=self.rank)[:MEMBERS]

    def affordable(self) -> list[Trial]:
        """Return the leaders, as far as time is left to fit them.

        The first one that can be fitted, or the fastest one where none can.
        """
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
        """Return the seconds that are needed at the end."""
        seconds = [self.evaluator.refit_seconds(trial) for trial in self.leaders()]
        total = self.evaluator.budget.seconds or 0.0
        return (sum(seconds) if self.pool else max(seconds)) + FINISH * total

    def is_over(self) -> bool:
        """Return whether there is no trial or no time left, or nothing can be fitted."""
        if self.n_trials is not None and len(self.trials) >= self.n_trials:
            return True
        remaining = self.evaluator.budget.remaining()
        if not self.best:
            failed = {trial.candidate.kind for trial in self.trials if trial.state == "failed"}
            hopeless = failed.issuperset(one.kind for one in self.evaluator.space.first())
            return hopeless or (bool(failed) and remaining <= 0)
        if remaining <= self.reserve():
            return True
        last = self.trials[-PATIENCE:]
        return len(last) == PATIENCE and all(trial.state == "out of time" for trial in last)
