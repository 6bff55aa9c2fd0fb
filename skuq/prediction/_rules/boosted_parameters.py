"""Distributions of XGBoostLSS, from the predicted parameters of its families.

This module imports neither XGBoostLSS nor XGBoost.
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
from skuq.prediction._rules.no_distribution import not_fitted
from skuq.prediction._rules.quantile_estimators import FINE_LEVELS

Build = Callable[..., Distribution]


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

PARAMETER_ADAPTERS: dict[str, Adapter] = {
    "xgboostlss.model.XGBoostLSS": Adapter(_xgboostlss_dist, points=False)
}
"""Adapters by the path from which users import the class."""
