"""Functions that make scorers: by name, or from a metric with options bound."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer_names as sklearn_scorer_names

from skuq.distributions import Normal
from skuq.metrics._scorer import ClassScorer, DistributionScorer, MetricScorer
from skuq.metrics._spec import MetricFunction, MetricSpec, all_specs, find_spec


def make_scorer(
    metric: str | MetricFunction, *, greater_is_better: bool | None = None, **options: Any
) -> MetricScorer:
    """Make a scorer from a metric, with options bound.

    What `get_scorer` does for the defaults, for other options and for metrics of your own.

    Parameters
    ----------
    metric : str or callable
        A metric of skuq, by abbreviation ("crps"), scorer name ("neg_crps") or function (`crps_loss`); or
        your own function ``metric(y_true, dist, *, sample_weight=None, **options) -> float``, where ``dist``
        is a `skuq.distributions.Distribution`. Metrics of classes get sets or probabilities instead.
    greater_is_better : bool, default=None
        Required for a function of your own. The metrics of skuq have it in their records, and accept it only
        where they have no direction: ``make_scorer("mpiw", greater_is_better=False)`` selects narrow
        intervals, for use under a constraint on their coverage.
    **options
        Keyword arguments of the metric. One that draws random numbers has ``random_state=0`` where none is
        given, so that all candidates of a search are scored on the same draws.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y)``, higher is better.

    Raises
    ------
    ValueError
        If there is no such metric.
    TypeError
        If an option is not one of the metric's, or a required one is missing.

    See Also
    --------
    get_scorer : A scorer by name.

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

    A metric of your own:

    >>> def miss_below(y_true, dist, *, sample_weight=None):
    ...     return float((y_true < dist.interval(0.9)[:, 0]).mean())
    >>> make_scorer(miss_below, greater_is_better=False)
    make_scorer(miss_below, greater_is_better=False)
    """
    spec = require_spec(metric) if isinstance(metric, str) else find_spec(metric)
    if spec is None:
        return _scorer_of_own(metric, greater_is_better, options)
    check_options(spec, options)
    if spec.random:
        options.setdefault("random_state", 0)
    if spec.direction is not None and greater_is_better not in (None, spec.direction == "higher"):
        raise ValueError(
            f"`greater_is_better` must be left out for {spec.abbreviation!r}, where {spec.direction} is "
            f"known to be better, got {greater_is_better!r}."
        )
    scorer = ClassScorer if spec.of_classes else DistributionScorer
    if spec.direction is None and greater_is_better is not None:
        name = spec.abbreviation if greater_is_better else f"neg_{spec.abbreviation}"
        return scorer(spec.function, 1 if greater_is_better else -1, options, name)
    return scorer(spec.function, -1 if spec.direction == "lower" else 1, options, spec.scorer_name)


def get_scorer(name: str) -> MetricScorer:
    """Return the scorer of a metric at its default options.

    Parameters
    ----------
    name : str
        One of `get_scorer_names`.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y)``, higher is better. A new object at every call, so that
        ``set_score_request`` acts on this one alone.

    Raises
    ------
    ValueError
        If there is no such scorer; similar names are suggested.

    See Also
    --------
    make_scorer : For other options.
    scorers : For several metrics at once.

    Notes
    -----
    scikit-learn's own list of scoring strings is closed, so pass the scorer and not its name:
    ``GridSearchCV(..., scoring=get_scorer("neg_crps"), error_score="raise")``. Without
    ``error_score="raise"`` a model that gives no distribution scores NaN with a warning only.

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
            f"`name` must be a string, got {type(name).__name__}. For a metric use `make_scorer`."
        )
    known = _ready_made()
    if name not in known:
        raise ValueError(_unknown_scorer(name, list(known)))
    return make_scorer(known[name].function)


def get_scorer_names() -> list[str]:
    """Return the names of all ready-made scorers.

    Returns
    -------
    names : list of str
        In alphabetical order. Losses carry the prefix ``neg_``. Metrics that need an argument without a
        default are missing; make their scorers by `make_scorer`.

    Examples
    --------
    >>> from skuq.metrics import get_scorer_names
    >>> "neg_crps" in get_scorer_names()
    True
    """
    return sorted(_ready_made())


def scorers(*names: str) -> dict[str, MetricScorer]:
    """Return several scorers by name, for multi-metric cross-validation and search.

    Parameters
    ----------
    *names : str
        Any of `get_scorer_names`, at least one.

    Returns
    -------
    scoring : dict of str to scorer
        To pass as ``scoring=``. However many there are, each fitted model predicts its distribution once.

    See Also
    --------
    skuq.model_selection.refit_best : Choose by one of them under constraints on others.

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

    scikit-learn's own can stand beside them:

    >>> sorted({**scorers("neg_crps"), "r2": "r2"})
    ['neg_crps', 'r2']
    """
    if not names:
        raise ValueError(
            "`names` must hold at least one scorer name. All there are: scorers(*get_scorer_names())."
        )
    return {name: get_scorer(name) for name in names}


def _ready_made() -> dict[str, MetricSpec]:
    """Return the records of the metrics that need no argument, by scorer name."""
    return {spec.scorer_name: spec for spec in all_specs().values() if spec.ready_made}


def _unknown_scorer(name: str, known: list[str]) -> str:
    """Return the error message for a name without a ready-made scorer, with similar names."""
    spec = find_spec(name)
    if spec is not None and not spec.ready_made:
        return f"`name` {name!r} has no ready-made scorer: use {' or '.join(_calls_of(spec))}."
    near = (
        [spec.scorer_name]
        if spec is not None
        else difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    )
    if near:
        hint = f" Did you mean {' or '.join(map(repr, near))}?"
    elif name in sklearn_scorer_names():
        hint = (
            " It is one of scikit-learn's: pass the string itself, as in {**scorers('neg_crps'), 'r2': 'r2'}."
        )
    else:
        hint = ""
    return f"`name` must be one of skuq's scorers, got {name!r}.{hint} Known: {', '.join(sorted(known))}."


def _calls_of(spec: MetricSpec) -> list[str]:
    """Return the ways to make the scorer of a metric that needs options."""
    always = [f"{option}=..." for option in spec.required_options]
    choices = [[*always, f"{option}=..."] for option in spec.one_of] or [always]
    return [f"make_scorer({', '.join([repr(spec.abbreviation), *wanted])})" for wanted in choices]


def require_spec(name: str) -> MetricSpec:
    """Return the record of a metric by abbreviation or scorer name, or raise with similar names."""
    spec = find_spec(name)
    if spec is None:
        known = list(all_specs())
        near = [each.abbreviation for each in all_specs().values() if each.function.__name__ == name]
        near = near or difflib.get_close_matches(name.lower().removeprefix("neg_"), known, n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ValueError(
            f"`metric` must be a metric of skuq, got {name!r}.{hint} Known: {', '.join(sorted(known))}."
        )
    return spec


def check_options(spec: MetricSpec, options: dict[str, Any]) -> None:
    """Raise unless every option is one of the metric's and every required one is there."""
    unknown = sorted(set(options) - set(spec.options))
    if unknown:
        known = ", ".join(spec.options) or "none"
        raise TypeError(
            f"`options` of {spec.abbreviation!r} must be among its own ({known}), got {unknown[0]!r}."
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
    _check_values(spec, options)


def _check_values(spec: MetricSpec, options: dict[str, Any]) -> None:
    """Raise the error of the metric for invalid values of its options, before a search turns it into NaN.

    The metric is evaluated on three rows. That may fail for other reasons, so only an error that names an
    option is raised, and none about a reference, which may have the rows of future data.
    """
    if spec.random and isinstance(options.get("random_state"), np.random.RandomState | None):
        options = {**options, "random_state": 0}  # drawing from a generator of the user would change it
    features = (np.zeros((3, 1)),) if spec.needs_X else ()
    forecast = np.eye(3) if spec.of_classes else Normal(np.zeros(3), 1.0)
    try:
        spec.compute(np.array([-1.0, 0.0, 1.0]), forecast, *features, **options)
    except (TypeError, ValueError) as error:
        if any(f"`{name}`" in str(error) for name in options if name not in spec.one_of):
            raise


def _scorer_of_own(
    metric: Any, greater_is_better: bool | None, options: dict[str, Any]
) -> DistributionScorer:
    """Return the scorer of a user's function."""
    if not callable(metric):
        raise TypeError(f"`metric` must be a name or a function, got {type(metric).__name__}.")
    if greater_is_better is None:
        raise TypeError(
            "`greater_is_better` must be given for a metric of your own: True for a score, False for a loss."
        )
    signature = inspect.signature(metric)
    try:
        signature.bind(None, None, **options)
    except TypeError as error:
        raise TypeError(f"`metric` must be callable as metric(y_true, dist, **options): {error}.") from None
    name = getattr(metric, "__name__", type(metric).__name__)
    return DistributionScorer(
        metric, 1 if greater_is_better else -1, options, name if greater_is_better else f"neg_{name}"
    )
