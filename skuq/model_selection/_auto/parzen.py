"""Search by Optuna's tree-structured Parzen estimator. Trials can be pruned after each fold."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from skuq._fitting.training_data import TrainingData
from skuq._sklearn_compat import content_hash
from skuq.model_selection._auto.interruption import (
    Owner,
    ended_by,
    fails_on_interruption,
    interrupted_trials,
    release_lost,
)
from skuq.model_selection._auto.search import Search
from skuq.model_selection._auto.space import Candidate, Space
from skuq.model_selection._auto.trial import Summary, Trial

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
        release_lost(self.optuna, self.study, self.owner)
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
        is_elsewhere = not shared and self._is_elsewhere(handle)
        if is_elsewhere and elsewhere is not None:
            elsewhere[key] = candidate
        is_new = key not in self.search.seen and not is_elsewhere
        if is_new and (not self.search.best or self.search.admits(candidate)):
            return self.search.open(candidate, handle)
        ended_by(handle, "repeated")
        self.study.tell(handle, state=self.optuna.trial.TrialState.FAIL)
        return None

    def _is_elsewhere(self, handle: Any) -> bool:
        running = self.study.get_trials(deepcopy=False, states=(self.optuna.trial.TrialState.RUNNING,))
        return any(one.number < handle.number and one.params == handle.params for one in running)

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
