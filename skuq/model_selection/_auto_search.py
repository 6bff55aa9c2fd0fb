"""Search for candidates with Optuna, in worker processes that are ended at a deadline."""

from __future__ import annotations

import multiprocessing
import re
import time
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
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
    slice_fit_params,
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
    crps = dist.crps(y)
    lower, upper = dist.interval(DEFAULT_COVERAGE).T
    total = repetitions.sum()
    mean = repetitions @ crps / total
    variance = repetitions @ (crps - mean) ** 2 / max(total - 1, 1)
    covered = repetitions @ ((lower <= y) & (y <= upper)) / total
    width = repetitions @ (upper - lower) / total
    return Summary(float(mean), float(np.sqrt(variance / total)), float(covered), float(width))


# ---------------------------------------------------------------------------------- fits and processes


class Fit(NamedTuple):
    """Result of one fit: the model, its forecasts of rows without influence on them, or an error."""

    seconds: float
    model: Any = None
    dist: Distribution | None = None
    error: Exception | None = None


ALL_ROWS, OUT_OF_BAG = -1, -2
"""Instead of the number of a fold: a fit to all rows, and a fit to the rows of the search that gives their
out-of-bag forecasts."""


@dataclass(eq=False)
class Fitter:
    """Fits of candidates to folds of the data. Each worker process has a copy.

    The search uses the rows ``rows``, and the folds contain no other rows.
    """

    space: Space
    data: TrainingData
    rows: IntArray
    folds: list[tuple[IntArray, IntArray]]
    cv: Any  # folds for use inside the methods; None if the folds are random or given as rows
    random_folds: bool  # if True, forests and deep ensembles use their out-of-bag rows
    seed: int
    encoded: dict[str | None, tuple[TableEncoder | None, Any]] = field(default_factory=dict)

    def __call__(self, candidate: Candidate, fold: int) -> Fit:
        start = clock()
        data = self.data
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
                estimator = self.space.build(candidate, self.cv, self.seed)
                if fold >= 0:
                    fitted = cross_fit(estimator, X, data.y, cv=[self.folds[fold]], params=data.metadata)
                    return Fit(clock() - start, fitted.estimators[0], fitted.predictions[0])
                if fold == OUT_OF_BAG:
                    params = slice_fit_params(X, data.metadata, self.rows)
                    X, y = safe_indexing(X, self.rows), data.y[self.rows]
                    dist = estimator.fit_transform(X, y, **params)
                    return Fit(clock() - start, estimator, dist)
                return Fit(clock() - start, estimator.fit(X, data.y, **data.metadata))
        except Exception as error:  # the search continues with other candidates
            return Fit(clock() - start, error=error)

    def encoding(self, base: str) -> tuple[TableEncoder | None, Any]:
        """Return the encoder of a base model, and the encoded features of all rows."""
        name = self.space.bases[base].encoding
        if name not in self.encoded:
            encoder = encoder_for(self.data.X, name)
            self.encoded[name] = encoder, self.data.X if encoder is None else encoder.transform(self.data.X)
        return self.encoded[name]

    def is_out_of_bag(self, candidate: Candidate) -> bool:
        return self.random_folds and self.space.is_out_of_bag(candidate)

    @cached_property
    def tests(self) -> list[IntArray]:
        return [test for _, test in self.folds]


_WORKER: dict[str, Fitter] = {}
"""The copy of the fitter in a worker process."""


def _begin_worker(fitter: Fitter) -> None:
    _WORKER["fitter"] = fitter


def _fit_in_worker(candidate: Candidate, fold: int) -> Fit:
    return _WORKER["fitter"](candidate, fold)


START_SECONDS, MOST_START_SECONDS = 2.0, 60.0
"""Time until a worker process has started, and the longest time to wait for it."""


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

    @property
    def start_seconds(self) -> float:
        return 0.0 if self.in_process or self._executor is not None else START_SECONDS

    def start(self, seconds: float) -> None:
        """Start the processes if they do not run. Wait until one of them is ready, but not longer."""
        if self._executor is None and not self.in_process:
            self._executor = ProcessPoolExecutor(
                self.n_jobs, initializer=_begin_worker, initargs=(self.fitter,)
            )
            wait([self._executor.submit(int)], min(seconds, MOST_START_SECONDS))

    def _submit(self, task: tuple[Candidate, int]) -> Future[Fit]:
        self.start(0.0)
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
    first = list(space.first())
    study = optuna.create_study(
        storage=_open_storage(optuna, storage),
        study_name=name,
        load_if_exists=True,
        pruner=optuna.pruners.PercentilePruner(KEPT_PERCENTAGE, n_startup_trials=len(first)),
    )
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


def _open_storage(optuna: Any, storage: Any) -> Any:
    if storage is None or isinstance(storage, optuna.storages.BaseStorage):
        return storage
    if not isinstance(storage, str):
        raise TypeError(f"`storage` must be {_STORAGES}. Got {storage!r}.")
    try:
        return optuna.storages.RDBStorage(storage)
    except Exception as error:  # databases and drivers raise different exceptions
        shown = re.sub(r"(//[^/:@]*):[^@]*@", r"\1:***@", storage)  # hides the password
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"`storage` must be {_STORAGES}. Got {shown!r}, which cannot be opened: {reason}"
        ) from error


def content_of(space: Space, data: TrainingData, folds: Any, constraints: Sequence[object]) -> str:
    """Return a hash of data, folds, space and constraints. Scores with equal hashes can be compared."""
    bases = [
        (name, base.estimator, base.methods, sorted(base.params.items()), base.encoding)
        for name, base in space.bases.items()
    ]
    # the default repr contains an address, which would change the hash
    written = re.sub(r" at 0x[0-9a-f]+", "", repr((bases, [str(one) for one in constraints])))
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
    crps: list[float] = field(default_factory=list)  # mean CRPS of each finished fold
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
MEMBERS = 6
"""Maximum number of members of a pool."""
CHOICE_SHARE, LARGEST_RESERVE = 0.05, 0.25
"""Share of the time budget for the final choice, and largest share for the choice and the final fits."""
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
    seen: set[Hashable] = field(default_factory=set)  # candidates that are not tried again
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
            out_of_bag = self.fitter.is_out_of_bag(trial.candidate)
            folds = [OUT_OF_BAG] if out_of_bag else range(len(self.fitter.folds))
            tasks = [(trial.candidate, fold) for fold in folds]
            # After the first complete one, a base model may take half of the time that is left, so that the
            # next ones have a chance.
            self.workers.start(self._time_left())  # not within the share of the base model
            fits = self.workers.run(tasks, clock() + self._time_left() / (2 if self.best else 1))
            for (_, fold), fit in zip(tasks, fits, strict=True):
                self._take(trial, fold, fit)
                if trial.state == "failed":
                    break
            self._close(trial)
        batch = self._ask_batch()
        while batch:
            running = batch
            for fold in range(len(self.fitter.folds)):
                running = self._advance(running, fold)
            for trial in batch:
                self._close(trial)
            batch = self._ask_batch() if len(batch) == BATCH else []  # there was no further candidate

    def _read_stored(self) -> None:
        states = self.optuna.trial.TrialState
        for frozen in self.study.get_trials(deepcopy=False):
            if frozen.user_attrs.get(_TRIED):
                self.seen.add(_key(frozen.params))
            if frozen.state not in (states.COMPLETE, states.PRUNED):
                continue
            summary, seconds = Summary(**frozen.user_attrs["summary"]), frozen.user_attrs["seconds"]
            candidate = self.space.suggest(frozen)
            reason = "complete" if frozen.state == states.COMPLETE else "pruned"
            self.stored.append(Trial(candidate, None, "stored", reason, seconds, summary=summary))

    def _first(self) -> Iterator[Trial]:
        """Yield the best stored trial of each base model, and then the trials that wait in the study."""
        best: dict[str, Trial] = {}
        for trial in sorted(self.stored, key=self.rank):
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
        return _key(params) not in self.seen and self._seconds_of(candidate.kind) < self._time_left()

    def _seconds_of(self, kind: tuple[str, str]) -> float:
        """Return the time of a trial of this kind, which is infinite if none of them had forecasts."""
        tried = [trial for trial in self.trials if trial.candidate.kind == kind]
        if all(trial.summary is None for trial in tried) and any(trial.state != "running" for trial in tried):
            return np.inf
        return min((trial.seconds for trial in tried if trial.state == "complete"), default=0.0)

    def _open(self, trial: Trial) -> Trial:
        if trial.handle is not None:
            self.seen.add(_key(trial.handle.params))
            trial.handle.set_user_attr(_TRIED, True)
        self.trials.append(trial)
        return trial

    def _advance(self, trials: list[Trial], fold: int) -> list[Trial]:
        """Fit the next fold of each trial. Return the trials that continue."""
        tasks = [
            (trial.candidate, OUT_OF_BAG if self.fitter.is_out_of_bag(trial.candidate) else fold)
            for trial in trials
        ]
        for (_, at), trial, fit in zip(
            tasks, trials, self.workers.run(tasks, clock() + self._time_left()), strict=True
        ):
            self._take(trial, at, fit)
            if trial.state == "running" and self.best and trial.handle.should_prune():
                trial.state, trial.reason = "pruned", f"stopped after {fold + 1} folds"
        return [trial for trial in trials if trial.state == "running"]

    def _take(self, trial: Trial, fold: int, fit: Fit | None) -> None:
        """Add the result of a fit to a trial, and report the folds to Optuna."""
        if fit is None:
            trial.state, trial.reason = "out of time", "ended at the deadline"
            return
        trial.seconds += fit.seconds
        if fit.error is not None or fit.dist is None:
            trial.fail(fit.error or RuntimeError("the fit has no forecasts"))
            return
        data, tests, rows = self.fitter.data, self.fitter.tests, self.fitter.rows
        trial.models.append(fit.model)
        for k in range(len(tests)) if fold == OUT_OF_BAG else [fold]:
            dist = fit.dist[np.searchsorted(rows, tests[k])] if fold == OUT_OF_BAG else fit.dist
            y, repetitions = data.y[tests[k]], data.repetitions[tests[k]]
            trial.forecasts.append(dist)
            total = repetitions.sum()
            trial.crps.append(float(repetitions @ dist.crps(y) / total) if total > 0 else 0.0)
            tested = np.concatenate(tests[: len(trial.forecasts)])
            trial.summary = summarize(concat(trial.forecasts), data.y[tested], data.repetitions[tested])
            if not np.isfinite(trial.summary.crps):
                trial.fail(ValueError("the CRPS of its forecasts is not finite."))
                return
            if trial.handle is not None:
                trial.handle.report(np.mean(trial.crps) + self._penalty(trial.summary), k)
        if len(trial.forecasts) == len(tests):
            trial.state = "complete"

    def _close(self, trial: Trial) -> None:
        """Record a finished trial. Only the best trial of each base model keeps its models and forecasts."""
        best = self.best.get(trial.candidate.base)
        worse: Trial | None = trial
        if trial.state == "complete" and (best is None or self.rank(trial) < self.rank(best)):
            self.best[trial.candidate.base], worse = trial, best
        if worse is not None:
            worse.models, worse.forecasts = [], []
        trial.end = clock() - self.begin
        self._tell(trial)
        self.on_trial(self, trial)

    def _tell(self, trial: Trial) -> None:
        if trial.handle is None:
            return
        states = self.optuna.trial.TrialState
        if trial.summary is not None:
            trial.handle.set_user_attr("summary", asdict(trial.summary))
            trial.handle.set_user_attr("seconds", trial.seconds)
        if trial.state == "complete" and trial.summary is not None:
            self.study.tell(trial.handle, trial.summary.crps + self._penalty(trial.summary))
        elif trial.state == "pruned":
            self.study.tell(trial.handle, state=states.PRUNED)
        elif trial.state == "failed":
            self.study.tell(trial.handle, state=states.FAIL)

    def end(self) -> None:
        """Record the trials that were interrupted."""
        for trial in self.trials:
            if trial.state == "running":
                trial.state, trial.reason = "out of time", "interrupted"
            if trial.state == "out of time" and trial.handle is not None:
                repeat_later(self.optuna, self.study, trial.handle)

    def rank(self, trial: Trial) -> tuple[float, float]:
        if trial.summary is None:
            return np.inf, np.inf
        return self.violation(trial.summary), trial.summary.crps

    def _penalty(self, summary: Summary) -> float:
        """Return a penalty for violations. CRPS plus penalty orders the trials in the same way as `rank`."""
        return PENALTY * (standard_deviation(self.fitter.data.y) or 1.0) * self.violation(summary)

    def leaders(self) -> list[Trial]:
        return sorted(self.best.values(), key=self.rank)[:MEMBERS]

    @property
    def deadline(self) -> float:
        return self.begin + self.budget

    def refit_seconds(self) -> float:
        """Return the expected time of fits of the best trials to all rows."""
        fitter = self.fitter
        rows = {True: len(fitter.rows), False: len(fitter.folds[0][0])}
        seconds = [
            trial.seconds / len(trial.models) * len(fitter.data) / rows[fitter.is_out_of_bag(trial.candidate)]
            for trial in self.leaders()
            if self.is_refitted(trial)
        ]
        return self.workers.start_seconds + sum(seconds) / self.workers.n_jobs

    def is_refitted(self, trial: Trial) -> bool:
        """Return whether the final model needs a fit to all rows."""
        is_sample = len(self.fitter.rows) < len(self.fitter.data)
        return is_sample or not self.fitter.is_out_of_bag(trial.candidate)

    def _time_left(self) -> float:
        """Return the time that is left for trials."""
        if np.isinf(self.budget):
            return np.inf
        reserve = CHOICE_SHARE * self.budget
        if self.best:
            reserve = min(reserve + self.refit_seconds(), LARGEST_RESERVE * self.budget)
        return self.deadline - clock() - reserve

    @property
    def has_all_trials(self) -> bool:
        return self.n_trials is not None and len(self.trials) >= self.n_trials

    def _is_over(self) -> bool:
        return self.has_all_trials or self._time_left() <= self.workers.start_seconds


def _key(params: dict[str, Any]) -> Hashable:
    return tuple(sorted(params.items()))
