"""Distributions of the estimators of other packages. This module imports none of these packages.

A distributional loss of CatBoost, XGBoost or LightGBM fits several quantiles, or mean and variance
(CatBoost). XGBoostLSS fits the parameters of a family.

TabPFN and TabICL, foundation models for tables, learn in context: `fit` stores the training rows, and a
prediction reads the stored rows. The weights are not imported here.

FLAML, AutoGluon, TPOT and skrub select models. Objects that contain an estimator have a `MetaEstimatorRule`.
Other objects have an adapter, like the estimators of NGBoost, quantile-forest and skpro.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skuq._typing import FloatArray
from skuq._validation import ONE_MODEL_EACH
from skuq.distributions import (
    Binned,
    Distribution,
    Empirical,
    Hurdle,
    Mixture,
    Normal,
    Quantiles,
    ScipyDistribution,
    StudentT,
    Truncated,
)
from skuq.exceptions import NotProbabilisticError, NotRefittedError
from skuq.prediction._quantile_estimators import FINE_LEVELS, catboost_loss, configured_levels
from skuq.prediction._register import (
    Adapter,
    MetaEstimatorRule,
    Predict,
    check_predictions,
    from_room,
    named,
    single_output,
)
from skuq.prediction._sklearn_rules import SKLEARN_CONTAINERS, no_distribution, not_fitted

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


_LEAST_LOG_WEIGHT = -1e6
"""Logarithm of the weight of an empty bin. The weight itself underflows to 0."""


def _tabpfn_dist(estimator: Any, X: Any) -> Binned:
    output = estimator.predict(X, output_type="full")
    bars = output["criterion"]
    # `np.maximum` keeps NaN, so the check below still finds NaN.
    log_weights = np.maximum(_to_numpy(output["logits"]), _LEAST_LOG_WEIGHT)
    edges, log_weights = join_empty_bins(_to_numpy(bars.borders), check_predictions(log_weights, estimator))
    return Binned(edges, log_weights, tails=hasattr(bars, "halfnormal_with_p_weight_before"))


def _to_numpy(tensor: Any) -> FloatArray:
    return np.asarray(tensor.detach().cpu().double().numpy())


def join_empty_bins(edges: FloatArray, log_weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Add the weight of each bin of width 0 to a neighbor.

    In single precision, neighboring edges are equal if the targets are large and vary little. If all edges
    are equal, the result is one bin of the smallest width in single precision.
    """
    wide = np.flatnonzero(np.diff(edges) > 0)
    if not wide.size:
        half = abs(float(np.spacing(np.float32(edges[0])))) / 2
        return edges[0] + np.array([-half, half]), np.zeros((len(log_weights), 1))
    if wide.size == len(edges) - 1:
        return edges, log_weights
    starts = np.concatenate([[0], wide[:-1] + 1])
    joined = np.logaddexp.reduceat(log_weights, starts, axis=1)
    return np.concatenate([edges[wide], edges[wide[-1:] + 1]]), joined


def _tabicl_dist(estimator: Any, X: Any) -> Quantiles:
    values = estimator.predict(X, output_type="quantiles", alphas=FINE_LEVELS)
    return Quantiles(FINE_LEVELS, check_predictions(np.asarray(values, dtype=np.float64), estimator))


def _has_calibrated_temperature(estimator: Any) -> bool:
    """Return whether TabPFN calibrates its temperature by its parameter ``eval_metric``."""
    tuning = getattr(estimator, "tuning_config", None)
    if isinstance(tuning, Mapping):
        return bool(tuning.get("calibrate_temperature"))
    return bool(getattr(tuning, "calibrate_temperature", False))


FOUNDATION_ADAPTERS: dict[str, Adapter] = {
    "tabpfn.TabPFNRegressor": Adapter(_tabpfn_dist, in_context=True, calibrated=_has_calibrated_temperature),
    "tabpfn.finetuning.FinetunedTabPFNRegressor": Adapter(_tabpfn_dist),
    "tabicl.TabICLRegressor": Adapter(_tabicl_dist, in_context=True),
    "tabicl._finetune.regressor.FinetunedTabICLRegressor": Adapter(_tabicl_dist),
}
"""Adapters by the path from which users import the class, or by the module of a class that is imported late.

Fine-tuned models are trained, so they do not only learn in context."""


def _flaml_inner(automl: Any, X: Any, predict: Predict) -> Any:
    if automl.model is None:
        raise NotFittedError(
            f"this {type(automl).__name__} has no model. Either `fit` was not called, or every trial failed. "
            "Call `fit`, with `verbose=3` to log each trial."
        )
    return predict(automl.model, automl.preprocess(X))


def _flaml_parts(automl: Any) -> list[Any]:
    return [] if automl.model is None else [automl.model]


def _tpot_inner(tpot: Any, X: Any, predict: Predict) -> Any:
    if not _tpot_parts(tpot):
        raise not_fitted(tpot)
    return predict(tpot.fitted_pipeline_, X)


def _tpot_parts(tpot: Any) -> list[Any]:
    return [tpot.fitted_pipeline_] if hasattr(tpot, "fitted_pipeline_") else []


def _skrub_search_inner(search: Any, X: Any, predict: Predict) -> Any:
    if hasattr(search, "best_learner_"):
        return predict(search.best_learner_, X)
    if hasattr(search, "cv_results_"):
        raise NotRefittedError(
            f"this {type(search).__name__} was fitted with `refit=False` and has no fitted learner. Set "
            f"`refit=True`, or set `refit` to the name of a metric."
        )
    raise not_fitted(search)


def _skrub_search_parts(search: Any) -> list[Any]:
    return [search.best_learner_] if hasattr(search, "best_learner_") else []


def _skrub_learner_dist(learner: Any, X: Any) -> Distribution:
    evaluate = getattr(learner, "_eval_in_mode", None)
    dist = None if evaluate is None else evaluate("predict_dist", X)
    if not isinstance(dist, Distribution):
        raise NotProbabilisticError(
            f"skrub cannot return the distribution of the last estimator of this {type(learner).__name__}. "
            "Make the last estimator an estimator of skuq: X.skb.apply(skuq.UncertaintyRegressor(...), "
            "y=y). Alternatively, name the nodes of X and of the estimator with `.skb.set_name`, and call "
            "`predict_dist` with learner.find_fitted_estimator(name_of_estimator) and "
            "learner.truncated_after(name_of_X).transform(environment)."
        )
    return dist


def _autogluon_dist(predictor: Any, X: Any) -> Quantiles:
    if not _autogluon_supports(predictor):
        raise NotProbabilisticError(
            "this TabularPredictor must predict several quantiles, got problem type "
            f"{predictor.problem_type!r} or a single quantile. Use TabularPredictor(label, "
            "problem_type='quantile', quantile_levels=[0.01, 0.05, 0.1, ..., 0.95, 0.99])."
        )
    levels, order = np.unique(predictor.quantile_levels, return_index=True)
    values = np.asarray(predictor.predict(X), dtype=np.float64)
    return Quantiles(levels, check_predictions(values, predictor)[:, order])


def _autogluon_supports(predictor: Any) -> bool:
    return predictor.problem_type == "quantile" and len(predictor.quantile_levels) > 1


CONTAINERS: tuple[MetaEstimatorRule, ...] = (
    *SKLEARN_CONTAINERS,
    MetaEstimatorRule(
        named("flaml.automl.automl.AutoML", "flaml.automl.model.BaseEstimator"), _flaml_inner, _flaml_parts
    ),
    MetaEstimatorRule(named("tpot.TPOTEstimator", "tpot.TPOTEstimatorSteadyState"), _tpot_inner, _tpot_parts),
    MetaEstimatorRule(
        named("skrub.ParamSearch", "skrub.OptunaParamSearch"), _skrub_search_inner, _skrub_search_parts
    ),
)

AUTOML_ADAPTERS: dict[str, Adapter] = {
    "autogluon.tabular.TabularPredictor": Adapter(_autogluon_dist, _autogluon_supports, points=False),
    "skrub.SkrubLearner": Adapter(_skrub_learner_dist, lambda learner: hasattr(learner, "predict")),
}
"""Adapters by the path from which users import the class."""


_normal_joint = from_room("skuq.multivariate", "NormalJoint")


def _one_target(columns: int, estimator: Any) -> None:
    if columns != 1:
        raise ValueError(
            f"{type(estimator).__name__} must predict one target, got {columns}. {ONE_MODEL_EACH}"
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
        from_room("skuq.survival._targets", "steps_dist"),
        lambda estimator: hasattr(estimator, "predict_survival_function"),
    ),
}
"""Adapters by the path from which users import the class."""
