"""FLAML's own learners, wrapped so that they predict a distribution."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from sklearn.dummy import DummyRegressor

from skuq.regressors import BootstrapRegressor, UncertaintyRegressor

BASES = (
    "lgbm",
    "xgboost",
    "xgb_limitdepth",
    "rf",
    "extra_tree",
    "histgb",
    "kneighbor",
    "enet",
    "lassolars",
)
"""FLAML's regressors that are fitted by their ``fit`` alone; CatBoost's number of trees is found by a
validation set in FLAML."""


class Learner:
    """What `learner` returns: it stands where FLAML takes a class of learners.

    FLAML only calls it and the methods below, so that an instance can hold the base and the wrapper.
    """

    def __init__(self, base: str, wrap: Callable[[Any], Any]) -> None:
        self.base, self.wrap = base, wrap

    def search_space(self, data_size: Any, task: Any, **params: Any) -> Any:
        """Return FLAML's search space of the base, with its low-cost first values."""
        return _class_of(self.base).search_space(data_size=data_size, task=task, **params)

    def cost_relative2lgbm(self) -> Any:
        """Return the cost of the base; the wrapper multiplies that of all learners alike."""
        return _class_of(self.base).cost_relative2lgbm()

    def size(self, config: dict[str, Any]) -> Any:
        """Return the memory of the base."""
        return _class_of(self.base).size(config)

    def init(self) -> None:
        """Initialise what the base needs in this process."""
        _class_of(self.base).init()

    def __call__(self, task: Any = "regression", **config: Any) -> Any:
        """Return the learner of one trial."""
        return _wrapped_class()(task=task, base=self.base, wrap=self.wrap, **config)


def _class_of(base: str) -> Any:
    from flaml.automl.task.factory import task_factory

    return task_factory("regression").estimator_class_from_str(base)


def _build(cls: type, wrap: Callable[[Any], Any], **params: Any) -> Any:
    return wrap(cls(**params))


def _blank() -> Any:
    return object.__new__(_wrapped_class())


@contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Raise TimeoutError in the block after some seconds, where signals can do that; None is no limit.

    FLAML's own limit is in whole seconds, at least one a fold, and leaves its handler and no alarm behind.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if seconds is None or not in_main_thread or not hasattr(signal, "setitimer"):
        yield
        return
    handler = signal.signal(signal.SIGALRM, _raise_timeout)
    alarm = signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))  # 0 would be no limit
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *alarm)
        signal.signal(signal.SIGALRM, handler)


def _raise_timeout(number: int, frame: Any) -> None:
    raise TimeoutError


@cache
def _wrapped_class() -> Any:
    """Return the class of FLAML's learners with a wrapper inside, made when FLAML is first needed."""
    from flaml.automl.model import BaseEstimator

    class WrappedLearner(BaseEstimator):
        def __init__(
            self, task: Any = "regression", base: Any = None, wrap: Any = None, **config: Any
        ) -> None:
            super().__init__(task, **config)
            self.base, self.wrap = base, wrap
            self.inner = self._task.estimator_class_from_str(base)(task=self._task, **config)
            self.params = self.inner.params
            self.estimator_class = partial(_build, self.inner.estimator_class, wrap)

        def get_params(self, deep: bool = False) -> dict[str, Any]:
            return {**super().get_params(deep), "base": self.base, "wrap": self.wrap}

        def _preprocess(self, X: Any) -> Any:
            return self.inner._preprocess(X)

        def fit(
            self, X_train: Any, y_train: Any, budget: Any = None, free_mem_ratio: Any = 0, **kwargs: Any
        ) -> float:
            # Instead of FLAML's fit, which also limits the address space of the process, of which libraries
            # reserve more than there is memory.
            kwargs.pop("is_retrain", None)
            start = time.time()
            try:
                with _time_limit(budget):
                    self._fit(X_train, y_train, **kwargs)
            except TimeoutError:
                self._model = BootstrapRegressor(DummyRegressor(), random_state=0)
                self._model.fit(X_train, y_train, sample_weight=kwargs.get("sample_weight"))
            return time.time() - start

        def __reduce__(self) -> Any:
            # The class has no name in the module that pickle could import.
            return _blank, (), self.__getstate__()

    return WrappedLearner


def learner(base: str, wrap: Callable[[Any], Any] = UncertaintyRegressor) -> Learner:
    """Make a learner for FLAML's ``AutoML.add_learner`` that predicts a distribution.

    FLAML's learner is kept with its search space, its low-cost first values and its cost; the model that it
    makes is wrapped, so that hyperparameters are chosen for the distribution and not for the points alone.

    Parameters
    ----------
    base : {"lgbm", "xgboost", "xgb_limitdepth", "rf", "extra_tree", "histgb", "kneighbor", "enet", \
"lassolars"}
        FLAML's name of the learner.
    wrap : callable, default=UncertaintyRegressor
        ``wrap(estimator)`` returns the regressor to fit, one with a distribution. A class, a
        ``functools.partial`` of one for options, or a function at the top of a module: FLAML pickles it.

    Returns
    -------
    learner : object
        To pass to ``add_learner(name, learner)``; ``estimator_list=[name]`` selects it.

    Raises
    ------
    TypeError
        If ``wrap`` is not callable.
    ValueError
        If there is no such learner. CatBoost is none: FLAML finds its number of trees by a validation set
        outside of the wrapper, without which each trial would have 8192 trees.

    See Also
    --------
    metric : The metric to select by.

    Notes
    -----
    A trial costs as many fits as the wrapper takes: ``partial(UncertaintyRegressor, effort="low")`` is the
    cheapest. FLAML multiplies that by its own folds; ``eval_method="holdout"`` has one.

    A trial that exceeds the time budget is cut off by the signal SIGALRM, and the distribution of y, whatever
    X is, takes its place. On Windows, and outside of the main thread, where Python has no such signals, a
    trial that has begun is finished. A call of compiled code is finished in any case, and FLAML's last fit
    on all rows is not part of its budget.

    ``ensemble=True`` stacks the learners under a linear model, which has no distribution. Use
    ``ensemble={"final_estimator": UncertaintyRegressor(RidgeCV()), "passthrough": False}``. It is fitted
    after the end of the time budget.

    Examples
    --------
    >>> from functools import partial
    >>> from flaml import AutoML
    >>> from sklearn.datasets import load_diabetes
    >>> from skuq import UncertaintyRegressor, predict_dist
    >>> from skuq.integrations.flaml import learner, metric
    >>> X, y = load_diabetes(return_X_y=True)
    >>> automl = AutoML()
    >>> wrap = partial(UncertaintyRegressor, effort="low", random_state=0)
    >>> automl.add_learner("forest", learner("rf", wrap))
    >>> automl.fit(
    ...     X, y, task="regression", metric=metric("crps", "picp"), estimator_list=["forest"],
    ...     eval_method="holdout", time_budget=None, max_iter=3, n_jobs=1, verbose=0, seed=0,
    ... )
    >>> predict_dist(automl, X[:5]).interval(0.9).shape
    (5, 2)
    """
    if not callable(wrap):
        raise TypeError(
            f"`wrap` must be a function of an estimator, got {wrap!r}. Pass UncertaintyRegressor or, for "
            "options, functools.partial(UncertaintyRegressor, effort='low')."
        )
    if base not in BASES:
        raise ValueError(f"`base` must be one of {', '.join(map(repr, BASES))}, got {base!r}.")
    return Learner(base, wrap)
