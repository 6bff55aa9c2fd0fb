"""CatBoost, XGBoost and LightGBM, where their loss makes them predict a distribution.

That is several quantiles, or CatBoost's mean and variance. None of the packages is imported.
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

__all__ = ["BOOSTING_ADAPTERS"]

_MEAN_AND_VARIANCE = "RMSEWithUncertainty"


def _has_quantiles(estimator: Any) -> bool:
    """Return whether the estimator predicts at least two quantiles; one is no distribution."""
    return len(set(configured_levels(estimator) or ())) > 1


def _quantiles_dist(estimator: Any, X: Any) -> Quantiles:
    """The quantiles that were fitted, in the order of their levels; XGBoost and LightGBM."""
    if not _has_quantiles(estimator):
        raise no_distribution(estimator)
    levels, order = np.unique(configured_levels(estimator) or (), return_index=True)
    return Quantiles(levels, _columns(estimator.predict(X), estimator)[:, order])


def _catboost_supports(estimator: Any) -> bool:
    return catboost_loss(estimator)[0] == _MEAN_AND_VARIANCE or _has_quantiles(estimator)


def _catboost_dist(estimator: Any, X: Any) -> Distribution:
    """Normal of the predicted mean and variance, or the quantiles that were fitted.

    The variance is that of the noise. What ``virtual_ensembles_predict`` adds for the model, with
    ``prediction_type="TotalUncertainty"``, is the spread of truncated copies of one model, which means
    something only under ``posterior_sampling=True`` and shifts the mean; it is left out.
    """
    if not estimator.is_fitted():
        raise not_fitted(estimator)
    if catboost_loss(estimator)[0] != _MEAN_AND_VARIANCE:
        return _quantiles_dist(estimator, X)
    mean, variance = _columns(estimator.predict(X, prediction_type=_MEAN_AND_VARIANCE), estimator).T
    return Normal(mean, np.sqrt(variance))


def _columns(values: Any, estimator: Any) -> FloatArray:
    """Return what was predicted as floats; a single row comes with one axis less."""
    return check_predictions(np.atleast_2d(np.asarray(values, dtype=np.float64)), estimator)


BOOSTING_ADAPTERS: dict[str, Adapter] = {
    "catboost.CatBoostRegressor": Adapter(_catboost_dist, _catboost_supports, points=False),
    "xgboost.XGBRegressor": Adapter(_quantiles_dist, _has_quantiles, points=False),
}
"""By the name under which one imports the class. LightGBM has a single level a model, and so no entry."""
