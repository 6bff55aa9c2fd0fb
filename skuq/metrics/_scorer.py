"""Scorers for scikit-learn's searches and cross-validation."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer_names as sklearn_scorer_names

from skuq._compat import BaseScorer
from skuq._validation import DEFAULT_COVERAGE, check_option
from skuq.distributions import Distribution
from skuq.metrics._spec import OF_ROOMS, MetricFunction, MetricSpec, all_specs, find_spec
from skuq.prediction import predict_dist
from skuq.prediction._predict_set import class_proba, predict_set


class MetricScorer(BaseScorer):
    """Scorer with the signature ``scorer(estimator, X, y)``; returned by `get_scorer` and `make_scorer`.

    The larger the score the better: a loss is multiplied by -1. A scorer for monitoring returns the metric.
    Its larger values are neither better nor worse. If a search has several scorers, each model
    predicts only once for all of them.
    """

    def __init__(
        self, metric: MetricFunction, greater_is_better: bool | None, options: dict[str, Any], name: str
    ) -> None:
        # scikit-learn checks that the estimator has the response method. Every estimator has "predict".
        super().__init__(metric, -1 if greater_is_better is False else 1, options, response_method="predict")
        self.greater_is_better = greater_is_better
        self.__name__ = name if greater_is_better is not False else f"neg_{name}"

    @property
    def metric_name(self) -> str:
        return self.__name__.removeprefix("neg_")

    def __repr__(self) -> str:
        spec = find_spec(self._score_func)
        metric = (
            getattr(self._score_func, "__name__", repr(self._score_func))
            if spec is None
            else repr(spec.abbreviation)
        )
        options = dict(self._kwargs)
        if spec is None or spec.direction is None:
            better = self.greater_is_better
            kind = {"monitoring": True} if better is None else {"greater_is_better": better}
            options = {**kind, **options}
        return f"make_scorer({', '.join([metric, *(f'{key}={value!r}' for key, value in options.items())])})"


class DistributionScorer(MetricScorer):
    """Scorer of the predictive distributions from `~skuq.prediction.predict_dist`."""

    def _score(
        self, method_caller: Callable[..., Any], estimator: Any, X: Any, y_true: Any, **metadata: Any
    ) -> float:
        dist = _cached(method_caller, "skuq.predict_dist", lambda: predict_dist(estimator, X))
        return float(self._sign * self.metric_value(y_true, dist, X, **metadata))

    def metric_value(self, y_true: Any, dist: Distribution, X: Any, **metadata: Any) -> float:
        spec = find_spec(self._score_func)
        compute = self._score_func if spec is None else spec.compute
        features = (X,) if spec is not None and spec.needs_X else ()
        return float(compute(y_true, dist, *features, **{**self._kwargs, **metadata}))


class ClassScorer(MetricScorer):
    """Scorer of class probabilities, or of the prediction sets from `~skuq.conformal.predict_set`."""

    def _score(
        self, method_caller: Callable[..., Any], estimator: Any, X: Any, y_true: Any, **metadata: Any
    ) -> float:
        spec: Any = find_spec(self._score_func)
        if spec.needs == "set":
            coverage = self._kwargs.get("coverage", DEFAULT_COVERAGE)
            key = f"skuq.predict_set {coverage!r}"
            forecast = _cached(method_caller, key, lambda: predict_set(estimator, X, coverage))
        else:
            forecast = _cached(method_caller, "skuq.predict_proba", lambda: class_proba(estimator, X))
        options = {"labels": estimator.classes_, **self._kwargs, **metadata}
        return float(self._sign * spec.compute(y_true, forecast, **options))


def _cached(method_caller: Callable[..., Any], key: str, predict: Callable[[], Any]) -> Any:
    bound = getattr(method_caller, "args", ())
    cache = bound[0] if bound and isinstance(bound[0], dict) else {}
    if key not in cache:
        cache[key] = predict()
    return cache[key]


def make_scorer(
    metric: str | MetricFunction,
    *,
    greater_is_better: bool | None = None,
    monitoring: bool = False,
    **options: Any,
) -> MetricScorer:
    """Create a scorer from a metric and its options.

    Use this function to change options of a metric, or to create a scorer from your own metric. The scorers
    of `get_scorer` use the default options. A scorer needs a direction, because a search selects the model
    with the largest score.

    Parameters
    ----------
    metric : str or callable
        For a metric of skuq, its abbreviation ("crps"), its scorer name ("neg_crps") or its function
        (`crps_loss`). For your own metric, a function ``metric(y_true, dist, *, sample_weight=None,
        **options) -> float``, where ``dist`` is a `skuq.distributions.Distribution`. The classification
        metrics of skuq receive prediction sets or class probabilities instead of a distribution.
    greater_is_better : bool, default=None
        Whether larger values of the metric are better. Most metrics of skuq have a fixed direction, which
        this argument cannot change. Your own function and the other metrics of skuq have no direction, and
        this argument sets it. For example, a search with a constraint on the coverage can use
        ``make_scorer("mpiw", greater_is_better=False)`` to select narrow intervals.
    monitoring : bool, default=False
        Whether the scorer may have no direction. Use it for learning curves and permutation importance, and
        never to select a model. The scorer then returns the value of a metric without direction, such as the
        coverage. For a metric with a direction, this argument has no effect.
    **options
        Keyword arguments of the metric. If the metric draws random numbers, the default is
        ``random_state=0``, so that a search scores all candidates with the same random numbers. If the metric
        scores several targets, the default is ``scale="std"``, so that the score does not depend on units.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y)``. The larger the better. For a scorer without a direction, neither larger
        nor smaller values are better.

    Raises
    ------
    ValueError
        If the metric is unknown, or if it is a metric of skuq without a direction and neither
        `greater_is_better` nor `monitoring` is given.
    TypeError
        If the metric does not have one of the given options, if a required option is missing, or if the
        direction of your own metric is missing.

    See Also
    --------
    get_scorer : Return a scorer by name.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from sklearn.model_selection import cross_val_score
    >>> from skuq.metrics import make_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> scorer = make_scorer("interval_score", coverage=0.8)
    >>> cross_val_score(BayesianRidge(), X, y, scoring=scorer).round()
    array([-183., -190., -190., -198., -196.])

    The coverage has no direction, so it is only read:

    >>> coverage = make_scorer("picp", monitoring=True)
    >>> cross_val_score(BayesianRidge(), X, y, scoring=coverage).round(2)
    array([0.92, 0.92, 0.88, 0.88, 0.88])

    A metric of your own:

    >>> import numpy as np
    >>> def miss_below(y_true, dist, *, sample_weight=None):
    ...     return np.average(y_true < dist.interval(0.9)[:, 0], weights=sample_weight)
    >>> make_scorer(miss_below, greater_is_better=False)
    make_scorer(miss_below, greater_is_better=False)
    """
    greater_is_better = check_option(greater_is_better, "greater_is_better", (None, True, False))
    spec = require_spec(metric) if isinstance(metric, str) else find_spec(metric)
    if spec is None:
        return _scorer_of_own(metric, greater_is_better, monitoring, options)
    check_options(spec, options)
    if spec.direction is not None and greater_is_better not in (None, spec.direction == "higher"):
        raise ValueError(
            f"`greater_is_better` must be None for {spec.abbreviation!r}, got {greater_is_better!r}. The "
            f"direction of this metric is fixed ({spec.direction} is better)."
        )
    if spec.direction is not None:
        greater_is_better = spec.direction == "higher"
    elif greater_is_better is None and not monitoring:
        raise ValueError(_without_direction("metric", spec, options))
    return _scorer_of(spec, greater_is_better, options)


def _scorer_of(spec: MetricSpec, greater_is_better: bool | None, options: dict[str, Any]) -> MetricScorer:
    options = dict(options)
    if spec.random:
        options.setdefault("random_state", 0)
    if spec.of_targets and "scale" in spec.options:
        options.setdefault("scale", "std")
    scorer = ClassScorer if spec.of_classes else DistributionScorer
    return scorer(spec.function, greater_is_better, options, spec.abbreviation)


def get_scorer(name: str) -> MetricScorer:
    """Return the scorer of a metric with default options.

    Parameters
    ----------
    name : str
        One of `get_scorer_names`.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y)``. The larger the better. Each call returns a new object, so that
        ``set_score_request`` changes only one scorer.

    Raises
    ------
    ValueError
        If the name is unknown, or if the metric has no direction, such as the coverage. The message suggests
        similar names or a search that uses the metric without selecting by it.

    See Also
    --------
    make_scorer : Make a scorer with other options.
    scorers : Return several scorers at once.

    Notes
    -----
    The scoring strings of scikit-learn cannot be extended, so pass the scorer and not its name:
    ``GridSearchCV(..., scoring=get_scorer("neg_crps"),
    error_score="raise")``. Without ``error_score="raise"``, scikit-learn only warns about a model that has no
    distribution, and sets its score to NaN.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.metrics import get_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> scorer = get_scorer("neg_crps")
    >>> round(scorer(BayesianRidge().fit(X, y), X, y), 2)
    -30.47
    """
    if not isinstance(name, str):
        raise TypeError(
            f"`name` must be a string, got {type(name).__name__}. For a metric, use `make_scorer`."
        )
    spec = _ready_made(name, monitoring=False)
    if spec.direction is None:
        raise ValueError(_without_direction("name", spec, {}))
    return _scorer_of(spec, spec.direction == "higher", {})


def get_scorer_names() -> list[str]:
    """Return the names of all predefined scorers.

    Returns
    -------
    names : list of str
        Names in alphabetical order. Losses have the prefix ``neg_``. The list does not include metrics with a
        required argument (see `make_scorer`), nor metrics without a direction (see `scorers`).

    Examples
    --------
    >>> from skuq.metrics import get_scorer_names
    >>> "neg_crps" in get_scorer_names()
    True
    """
    ready = {spec.scorer_name for spec in all_specs().values() if spec.ready_made and spec.direction}
    return sorted(ready | set(OF_ROOMS))


def scorers(*names: str) -> dict[str, MetricScorer]:
    """Return several scorers by name, for multi-metric cross-validation and search.

    Parameters
    ----------
    *names : str
        One or more names from `get_scorer_names`, or abbreviations of metrics without a direction, such as
        "picp" and "mpiw".

    Returns
    -------
    scoring : dict of str to scorer
        Scorers to pass as ``scoring=``. Each fitted model predicts its distribution once for all scorers. The
        larger the better, except for metrics without a direction. With a dict, a search selects by the name
        that is given as ``refit``, such as ``refit="neg_crps"``. Do not give the name of a metric without a
        direction.

    See Also
    --------
    skuq.model_selection.refit_best : Select a model by one metric, with constraints on other metrics.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from sklearn.model_selection import cross_validate
    >>> from skuq.metrics import scorers
    >>> X, y = load_diabetes(return_X_y=True)
    >>> result = cross_validate(BayesianRidge(), X, y, scoring=scorers("neg_crps", "picp"))
    >>> result["test_picp"].round(2)
    array([0.92, 0.92, 0.88, 0.88, 0.88])

    The dictionary may contain scikit-learn's scorers too:

    >>> sorted({**scorers("neg_crps"), "r2": "r2"})
    ['neg_crps', 'r2']
    """
    if not names:
        raise ValueError(
            "`names` must hold at least one scorer name, got none. For all scorers, use "
            "scorers(*get_scorer_names())."
        )
    return {name: make_scorer(_ready_made(name, monitoring=True).function, monitoring=True) for name in names}


def _ready_made(name: str, *, monitoring: bool) -> MetricSpec:
    if not isinstance(name, str):
        raise TypeError(f"the name of a scorer must be a string, got {name!r}.")
    spec = find_spec(name)
    if spec is not None and spec.ready_made and spec.scorer_name == name:
        return spec
    known = {spec.scorer_name: spec for spec in all_specs(rooms=True).values() if spec.ready_made}
    raise ValueError(_unknown_scorer(name, known, monitoring))


def _without_direction(argument: str, spec: MetricSpec, options: dict[str, Any]) -> str:
    name, score = repr(spec.abbreviation), repr("neg_class_log_loss" if spec.of_classes else "neg_crps")
    given = "".join(f", {option}={value!r}" for option, value in options.items())
    monitor = f"make_scorer({name}{given}, monitoring=True)"
    scoring = f"{{**scorers({score}), {name}: {monitor}}}" if given else f"scorers({score}, {name})"
    return (
        f"`{argument}` must be a metric with a direction, got {name}. Neither larger nor smaller values of "
        f"{name} are better, so a search must not select by it. Select by {score}: pass scoring={scoring} "
        f"and refit={score}, or refit=refit_best({score}, subject_to={{{name}: ...}}). For learning curves "
        f"and permutation importance, use {monitor}. If one direction is better in your search, pass "
        f"`greater_is_better` to make_scorer, such as make_scorer({name}{given}, greater_is_better=False)."
    )


def _unknown_scorer(name: str, known: dict[str, MetricSpec], monitoring: bool) -> str:
    spec = find_spec(name)
    if spec is not None and not spec.ready_made:
        return f"`name` must name a predefined scorer, got {name!r}. Use {' or '.join(_calls_of(spec))}."
    near = [spec.scorer_name] if spec is not None else _similar(name.lower(), known)
    if near:
        calls = [
            repr(each) if monitoring or known[each].direction else f"make_scorer({each!r}, monitoring=True)"
            for each in near
        ]
        hint = f" Did you mean {' or '.join(calls)}?"
    elif name in sklearn_scorer_names():
        hint = " This is a scorer of scikit-learn. Pass its name: {**scorers('neg_crps'), 'r2': 'r2'}."
    else:
        hint = ""
    listed = sorted(each for each, spec in known.items() if monitoring or spec.direction)
    return f"`name` must be one of skuq's scorers, got {name!r}.{hint} Known: {', '.join(listed)}."


def _calls_of(spec: MetricSpec) -> list[str]:
    always = [f"{option}=..." for option in spec.required_options]
    choices = [[*always, f"{option}=..."] for option in spec.one_of or spec.any_of] or [always]
    return [f"make_scorer({', '.join([repr(spec.abbreviation), *wanted])})" for wanted in choices]


def _similar(name: str, known: dict[str, MetricSpec]) -> list[str]:
    """Return names of metrics whose function ends with the name, and then names that are spelled alike."""
    meant = [each for each, spec in known.items() if spec.function.__name__.endswith(f"_{name}")]
    alike = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return list(dict.fromkeys([*meant, *alike]))[:3]


def require_spec(name: object) -> MetricSpec:
    """Return the record of a metric, given its name or function. The error suggests similar names."""
    spec = find_spec(name)
    if spec is not None:
        return spec
    if not isinstance(name, str):
        raise TypeError(
            f"`metrics` must be metrics of skuq, by name or function, got {name!r}. Pass a metric of your "
            "own to `bootstrap_interval`, `paired_permutation_test` or `make_scorer`."
        )
    known = all_specs(rooms=True)
    near = [each.abbreviation for each in known.values() if each.function.__name__ == name]
    near = near or _similar(name.lower().removeprefix("neg_"), known)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(
        f"`metric` must be a metric of skuq, got {name!r}.{hint} Known: {', '.join(sorted(known))}."
    )


def check_options(spec: MetricSpec, options: dict[str, Any]) -> None:
    unknown = sorted(set(options) - set(spec.options))
    if unknown:
        known = ", ".join(spec.options) or "none"
        raise TypeError(
            f"`options` of {spec.abbreviation!r} must be options of this metric ({known}), got "
            f"{unknown[0]!r}."
        )
    missing = [name for name in spec.required_options if name not in options]
    if missing:
        raise TypeError(
            f"`options` of {spec.abbreviation!r} must include {missing[0]!r}, which has no default."
        )
    given = [name for name in spec.one_of if options.get(name) is not None]
    if spec.one_of and len(given) != 1:
        raise TypeError(
            f"`options` of {spec.abbreviation!r} must include exactly one of "
            f"{' and '.join(map(repr, spec.one_of))}, got {' and '.join(map(repr, given)) or 'neither'}."
        )
    if spec.any_of and not set(spec.any_of) & set(options):
        raise TypeError(
            f"`options` of {spec.abbreviation!r} must include {' or '.join(map(repr, spec.any_of))}. Use "
            f"{' or '.join(_calls_of(spec))}."
        )
    # Drawing from the user's generator would change its state.
    seed = {"random_state": 0} if isinstance(options.get("random_state"), np.random.RandomState) else {}
    spec.computation({**options, **seed})


def _scorer_of_own(
    metric: Any, greater_is_better: bool | None, monitoring: bool, options: dict[str, Any]
) -> DistributionScorer:
    if not callable(metric):
        raise TypeError(f"`metric` must be a name or a function, got {type(metric).__name__}.")
    if greater_is_better is None and not monitoring:
        raise TypeError(
            "`greater_is_better` must be given for your own metric, got None. Pass True for a score and "
            "False for a loss. If neither larger nor smaller values are better, pass monitoring=True."
        )
    signature = inspect.signature(metric)
    try:
        signature.bind(None, None, **options)
    except TypeError as error:
        raise TypeError(f"`metric` must be callable as metric(y_true, dist, **options): {error}.") from None
    name = getattr(metric, "__name__", type(metric).__name__)
    return DistributionScorer(metric, greater_is_better, options, name)
