"""Distributions of CatBoost, XGBoost and LightGBM with a distributional loss, and of XGBoostLSS.

A distributional loss fits several quantiles, or mean and variance (CatBoost). XGBoostLSS fits the parameters
of a family. This module imports none of the packages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from skuq._typing import FloatArray
from skuq.distributions import Distribution, Hurdle, Normal, Quantiles, ScipyDistribution, StudentT, Truncated
from skuq.exceptions import NotProbabilisticError
from skuq.prediction._failures import check_predictions
from skuq.prediction._registry import Adapter
from skuq.prediction._rules.no_distribution import no_distribution, not_fitted
from skuq.prediction._rules.quantile_estimators import FINE_LEVELS, catboost_loss, configured_levels

Build = Callable[..., Distribution]

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


def _xgboostlss_dist(estimator: Any, X: Any) -> Distribution:
    """Return the predictive distribution, in the family that XGBoostLSS was fitted with."""
    if getattr(estimator, "booster", None) is None:
        raise not_fitted(estimator)
    data = sys.modules["xgboost"].DMatrix(X)  # already imported, because a fitted model exists
    family = type(estimator.dist).__name__
    if getattr(estimator.dist, "multivariate", False):
        raise NotProbabilisticError(
            f"`dist` of XGBoostLSS must have one target, got {family}. skuq handles one target at a time."
        )
    build = _FAMILIES.get(family)
    if build is None:
        table = estimator.predict(data, pred_type="quantiles", quantiles=FINE_LEVELS)
        return Quantiles(FINE_LEVELS, check_predictions(np.asarray(table, dtype=np.float64), estimator))
    table = estimator.predict(data, pred_type="parameters")
    columns = check_predictions(np.asarray(table, dtype=np.float64), estimator)
    return build(**dict(zip(map(str, table.columns), columns.T, strict=True)))


def _scipy(family: Any, **parameters: Any) -> ScipyDistribution:
    return ScipyDistribution(family(**parameters))


def _negative_binomial(total_count: FloatArray, probs: FloatArray) -> ScipyDistribution:
    # torch's `probs` are the probabilities of the counted events
    return _scipy(stats.nbinom, n=total_count, p=1 - probs)


def _gamma(concentration: FloatArray, rate: FloatArray) -> ScipyDistribution:
    return _scipy(stats.gamma, a=concentration, scale=1 / rate)


def _beta(concentration1: FloatArray, concentration0: FloatArray) -> ScipyDistribution:
    return _scipy(stats.beta, a=concentration1, b=concentration0)


def _log_normal(loc: FloatArray, scale: FloatArray) -> ScipyDistribution:
    return _scipy(stats.lognorm, s=scale, scale=np.exp(loc))


def _poisson(rate: FloatArray) -> ScipyDistribution:
    return _scipy(stats.poisson, mu=rate)


def _inflated(build: Build) -> Build:

    def zero_inflated(gate: FloatArray, **parameters: FloatArray) -> Distribution:
        counts = build(**parameters)
        zero = gate + (1 - gate) * counts.cdf(0.0)
        return Hurdle(np.minimum(zero, 1.0), Truncated(counts, lower=0.0))

    return zero_inflated


def _adjusted(build: Build) -> Build:
    return lambda gate, **parameters: Hurdle(gate, build(**parameters))


_FAMILIES: dict[str, Build] = {
    "Gaussian": Normal,
    "StudentT": lambda df, loc, scale: StudentT(loc, scale, df),
    "Cauchy": lambda loc, scale: StudentT(loc, scale, 1.0),
    "Laplace": lambda loc, scale: _scipy(stats.laplace, loc=loc, scale=scale),
    "Gumbel": lambda loc, scale: _scipy(stats.gumbel_r, loc=loc, scale=scale),
    "Gamma": _gamma,
    "LogNormal": _log_normal,
    "Weibull": lambda scale, concentration: _scipy(stats.weibull_min, c=concentration, scale=scale),
    "Beta": _beta,
    "Poisson": _poisson,
    "NegativeBinomial": _negative_binomial,
    "ZIPoisson": _inflated(_poisson),
    "ZINB": _inflated(_negative_binomial),
    "ZAGamma": _adjusted(_gamma),
    "ZALN": _adjusted(_log_normal),
    "ZABeta": _adjusted(_beta),
}
"""Functions that return the distribution from the predicted parameters, by family of XGBoostLSS."""

BOOSTING_ADAPTERS: dict[str, Adapter] = {
    "catboost.CatBoostRegressor": Adapter(_catboost_dist, _catboost_supports, points=False),
    "xgboost.XGBRegressor": Adapter(_quantiles_dist, _has_quantiles, points=False),
    "xgboostlss.model.XGBoostLSS": Adapter(_xgboostlss_dist, points=False),
}
"""Adapters by the path from which users import the class. LightGBM is missing, because its models predict
only one quantile."""
