"""Fits of candidates, one fold after another, within the time budget."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context
from threadpoolctl import threadpool_limits

from skuq._compat import effective_n_jobs, run_parallel
from skuq._fitting.cross_fit import cross_fit
from skuq._fitting.table import TableEncoder, encoder_for
from skuq._fitting.training_data import TrainingData
from skuq._typing import FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE
from skuq.distributions import Distribution, concat
from skuq.exceptions import SupportWarning
from skuq.model_selection._auto_space import Budget, Candidate, Cost, Deferred, Forecast, Space, clock
from skuq.regressors import UncertaintyRegressor


@dataclass(frozen=True)
class Summary:
    """Mean scores of forecasts, and the standard error of the CRPS."""

    crps: float
    standard_error: float
    coverage: float
    width: float


def summarize(dist: Distribution, y: FloatArray, repetitions: FloatArray) -> Summary:
    crps = dist.crps(y)
    lower, upper = dist.interval(DEFAULT_COVERAGE).T
    total = repetitions.sum()
    mean = repetitions @ crps / total
    variance = repetitions @ (crps - mean) ** 2 / max(total - 1, 1)
    covered = repetitions @ ((lower <= y) & (y <= upper)) / total
    width = repetitions @ (upper - lower) / total
    return Summary(float(mean), float(np.sqrt(variance / total)), float(covered), float(width))


@dataclass(eq=False)
class Trial:
    """Candidate and its results."""

    candidate: Candidate
    state: str = "running"  # or "complete", "pruned", "failed", "out of time" (for the next fit)
    seconds: float = 0.0
    forecasts: list[Distribution] = field(default_factory=list)  # test rows of the finished folds
    crps: list[float] = field(default_factory=list)  # mean CRPS of each finished fold
    summary: Summary | None = None
    fitted: Any = None  # model fitted to all rows
    error: Exception | None = None
    handle: Any = None  # Optuna trial
    reported: int = 0  # number of folds that are reported to Optuna

    def out_of_fold(self) -> Distribution:
        return concat(self.forecasts)

    def add(self, dist: Distribution, y: FloatArray, repetitions: FloatArray) -> None:
        self.forecasts.append(dist)
        total = repetitions.sum()
        self.crps.append(float(repetitions @ dist.crps(y) / total) if total > 0 else 0.0)

    def summarize(self, y: FloatArray, repetitions: FloatArray, folds: Sequence[IntArray]) -> None:
        rows = np.concatenate(folds[: len(self.forecasts)])
        self.summary = summarize(self.out_of_fold(), y[rows], repetitions[rows])


PROBE_ROWS = 100
"""Number of rows of the first probe. A probe is a fit that measures the time of a kind of candidate."""
PROBE_FACTOR = 4
"""Number of rows of a probe, divided by the number of rows of the previous probe."""
PARALLEL_SECONDS = 20.0
"""Fits run in parallel if the time budget is at least this long, because the start of processes takes several
seconds."""
PROBE_SHARE = 0.1
"""Largest share of the available time that a probe may take. If a time is stated, a probe may take a third of
this share."""


class Outcome(NamedTuple):
    """Time of a fit, and its result.

    The result is a forecast of the test rows, a model that is fitted to all rows, or an error.
    """

    seconds: float
    dist: Distribution | None = None
    fitted: Any = None
    error: Exception | None = None


class _Task(NamedTuple):
    """One fit of a trial, with its training rows, test rows, and the latest time at which it may start."""

    trial: Trial
    estimator: UncertaintyRegressor
    split: tuple[IntArray, IntArray] | None
    latest: float


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Evaluation of candidates on the data and folds of a search, within a budget."""

    space: Space
    data: TrainingData
    folds: list[tuple[IntArray, IntArray]]  # for candidates without out-of-bag forecasts
    cv: Any  # folds for use inside the methods; None if the folds are random or given as rows
    random_folds: bool  # if True, forests and deep ensembles use their out-of-bag rows
    seed: int
    budget: Budget
    n_jobs: int | None
    encoded: dict[str | None, tuple[TableEncoder | None, Any]] = field(default_factory=dict)

    @property
    def test_rows(self) -> list[IntArray]:
        return [test for _, test in self.folds]

    @property
    def jobs(self) -> int:
        return int(effective_n_jobs(self._n_jobs()))

    def _n_jobs(self, tasks: int | None = None) -> int | None:
        """Return the number of jobs for the tasks. It is 1 if the start of processes would take too long."""
        seconds = self.budget.seconds
        alone = tasks == 1 and self.n_jobs is not None
        return 1 if alone or (seconds is not None and seconds < PARALLEL_SECONDS) else self.n_jobs

    def advance(self, trials: Sequence[Trial], reserve: float | None) -> None:
        """Fit the next fold of each trial if ``reserve`` seconds would remain. None skips this check."""
        tasks = []
        for trial in trials:
            candidate = trial.candidate
            try:
                self._encoded(candidate.base)
                estimator = self._build(candidate)
                out_of_bag = self.random_folds and estimator._is_out_of_bag()
            except Exception as error:  # an encoder, an import or a parameter may fail
                trial.state, trial.error = "failed", error
                continue
            split = None if out_of_bag else self.folds[len(trial.forecasts)]
            n = len(self.data) if split is None else len(split[0])
            latest = np.inf
            if reserve is not None:
                latest = self.budget.latest_start(self.forecast(candidate, n).likely, reserve)
            tasks.append(_Task(trial, estimator, split, latest))
        with self.budget.account("trials"):
            outcomes = self._run(tasks)
            for task, outcome in zip(tasks, outcomes, strict=True):
                self._take(task.trial, task.split, outcome)

    def refit(self, trials: Sequence[Trial]) -> list[Any]:
        tasks = [_Task(trial, self._build(trial.candidate), None, np.inf) for trial in trials]
        with self.budget.account("refits"):
            outcomes = self._run(tasks)
        for outcome in outcomes:
            if outcome is not None and outcome.error is not None:
                raise outcome.error
        return [outcome.fitted for outcome in outcomes if outcome is not None]

    def refit_seconds(self, trial: Trial) -> float:
        return 0.0 if trial.fitted else self.forecast(trial.candidate, len(self.data)).likely

    def foresee(self, candidate: Candidate, available: float) -> float:
        """Return the expected seconds of all fits of a candidate.

        If the time is unknown, it is measured by fits to few rows.
        """
        while True:
            needed = self._needed(candidate)
            largest = self.budget.largest(candidate.kind)
            rows = PROBE_FACTOR * largest if largest else PROBE_ROWS
            decided = available < needed.low or needed.high <= available
            if decided or 2 * rows > min(len(train) for train, _ in self.folds):
                return needed.likely
            share = PROBE_SHARE if largest or self._cost(candidate) is None else PROBE_SHARE / 3
            probe = self._import_seconds(candidate) + self.forecast(candidate, rows).likely
            if probe > share * available:
                return needed.likely
            self._probe(candidate, rows)

    def encoder(self, base: str) -> TableEncoder | None:
        return self._encoded(base)[0]

    def _encoded(self, base: str) -> tuple[TableEncoder | None, Any]:
        encoding = self.space.bases[base].encoding
        if encoding not in self.encoded:
            encoder = encoder_for(self.data.X, encoding)
            X = self.data.X if encoder is None else encoder.transform(self.data.X)
            self.encoded[encoding] = encoder, X
        return self.encoded[encoding]

    def _build(self, candidate: Candidate) -> UncertaintyRegressor:
        with self.budget.account("imports") if self._import_seconds(candidate) else nullcontext():
            return self.space.build(candidate, self.cv, self.seed)

    def _cost(self, candidate: Candidate) -> Cost | None:
        estimator = self.space.bases[candidate.base].estimator
        return estimator.cost if isinstance(estimator, Deferred) else None

    def _import_seconds(self, candidate: Candidate) -> float:
        estimator = self.space.bases[candidate.base].estimator
        if not isinstance(estimator, Deferred) or sys.modules.keys() >= set(estimator.packages):
            return 0.0
        return estimator.cost.imports

    def _is_out_of_bag(self, candidate: Candidate) -> bool:
        estimator = self.space.bases[candidate.base].estimator
        if isinstance(estimator, Deferred):
            return self.random_folds and estimator.out_of_bag
        try:
            return self.random_folds and self._build(candidate)._is_out_of_bag()
        except Exception:  # the trial reports this error
            return False

    def forecast(self, candidate: Candidate, rows: int) -> Forecast:
        of_kind = self.budget.forecast(candidate.kind, rows, self._cost(candidate))
        return of_kind * self.space.size(candidate)

    def _needed(self, candidate: Candidate) -> Forecast:
        imports = self._import_seconds(candidate)
        needed = Forecast(imports, imports, imports).plus(self.forecast(candidate, len(self.data)))
        if not self._is_out_of_bag(candidate):
            for train, _ in self.folds:
                needed = needed.plus(self.forecast(candidate, len(train)))
        return needed

    def _probe(self, candidate: Candidate, n: int) -> None:
        rows = np.random.RandomState(self.seed).permutation(len(self.data))[:n]
        try:
            self._encoded(candidate.base)
            estimator = self._build(candidate)
        except Exception:  # the trial reports this error
            self.budget.observe(candidate.kind, n, 0.0)
            return
        size = self.space.size(candidate)
        with self.budget.account("probes"):
            (outcome,) = self._run([_Task(Trial(candidate), estimator, (rows, rows[:1]), np.inf)])
        self.budget.observe(candidate.kind, n, outcome.seconds / size)

    def _take(self, trial: Trial, split: tuple[IntArray, IntArray] | None, outcome: Outcome | None) -> None:
        if outcome is None:
            trial.state = "out of time"
            return
        trial.seconds += outcome.seconds
        n = len(self.data) if split is None else len(split[0])
        size = self.space.size(trial.candidate)
        self.budget.observe(trial.candidate.kind, n, outcome.seconds / size)
        if outcome.dist is None:
            trial.state, trial.error = "failed", outcome.error
            return
        tested = self.test_rows if split is None else [split[1]]
        parts = [outcome.dist[rows] for rows in tested] if split is None else [outcome.dist]
        for rows, part in zip(tested, parts, strict=True):
            trial.add(part, self.data.y[rows], self.data.repetitions[rows])
        trial.fitted = outcome.fitted
        trial.summarize(self.data.y, self.data.repetitions, self.test_rows)
        if trial.summary is None or not np.isfinite(trial.summary.crps):
            trial.state, trial.error = "failed", ValueError("the CRPS of its forecasts is not finite.")
        elif len(trial.forecasts) == len(self.folds):
            trial.state = "complete"

    def _run(self, tasks: Sequence[_Task]) -> list[Any]:
        data = self.data
        jobs = []
        for task in tasks:
            X = self._encoded(task.trial.candidate.base)[1]
            options = (task.split, task.latest, self.random_folds)
            jobs.append(partial(_fit, task.estimator, X, data.y, data.metadata, *options))
        return list(run_parallel(jobs, n_jobs=self._n_jobs(len(jobs))))


def _fit(
    estimator: UncertaintyRegressor,
    X: Any,
    y: FloatArray,
    metadata: dict[str, Any],
    split: tuple[IntArray, IntArray] | None,
    latest: float,
    random_folds: bool,
) -> Outcome | None:
    """Fit and forecast. Return None if the fit may no longer start."""
    start = clock()
    if start > latest:
        return None
    try:
        # Parallel fits on one thread do not slow each other down. All candidates get the same weights,
        # regardless of their metadata requests.
        with (
            threadpool_limits(limits=1),
            config_context(enable_metadata_routing=False),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", SupportWarning)  # the search has no parameter `support`
            dist, fitted = _fit_and_forecast(estimator, X, y, metadata, split, random_folds)
    except Exception as error:  # the search continues with other candidates
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
