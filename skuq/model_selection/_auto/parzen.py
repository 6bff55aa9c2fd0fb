"""Optuna's tree-structured Parzen estimator, with folds as pruning steps and an optional storage."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np

from skuq._typing import FloatArray
from skuq.model_selection._auto.search import Search
from skuq.model_selection._auto.space import Candidate, Space
from skuq.model_selection._auto.trial import Summary, Trial

__all__ = ["open_study", "search_by_optuna", "stored_trials"]

KEPT = 100 / 3
"""Percentage of complete trials that a trial must be among to go on to the next fold."""


def open_study(
    optuna: Any, storage: Any, name: str | None, seed: int, space: Space, y: FloatArray
) -> tuple[Any, int]:
    """Return a new study or the one of this name in the storage, and the seed that all its trials share."""
    n_first = len(list(space.first()))
    with quiet(optuna):
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            load_if_exists=True,
            # workers that share a storage must not suggest the same
            sampler=optuna.samplers.TPESampler(
                seed=seed if storage is None else None,
                multivariate=True,
                group=True,
                n_startup_trials=n_first,
            ),
            pruner=optuna.pruners.PercentilePruner(KEPT, n_startup_trials=n_first),
        )
    own = {"seed": seed, "content": _digest(space, y)}
    shared = study.user_attrs.get("skuq", own)
    if shared["content"] != own["content"]:
        raise ValueError(
            f"`study_name` must be a study of the same y and space, got {study.study_name!r}, which is of "
            "others. Choose another name."
        )
    study.set_user_attr("skuq", shared)
    return study, int(shared["seed"])


def _digest(space: Space, y: FloatArray) -> str:
    """Return what tells studies of different targets or spaces apart."""
    content = hashlib.sha256(y.tobytes())
    for name, base in space.bases.items():
        content.update(repr((name, base.methods, sorted(base.params.items()))).encode())
    return content.hexdigest()


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


def search_by_optuna(search: Search, optuna: Any, study: Any) -> None:
    """Evaluate base models as they are, and then what Optuna suggests.

    The best candidates of a resumed study come first: their forecasts are not stored.
    """
    space = search.evaluator.space
    stored = stored_trials(optuna, study, space, search.trials)
    best: dict[str, Trial] = {}
    for trial in sorted(stored, key=search.rank):
        if trial.state == "complete":
            best.setdefault(trial.candidate.base, trial)
    if not stored:
        for candidate in space.first():
            study.enqueue_trial(space.encode(candidate))
    waiting: list[Candidate] = [trial.candidate for trial in best.values()]
    running: list[Trial] = []
    while running or not search.is_over():
        while len(running) < search.width and not search.is_over():
            running.append(_next(search, study, waiting))
        search.advance(running)
        for trial in running:
            _report(optuna, study, trial)
            if trial.state != "running":
                search.close(trial)
        running = [trial for trial in running if trial.state == "running"]


def _next(search: Search, study: Any, waiting: list[Candidate]) -> Trial:
    if waiting:
        return search.open(waiting.pop(0))
    handle = study.ask()
    return search.open(search.evaluator.space.suggest(handle), handle)


def _report(optuna: Any, study: Any, trial: Trial) -> None:
    """Report the folds of a trial, stop it where it is not among the best, and record what is done."""
    if trial.handle is None:  # stored already
        return
    means = np.cumsum(trial.crps) / (1 + np.arange(len(trial.crps)))
    for step in range(trial.reported, len(means)):
        trial.handle.report(float(means[step]), step)
    trial.reported = len(means)
    if trial.state == "running" and trial.handle.should_prune():
        trial.state = "pruned"
    if trial.state == "running":
        return
    if trial.summary is not None:
        trial.handle.set_user_attr("summary", asdict(trial.summary))
        trial.handle.set_user_attr("seconds", trial.seconds)
    states = optuna.trial.TrialState
    if trial.state == "complete" and trial.summary is not None:
        study.tell(trial.handle, trial.summary.crps)
    else:
        study.tell(trial.handle, state=states.PRUNED if trial.summary else states.FAIL)
