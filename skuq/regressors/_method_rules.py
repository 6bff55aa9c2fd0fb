"""Rules that choose the method for an estimator, in order of preference, with the evidence for each.

`UncertaintyRegressor` uses the first rule that applies. The documentation shows the rules as a table.

No rule depends on the number of rows, because measurements show that it is not necessary: the CRPS of
"forest" divided by the CRPS of "residual" is 0.94, 0.97 and 0.95 with 60, 150 and up to 1500 training rows.
With 100 rows, recalibrated quantiles have 1.05 times the CRPS of the fitted quantiles, but the coverage of
the fitted quantiles is too low.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.dummy import DummyRegressor

from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq.prediction import supports_dist
from skuq.prediction._resolve import has_exact_posterior, inner_estimators
from skuq.prediction._rules.quantile_estimators import configured_levels
from skuq.recalibration import BaseRecalibrator
from skuq.regressors._forest.trees import bootstraps_trees

FOREST_TREES = 50
"""Least number of trees; of 50 trees, the third that is out of bag predicts a row about as well as all."""


@dataclass(frozen=True)
class MethodRule:
    """A method, the estimators to which it applies, and the evidence for it."""

    method: str
    estimators: str  # for readers
    applies: Callable[[Any, bool], bool]  # called with (estimator, random_folds)
    fits: str  # number of fits of the estimator with the default effort, for readers
    evidence: str  # reason for preferring the method to the rules below, for readers


def is_calibrated(estimator: Any) -> bool:
    """Return whether the distribution of an estimator is calibrated; False for a mixture of several."""
    inner = inner_estimators(estimator)
    if len(inner) != 1:
        return False
    if isinstance(inner[0], BaseUncertaintyRegressor):
        return inner[0]._is_calibrated()
    return isinstance(inner[0], BaseRecalibrator) or has_exact_posterior(inner[0])


def method_of(estimator: Any, *, random_folds: bool) -> str:
    return next(rule.method for rule in METHOD_RULES if rule.applies(estimator, random_folds))


def _has_distribution(estimator: Any) -> bool:
    """Return whether the estimator has its own distribution, other than DummyRegressor's point mass."""
    return supports_dist(estimator) and not any(
        isinstance(one, DummyRegressor) for one in inner_estimators(estimator)
    )


def _is_forest(estimator: Any, random_folds: bool) -> bool:
    """Return whether the out-of-bag rows of a forest replace the folds; False if ``cv`` is a splitter."""
    return random_folds and bootstraps_trees(estimator) and estimator.n_estimators >= FOREST_TREES


METHOD_RULES = (
    MethodRule(
        method="native",
        estimators="with a posterior (BayesianRidge, ARDRegression, GaussianProcessRegressor, "
        "LeastSquaresRegressor), or calibrated on held-out rows (skuq's other regressors, networks with a "
        "``calibration``, recalibrators)",
        applies=lambda estimator, _: _has_distribution(estimator) and is_calibrated(estimator),
        fits="1",
        evidence="exact under the assumptions of the model, or calibrated already",
    ),
    MethodRule(
        method="recalibrated",
        estimators="with another distribution (NGBoost, CatBoost, quantile forests, mixtures by bagging "
        "and voting, SparseGaussianProcessRegressor, networks with ``calibration=None``)",
        applies=lambda estimator, _: _has_distribution(estimator),
        fits="6",
        evidence="without recalibration, 90 % intervals of CatBoost cover 64 % (mean of 21 data sets), and "
        "the coverage of quantile-forest differs significantly from 90 % on 10 of the sets",
    ),
    MethodRule(
        method="recalibrated",
        estimators="with a quantile loss, or a Pipeline that ends in such an estimator",
        applies=lambda estimator, _: configured_levels(estimator) is not None,
        fits="12: 3 at each of 4 levels",
        evidence="90 % intervals of LightGBM with 11 levels cover 78 % without and 92 % with recalibration, "
        "which multiplies the CRPS by 0.98 and the interval score by 0.87; on ten other data sets with 100 "
        "training rows, it multiplies the CRPS by 1.05, and intervals cover 91 % instead of 84 %",
    ),
    MethodRule(
        method="forest",
        estimators="forest or BaggingRegressor with 50 trees or more on bootstrap rows, if ``cv`` is not a "
        "splitter; a splitter may keep groups together or respect the order of time",
        applies=_is_forest,
        fits="1",
        evidence="CRPS relative to ``residual``: 0.94, 0.97 and 0.95 with 60, 150 and up to 1500 rows",
    ),
    MethodRule(
        method="residual",
        estimators="all others. Also a forest in a Pipeline, because the other steps may use the target, "
        "or in a search (``GridSearchCV(UncertaintyRegressor(forest), {'estimator__max_features': "
        "...})`` is better). Also a quantile loss inside a search, BaggingRegressor or "
        "TransformedTargetRegressor",
        applies=lambda estimator, _: True,
        fits="5.8",
        evidence="applies to every regressor",
    ),
)
"""Rules in order of preference; the last rule applies to every regressor."""
