"""Progress of a long fit through scikit-learn's callbacks, where scikit-learn has them (1.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

__all__ = ["NO_PROGRESS", "Progress"]


class Progress:
    """The tasks of one ``fit``, reported to the callbacks set on the estimator.

    Tasks are reported from the process that called ``fit``, as each is done, so that any parallel
    backend will do and no callback has to travel.

    Parameters
    ----------
    estimator : estimator
        The one whose ``fit`` runs, decorated with ``with_callbacks``.
    n_tasks : int
        How many tasks will be reported; None if that is not known beforehand.
    """

    def __init__(self, estimator: Any, n_tasks: int | None) -> None:
        self._estimator = estimator
        self._context: Any = None
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=n_tasks)
            self._context.call_on_fit_task_begin(estimator=estimator)
        self._has_callbacks = bool(getattr(self._context, "_callbacks", ()))

    def reporter(self, name: str) -> Callable[..., None] | None:
        """Return a function that reports one task as done, or None without callbacks.

        Without it, results need not come one by one, which not every parallel backend can do.
        """
        return (lambda *_: self.done(name)) if self._has_callbacks else None

    def done(self, name: str) -> None:
        """Report one task as done."""
        if self._has_callbacks:
            with self.task(name):
                pass

    @contextmanager
    def task(self, name: str, child: Any = None) -> Iterator[None]:
        """Report one task, begin and end; the child that is fitted in it reports its own tasks below."""
        if self._context is None:
            yield
            return
        context = self._context.subcontext(task_name=name)
        with context.propagate_callback_context(child) if hasattr(child, "set_callbacks") else nullcontext():
            context.call_on_fit_task_begin(estimator=self._estimator)
            yield
        context.call_on_fit_task_end(estimator=self._estimator)

    def close(self) -> None:
        """Report that the fit is done."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator)


NO_PROGRESS = Progress(None, None)
"""For a fit inside a fit, which reports nothing."""
