"""Search for candidates with Optuna, in worker processes that are ended at a deadline."""

from __future__ import annotations

import multiprocessing
import re
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context
from threadpoolctl import threadpool_limits

from skuq._compat import (
    ProcessPoolExecutor,
    content_hash,
    effective_n_jobs,
    safe_indexing,
)
from skuq._fitting.cross_fit import cross_fit
from skuq._fitting.table import TableEncoder, encoder_for
from skuq._fitting.training_data import TrainingData
from skuq._numeric import standard_deviation
from skuq._typing import FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE
from skuq.distributions import Distribution, concat
from skuq.exceptions import SupportWarning
from skuq.model_selection._auto_space import Candidate, Space
from skuq.regressors._mixture_pool import mean_and_error


def clock() -> float:
    return time.monotonic()


@dataclass(frozen=True)
class Summary:
    """Mean scores of forecasts, and the standard error of the CRPS."""

    crps: float
    standard_error: float
    coverage: float
    width: float


def summarize(dist: Distribution, y: FloatArray, repetitions: FloatArray) -> Summary:
    crps, error = mean_and_error(dist.crps(y), repetitions, ddof=1)
    lower, upper = dist.interval(DEFAULT_COVERAGE).T
    share = repetitions / repetitions.sum()
    return Summary(float(crps), float(error), share @ ((lower <= y) & (y <= upper)), share @ (upper - lower))


# ---------------------------------------------------------------------------------- fits and processes


class Fit(NamedTuple):
    """Result of one fit: the model, its forecasts of rows without influence on them, or an error."""

    seconds: float
    model: Any = None
    dist: Distribution | None = None
    error: Exception | None = None


ALL_ROWS, OWN_FOLDS = -1, -2
"""Instead of the number of a fold: a fit to all rows, and a fit to the rows of the search that also returns
their out-of-sample forecasts."""


@dataclass(eq=False)
class Fitter:
    """Fits of candidates to folds of the data. Each worker process has a copy."""

    space: Space
    full: TrainingData
    data: TrainingData  # of the search: all rows or a sample
    rows: IntArray | None  # of the sample
    folds: list[tuple[IntArray, IntArray]]
    cv: Any  # folds for use inside the methods; None if the folds are random or given as rows
    random_folds: bool  # if True, methods with out-of-sample forecasts of their training rows use these
    seed: int
    encoded: dict[str | None, tuple[TableEncoder | None, Any]] = field(default_factory=dict)

    def __call__(self, candidate: Candidate, fold: int) -> Fit:
        start = clock()
        data = self.full if fold == ALL_ROWS else self.data
        try:
            # Parallel fits on one thread do not slow each other down. All candidates get the same weights,
            # regardless of their metadata requests.
            with (
                threadpool_limits(limits=1),
                config_context(enable_metadata_routing=False),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore", SupportWarning)  # the search has no parameter `support`
                X = self.encoding(candidate.base)[1]
                if self.rows is not None and fold != ALL_ROWS:
                    X = safe_indexing(X, self.rows)
                cv = len(self.folds) if self.tests_own_rows(candidate) else self.cv
                estimator = self.space.build(candidate, cv, self.seed)
                if fold >= 0:
                    fitted = cross_fit(estimator, X, data.y, cv=[self.folds[fold]], params=data.metadata)
                    return Fit(clock() - start, fitted.estimators[0], fitted.predictions[0])
                if fold == OWN_FOLDS:
                    dist = estimator.fit_transform(X, data.y, **data.metadata)
                    return Fit(clock() - start, estimator, dist)
                return Fit(clock() - start, estimator.fit(X, data.y, **data.metadata))
        except Exception as error:  # the search continues with other candidates
            return Fit(clock() - start, error=error)

    def encoding(self, base: str) -> tuple[TableEncoder | None, Any]:
        """Return the encoder of a base model, and the encoded features of all rows."""
        name = self.space.bases[base].encoding
        if name not in self.encoded:
            encoder = encoder_for(self.full.X, name)
            self.encoded[name] = encoder, self.full.X if encoder is None else encoder.transform(self.full.X)
        return self.encoded[name]

    def tests_own_rows(self, candidate: Candidate) -> bool:
        return self.random_folds and self.space.tests_own_rows(candidate)

    @cached_property
    def tests(self) -> list[IntArray]:
        return [test for _, test in self.folds]


_WORKER: dict[str, Fitter] = {}
"""The copy of the fitter in a worker process."""


def _begin_worker(fitter: Fitter) -> None:
    _WORKER["fitter"] = fitter


def _fit_in_worker(candidate: Candidate, fold: int) -> Fit:
    return _WORKER["fitter"](candidate, fold)


START_SECONDS, START_FACTOR = 2.0, 2.0
"""Expected time of the first start of the worker processes, and the expected time of a later start divided by
the time of the last one. A later start may take longer, because the load of the computer varies."""


class Workers:
    """Fits in worker processes, which `run` ends at its deadline.

    Without a deadline, and inside a worker process of another search, one job runs in this process. A
    deadline then holds between fits.
    """

    def __init__(self, fitter: Fitter, n_jobs: int | None, *, has_deadline: bool) -> None:
        self.fitter = fitter
        self.n_jobs = int(effective_n_jobs(n_jobs))
        is_worker = multiprocessing.parent_process() is not None
        self.in_process = is_worker or (self.n_jobs == 1 and not has_deadline)
        self._executor: Any = None
        self.restart_seconds = START_SECONDS

    @property
    def start_seconds(self) -> float:
        return 0.0 if self.in_process or self._executor is not None else self.restart_seconds

    def _submit(self, task: tuple[Candidate, int]) -> Future[Fit]:
        if self._executor is None:
            start = clock()
            self._executor = ProcessPoolExecutor(
                self.n_jobs, initializer=_begin_worker, initargs=(self.fitter,)
            )
            wait([self._executor.submit(int)])
            self.restart_seconds = START_FACTOR * (clock() - start)
        future: Future[Fit] = self._executor.submit(_fit_in_worker, *task)
        while not (future.running() or future.done()):
            time.sleep(0.001)  # `stop` fails if loky has not yet seen the task
        return future

    def stop(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=True)
            self._executor = None

    def run(self, tasks: Sequence[tuple[Candidate, int]], deadline: float) -> Iterator[Fit | None]:
        """Yield the fits in the order of the tasks, and None for a fit that has not ended at the deadline."""
        if self.in_process:
            for task in tasks:
                yield None if clock() > deadline else self.fitter(*task)
            return
        waiting, running = iter(tasks), deque[Future[Fit]]()
        for task in tasks:
            # Not more tasks than processes are submitted, so that `stop` ends all of them at once.
            if deadline - clock() > self.start_seconds:
                for following in islice(waiting, self.n_jobs - len(running)):
                    running.append(self._submit(following))
            if not running:
                yield None
                continue
            yield self._result(running.popleft(), task, deadline, alone=len(tasks) == 1)

    def _result(
        self, future: Future[Fit], task: tuple[Candidate, int], deadline: float, *, alone: bool
    ) -> Fit | None:
        try:
            return future.result(None if np.isinf(deadline) else max(deadline - clock(), 0.0))
        except TimeoutError:
            self.stop()
            return None
        except Exception as error:  # the process has ended, or the candidate cannot be pickled
            self.stop()
            if clock() > deadline:
                return None
            # Another fit may have ended the process, so that each fit is repeated alone.
            return Fit(0.0, error=error) if alone else next(self.run([task], deadline))


# -------------------------------------------------------------------------------------- Optuna's study


def import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ImportError(
            'AutoUncertaintyRegressor needs Optuna, which is not installed: pip install "skuq[auto]".'
        ) from error
    return optuna


_STORAGES = (
    "the URL of a database ('sqlite:///trials.db'), a storage of Optuna "
    "(JournalStorage(JournalFileBackend('trials.log'))) or None"
)
KEPT_PERCENTAGE = 100 / 3
"""A trial continues with the next fold only if it is among the best trials. This is their percentage."""
MAX_RETRIES = 2
"""A candidate that was interrupted more often is not repeated, because it may crash the process."""


def open_study(
    optuna: Any, storage: Any, name: str | None, seed: int, space: Space, content: str
) -> tuple[Any, int]:
    """Return a stored or new study, and its seed. Raise an error if the content of a stored study differs."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"`study_name` must be a string or None, got {name!r}.")
    if not isinstance(storage, str | optuna.storages.BaseStorage | None):
        raise TypeError(f"`storage` must be {_STORAGES}. Got {storage!r}.")
    first = list(space.first())
    pruner = optuna.pruners.PercentilePruner(KEPT_PERCENTAGE, n_startup_trials=len(first))
    try:
        study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True, pruner=pruner)
    except Exception as error:  # databases and drivers raise different exceptions
        shown = re.sub(r"(//[^/:@]*):[^@]*@", r"\1:***@", str(storage))  # hides the password
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"`storage` must be {_STORAGES}. Got {shown!r}, which cannot be opened: {reason}"
        ) from error
    own = {"seed": seed, "content": content}
    stored = study.user_attrs.get("skuq", own)
    if stored["content"] != content:
        raise ValueError(
            f"`study_name` must be the name of a study with the same data, folds, space and constraints, "
            f"but the stored study {study.study_name!r} has different data, folds, space or constraints. "
            f"Use another name."
        )
    study.set_user_attr("skuq", stored)
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        repeat_later(optuna, study, trial)  # its process was killed
    for params in first:
        study.enqueue_trial(params, skip_if_exists=True)
    study.sampler = optuna.samplers.TPESampler(
        # a resumed study must not suggest the same candidates again
        seed=seed + len(study.get_trials(deepcopy=False)) - len(first),
        multivariate=True,
        group=True,
        constant_liar=True,
        n_startup_trials=len(first),
    )
    return study, int(stored["seed"])


def repeat_later(optuna: Any, study: Any, trial: Any) -> None:
    """Record an interrupted trial as failed. Its candidate waits until the study is resumed."""
    study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    interruptions = trial.user_attrs.get("interruptions", 0) + 1
    if interruptions <= MAX_RETRIES:
        study.enqueue_trial(trial.params, user_attrs={"interruptions": interruptions})


def content_of(space: Space, data: TrainingData, folds: Any, constraints: Sequence[object]) -> str:
    """Return a hash of data, folds, space and constraints. Scores with equal hashes can be compared."""
    # the default repr contains an address, which would change the hash
    written = re.sub(r" at 0x[0-9a-f]+", "", repr((space.bases, [str(one) for one in constraints])))
    return str(content_hash((data.X, data.y, data.metadata, folds, written)))


@contextmanager
def quiet(optuna: Any) -> Iterator[None]:
    """Suppress the messages of Optuna about trials and experimental features."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


# ------------------------------------------------------------------------------------------ the search


@dataclass(eq=False)
class Trial:
    """Candidate and its results."""

    candidate: Candidate
    handle: Any = None  # Optuna trial; None for the repetition of a stored one
    state: str = "running"  # or "complete", "pruned", "failed", "out of time", "stored", "not tried"
    reason: str = ""
    seconds: float = 0.0  # of all fits
    end: float = np.nan  # seconds after the start of the search
    models: list[Any] = field(default_factory=list)  # of the finished folds, or one model of all rows
    forecasts: list[Distribution] = field(default_factory=list)  # test rows of the finished folds
    summary: Summary | None = None
    error: Exception | None = None

    def fail(self, error: Exception) -> None:
        self.state, self.error = "failed", error
        self.reason = f"{type(error).__name__}: {error}"


_TRIED = "tried"
"""User attribute of stored trials that were not only suggested."""
BATCH = 4
"""Number of trials that Optuna suggests together. It is constant, so that results do not depend on
``n_jobs``."""
SUGGESTIONS, DRAWS = 5, 100
"""After these numbers of suggestions and of random draws without a new candidate, the search ends."""
LAST_SHARE = 0.25
"""Share of the time that the first trial of a base model leaves to the next ones. With a half, networks were
too slow for a budget of 60 seconds on a busy computer."""
MEMBERS = 6
"""Maximum number of members of a pool."""
FINAL_SHARE, SAMPLE_FINAL_SHARE = 0.1, 0.25
"""Shares of the time budget for the final choice and the final fits. The second one holds if the search uses
a sample of the rows, because the final fits then take longer."""
PENALTY = 1e6
"""Penalty for a relative violation of 1, in standard deviations of the target."""


@dataclass(eq=False)
class Search:
    """Trials of a study, and the best trial of each base model.

    Each base model is first fitted as it is, in the order of the space. Optuna then suggests candidates in
    batches, and stops the worse trials of a batch after each fold.
    """

    optuna: Any
    study: Any
    workers: Workers
    begin: float
    budget: float  # seconds; may be infinite
    n_trials: int | None
    violation: Callable[[Summary], float]  # relative violation of the constraints; 0 if all are satisfied
    on_trial: Callable[[Search, Trial], object]
    trials: list[Trial] = field(default_factory=list)
    best: dict[str, Trial] = field(default_factory=dict)
    stored: list[Trial] = field(default_factory=list)

    @property
    def fitter(self) -> Fitter:
        return self.workers.fitter

    @property
    def space(self) -> Space:
        return self.fitter.space

    def run(self) -> None:
        self._read_stored()
        for trial in self._first():
            # After the first complete one, a base model leaves a share of the time to the next ones, if the
            # processes could start again in this time.
            left = self.search_end - clock()
            has_next = self.best and LAST_SHARE * left > self.workers.restart_seconds
            self._fit([trial], clock() + (1 - LAST_SHARE if has_next else 1) * left, prune=False)
        batch = self._ask_batch()
        while batch:
            self._fit(batch, self.search_end, prune=True)
            batch = self._ask_batch() if len(batch) == BATCH else []  # there was no further candidate

    def _read_stored(self) -> None:
        states = self.optuna.trial.TrialState
        for frozen in self.study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED)):
            summary, seconds = Summary(**frozen.user_attrs["summary"]), frozen.user_attrs["seconds"]
            candidate = self.space.suggest(frozen)
            reason = "complete" if frozen.state == states.COMPLETE else "pruned"
            self.stored.append(Trial(candidate, None, "stored", reason, seconds, summary=summary))

    def _first(self) -> Iterator[Trial]:
        """Yield the best stored trial of each base model, and then the trials that wait in the study."""
        best: dict[str, Trial] = {}
        for trial in sorted(self.stored, key=lambda trial: self.value(trial.summary)):
            if trial.reason == "complete":
                best.setdefault(trial.candidate.base, trial)
        for trial in best.values():
            if not self._is_over():
                self.stored.remove(trial)
                yield self._open(Trial(trial.candidate))
        waiting = (self.optuna.trial.TrialState.WAITING,)
        while not self._is_over() and self.study.get_trials(deepcopy=False, states=waiting):
            handle = self.study.ask()
            yield self._open(Trial(self.space.suggest(handle), handle))

    def _ask_batch(self) -> list[Trial]:
        batch: list[Trial] = []
        while len(batch) < BATCH and not self._is_over() and (trial := self._suggested()) is not None:
            batch.append(self._open(trial))
        return batch

    def _suggested(self) -> Trial | None:
        """Return a new candidate for which there is time, or None. If suggestions repeat, draw at random."""
        for _ in range(SUGGESTIONS):
            handle = self.study.ask()
            candidate = self.space.suggest(handle)
            if self._is_new(candidate, handle.params):
                return Trial(candidate, handle)
            self.study.tell(handle, state=self.optuna.trial.TrialState.FAIL)
        draws = self.optuna.create_study(sampler=self.optuna.samplers.RandomSampler(len(self.trials)))
        for _ in range(DRAWS):
            drawn = draws.ask()
            if self._is_new(self.space.suggest(drawn), drawn.params):
                self.study.enqueue_trial(drawn.params)
                handle = self.study.ask()
                return Trial(self.space.suggest(handle), handle)
        return None

    def _is_new(self, candidate: Candidate, params: dict[str, Any]) -> bool:
        """Return whether a candidate was not tried, there is time for it, and its kind has not failed."""
        studied = self.study.get_trials(deepcopy=False)
        if any(one.params == params for one in studied if one.user_attrs.get(_TRIED)):
            return False
        of_kind = [one for one in self.trials if one.candidate.kind == candidate.kind]
        ended = [one for one in of_kind if one.state != "running"]
        if ended and all(one.summary is None for one in ended):
            return False
        seconds = min((one.seconds for one in ended if one.state == "complete"), default=0.0)
        return seconds < self.search_end - clock()

    def _open(self, trial: Trial) -> Trial:
        if trial.handle is not None:
            trial.handle.set_user_attr(_TRIED, True)
        self.trials.append(trial)
        return trial

    def _fit(self, batch: list[Trial], end: float, *, prune: bool) -> None:
        """Fit trials to all folds.

        With ``prune``, they are fitted to one fold after another, and the worse ones stop after each fold.
        """
        folds = list(range(len(self.fitter.folds)))
        for step in [[fold] for fold in folds] if prune else [folds]:
            tasks = [
                (trial, fold)
                for trial in batch
                if trial.state == "running"
                for fold in ([OWN_FOLDS] if self.fitter.tests_own_rows(trial.candidate) else step)
            ]
            fits = self.workers.run([(trial.candidate, fold) for trial, fold in tasks], end)
            for (trial, fold), fit in zip(tasks, fits, strict=True):
                self._take(trial, fold, fit)
                if trial.state == "failed" and not prune:
                    break
                if prune and trial.state == "running" and self.best and trial.handle.should_prune():
                    trial.state, trial.reason = "pruned", f"stopped after {fold + 1} folds"
        for trial in batch:
            self._close(trial)

    def _take(self, trial: Trial, fold: int, fit: Fit | None) -> None:
        """Add the result of a fit to a trial, and report the folds to Optuna."""
        if fit is None:
            trial.state, trial.reason = "out of time", "ended at the deadline"
            return
        trial.seconds += fit.seconds
        if fit.error is not None:
            trial.fail(fit.error)
            return
        data, tests = self.fitter.data, self.fitter.tests
        trial.models.append(fit.model)
        dist: Any = fit.dist
        trial.forecasts += [dist[test] for test in tests] if fold == OWN_FOLDS else [dist]
        n_done = len(trial.forecasts)
        tested = np.concatenate(tests[:n_done])
        trial.summary = summarize(concat(trial.forecasts), data.y[tested], data.repetitions[tested])
        if not np.isfinite(trial.summary.crps):
            trial.fail(ValueError("the CRPS of its forecasts is not finite."))
            return
        if trial.handle is not None:
            for step in range(0 if fold == OWN_FOLDS else fold, n_done):
                trial.handle.report(self.value(trial.summary), step)
        if n_done == len(tests):
            trial.state = "complete"

    def _close(self, trial: Trial) -> None:
        """Record a finished trial. Only the best trial of each base model keeps its models and forecasts."""
        best = self.best.get(trial.candidate.base)
        worse: Trial | None = trial
        if trial.state == "complete" and (
            best is None or self.value(trial.summary) < self.value(best.summary)
        ):
            self.best[trial.candidate.base], worse = trial, best
        if worse is not None:
            worse.models, worse.forecasts = [], []
        trial.end = clock() - self.begin
        if trial.handle is not None:
            if trial.summary is not None:
                trial.handle.set_user_attr("summary", asdict(trial.summary))
                trial.handle.set_user_attr("seconds", trial.seconds)
            states = self.optuna.trial.TrialState
            final = {"complete": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}
            if trial.state in final:  # the others are repeated
                value = self.value(trial.summary) if trial.state == "complete" else None
                self.study.tell(trial.handle, value, final[trial.state])
        self.on_trial(self, trial)

    def end(self) -> None:
        """Record the trials that were interrupted."""
        for trial in self.trials:
            if trial.state == "running":
                trial.state, trial.reason = "out of time", "interrupted"
            if trial.state == "out of time" and trial.handle is not None:
                repeat_later(self.optuna, self.study, trial.handle)

    def value(self, summary: Summary | None) -> float:
        """Return the CRPS plus a penalty for violations, which orders all candidates."""
        if summary is None:
            return np.inf
        return summary.crps + PENALTY * self._unit * self.violation(summary)

    @cached_property
    def _unit(self) -> float:
        return standard_deviation(self.fitter.data.y) or 1.0

    def leaders(self) -> list[Trial]:
        return sorted(self.best.values(), key=lambda trial: self.value(trial.summary))[:MEMBERS]

    @property
    def deadline(self) -> float:
        return self.begin + self.budget

    @property
    def search_end(self) -> float:
        share = SAMPLE_FINAL_SHARE if self.fitter.rows is not None and self.best else FINAL_SHARE
        return self.begin + (1 - share) * self.budget

    def is_refitted(self, trial: Trial) -> bool:
        """Return whether the final model needs a fit to all rows."""
        return self.fitter.rows is not None or not self.fitter.tests_own_rows(trial.candidate)

    @property
    def has_all_trials(self) -> bool:
        return self.n_trials is not None and len(self.trials) >= self.n_trials

    def _is_over(self) -> bool:
        return self.has_all_trials or self.search_end - clock() <= self.workers.start_seconds
