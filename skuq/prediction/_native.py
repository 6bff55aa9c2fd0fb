"""Distributions of scikit-learn's regressors, and the errors for those without a distribution.

The distributions include the noise that ``return_std`` omits.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import ARDRegression, BayesianRidge
from sklearn.utils.validation import check_is_fitted

from skuq._compat import count_rows, is_classifying, safe_indexing
from skuq._typing import FloatArray
from skuq.distributions import Distribution, Normal
from skuq.exceptions import NotProbabilisticError
from skuq.prediction._quantile_estimators import configured_levels
from skuq.prediction._register import EstimatorRule, single_output

_BLOCK = 32
"""Number of rows per block of the kernel matrix. Blocks are small, because only their diagonals are used."""


def _bayesian_linear_dist(estimator: BayesianRidge | ARDRegression, X: Any) -> Normal:
    check_is_fitted(estimator)
    X = _as_numeric(X)
    loc = single_output(estimator.predict(X), estimator)
    centered = np.asarray(X, dtype=np.float64) - estimator.X_offset_
    if isinstance(estimator, ARDRegression):
        centered = centered[:, estimator.lambda_ < estimator.threshold_lambda]
    coefficients = np.maximum(np.einsum("ij,ij->i", centered @ estimator.sigma_, centered), 0.0)
    return Normal(loc, np.sqrt(coefficients + 1.0 / float(estimator.alpha_)), np.sqrt(coefficients))


def _gaussian_process_dist(estimator: GaussianProcessRegressor, X: Any) -> Normal:
    """Return Normal distributions of new observations, which include the noise ``alpha``."""
    check_is_fitted(estimator, "X_train_")
    if not _gaussian_process_supports(estimator):
        raise NotProbabilisticError(
            "`alpha` of GaussianProcessRegressor must be a number, got one value per training row. The "
            "noise of new rows is then unknown. Pass a number as `alpha`, or add a WhiteKernel to "
            "`kernel`."
        )
    loc, reported = estimator.predict(X, return_std=True)
    loc, reported = single_output(loc, estimator), single_output(reported, estimator)
    target_scale = float(np.ravel(estimator._y_train_std)[0])
    white = _white_noise(estimator.kernel_, _kernel_input(estimator, X)) * target_scale**2
    alpha = float(np.ravel(estimator.alpha)[0]) * target_scale**2
    return Normal(loc, np.sqrt(reported**2 + alpha), _part_without(reported, white))


def _gaussian_process_supports(estimator: GaussianProcessRegressor) -> bool:
    return np.size(estimator.alpha) == 1


def _dummy_dist(estimator: DummyRegressor, X: Any) -> Normal:
    """Return point masses at the constant. The CRPS is then the absolute error."""
    check_is_fitted(estimator)
    return Normal(single_output(estimator.predict(X), estimator), 0.0)


def _has_return_std(estimator: Any) -> bool:
    predict = getattr(type(estimator), "predict", None)
    try:
        return "return_std" in inspect.signature(predict).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _return_std_dist(estimator: Any, X: Any) -> Distribution:
    """Return Normal distributions from ``predict(X, return_std=True)`` of an estimator of any package."""
    loc, scale = estimator.predict(X, return_std=True)
    return Normal(single_output(loc, estimator), single_output(scale, estimator))


def _part_without(scale: FloatArray, noise_variance: float | FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(scale**2 - noise_variance, 0.0))


def _as_numeric(X: Any) -> Any:
    if hasattr(X, "dtypes") and hasattr(X, "astype"):  # A DataFrame keeps its column names.
        return X.astype(np.float64)
    if isinstance(X, np.ndarray) and X.dtype.kind == "O":
        return np.asarray(X, dtype=np.float64)
    return X


def _kernel_input(estimator: GaussianProcessRegressor, X: Any) -> Any:
    return np.asarray(X, dtype=np.float64) if estimator.kernel_.requires_vector_input else X


def _white_noise(kernel: Any, X: Any) -> FloatArray:
    """Return the variance of WhiteKernel terms, which ``kernel(X)`` includes and ``kernel(X, X)`` omits."""
    diagonal = np.asarray(kernel.diag(X), dtype=np.float64)
    shared = np.empty_like(diagonal)
    for start in range(0, count_rows(X), _BLOCK):
        block = safe_indexing(X, slice(start, start + _BLOCK))
        shared[start : start + _BLOCK] = np.diagonal(kernel(block, block))
    noise = diagonal - shared
    noise[noise <= 1e-12 * diagonal] = 0.0  # A very small difference is a rounding error.
    return noise


NATIVES: tuple[EstimatorRule, ...] = (
    EstimatorRule(
        lambda estimator: isinstance(estimator, BayesianRidge | ARDRegression),
        _bayesian_linear_dist,
        exact=True,
    ),
    EstimatorRule(
        lambda estimator: isinstance(estimator, GaussianProcessRegressor),
        _gaussian_process_dist,
        _gaussian_process_supports,
        exact=True,
    ),
    EstimatorRule(lambda estimator: isinstance(estimator, DummyRegressor), _dummy_dist),
    EstimatorRule(_has_return_std, _return_std_dist),
)
"""Rules in order of priority. The last rule applies to all estimators whose ``predict`` has
``return_std``."""


def no_distribution(estimator: Any) -> NotProbabilisticError:
    cls = type(estimator)
    if is_classifying(estimator):
        return NotProbabilisticError(
            f"{cls.__name__} is a classifier, which has class probabilities instead of a distribution. For "
            "prediction sets, call skuq.conformal.predict_set(estimator, X). For sets with guaranteed "
            "coverage, use skuq.conformal.ConformalClassifier."
        )
    levels = configured_levels(estimator)
    if levels is not None:
        return NotProbabilisticError(
            f"{cls.__name__} predicts a single quantile at level {levels[0]:g} and has no distribution. Wrap "
            f"it before fitting: skuq.UncertaintyRegressor({cls.__name__}(...)) fits many levels and "
            f"recalibrates the quantiles. skuq.regressors.MultiQuantileRegressor fits many levels without "
            f"recalibration."
        )
    if all(hasattr(estimator, method) for method in ("fit", "predict", "get_params")):
        remedy = f"Wrap it before fitting: skuq.UncertaintyRegressor({cls.__name__}(...))."
    else:
        remedy = (
            "It is not an estimator of scikit-learn, so skuq cannot wrap it: write a class with `fit`, "
            "`predict` and `get_params` around it."
        )
    return NotProbabilisticError(
        f"{cls.__name__} gives no predictive distribution. {remedy} If it has its own distribution or "
        "intervals, add a method `predict_dist(self, X)` that returns skuq.distributions.Normal(mean, std) "
        "or skuq.distributions.Quantiles([0.05, 0.95], bounds). If you cannot change the class, register it: "
        f"skuq.register('{cls.__module__}.{cls.__qualname__}', adapter)."
    )


def not_fitted(estimator: Any) -> NotFittedError:
    return NotFittedError(
        f"this {type(estimator).__name__} is not fitted yet. Call `fit` before `predict_dist`."
    )
