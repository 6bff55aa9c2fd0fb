"""Successive halving: many candidates on the first fold, a third of them on the next, and so on."""

from __future__ import annotations

import numpy as np

from skuq.model_selection._auto.search import ROUND, Search
from skuq.model_selection._auto.trial import Trial

__all__ = ["search_by_halving"]

BRACKET = 9
"""Candidates that a bracket begins with."""
REDUCTION_FACTOR = 3
"""One of so many candidates is left after each fold."""


def search_by_halving(search: Search, rng: np.random.RandomState) -> None:
    """Evaluate base models as they are, and then random candidates, in brackets."""
    space = search.evaluator.space
    waiting = list(space.first())
    while not search.is_over():
        # the first candidate alone, until one is complete
        size = BRACKET if search.best else 1
        if search.n_trials is not None:
            size = min(size, search.n_trials - len(search.trials))
        bracket = [search.open(candidate) for candidate in waiting[:size]]
        waiting = waiting[size:]
        bracket = bracket or _drawn(search, rng, size)
        if not bracket:  # every candidate of the space has been evaluated
            return
        _halve(search, bracket)


def _drawn(search: Search, rng: np.random.RandomState, size: int) -> list[Trial]:
    """Begin trials of random candidates, fewer where no more are left."""
    trials: list[Trial] = []
    while len(trials) < size and (candidate := search.draw(rng)) is not None:
        trials.append(search.open(candidate))
    return trials


def _halve(search: Search, running: list[Trial]) -> None:
    """Evaluate the candidates of a bracket until each is complete or pruned."""
    while running:
        for begin in range(0, len(running), ROUND):  # the best first
            search.advance(running[begin : begin + ROUND])
        left = sorted((trial for trial in running if trial.state == "running"), key=search.rank)
        for trial in left[-(-len(left) // REDUCTION_FACTOR) :]:
            trial.state = "pruned"
        for trial in running:
            if trial.state != "running":
                search.close(trial)
        running = [trial for trial in left if trial.state == "running"]
