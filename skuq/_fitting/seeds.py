"""Seeds of wrapped estimators, and the progress of a long fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from sklearn.base import clone

MAX_SEED = int(np.iinfo(np.int32).max)


def _random_states(estimator: Any) -> dict[str, Any]:
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return {
        name: value
        for name, value in params.items()
        if name == "random_state" or name.endswith("__random_state")
    }


def seed_everything(estimator: Any, seed: int) -> Any:
    """Set every ``random_state`` of the estimator and of nested estimators, and return the estimator."""
    names = _random_states(estimator)
    return estimator.set_params(**dict.fromkeys(names, seed)) if names else estimator


def seeded_clone(estimator: Any, seed: int, random_state: Any) -> Any:
    """Return a clone. If the owner has a ``random_state``, the clone gets the seed."""
    cloned = clone(estimator)
    unset = [name for name, value in _random_states(cloned).items() if value is None]
    if random_state is not None and unset:
        cloned.set_params(**dict.fromkeys(unset, seed))
    return cloned


class Progress:
    """Tasks of one ``fit``, reported to the callbacks of the estimator."""

    def __init__(self, estimator: Any, n_tasks: int | None) -> None:
        self._estimator = estimator
        self._context: Any = None
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=n_tasks)
            self._context.call_on_fit_task_begin(estimator=estimator)
        self._has_callbacks = bool(getattr(self._context, "_callbacks", ()))

    def reporter(self, name: str) -> Callable[..., None] | None:
        return (lambda *_: self.done(name)) if self._has_callbacks else None

    def done(self, name: str) -> None:
        if self._has_callbacks:
            with self.task(name):
                pass

    @contextmanager
    def task(self, name: str, child: Any = None) -> Iterator[None]:
        """Report the start and the end of a task. The tasks of an estimator ``child`` are its subtasks."""
        if self._context is None:
            yield
            return
        context = self._context.subcontext(task_name=name)
        with context.propagate_callback_context(child) if hasattr(child, "set_callbacks") else nullcontext():
            context.call_on_fit_task_begin(estimator=self._estimator)
            yield
        context.call_on_fit_task_end(estimator=self._estimator)

    def close(self) -> None:
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator)


NO_PROGRESS = Progress(None, None)
"""Progress object that reports nothing, for a fit inside another fit."""
