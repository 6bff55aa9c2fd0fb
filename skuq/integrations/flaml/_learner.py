"""Learners of FLAML that are wrapped to predict a distribution."""

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
"""Names of FLAML's regressors. CatBoost is missing, because FLAML needs a validation set to fit it."""


class Learner:
    """Stand-in for a learner class of FLAML.

    FLAML receives an instance of this class, because the instance stores ``base`` and ``wrap``.
    """

    def __init__(self, base: str, wrap: Callable[[Any], Any]) -> None:
        self.base, self.wrap = base, wrap

    def search_space(self, data_size: Any, task: Any, **params: Any) -> Any:
        return _class_of(self.base).search_space(data_size=data_size, task=task, **params)

    def cost_relative2lgbm(self) -> Any:
        return _class_of(self.base).cost_relative2lgbm()

    def size(self, config: dict[str, Any]) -> Any:
        return _class_of(self.base).size(config)

    def init(self) -> None:
        _class_of(self.base).init()

    def __call__(self, task: Any = "regression", **config: Any) -> Any:
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
    """Raise TimeoutError if the block takes longer.

    The limit works only in the main thread of a system with SIGALRM.
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
    """Return the class of wrapped learners. It is created when FLAML is first used."""
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
            # FLAML's fit is not used, because it limits the address space of the process. Libraries reserve
            # more address space than they use.
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
            # Pickle cannot import a class that is defined in a function.
            return _blank, (), self.__getstate__()

    return WrappedLearner


def learner(base: str, wrap: Callable[[Any], Any] = UncertaintyRegressor) -> Learner:
    """Return a learner for FLAML's ``AutoML.add_learner`` that predicts a distribution.

    The learner has the same search space, start values and relative cost as FLAML's learner. The model of the
    learner is wrapped, so that the search optimizes the distribution instead of the point predictions.

    Parameters
    ----------
    base : {"lgbm", "xgboost", "xgb_limitdepth", "rf", "extra_tree", "histgb", "kneighbor", "enet", \
"lassolars"}
        Name of FLAML's learner.
    wrap : callable, default=UncertaintyRegressor
        Callable that gets an estimator and returns a regressor with a predictive distribution. FLAML pickles
        the callable. Therefore, pass a class, a ``functools.partial`` of a class, or a function that is
        defined at module level.

    Returns
    -------
    learner : object
        Argument of ``add_learner(name, learner)``. Pass ``estimator_list=[name]`` to use it.

    Raises
    ------
    TypeError
        If ``wrap`` is not callable.
    ValueError
        If ``base`` is not one of these names. CatBoost is not supported: for CatBoost, FLAML chooses the
        number of trees on a validation set. This does not work inside the wrapper. Each trial would have 8192
        trees.

    See Also
    --------
    metric : Metrics of skuq for FLAML.

    Notes
    -----
    The cost of a trial is the number of fits of the wrapper times the number of FLAML's folds. The fastest
    combination is ``partial(UncertaintyRegressor, effort="low")`` with ``eval_method="holdout"``, which has
    one fold.

    If a trial exceeds the time budget, the signal SIGALRM stops it. The forecast of this trial is then the
    unconditional distribution of y. On Windows and outside the main thread, this signal does not exist and
    trials are not stopped. Calls of compiled code are never stopped. The last fit of FLAML, to all rows, is
    not part of its time budget.

    With ``ensemble=True``, FLAML stacks the learners with a linear model that has no distribution. Use
    ``ensemble={"final_estimator": UncertaintyRegressor(RidgeCV()), "passthrough": False}`` instead. The
    ensemble is fitted after the end of the time budget.

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
            f"`wrap` must be a callable that gets an estimator, got {wrap!r}. Pass UncertaintyRegressor or, "
            "for options, functools.partial(UncertaintyRegressor, effort='low')."
        )
    if base not in BASES:
        raise ValueError(f"`base` must be one of {', '.join(map(repr, BASES))}, got {base!r}.")
    return Learner(base, wrap)
