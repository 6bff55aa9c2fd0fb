"""predict_dist: one function that gets a distribution out of any fitted estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from skuq._sklearn_compat import count_rows, sequential_in_cluster_task
from skuq._validation import check_unmasked
from skuq.distributions import Distribution
from skuq.exceptions import NotProbabilisticError
from skuq.prediction._failures import named
from skuq.prediction._registry import add_adapter, find_adapter, may_predict_columns, register
from skuq.prediction._rules.adapters import ADAPTERS
from skuq.prediction._rules.containers import CONTAINERS
from skuq.prediction._rules.native import NATIVES
from skuq.prediction._rules.no_distribution import no_distribution
from skuq.prediction._rules.rule import Container, Native

__all__ = [
    "check_estimator",
    "has_exact_posterior",
    "inner_estimators",
    "predict_dist",
    "predicts_columns",
    "register",
    "supports_dist",
]

Rule = TypeVar("Rule", Container, Native)

_LONG = 80
"""Characters of a repr that an error message still shows."""

for _name, _adapter in ADAPTERS.items():
    add_adapter(_name, _adapter)


def predict_dist(estimator: Any, X: Any) -> Distribution:
    """Get the predictive distribution of a fitted estimator, whatever it is wrapped in.

    Looks through Pipeline, the searches, RFE and RFECV, TransformedTargetRegressor,
    FrozenEstimator, StackingRegressor, BaggingRegressor and VotingRegressor, and through
    MultiOutputRegressor and RegressorChain fitted to one column, down to an estimator that gives a
    distribution itself: skuq's own, scikit-learn's natives (BayesianRidge, ARDRegression,
    GaussianProcessRegressor, DummyRegressor), NGBoost, quantile-forest, skpro, CatBoost with
    ``RMSEWithUncertainty`` or ``MultiQuantile``, XGBoost with several ``quantile_alpha``, AutoGluon with
    quantiles, what was passed to `register`, and anything whose ``predict`` has the parameter
    ``return_std``. FLAML, TPOT and skrub's learners and searches are containers, too.

    Parameters
    ----------
    estimator : estimator
        Fitted. Not modified.
    X : array-like of shape (n, n_features), DataFrame, Distribution, or dict
        What ``estimator.predict`` takes: a Distribution where the estimator is a recalibrator, a dict of
        tables where it is a skrub learner.

    Returns
    -------
    dist : Distribution
        n rows, in the units of y, row i for row i of X.

    Raises
    ------
    NotProbabilisticError
        If the estimator gives no distribution; the message names the class and what to do.
    NotRefittedError
        If a search was fitted with ``refit=False``.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.

    See Also
    --------
    supports_dist : Whether there will be one.
    register : Add a class of another package.
    predict_set : Prediction sets of classifiers.
    skuq.regressors.UncertaintyRegressor : Give a distribution to a regressor that has none.

    Notes
    -----
    What is tried, in order: the estimator's own ``predict_dist``; the adapters, by qualified class
    name along the base classes; the containers; scikit-learn's natives.

    BayesianRidge and ARDRegression separate the noise (``1 / alpha_``) from the uncertainty of the
    coefficients, and so does GaussianProcessRegressor, whose reported std is that of the function: its
    noise ``alpha`` is added here, and any WhiteKernel is counted as noise. DummyRegressor becomes a
    point mass, whose CRPS is its absolute error. BaggingRegressor and VotingRegressor become the
    mixture of their members. CatBoost with ``RMSEWithUncertainty`` becomes a Normal of its mean and
    variance, and boosting with a loss of several quantiles `Quantiles` at the levels that were fitted;
    a model of one quantile, as LightGBM's is, has no distribution. AutoGluon's become `Quantiles`, too;
    where they cross, those of a row are sorted. A TransformedTargetRegressor keeps
    the family of its regressor under an affine scaler; under any other transformation the distribution
    is mapped exactly. Distributions are those of the models as they are, which may be too narrow on new
    rows; `skuq.regressors.UncertaintyRegressor` recalibrates them.

    Costs one prediction of the inner estimator; one of each member for an ensemble.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.feature_selection import SelectKBest, f_regression
    >>> from sklearn.linear_model import BayesianRidge
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from skuq.prediction import predict_dist
    >>> X, y = load_diabetes(return_X_y=True)
    >>> pipeline = make_pipeline(SelectKBest(f_regression), BayesianRidge())
    >>> search = GridSearchCV(pipeline, {"selectkbest__k": [2, 5]}).fit(X, y)
    >>> dist = predict_dist(search, X[:2])
    >>> dist.interval(0.9).round(0)
    array([[123., 305.],
           [-25., 157.]])
    """
    check_estimator(estimator)
    check_unmasked(X, "X")
    with sequential_in_cluster_task(), named(estimator):
        dist = _dispatch(estimator, X)
    if not isinstance(dist, Distribution):
        raise TypeError(
            f"the distribution of {type(estimator).__name__} must be a skuq Distribution, got "
            f"{type(dist).__name__}. Return for example skuq.distributions.Normal(loc, scale)."
        )
    # A skrub learner takes a dictionary of tables, which has no rows of its own.
    if not isinstance(X, Mapping) and len(dist) != count_rows(X):
        raise ValueError(
            f"the distribution of {type(estimator).__name__} must have one row for each of the "
            f"{count_rows(X)} rows of X, got {len(dist)}."
        )
    return dist


def supports_dist(estimator: Any) -> bool:
    """Return whether `predict_dist` will work, for estimators that need not be fitted yet.

    Answers from the class and the parameters, before an expensive search is run. A search whose grid
    replaces the inner estimator itself is taken by the one it was given, until it is fitted; one that makes
    its estimators itself, as FLAML and TPOT do, is not supported until then.

    Parameters
    ----------
    estimator : estimator
        Fitted or not.

    Returns
    -------
    supported : bool
        False for a search with ``refit=False``, which has nothing to predict with.

    See Also
    --------
    predict_dist : Get the distribution.

    Examples
    --------
    >>> from sklearn.linear_model import BayesianRidge, Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skuq.prediction import supports_dist
    >>> supports_dist(make_pipeline(StandardScaler(), BayesianRidge()))
    True
    >>> supports_dist(make_pipeline(StandardScaler(), Ridge()))
    False
    """
    check_estimator(estimator)
    return _supports(estimator)


def inner_estimators(estimator: Any) -> list[Any]:
    """Return the estimators that the distribution comes from, inside of all containers.

    One, or several where the distribution is their mixture; the estimator itself if it is no container.
    None and strings stand for absent ones.
    """
    container = None if _has_own_way(estimator) else _first_match(CONTAINERS, estimator)
    if container is None:
        return [estimator]
    return [inner for part in container.parts(estimator) for inner in inner_estimators(part)]


def predicts_columns(estimator: Any) -> bool:
    """Return whether ``predict`` gives parameters or quantiles of a distribution, not one number a row."""
    if not may_predict_columns():  # then no such estimator exists, and nothing has to be looked through
        return False
    for inner in inner_estimators(estimator):
        adapter = find_adapter(type(inner))
        if adapter is not None and not adapter.points and _supports(inner):
            return True
    return False


def has_exact_posterior(estimator: Any) -> bool:
    """Return whether its distribution is the exact posterior predictive distribution of its own model."""
    rule = _rule_of(estimator)
    return isinstance(rule, Native) and rule.exact


def _dispatch(estimator: Any, X: Any) -> Distribution:
    """Apply the first way that there is for this estimator."""
    if callable(own := getattr(estimator, "predict_dist", None)):
        return own(X)  # type: ignore[no-any-return]
    if (adapter := find_adapter(type(estimator))) is not None:
        return adapter.predict(estimator, X)
    rule = _rule_of(estimator)
    if rule is None:
        raise no_distribution(estimator)
    try:
        if isinstance(rule, Container):
            return rule.predict(estimator, X, predict_dist)  # type: ignore[no-any-return]
        return rule.predict(estimator, X)
    except NotProbabilisticError as error:
        error.add_note(f"It was reached through {type(estimator).__name__}.")
        raise


def _rule_of(estimator: Any) -> Container | Native | None:
    """Return the first record that applies; None for what has its own way, an adapter, or no way."""
    if _has_own_way(estimator):
        return None
    return _first_match(CONTAINERS, estimator) or _first_match(NATIVES, estimator)


def _has_own_way(estimator: Any) -> bool:
    return callable(getattr(estimator, "predict_dist", None)) or find_adapter(type(estimator)) is not None


def _first_match(rules: tuple[Rule, ...], estimator: Any) -> Rule | None:
    return next((rule for rule in rules if rule.matches(estimator)), None)


def _supports(estimator: Any) -> bool:
    """Answer as `_dispatch` would act; None and strings stand for absent steps."""
    if estimator is None or isinstance(estimator, str):
        return False
    if callable(getattr(estimator, "predict_dist", None)):
        return True
    if (adapter := find_adapter(type(estimator))) is not None:
        return adapter.supports is None or bool(adapter.supports(estimator))
    rule = _rule_of(estimator)
    if isinstance(rule, Container):
        inner = inner_estimators(estimator)
        return bool(inner) and all(_supports(part) for part in inner)
    return rule is not None and rule.supports(estimator)


def check_estimator(estimator: Any) -> None:
    """Raise if it is a class, or nothing that can be fitted or predict."""
    if isinstance(estimator, type):
        raise TypeError(f"`estimator` must be an instance, got the class {estimator.__name__}.")
    known = any(hasattr(estimator, method) for method in ("predict_dist", "predict", "fit"))
    if not known and find_adapter(type(estimator)) is None:
        shown = repr(estimator)
        if len(shown) > _LONG:
            shown = f"an object of class {type(estimator).__name__}"
        raise TypeError(f"`estimator` must be an estimator with `fit` and `predict`, got {shown}.")
