"""Rules that choose the method for an estimator, in order of preference, with the evidence for each rule.

`UncertaintyRegressor` uses the first rule that applies. The documentation shows the rules as a table. No rule
depends on the number of rows, because measurements do not support such a rule. With 100 rows, recalibration
increases the CRPS of quantiles by 5 %, but without recalibration the coverage of the quantiles is too low.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.dummy import DummyRegressor

from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq.prediction import supports_dist
from skuq.prediction._resolve import (
    calibrates_itself,
    has_exact_posterior,
    inner_estimators,
    learns_in_context,
)
from skuq.prediction._rules.quantile_estimators import configured_levels
from skuq.recalibration import BaseRecalibrator, ShrunkIsotonicRecalibrator
from skuq.regressors._default_recalibrator import DefaultRecalibrator
from skuq.regressors._forest.trees import bootstraps_trees

FOREST_TREES = 50
"""A forest needs at least this number of trees. With 50 trees, a row is out of bag for a third of them, and
these trees predict the row nearly as well as all trees."""


@dataclass(frozen=True)
class MethodRule:
    """A method, the estimators to which the method applies, and the evidence for the method."""

    method: str
    estimators: str  # estimators in words; a column of the table in the documentation
    applies: Callable[[Any, bool], bool]  # called with (estimator, random_folds)
    fits: str  # cost with the default effort, in fits on all rows; a column of the table
    evidence: str  # reason for preferring this method to the methods below; a column of the table


def is_calibrated(estimator: Any) -> bool:
    inner = inner_estimators(estimator)
    if len(inner) != 1:
        return False
    if isinstance(inner[0], BaseUncertaintyRegressor):
        return inner[0]._is_calibrated()
    if isinstance(inner[0], BaseRecalibrator):
        return True
    return has_exact_posterior(inner[0]) or calibrates_itself(inner[0])


def recalibrator_of(estimator: Any) -> BaseRecalibrator:
    """Return the default recalibrator. Models that learn in context are nearly calibrated."""
    return ShrunkIsotonicRecalibrator() if learns_in_context(estimator) else DefaultRecalibrator()


def method_of(estimator: Any, *, random_folds: bool) -> str:
    return next(rule.method for rule in METHOD_RULES if rule.applies(estimator, random_folds))


def _has_distribution(estimator: Any) -> bool:
    return supports_dist(estimator) and not any(
        isinstance(one, DummyRegressor) for one in inner_estimators(estimator)
    )


def _is_forest(estimator: Any, random_folds: bool) -> bool:
    return random_folds and bootstraps_trees(estimator) and estimator.n_estimators >= FOREST_TREES


METHOD_RULES = (
    MethodRule(
        method="native",
        estimators="with a posterior (BayesianRidge, ARDRegression, GaussianProcessRegressor, "
        "LeastSquaresRegressor), or calibrated on held-out rows (skuq's other regressors, networks with a "
        "``calibration``, recalibrators, TabPFN with ``calibrate_temperature``)",
        applies=lambda estimator, _: _has_distribution(estimator) and is_calibrated(estimator),
        fits="1",
        evidence="the distribution is exact under the assumptions of the model, or is already calibrated",
    ),
    MethodRule(
        method="recalibrated",
        estimators="with another distribution (NGBoost, CatBoost, quantile forests, TabPFN, TabICL, mixtures "
        "by bagging and voting, SparseGaussianProcessRegressor, networks with ``calibration=None``)",
        applies=lambda estimator, _: _has_distribution(estimator),
        fits="6",
        evidence="without recalibration, 90 % intervals of CatBoost cover 64 % (mean of 21 data sets), and "
        "the coverage of quantile-forest differs significantly from 90 % on 10 of the 21 data sets",
    ),
    MethodRule(
        method="recalibrated",
        estimators="with a quantile loss, or a Pipeline that ends in such an estimator",
        applies=lambda estimator, _: configured_levels(estimator) is not None,
        fits="12: 3 at each of 4 levels",
        evidence="recalibration increases the coverage of 90 % intervals of LightGBM from 81.5 % to 91.6 % "
        "(21 data sets), and multiplies the CRPS by 0.98 and the interval score by 0.86. On ten other data "
        "sets with 100 training rows, it increases the coverage from 84 % to 91 % and multiplies the CRPS by "
        "1.05",
    ),
    MethodRule(
        method="forest",
        estimators="forest or BaggingRegressor with at least 50 trees on bootstrap rows, unless ``cv`` is a "
        "splitter, which may keep groups together or respect time order",
        applies=_is_forest,
        fits="1",
        evidence="one fit instead of 3.9. On 15 data sets with up to 1000 rows, 90 % intervals cover 90 %, "
        "and the CRPS is 1.02 times the CRPS of ``residual``",
    ),
    MethodRule(
        method="residual",
        estimators="all others. Also a forest in a Pipeline, because the other steps may use the target, "
        "or in a search (``GridSearchCV(UncertaintyRegressor(forest), {'estimator__max_features': "
        "...})`` is better). Also a quantile loss inside a search, BaggingRegressor or "
        "TransformedTargetRegressor",
        applies=lambda estimator, _: True,
        fits="3.9",
        evidence="the method works with every regressor",
    ),
)
"""Rules in order of preference. The last rule applies to every regressor."""
