"""Metrics and learners for ``AutoML`` of FLAML. The package FLAML is required."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.dummy import DummyRegressor

from skuq.integrations._scorers import as_scorer
from skuq.metrics._scorer import DistributionScorer
from skuq.model_selection._constraints import Constraint, read_constraints
from skuq.prediction import predict_dist
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


_INFEASIBLE = 1e100
"""The loss of a trial that violates a constraint is this number times (1 + violation). It is finite, because
FLAML discards infinite losses."""


class Metric:
    """Metric of FLAML. It is a class, because FLAML pickles metrics."""

    def __init__(self, scorers: list[DistributionScorer], constraints: tuple[Constraint, ...]) -> None:
        self.scorers, self.constraints = scorers, constraints

    def __call__(
        self,
        X_val: Any,
        y_val: Any,
        estimator: Any,
        labels: Any,
        X_train: Any,
        y_train: Any,
        weight_val: Any = None,
        weight_train: Any = None,
        config: Any = None,
        groups_val: Any = None,
        groups_train: Any = None,
    ) -> tuple[float, dict[str, float]]:
        dist = predict_dist(estimator, X_val)
        metadata = {} if weight_val is None else {"sample_weight": weight_val}
        values = {
            scorer.metric_name: scorer.metric_value(y_val, dist, X_val, **metadata) for scorer in self.scorers
        }
        return self._loss(values), values

    def aggregate(
        self, losses: Sequence[float], logged: Sequence[dict[str, float]]
    ) -> tuple[float, dict[str, float]]:
        means = {name: float(np.mean([values[name] for values in logged])) for name in logged[0]}
        return self._loss(means), means

    def _loss(self, values: dict[str, float]) -> float:
        violations = [constraint.violation(values[constraint.name]) for constraint in self.constraints]
        worst = float(
            np.max(violations, initial=0.0)
        )  # NaN if a value is NaN, so that this trial is not the best
        first = self.scorers[0]
        loss = values[first.metric_name]
        if worst != 0.0:
            return _INFEASIBLE * (1.0 + worst)
        return -loss if first.greater_is_better else loss


def metric(
    loss: Any = "crps", *also_logged: Any, subject_to: Mapping[str, tuple[str, float]] | None = None
) -> Metric:
    """Return a metric for FLAML's ``AutoML.fit(metric=...)`` from skuq metrics.

    FLAML calls a metric with the learner and the validation rows of a trial. Scorers of skuq have a different
    signature and raise an error in FLAML. If FLAML gets the name of an unknown metric, all trials fail
    without an error message.

    Parameters
    ----------
    loss : str or scorer, default="crps"
        Metric that is minimized: an abbreviation, or a scorer of `skuq.metrics.make_scorer` with options.
        Metrics for which larger is better are negated. Width and coverage have no direction. To minimize the
        width, pass ``make_scorer("mpiw", greater_is_better=False)`` and a constraint on the coverage.
    *also_logged : str or scorer
        More metrics that are logged under their own names. Their signs are not changed.
    subject_to : dict of str to (operator, limit), default=None
        Constraints on metrics, by abbreviation and in the units of the metric: ``{"picp": (">=", 0.88)}``.
        These metrics are also logged.

    Returns
    -------
    metric : callable
        Argument ``metric`` of FLAML. It can be pickled. Each trial predicts the distribution once for all
        metrics.

    Raises
    ------
    TypeError
        If a metric is neither a name nor a scorer of skuq, or if it is not a metric of distributions.
    ValueError
        If a metric is unknown, if the loss has no direction, if two metrics have the same name, or if a
        constraint is not a pair of an operator ("<=" or ">=") and a number.

    See Also
    --------
    learner : Learners of FLAML with a predictive distribution. This metric needs such learners.
    skuq.model_selection.refit_best : Selection under constraints in scikit-learn's searches.

    Notes
    -----
    Prefer the CRPS as the loss. FLAML compares losses by their ratios, which are not meaningful for losses
    that may be negative, such as the negative log-likelihood.

    A trial that violates a constraint has a loss of at least 1e100, so it is worse than every trial without a
    violation. If all trials violate a constraint, the trial with the smallest relative violation is the best.
    `skuq.model_selection.refit_best` uses the same rule. In FLAML 2.7, FLAML's own ``metric_constraints``
    ignore logged values.

    In cross-validation, FLAML averages the losses of the folds, so a violation in one small fold excludes the
    trial. With ``fit(metric=m, cv_score_agg_func=m.aggregate)``, the constraints apply to the means over the
    folds.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.integrations.flaml import metric
    >>> X, y = load_diabetes(return_X_y=True)
    >>> crps = metric("crps", "picp")
    >>> loss, logged = crps(X, y, BayesianRidge().fit(X, y), None, X, y)
    >>> round(loss, 2), round(logged["picp"], 2)
    (30.47, 0.9)

    Pass it to FLAML by ``AutoML().fit(X, y, task="regression", metric=crps, estimator_list=...)``. See
    `learner`. The next metric finds the narrowest intervals with sufficient coverage:

    >>> from skuq.metrics import make_scorer
    >>> width = make_scorer("mpiw", greater_is_better=False)
    >>> narrow = metric(width, subject_to={"picp": (">=", 0.88)})
    """
    constraints = read_constraints(subject_to)
    scorers = [
        as_scorer(loss, "loss", DistributionScorer),
        *(as_scorer(each, "also_logged", DistributionScorer) for each in also_logged),
    ]
    names = [scorer.metric_name for scorer in scorers]
    if scorers[0].greater_is_better is None:
        raise ValueError(
            f"`loss` must be a metric with a direction, got {loss!r}. Use it in `subject_to`, or pass "
            f"make_scorer({names[0]!r}, greater_is_better=...) with True or False."
        )
    if len(set(names)) < len(names):
        raise ValueError(f"`also_logged` must have metrics with different names, got {', '.join(names)}.")
    missing = {constraint.name for constraint in constraints} - set(names)
    scorers += [as_scorer(name, "subject_to", DistributionScorer) for name in sorted(missing)]
    return Metric(scorers, constraints)
