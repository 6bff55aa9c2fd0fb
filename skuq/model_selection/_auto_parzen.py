"""Search by Optuna's tree-structured Parzen estimator. Trials can be pruned after each fold."""

from __future__ import annotations

import os
import platform
import re
import signal
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from skuq._compat import content_hash
from skuq._fitting.training_data import TrainingData
from skuq.model_selection._auto_evaluation import Summary, Trial
from skuq.model_selection._auto_search import Search
from skuq.model_selection._auto_space import Candidate, Space

HEARTBEAT_SECONDS = 30.0
"""Seconds between two heartbeats. A heartbeat is a time that a running search stores."""
GRACE_SECONDS = 300.0
"""The process counts as killed if its last heartbeat is older than this number of seconds."""
MAX_INTERRUPTIONS = 3
"""After this number of interruptions, a candidate is not repeated, because the candidate may crash the
process."""
_OWNER, _ALIVE, _ENDED = "owner", "alive", "ended"
"""Names of the user attributes of a stored trial."""


class Terminated(BaseException):
    """Exception that is raised when the process receives SIGTERM."""


def _machine() -> str:
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:  # the file exists only on Linux
        pass
    return " ".join(parts)


def _exists(pid: int) -> bool:
    if sys.platform == "win32":  # signal 0 would end a process on Windows
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # the process exists, but belongs to another user
        return True
    return True


class Owner:
    """Identity of a running search, which is stored with its trials."""

    def __init__(self) -> None:
        self._record = {"search": uuid.uuid4().hex, "machine": _machine(), "pid": os.getpid()}

    def claim(self, handle: Any) -> None:
        handle.set_user_attr(_OWNER, self._record)

    def owns(self, frozen: Any) -> bool:
        return bool(frozen.user_attrs.get(_OWNER) == self._record)

    def has_lost(self, frozen: Any) -> bool:
        """Return whether the process of a trial has ended, or has sent no heartbeat for a long time."""
        owner = frozen.user_attrs.get(_OWNER, {})
        if owner.get("machine") == self._record["machine"] and not _exists(owner["pid"]):
            return True
        last = frozen.user_attrs.get(_ALIVE, frozen.datetime_start.timestamp())
        return bool(time.time() - last > GRACE_SECONDS)

    @contextmanager
    def heartbeat(self, handles: Callable[[], Iterable[Any]]) -> Iterator[None]:
        """Record heartbeats of trials at regular times while the block runs."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(HEARTBEAT_SECONDS):
                for handle in handles():
                    try:
                        handle.set_user_attr(_ALIVE, time.time())
                    except Exception:  # the trial may have ended, or the storage is busy
                        continue

        thread = threading.Thread(target=beat, daemon=True, name="heartbeat of a search")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def ended_by(handle: Any, reason: str) -> None:
    """Record the reason for the end of a trial. An interrupted trial has no recorded reason."""
    handle.set_user_attr(_ENDED, reason)


@contextmanager
def fails_on_interruption(optuna: Any, study: Any, owner: Owner) -> Iterator[None]:
    """Record the running trials of a search as failed if an exception or SIGTERM ends the search."""
    with _sigterm_raises():
        try:
            yield
        except BaseException:
            _fail(optuna, study, owner.owns)
            raise


def _fail(optuna: Any, study: Any, concerns: Callable[[Any], bool]) -> None:
    states = optuna.trial.TrialState
    for frozen in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
        if concerns(frozen):
            try:
                study.tell(frozen.number, state=states.FAIL)
            except (RuntimeError, ValueError):  # another process has recorded the trial
                continue


def interrupted_trials(optuna: Any, study: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the parameters of interrupted trials in two lists.

    The trials of the first list are repeated. The trials of the second list were interrupted too often.
    """
    found: dict[str, dict[str, Any]] = {}
    times: dict[str, int] = {}
    for frozen in study.get_trials(deepcopy=False):
        params = {**frozen.system_attrs.get("fixed_params", {}), **frozen.params}
        key = repr(sorted(params.items()))
        failed = frozen.state == optuna.trial.TrialState.FAIL
        if failed and _OWNER in frozen.user_attrs and _ENDED not in frozen.user_attrs:
            found[key] = params
            times[key] = times.get(key, 0) + 1
        else:
            found.pop(key, None)
    due = [params for key, params in found.items() if times[key] < MAX_INTERRUPTIONS]
    given_up = [params for key, params in found.items() if times[key] >= MAX_INTERRUPTIONS]
    return due, given_up


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Raise an exception when SIGTERM is received in the block, and send the signal again after the block."""
    process = os.getpid()

    def terminate(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # a forked child uses the default handler
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        raise Terminated

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


_STORAGES = (
    "the URL of a database ('sqlite:///trials.db'), a storage of Optuna "
    "(JournalStorage(JournalFileBackend('trials.log'))) or None"
)
KEPT_PERCENTAGE = 100 / 3
"""A trial continues with the next fold only if it is among the best trials. This is their percentage."""


def open_study(
    optuna: Any, storage: Any, name: str | None, seed: int, space: Space, content: str
) -> tuple[Any, int]:
    """Return a stored or new study, and its seed. Raise an error if the content of a stored study differs."""
    n_first = len(list(space.first()))
    if name is not None and not isinstance(name, str):
        raise TypeError(f"`study_name` must be a string or None, got {name!r}.")
    with quiet(optuna):
        study = optuna.create_study(
            storage=_open_storage(optuna, storage),
            study_name=name,
            load_if_exists=True,
            pruner=optuna.pruners.PercentilePruner(KEPT_PERCENTAGE, n_startup_trials=n_first),
        )
        study.sampler = optuna.samplers.TPESampler(
            # processes of the same study must have different seeds
            seed=None if study.get_trials(deepcopy=False) else seed,
            multivariate=True,
            group=True,
            n_startup_trials=n_first,
        )
    own = {"seed": seed, "content": content}
    shared = study.user_attrs.get("skuq", own)
    if shared["content"] != own["content"]:
        raise ValueError(
            f"`study_name` must be the name of a study with the same data, folds, space and constraints, "
            f"but the stored study {study.study_name!r} has different data, folds, space or constraints. "
            f"Use another name."
        )
    study.set_user_attr("skuq", shared)
    return study, int(shared["seed"])


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


def stored_trials(optuna: Any, study: Any, space: Space, own: Sequence[Trial]) -> list[Trial]:
    numbers = {trial.handle.number for trial in own if trial.handle is not None}
    states = {optuna.trial.TrialState.COMPLETE: "complete", optuna.trial.TrialState.PRUNED: "pruned"}
    found = []
    for frozen in study.get_trials(deepcopy=False, states=tuple(states)):
        if "summary" in frozen.user_attrs and frozen.number not in numbers:
            summary = Summary(**frozen.user_attrs["summary"])
            seconds = frozen.user_attrs["seconds"]
            candidate = space.suggest(frozen)
            found.append(Trial(candidate, states[frozen.state], seconds, summary=summary))
    return found


def search_by_optuna(search: Search, optuna: Any, study: Any, rng: np.random.RandomState) -> None:
    """Evaluate the base models with their own parameters, and then candidates that Optuna suggests."""
    parzen = _ParzenSearch(search, optuna, study, rng)
    with (
        fails_on_interruption(optuna, study, parzen.owner),
        parzen.owner.heartbeat(lambda: [one.handle for one in [*parzen.running] if one.handle is not None]),
    ):
        parzen.run()


@dataclass(eq=False)
class _ParzenSearch:
    """Search that uses the candidates and trials of an Optuna study."""

    search: Search
    optuna: Any
    study: Any
    rng: np.random.RandomState  # draws candidates that replace repeated suggestions
    owner: Owner = field(default_factory=Owner)
    waiting: list[Candidate] = field(default_factory=list)  # stored candidates that are fitted again
    running: list[Trial] = field(default_factory=list)
    tried_again: bool = False  # whether the last trial repeats an interrupted trial

    @property
    def space(self) -> Space:
        return self.search.evaluator.space

    def run(self) -> None:
        search = self.search
        self._read_stored()
        while self.running or not search.is_over():
            while len(self.running) < self._width() and not search.is_over():
                begun = self._next()
                if begun is None:
                    break
                self.running.append(begun)
            if not self.running:  # there is no other candidate
                return
            search.advance(self.running)
            for trial in self.running:
                self._report(trial)
                if trial.state != "running":
                    search.close(trial)
            self.running = [trial for trial in self.running if trial.state == "running"]

    def _read_stored(self) -> None:
        """Read the stored trials and the best candidate of each base model."""
        stored = stored_trials(self.optuna, self.study, self.space, self.search.trials)
        best: dict[str, Trial] = {}
        for trial in sorted(stored, key=self.search.rank):
            if trial.state == "complete":
                best.setdefault(trial.candidate.base, trial)
        self.search.seen.update(self.space.key(trial.candidate) for trial in stored)
        self.waiting = [trial.candidate for trial in best.values()]

    def _width(self) -> int:
        """Return the number of parallel trials. It is 1 if a trial may crash the process."""
        return 1 if self.tried_again or self._interrupted()[0] else self.search.width

    def _next(self) -> Trial | None:
        """Start the next trial. Return None if all candidates have a trial or take too long."""
        search = self.search
        if (candidate := search.choose(self.waiting)) is not None:
            self.waiting = [one for one in self.waiting if one.kind != candidate.kind]
            return search.open(candidate)
        self.waiting = []
        rejected: set[tuple[str, str]] = set()
        while (due := search.choose([one for one in self._due() if one.kind not in rejected])) is not None:
            self.study.enqueue_trial(self.space.encode(due))
            if (begun := self._ask()) is not None:
                return begun
            rejected.add(due.kind)
        return self._next_suggestion()

    def _next_suggestion(self) -> Trial | None:
        """Start a trial that Optuna suggests. If the suggestion is repeated, draw a random trial instead."""
        search = self.search
        elsewhere: dict[Hashable, Candidate] = {}
        while (other := search.draw(self.rng, elsewhere)) is not None:
            if (begun := self._ask(elsewhere)) is not None:
                return begun
            if self.space.key(other) not in elsewhere:
                self.study.enqueue_trial(self.space.encode(other))
                if (begun := self._ask(elsewhere)) is not None:
                    return begun
        if search.best or self.running or not elsewhere:
            return None
        self.study.enqueue_trial(self.space.encode(next(iter(elsewhere.values()))))
        return self._ask(shared=True)

    def _interrupted(self) -> tuple[list[Candidate], set[tuple[str, str]]]:
        """Return interrupted candidates for which there is time, and kinds with too many interruptions."""
        due, given_up = (
            [
                self.space.suggest(self.optuna.trial.FixedTrial(params))
                for params in found
                if self._has(params)
            ]
            for found in interrupted_trials(self.optuna, self.study)
        )
        search = self.search
        due = [
            one
            for one in due
            if self.space.key(one) not in search.seen
            and one.kind not in search.closed
            and (not search.best or search.admits(one))
        ]
        return due, {one.kind for one in given_up}

    def _has(self, params: dict[str, Any]) -> bool:
        """Return whether stored parameters are complete. After an interruption, they may be incomplete."""
        try:
            self.space.suggest(self.optuna.trial.FixedTrial(params))
        except ValueError:
            return False
        return True

    def _due(self) -> list[Candidate]:
        _fail(self.optuna, self.study, self.owner.has_lost)  # trials of processes that have ended
        interrupted, given_up = self._interrupted()
        self.tried_again = bool(interrupted)
        begun = {trial.candidate.kind for trial in self.search.trials} | given_up
        for frozen in self.study.get_trials(deepcopy=False):
            if frozen.state != self.optuna.trial.TrialState.FAIL or "error" in frozen.user_attrs:
                base = frozen.params.get("base")
                begun.add((base, frozen.params.get(f"{base}: method")))
        return interrupted + [one for one in self.space.first() if one.kind not in begun]

    def _ask(
        self, elsewhere: dict[Hashable, Candidate] | None = None, *, shared: bool = False
    ) -> Trial | None:
        """Start the next trial of the study. Return None if its candidate has a trial or takes too long."""
        handle = self.study.ask()
        self.owner.claim(handle)  # stored first, so that interruptions are recorded
        candidate = self.space.suggest(handle)
        key = self.space.key(candidate)
        running = self.study.get_trials(deepcopy=False, states=(self.optuna.trial.TrialState.RUNNING,))
        is_elsewhere = not shared and any(
            one.number < handle.number and one.params == handle.params for one in running
        )
        if is_elsewhere and elsewhere is not None:
            elsewhere[key] = candidate
        is_new = key not in self.search.seen and not is_elsewhere
        if is_new and (not self.search.best or self.search.admits(candidate)):
            return self.search.open(candidate, handle)
        ended_by(handle, "repeated")
        self.study.tell(handle, state=self.optuna.trial.TrialState.FAIL)
        return None

    def _report(self, trial: Trial) -> None:
        """Report the folds of a trial. Stop the trial if it is not among the best, and record its end."""
        if trial.handle is None:
            return
        means = np.cumsum(trial.crps) / (1 + np.arange(len(trial.crps)))
        penalty = 0.0 if trial.summary is None else self.search.penalty(trial.summary)
        for step in range(trial.reported, len(means)):
            trial.handle.report(float(means[step]) + penalty, step)
        trial.reported = len(means)
        if trial.state == "running" and self.search.best and trial.handle.should_prune():
            trial.state = "pruned"
        if trial.state == "running":
            return
        if trial.error is not None:
            trial.handle.set_user_attr("error", repr(trial.error))
        if trial.summary is not None:
            trial.handle.set_user_attr("summary", asdict(trial.summary))
            trial.handle.set_user_attr("seconds", trial.seconds)
        states = self.optuna.trial.TrialState
        if trial.state == "complete" and trial.summary is not None:
            self.study.tell(trial.handle, trial.summary.crps + penalty)
            return
        ended_by(trial.handle, trial.state)
        self.study.tell(trial.handle, state=states.PRUNED if trial.state == "pruned" else states.FAIL)
