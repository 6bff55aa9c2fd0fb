"""Distributions of CatBoost, XGBoost and LightGBM with a distributional loss.

A distributional loss fits several quantiles, or mean and variance (CatBoost). This module imports none of the
packages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import FloatArray
from skuq.distributions import Distribution, Normal, Quantiles
from skuq.prediction._failures import check_predictions
from skuq.prediction._registry import Adapter
from skuq.prediction._rules.no_distribution import no_distribution, not_fitted
from skuq.prediction._rules.quantile_estimators import catboost_loss, configured_levels

_MEAN_AND_VARIANCE = "RMSEWithUncertainty"


def _has_quantiles(estimator: Any) -> bool:
    return len(set(configured_levels(estimator) or ())) > 1


def _quantiles_dist(estimator: Any, X: Any) -> Quantiles:
    if not _has_quantiles(estimator):
        raise no_distribution(estimator)
    levels, order = np.unique(configured_levels(estimator) or (), return_index=True)
    return Quantiles(levels, _columns(estimator.predict(X), estimator)[:, order])


def _catboost_supports(estimator: Any) -> bool:
    return catboost_loss(estimator)[0] == _MEAN_AND_VARIANCE or _has_quantiles(estimator)


def _catboost_dist(estimator: Any, X: Any) -> Distribution:
    if not estimator.is_fitted():
        raise not_fitted(estimator)
    if catboost_loss(estimator)[0] != _MEAN_AND_VARIANCE:
        return _quantiles_dist(estimator, X)
    mean, variance = _columns(estimator.predict(X, prediction_type=_MEAN_AND_VARIANCE), estimator).T
    return Normal(mean, np.sqrt(variance))


def _columns(values: Any, estimator: Any) -> FloatArray:
    return check_predictions(np.atleast_2d(np.asarray(values, dtype=np.float64)), estimator)


BOOSTING_ADAPTERS: dict[str, Adapter] = {
    "catboost.CatBoostRegressor": Adapter(_catboost_dist, _catboost_supports, points=False),
    "xgboost.XGBRegressor": Adapter(_quantiles_dist, _has_quantiles, points=False),
}
"""Adapters by the path from which users import the class. LightGBM is missing, because its models predict
only one quantile."""
