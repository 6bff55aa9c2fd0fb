"""Optuna's tree-structured Parzen estimator, with folds as pruning steps and an optional storage."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np

from skuq._sklearn_compat import content_hash
from skuq.model_selection._auto.search import Search
from skuq.model_selection._auto.space import Candidate, Space
from skuq.model_selection._auto.trial import Summary, Trial
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["content_of", "open_study", "quiet", "search_by_optuna", "stored_trials"]

KEPT_PERCENTAGE = 100 / 3
"""Percentage of complete trials that a trial must be among to go on to the next fold."""


def open_study(
    optuna: Any, storage: Any, name: str | None, seed: int, space: Space, content: str
) -> tuple[Any, int]:
    """Return a new study or the one of this name in the storage, and the seed that all its trials share.

    A study of other content raises.
    """
    n_first = len(list(space.first()))
    with quiet(optuna):
        study = optuna.create_study(
            storage=storage,
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


def content_of(space: Space, data: TrainingData, folds: Any, constraints: Sequence[object]) -> str:
    """Return a hash of the data, the folds and the space; trials are comparable where it is equal."""
    bases = [
        (name, base.estimator, base.methods, sorted(base.params.items()))
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
    """Evaluate base models as they are, and then what Optuna suggests.

    The best candidates of a resumed study come first: their forecasts are not stored.
    """
    space = search.evaluator.space
    stored = stored_trials(optuna, study, space, search.trials)
    best: dict[str, Trial] = {}
    for trial in sorted(stored, key=search.rank):
        if trial.state == "complete":
            best.setdefault(trial.candidate.base, trial)
    search.seen.update(space.key(trial.candidate) for trial in stored)
    _enqueue_first(optuna, study, space)
    waiting: list[Candidate] = [trial.candidate for trial in best.values()]
    running: list[Trial] = []
    while running or not search.is_over():
        while len(running) < search.width and not search.is_over():
            begun = _next(search, optuna, study, waiting, rng)
            if begun is None:
                break
            running.append(begun)
        if not running:  # every candidate of the space has been evaluated
            return
        search.advance(running)
        for trial in running:
            _report(search, optuna, study, trial)
            if trial.state != "running":
                search.close(trial)
        running = [trial for trial in running if trial.state == "running"]


def _enqueue_first(optuna: Any, study: Any, space: Space) -> None:
    """Enqueue base models with their own parameters, unless the study has or had them by this method.

    Trials that ended for want of time are no reason not to.
    """
    begun = set()
    for frozen in study.get_trials(deepcopy=False):
        if frozen.state != optuna.trial.TrialState.FAIL or "error" in frozen.user_attrs:
            base = frozen.params.get("base")
            own = (base, frozen.params.get(f"{base}: method"))
            begun.add(tuple(frozen.user_attrs.get("kind", own)))
    for candidate in space.first():
        if candidate.kind not in begun:
            study.enqueue_trial(space.encode(candidate), user_attrs={"kind": candidate.kind})


def _next(
    search: Search, optuna: Any, study: Any, waiting: list[Candidate], rng: np.random.RandomState
) -> Trial | None:
    """Begin the next trial; None where every candidate has one.

    A suggestion that has a trial already is replaced by a random candidate that has none.
    """
    if waiting:
        return search.open(waiting.pop(0))
    space = search.evaluator.space
    while (other := search.draw(rng)) is not None:
        handle = study.ask()
        candidate = space.suggest(handle)
        if space.key(candidate) not in search.seen:
            return search.open(candidate, handle)
        study.tell(handle, state=optuna.trial.TrialState.FAIL)
        study.enqueue_trial(space.encode(other))
    return None


def _report(search: Search, optuna: Any, study: Any, trial: Trial) -> None:
    """Report the folds of a trial, stop it where it is not among the best, and record what is done.

    Candidates that violate the constraints are worse than those that do not. Before one is complete here none
    is stopped, as other processes' forecasts are not at hand.
    """
    if trial.handle is None:  # stored already
        return
    means = np.cumsum(trial.crps) / (1 + np.arange(len(trial.crps)))
    penalty = 0.0 if trial.summary is None else search.penalty(trial.summary)
    for step in range(trial.reported, len(means)):
        trial.handle.report(float(means[step]) + penalty, step)
    trial.reported = len(means)
    if trial.state == "running" and search.best and trial.handle.should_prune():
        trial.state = "pruned"
    if trial.state == "running":
        return
    if trial.error is not None:
        trial.handle.set_user_attr("error", repr(trial.error))
    if trial.summary is not None:
        trial.handle.set_user_attr("summary", asdict(trial.summary))
        trial.handle.set_user_attr("seconds", trial.seconds)
    states = optuna.trial.TrialState
    if trial.state == "complete" and trial.summary is not None:
        study.tell(trial.handle, trial.summary.crps + penalty)
    else:
        study.tell(trial.handle, state=states.PRUNED if trial.state == "pruned" else states.FAIL)
