"""Fits of candidates, fold by fold: each on one thread, none that would end too late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context

from skuq._sklearn_compat import delayed, one_thread, run_parallel
from skuq._typing import FloatArray, IntArray
from skuq.distributions import Distribution
from skuq.model_selection._auto.budget import Budget, clock
from skuq.model_selection._auto.space import Candidate, Space
from skuq.model_selection._auto.trial import Trial
from skuq.prediction._cross_fit import cross_fit
from skuq.regressors import UncertaintyRegressor
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["Evaluator"]

PROBE_ROWS = 1000
"""Rows on which the time of a kind is measured before it is fitted to many more."""
PROBE_FACTOR = 4
"""From how many times as many."""


class Outcome(NamedTuple):
    """What a fit leaves: its time, forecasts of test rows, a model of all rows, or an error."""

    seconds: float
    dist: Distribution | None = None
    fitted: Any = None
    error: Exception | None = None


@dataclass(frozen=True, eq=False)
class Evaluator:
    """The data and folds, on which candidates are fitted within a budget.

    Attributes
    ----------
    space : Space
        Base models by name.
    data : TrainingData
        All rows.
    folds : list of (train, test)
        Those of every candidate that has no out-of-bag forecasts.
    cv : splitter or None
        Folds of the methods; None where they are random or given as rows.
    random_folds : bool
        Whether the folds are random; then forests and deep ensembles use their out-of-bag rows.
    seed : int
        Seed of every candidate.
    budget : Budget
        The time that is left.
    n_jobs : int or None
        As in joblib; one job is a fit.
    """

    space: Space
    data: TrainingData
    folds: list[tuple[IntArray, IntArray]]
    cv: Any
    random_folds: bool
    seed: int
    budget: Budget
    n_jobs: int | None

    @property
    def test_rows(self) -> list[IntArray]:
        """Test rows of each fold."""
        return [test for _, test in self.folds]

    def advance(self, trials: Sequence[Trial], reserve: float | None) -> None:
        """Fit the next fold of each trial; out-of-bag forecasts are those of all folds at once.

        Parameters
        ----------
        trials : sequence of Trial
            All of them running.
        reserve : float or None
            Seconds of the budget that are needed afterwards. None fits in any case.
        """
        if reserve is not None:
            self._probe(trials, reserve)
        tasks = []
        for trial in trials:
            estimator = self._build(trial.candidate)
            split = None if self._is_out_of_bag(estimator) else self.folds[len(trial.forecasts)]
            n = len(self.data) if split is None else len(split[0])
            latest = np.inf if reserve is None else self.budget.latest_start(trial.candidate.kind, n, reserve)
            tasks.append((estimator, split, latest))
        for trial, (_, split, _), outcome in zip(trials, tasks, self._run(tasks), strict=True):
            self._take(trial, split, outcome)

    def refit(self, candidates: Sequence[Candidate]) -> list[Any]:
        """Return the candidates, fitted to all rows."""
        outcomes = self._run([(self._build(one), None, np.inf) for one in candidates])
        for outcome in outcomes:
            if outcome is not None and outcome.error is not None:
                raise outcome.error
        return [outcome.fitted for outcome in outcomes if outcome is not None]

    def refit_seconds(self, trial: Trial) -> float:
        """Return how long the fit to all rows is expected to take; nothing if it has been made."""
        return 0.0 if trial.fitted else self.budget.expected(trial.candidate.kind, len(self.data))

    def _build(self, candidate: Candidate) -> UncertaintyRegressor:
        return self.space.build(candidate, self.cv, self.seed)

    def _is_out_of_bag(self, estimator: UncertaintyRegressor) -> bool:
        """Return whether one fit to all rows also gives forecasts of them by models that left them out."""
        return self.random_folds and estimator._is_out_of_bag()

    def _probe(self, trials: Sequence[Trial], reserve: float) -> None:
        """Measure the time of kinds that have not been fitted, on few rows where there are many."""
        n = len(self.data)
        if self.budget.seconds is None or n < PROBE_FACTOR * PROBE_ROWS:
            return
        unknown = {
            t.candidate.kind: t.candidate for t in trials if not self.budget.has_observed(t.candidate.kind)
        }
        rows = np.random.RandomState(self.seed).permutation(n)[:PROBE_ROWS]
        latest = self.budget.latest_start(None, 0, reserve)
        tasks = [(self._build(one), (rows, rows[:1]), latest) for one in unknown.values()]
        for kind, outcome in zip(unknown, self._run(tasks), strict=True):
            if outcome is not None:
                self.budget.observe(kind, len(rows), outcome.seconds)

    def _take(self, trial: Trial, split: tuple[IntArray, IntArray] | None, outcome: Outcome | None) -> None:
        """Add what a fit leaves to its trial."""
        if outcome is None:
            trial.state = "out of time"
            return
        trial.seconds += outcome.seconds
        n = len(self.data) if split is None else len(split[0])
        self.budget.observe(trial.candidate.kind, n, outcome.seconds)
        if outcome.dist is None:
            trial.state, trial.error = "failed", outcome.error
            return
        tested = self.test_rows if split is None else [split[1]]
        parts = [outcome.dist[rows] for rows in tested] if split is None else [outcome.dist]
        for rows, part in zip(tested, parts, strict=True):
            trial.add(part, self.data.y[rows], self.data.repetitions[rows])
        trial.fitted = outcome.fitted
        trial.summarise(self.data.y, self.data.repetitions, self.test_rows)
        if trial.summary is None or not np.isfinite(trial.summary.crps):
            trial.state, trial.error = "failed", ValueError("the CRPS of its forecasts is not finite.")
        elif len(trial.forecasts) == len(self.folds):
            trial.state = "complete"

    def _run(self, tasks: Sequence[tuple[Any, tuple[IntArray, IntArray] | None, float]]) -> list[Any]:
        data = self.data
        jobs = (
            delayed(_fit)(estimator, data.X, data.y, data.metadata, split, latest, self.random_folds)
            for estimator, split, latest in tasks
        )
        return list(run_parallel(jobs, n_jobs=self.n_jobs))


def _fit(
    estimator: UncertaintyRegressor,
    X: Any,
    y: FloatArray,
    metadata: dict[str, Any],
    split: tuple[IntArray, IntArray] | None,
    latest: float,
    random_folds: bool,
) -> Outcome | None:
    """Fit to the training rows and forecast the test rows, or to all rows; None where it is too late."""
    start = clock()
    if start > latest:
        return None
    try:
        # The weights are those of every candidate: no request of theirs decides.
        with one_thread(), config_context(enable_metadata_routing=False):
            dist, fitted = _fit_and_forecast(estimator, X, y, metadata, split, random_folds)
    except Exception as error:  # whatever it is, other candidates may do
        return Outcome(clock() - start, error=error)
    return Outcome(clock() - start, dist, fitted)


def _fit_and_forecast(
    estimator: UncertaintyRegressor,
    X: Any,
    y: FloatArray,
    metadata: dict[str, Any],
    split: tuple[IntArray, IntArray] | None,
    random_folds: bool,
) -> tuple[Distribution | None, Any]:
    if split is not None:
        return cross_fit(estimator, X, y, cv=[split], params=metadata).predictions[0], None
    if random_folds and estimator._is_out_of_bag():
        return estimator.fit_transform(X, y, **metadata), estimator
    return None, estimator.fit(X, y, **metadata)
