"""Distributions of NGBoost, quantile-forest, skpro, gradient boosting, foundation models and AutoML.

This module imports none of these packages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from skuq._typing import FloatArray
from skuq.distributions import (
    Distribution,
    Empirical,
    Mixture,
    Normal,
    Quantiles,
    ScipyDistribution,
    StudentT,
)
from skuq.exceptions import NotProbabilisticError
from skuq.prediction._failures import check_predictions, one_column_each, single_output
from skuq.prediction._registry import Adapter, from_room
from skuq.prediction._rules.automl import AUTOML_ADAPTERS
from skuq.prediction._rules.boosting import BOOSTING_ADAPTERS
from skuq.prediction._rules.foundation import FOUNDATION_ADAPTERS
from skuq.prediction._rules.no_distribution import not_fitted
from skuq.prediction._rules.quantile_estimators import FINE_LEVELS

_normal_joint = from_room("skuq.multivariate", "NormalJoint")


def _one_target(columns: int, estimator: Any) -> None:
    if columns != 1:
        raise ValueError(
            f"{type(estimator).__name__} predicts {columns} targets. skuq handles one target at a time. "
            + one_column_each()
        )


def _ngboost_dist(estimator: Any, X: Any) -> Any:
    """Return the distribution of NGBoost as Normal, Student t, NormalJoint, or another family of scipy."""
    if not estimator.base_models:
        raise not_fitted(estimator)
    dist = estimator.pred_dist(X)
    if _is_multivariate_normal(dist):
        return _normal_joint(check_predictions(dist.loc, estimator), dist.cov)
    if getattr(dist, "multi_output", False):
        _one_target(getattr(dist, "n_outputs", 2), estimator)
    frozen = getattr(dist, "dist", None)
    name = getattr(getattr(frozen, "dist", None), "name", None)
    if name == "norm":
        return Normal(check_predictions(dist.loc, estimator), check_predictions(dist.scale, estimator))
    if name == "t":
        return StudentT(check_predictions(dist.loc, estimator), dist.scale, dist.df)
    if name is None:
        raise NotProbabilisticError(
            f"NGBoost's `Dist` must have a scipy distribution, got {type(dist).__name__}. "
            "Fit with another `Dist`, such as Normal, LogNormal, Laplace, T, Gamma or Exponential."
        )
    return ScipyDistribution(frozen)


def _ngboost_supports(estimator: Any) -> bool:
    return not getattr(estimator.Dist, "multi_output", False) or _is_multivariate_normal(estimator.Dist)


def _is_multivariate_normal(family: Any) -> bool:
    kind = family if isinstance(family, type) else type(family)
    return kind.__module__.startswith("ngboost.") and kind.__name__ == "MVN"


def _quantile_forest_dist(estimator: Any, X: Any) -> Quantiles:
    check_is_fitted(estimator)
    values = np.asarray(estimator.predict(X, quantiles=FINE_LEVELS), dtype=np.float64)
    if values.ndim == 3:
        _one_target(values.shape[1], estimator)
    return Quantiles(FINE_LEVELS, check_predictions(values, estimator))


def _skpro_dist(estimator: Any, X: Any) -> Distribution:
    if not estimator.is_fitted:
        raise not_fitted(estimator)
    if hasattr(X, "reset_index"):  # skpro selects samples by the index, which may have duplicates.
        X = X.reset_index(drop=True)
    dist = estimator.predict_proba(X)
    _one_target(dist.shape[1], estimator)
    return _from_skpro(dist)


def _from_skpro(dist: Any) -> Distribution:
    convert = _SKPRO.get(type(dist).__name__) if type(dist).__module__.startswith("skpro.") else None
    if convert is not None:
        return convert(dist)
    return Quantiles(FINE_LEVELS, np.asarray(dist.quantile(FINE_LEVELS), dtype=np.float64))


def _rows(dist: Any, *names: str) -> list[FloatArray]:
    return [
        single_output(np.broadcast_to(np.asarray(getattr(dist, name), dtype=np.float64), dist.shape), dist)
        for name in names
    ]


def _skpro_normal(dist: Any) -> Normal:
    loc, scale = _rows(dist, "mu", "sigma")
    return Normal(loc, scale)


def _skpro_student_t(dist: Any) -> StudentT:
    loc, scale, df = _rows(dist, "mu", "sigma", "df")
    return StudentT(loc, scale, df)


def _skpro_scipy(
    family: Any, parameters: Callable[..., dict[str, Any]], *names: str
) -> Callable[[Any], Distribution]:
    return lambda dist: ScipyDistribution(family(**parameters(*_rows(dist, *names))))


def _skpro_empirical(dist: Any) -> Distribution:
    """Return the samples, a data frame with the index (sample, row), as an Empirical distribution."""
    if dist.spl.index.nlevels != 2:
        return Quantiles(FINE_LEVELS, np.asarray(dist.quantile(FINE_LEVELS), dtype=np.float64))
    samples = dist.spl.iloc[:, 0].unstack(level=0).loc[dist.index]
    weights = 1.0 if dist.weights is None else dist.weights.unstack(level=0).loc[dist.index].to_numpy()
    # Rows may have different numbers of samples. Missing samples get the weight 0.
    weights = np.where(samples.isna().to_numpy(), 0.0, weights)
    return Empirical(samples.fillna(0.0).to_numpy(), None if np.ptp(weights) == 0 else weights)


def _skpro_mixture(dist: Any) -> Distribution:
    parts = [part[1] if isinstance(part, tuple) else part for part in dist.distributions]
    return Mixture([_from_skpro(part) for part in parts], weights=dist.weights)


_SKPRO: dict[str, Callable[[Any], Distribution]] = {
    "Normal": _skpro_normal,
    "Delta": lambda dist: Normal(_rows(dist, "c")[0], 0.0),
    "TDistribution": _skpro_student_t,
    "Empirical": _skpro_empirical,
    "Mixture": _skpro_mixture,
    "Laplace": _skpro_scipy(stats.laplace, lambda loc, scale: {"loc": loc, "scale": scale}, "mu", "scale"),
    "Logistic": _skpro_scipy(stats.logistic, lambda loc, scale: {"loc": loc, "scale": scale}, "mu", "scale"),
    "LogNormal": _skpro_scipy(
        stats.lognorm, lambda mu, sigma: {"s": sigma, "scale": np.exp(mu)}, "mu", "sigma"
    ),
    "Gamma": _skpro_scipy(stats.gamma, lambda a, rate: {"a": a, "scale": 1 / rate}, "alpha", "beta"),
    "Exponential": _skpro_scipy(stats.expon, lambda rate: {"scale": 1 / rate}, "rate"),
}

ADAPTERS: dict[str, Adapter] = {
    "ngboost.NGBRegressor": Adapter(_ngboost_dist, _ngboost_supports),
    "ngboost.NGBSurvival": Adapter(_ngboost_dist, _ngboost_supports),
    "quantile_forest.RandomForestQuantileRegressor": Adapter(_quantile_forest_dist),
    "quantile_forest.ExtraTreesQuantileRegressor": Adapter(_quantile_forest_dist),
    "skpro.regression.base.BaseProbaRegressor": Adapter(_skpro_dist),
    **BOOSTING_ADAPTERS,
    **FOUNDATION_ADAPTERS,
    **AUTOML_ADAPTERS,
    "sksurv.base.SurvivalAnalysisMixin": Adapter(
        from_room("skuq.survival._scikit_survival", "steps_dist"),
        lambda estimator: hasattr(estimator, "predict_survival_function"),
    ),
}
"""Adapters by the path from which users import the class."""
