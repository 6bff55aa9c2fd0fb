"""Optuna's tree-structured Parzen estimator, with folds as pruning steps and an optional storage."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

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
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["content_of", "open_study", "quiet", "search_by_optuna", "stored_trials"]

_STORAGES = (
    "the URL of a database, such as 'sqlite:///trials.db', a storage of Optuna, such as "
    "JournalStorage(JournalFileBackend('trials.log')), or None"
)
KEPT_PERCENTAGE = 100 / 3
"""Percentage of complete trials that a trial must be among to go on to the next fold."""


def open_study(
    optuna: Any, storage: Any, name: str | None, seed: int, space: Space, content: str
) -> tuple[Any, int]:
    """Return a new study or the one of this name in the storage, and the seed that all its trials share.

    A study of other content raises.
    """
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
            # one that resumes a study, or shares it, must not suggest the same again
            seed=None if study.get_trials(deepcopy=False) else seed,
            multivariate=True,
            group=True,
            n_startup_trials=n_first,
        )
    own = {"seed": seed, "content": content}
    shared = study.user_attrs.get("skuq", own)
    if shared["content"] != own["content"]:
        raise ValueError(
            f"`study_name` must be a study of the same data, folds, space and constraints, got "
            f"{study.study_name!r}, which is of others. Choose another name."
        )
    study.set_user_attr("skuq", shared)
    return study, int(shared["seed"])


def _open_storage(optuna: Any, storage: Any) -> Any:
    """Return Optuna's storage for a URL; others are returned unchanged."""
    if storage is None or isinstance(storage, optuna.storages.BaseStorage):
        return storage
    if not isinstance(storage, str):
        raise TypeError(f"`storage` must be {_STORAGES}, got {storage!r}.")
    try:
        return optuna.storages.RDBStorage(storage)
    except Exception as error:  # each of SQLAlchemy, a database and its driver has classes of its own
        shown = re.sub(r"(//[^/:@]*):[^@]*@", r"\1:***@", storage)  # without the password
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"`storage` must be {_STORAGES}, got {shown!r}, which cannot be opened: {reason}"
        ) from error


def content_of(space: Space, data: TrainingData, folds: Any, constraints: Sequence[object]) -> str:
    """Return a hash of the data, the folds and the space; trials are comparable where it is equal."""
    bases = [
        (name, base.estimator, base.methods, sorted(base.params.items()), base.encoding)
        for name, base in space.bases.items()
    ]
    # objects without a repr of their own have their address in it, which is another in each process
    written = re.sub(r" at 0x[0-9a-f]+", "", repr((bases, [str(one) for one in constraints])))
    return str(content_hash((data.X, data.y, data.metadata, folds, written)))


@contextmanager
def quiet(optuna: Any) -> Iterator[None]:
    """Keep Optuna from writing that trials begin and end, and that parts of it are experimental."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def stored_trials(optuna: Any, study: Any, space: Space, own: Sequence[Trial]) -> list[Trial]:
    """Return the trials of a study that are not among the own ones, without their forecasts."""
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
    """Evaluate base models with their own parameters, and then the suggestions of Optuna.

    The best candidates of a resumed study come first: their forecasts are not stored. The trials that were
    interrupted come next.
    """
    parzen = _ParzenSearch(search, optuna, study, rng)
    with (
        fails_on_interruption(optuna, study, parzen.owner),
        parzen.owner.heartbeat(lambda: [one.handle for one in [*parzen.running] if one.handle is not None]),
    ):
        parzen.run()


@dataclass(eq=False)
class _ParzenSearch:
    """A search with the candidates and trials of a study of Optuna.

    Attributes
    ----------
    search : Search
        All trials of this process.
    optuna : module
        The package.
    study : optuna.Study
        All trials of all processes.
    rng : RandomState
        Source of the candidates that take the place of repeated suggestions.
    owner : Owner
        The name of this search in the storage.
    waiting : list of Candidate
        Candidates that are complete in the storage and are fitted again, the best first.
    running : list of Trial
        Trials that are evaluated now.
    tried_again : bool
        Whether the trial that was begun last had been interrupted before.
    """

    search: Search
    optuna: Any
    study: Any
    rng: np.random.RandomState
    owner: Owner = field(default_factory=Owner)
    waiting: list[Candidate] = field(default_factory=list)
    running: list[Trial] = field(default_factory=list)
    tried_again: bool = False

    @property
    def space(self) -> Space:
        return self.search.evaluator.space

    def run(self) -> None:
        """Evaluate candidates until the search is over."""
        search = self.search
        self._read_stored()
        while self.running or not search.is_over():
            while len(self.running) < self._width() and not search.is_over():
                begun = self._next()
                if begun is None:
                    break
                self.running.append(begun)
            if not self.running:  # every candidate of the space has been evaluated
                return
            search.advance(self.running)
            for trial in self.running:
                self._report(trial)
                if trial.state != "running":
                    search.close(trial)
            self.running = [trial for trial in self.running if trial.state == "running"]

    def _read_stored(self) -> None:
        """Note what the study has already, and the best candidate of each base model."""
        stored = stored_trials(self.optuna, self.study, self.space, self.search.trials)
        best: dict[str, Trial] = {}
        for trial in sorted(stored, key=self.search.rank):
            if trial.state == "complete":
                best.setdefault(trial.candidate.base, trial)
        self.search.seen.update(self.space.key(trial.candidate) for trial in stored)
        self.waiting = [trial.candidate for trial in best.values()]

    def _width(self) -> int:
        """Return the number of trials side by side; 1 if a trial may be the one that ends the process."""
        return 1 if self.tried_again or self._interrupted()[0] else self.search.width

    def _next(self) -> Trial | None:
        """Begin the next trial; None where every candidate has one, or takes too long."""
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
        """Begin a trial that Optuna suggests, or a random one in place of a repeated suggestion.

        A candidate under evaluation elsewhere is evaluated here too if nothing else gives forecasts.
        """
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
        """Return interrupted candidates for which there is time, and kinds interrupted too often."""
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
        """Return whether stored parameters are complete; an interruption may come before they are."""
        try:
            self.space.suggest(self.optuna.trial.FixedTrial(params))
        except ValueError:
            return False
        return True

    def _due(self) -> list[Candidate]:
        """Return interrupted candidates, then base models that have no trial with one of their methods.

        Base models whose trials ended for want of time are due again.
        """
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
        """Begin the trial that the study has next; None if its candidate has a trial or takes too long.

        Parameters
        ----------
        elsewhere : dict of key to Candidate or None
            Where a candidate is noted that another process evaluates.
        shared : bool
            Whether such a candidate is evaluated here too.
        """
        handle = self.study.ask()
        self.owner.claim(handle)  # first, so that an interruption from here on is noticed
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
        """Return whether another process has begun the same candidate a moment before."""
        running = self.study.get_trials(deepcopy=False, states=(self.optuna.trial.TrialState.RUNNING,))
        return any(one.number < handle.number and one.params == handle.params for one in running)

    def _report(self, trial: Trial) -> None:
        """Report the folds of a trial, stop it where it is not among the best, and record what is done.

        Candidates that violate the constraints are worse than those that do not. Before one is complete here
        none is stopped, as other processes' forecasts are not at hand.
        """
        if trial.handle is None:  # stored already
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
