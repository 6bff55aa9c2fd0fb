"""Predictive distributions of fitted estimators."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from skuq._compat import count_rows, sequential_in_cluster_task
from skuq._validation import check_unmasked
from skuq.distributions import Distribution, JointDistribution
from skuq.exceptions import NotProbabilisticError
from skuq.prediction._adapters import ADAPTERS, CONTAINERS
from skuq.prediction._register import (
    PACKAGES_OF_COLUMNS,
    Adapter,
    EstimatorRule,
    MetaEstimatorRule,
    add_adapter,
    find_adapter,
    note_estimator,
    register,
)
from skuq.prediction._sklearn_rules import NATIVES, no_distribution

__all__ = [
    "check_estimator",
    "has_calibrated_dist",
    "inner_estimators",
    "learns_in_context",
    "predict_dist",
    "predicts_columns",
    "register",
    "supports_dist",
]

_LONG = 80
"""Error messages contain at most this number of characters of a repr."""

for _name, _adapter in ADAPTERS.items():
    add_adapter(_name, _adapter)


def predict_dist(estimator: Any, X: Any) -> Distribution:
    """Return the predictive distribution of a fitted estimator.

    The following estimators have a distribution:

    - skuq's estimators,
    - scikit-learn's BayesianRidge, ARDRegression, GaussianProcessRegressor and DummyRegressor,
    - NGBoost, quantile-forest and skpro,
    - the foundation models TabPFN and TabICL, also fine-tuned,
    - CatBoost with ``RMSEWithUncertainty`` or ``MultiQuantile``, XGBoost with several ``quantile_alpha``, and
      AutoGluon with quantiles,
    - classes that are passed to `register`,
    - every class whose ``predict`` has the parameter ``return_std``.

    Such an estimator may be inside the following estimators:

    - Pipeline, searches such as GridSearchCV, RFE, RFECV, TransformedTargetRegressor and FrozenEstimator,
    - StackingRegressor, BaggingRegressor and VotingRegressor,
    - MultiOutputRegressor and RegressorChain with one column,
    - FLAML, TPOT, and skrub's learners and searches.

    Parameters
    ----------
    estimator : estimator
        Fitted estimator. It is not modified.
    X : array-like of shape (n, n_features), DataFrame, Distribution, or dict
        Features, as for ``estimator.predict``. Pass a Distribution if the estimator is a recalibrator, and a
        dict of tables if it is a skrub learner.

    Returns
    -------
    dist : Distribution
        Distribution of n rows, in the units of y. Row i belongs to row i of X. For an estimator of several
        targets, the result is a `~skuq.distributions.JointDistribution`, which is not a Distribution.

    Raises
    ------
    NotProbabilisticError
        If the estimator has no distribution. The message contains the class and a remedy.
    NotRefittedError
        If a search was fitted with ``refit=False``.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.

    See Also
    --------
    supports_dist : Check before fitting whether an estimator has a distribution.
    register : Add support for a class of another package.
    skuq.conformal.predict_set : Prediction sets of a fitted classifier.
    skuq.regressors.UncertaintyRegressor : Wrap a regressor without a distribution.

    Notes
    -----
    The function tries the following in this order: the estimator's own method ``predict_dist``; an adapter
    that is registered for the class or for the nearest of its base classes; a rule for meta-estimators; a
    rule for scikit-learn's estimators.

    BayesianRidge and ARDRegression separate the noise (``1 / alpha_``) from the uncertainty of the
    coefficients. For a GaussianProcessRegressor, the noise variance is the sum of ``alpha`` and the variance
    of a WhiteKernel. scikit-learn's ``return_std`` does not include ``alpha``. The distribution of
    DummyRegressor is a point mass, whose CRPS is the absolute error. The distribution of BaggingRegressor and
    VotingRegressor is the mixture of the distributions of their members. The distribution of CatBoost with
    ``RMSEWithUncertainty`` is `Normal` with the predicted mean and variance. For boosting with several
    quantiles and for AutoGluon, the distribution is a `Quantiles` object with the fitted levels. Quantiles
    that cross are sorted. A model that predicts a single quantile has no distribution. The distribution of
    TabPFN is a `Binned` object with TabPFN's bars and tails. The distribution of TabICL is a `Quantiles`
    object with 199 levels. A TransformedTargetRegressor with an affine scaler has a distribution of the same
    family as its regressor. For other transformers, the distribution is transformed exactly. The joint
    distribution of several targets is transformed separately for each target. The dependence is unchanged.

    The function does not recalibrate the distribution. The distribution may be too narrow for new rows. For a
    recalibrated distribution, use `skuq.regressors.UncertaintyRegressor`.

    The cost is one prediction of the inner estimator, or one prediction per member of an ensemble.

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
    with sequential_in_cluster_task(), note_estimator(estimator):
        dist: Any = _dispatch(estimator, X)
    is_dist = isinstance(dist, Distribution | JointDistribution)
    if not is_dist:
        raise TypeError(
            f"the prediction of {type(estimator).__name__} must be a skuq Distribution, got "
            f"{type(dist).__name__}. Return, for example, skuq.distributions.Normal(loc, scale)."
        )
    # A skrub learner takes a dictionary of tables. The number of rows of the result is unknown.
    if not isinstance(X, Mapping) and len(dist) != count_rows(X):
        raise ValueError(
            f"the distribution of {type(estimator).__name__} must have {count_rows(X)} rows, one per row of "
            f"X, got {len(dist)}."
        )
    return dist  # type: ignore[no-any-return]


def supports_dist(estimator: Any) -> bool:
    """Return whether `predict_dist` supports the estimator, before or after fitting.

    The function inspects only the class and the parameters, so it can be called before an expensive search.
    For an unfitted search, the result depends only on its parameter ``estimator``, even if the grid replaces
    this estimator. For a search that creates its own estimators, such as FLAML and TPOT, the result is True
    only after fitting.

    Parameters
    ----------
    estimator : estimator
        Fitted or unfitted estimator.

    Returns
    -------
    supported : bool
        True if `predict_dist` works. For a search with ``refit=False``, the result is False, because such a
        search cannot predict.

    See Also
    --------
    predict_dist : Predictive distribution of a fitted estimator.

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
    rule = _rule_of(estimator)
    if not isinstance(rule, MetaEstimatorRule):
        return [estimator]
    return [inner for part in rule.parts(estimator) for inner in inner_estimators(part)]


def predicts_columns(estimator: Any) -> bool:
    if not any(package in sys.modules for package in PACKAGES_OF_COLUMNS):
        return False
    for inner in inner_estimators(estimator):
        adapter = find_adapter(type(inner))
        if adapter is not None and not adapter.points and _supports(inner):
            return True
    return False


def learns_in_context(estimator: Any) -> bool:
    """Return whether all inner estimators only store rows in `fit`."""
    adapters = [find_adapter(type(inner)) for inner in inner_estimators(estimator)]
    return bool(adapters) and all(adapter is not None and adapter.in_context for adapter in adapters)


def has_calibrated_dist(estimator: Any) -> bool:
    """Return whether the distribution is an exact posterior, or is calibrated on held-out rows in `fit`."""
    rule = _rule_of(estimator)
    if isinstance(rule, Adapter):
        return rule.calibrated(estimator)
    return isinstance(rule, EstimatorRule) and rule.exact


def _dispatch(estimator: Any, X: Any) -> Distribution:
    if callable(own := getattr(estimator, "predict_dist", None)):
        return own(X)  # type: ignore[no-any-return]
    rule = _rule_of(estimator)
    if rule is None:
        raise no_distribution(estimator)
    if not isinstance(rule, MetaEstimatorRule):
        return rule.predict(estimator, X)
    try:
        return rule.predict(estimator, X, predict_dist)  # type: ignore[no-any-return]
    except NotProbabilisticError as error:
        error.add_note(f"It is an inner estimator of {type(estimator).__name__}.")
        raise


def _rule_of(estimator: Any) -> Adapter | MetaEstimatorRule | EstimatorRule | None:
    """Return the adapter or the rule of an estimator without an own method ``predict_dist``, or None."""
    if callable(getattr(estimator, "predict_dist", None)):
        return None
    if (adapter := find_adapter(type(estimator))) is not None:
        return adapter
    rules: tuple[MetaEstimatorRule | EstimatorRule, ...] = (*CONTAINERS, *NATIVES)
    return next((rule for rule in rules if rule.matches(estimator)), None)


def _supports(estimator: Any) -> bool:
    """Return whether `_dispatch` would return a distribution."""
    if estimator is None or isinstance(estimator, str):
        return False
    if callable(getattr(estimator, "predict_dist", None)):
        return True
    rule = _rule_of(estimator)
    if isinstance(rule, MetaEstimatorRule):
        inner = inner_estimators(estimator)
        return bool(inner) and all(_supports(part) for part in inner)
    return rule is not None and bool(rule.supports(estimator))


def check_estimator(estimator: Any) -> None:
    """Raise an error if the argument is a class, or an object without `fit` and `predict`."""
    if isinstance(estimator, type):
        raise TypeError(f"`estimator` must be an instance, got the class {estimator.__name__}.")
    known = any(hasattr(estimator, method) for method in ("predict_dist", "predict", "fit"))
    if not known and find_adapter(type(estimator)) is None:
        shown = repr(estimator)
        if len(shown) > _LONG:
            shown = f"an object of class {type(estimator).__name__}"
        raise TypeError(f"`estimator` must be an estimator with `fit` and `predict`, got {shown}.")
