"""Successive halving: only the best third of the candidates is fitted to the next fold."""

from __future__ import annotations

import numpy as np

from skuq.model_selection._auto.search import TRIALS_PER_ROUND, Search
from skuq.model_selection._auto.space import Candidate
from skuq.model_selection._auto.trial import Trial

BRACKET = 9
"""Number of candidates at the start of a bracket (a group of candidates)."""
REDUCTION_FACTOR = 3
"""Each fold divides the number of candidates by this factor."""


def search_by_halving(search: Search, rng: np.random.RandomState) -> None:
    """Evaluate base models with their own parameters, and then random candidates, in groups (brackets)."""
    waiting = list(search.evaluator.space.first())
    while not search.is_over():
        if search.best:
            bracket, waiting = _bracket(search, waiting, rng)
        else:  # start one trial at a time, until a trial is complete
            candidate = search.choose(waiting)
            bracket = [] if candidate is None else [search.open(candidate)]
            waiting = [one for one in waiting if candidate is not None and one.kind != candidate.kind]
        if not bracket:  # all other candidates are evaluated or take too long
            return
        _halve(search, bracket)


def _bracket(
    search: Search, waiting: list[Candidate], rng: np.random.RandomState
) -> tuple[list[Trial], list[Candidate]]:
    """Start the trials of a bracket. Return these trials, and the base models that are not started."""
    size = BRACKET
    if search.n_trials is not None:
        size = min(size, search.n_trials - len(search.trials))
    bracket: list[Trial] = []
    committed = 0.0
    waiting = list(waiting)
    drawn = not waiting
    while len(bracket) < size and (waiting or drawn):
        candidate = waiting.pop(0) if waiting else search.draw(rng)
        if candidate is None:
            break
        if search.admits(candidate, committed):
            # only the time of the first fold is counted, because most candidates stop after this fold
            committed += search.first_fold_seconds(candidate)
            bracket.append(search.open(candidate))
        elif drawn:
            break
    return bracket, waiting


def _halve(search: Search, running: list[Trial]) -> None:
    while running:
        for begin in range(0, len(running), TRIALS_PER_ROUND):  # in the order of their scores
            search.advance(running[begin : begin + TRIALS_PER_ROUND])
        left = sorted((trial for trial in running if trial.state == "running"), key=search.rank)
        for trial in left[-(-len(left) // REDUCTION_FACTOR) :]:
            trial.state = "pruned"
        for trial in running:
            if trial.state != "running":
                search.close(trial)
        running = [trial for trial in left if trial.state == "running"]
