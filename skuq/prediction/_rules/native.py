"""scikit-learn's own probabilistic regressors, with what their ``return_std`` leaves out."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import ARDRegression, BayesianRidge
from sklearn.utils.validation import check_is_fitted

from skuq._sklearn_compat import count_rows, safe_indexing
from skuq._typing import FloatArray
from skuq._validation import as_float_array
from skuq.distributions import Distribution, Normal
from skuq.exceptions import NotProbabilisticError
from skuq.prediction._failures import check_predictions
from skuq.prediction._rules.no_distribution import one_column_each
from skuq.prediction._rules.rule import Native

__all__ = ["NATIVES", "single_output"]

_BLOCK = 32
"""Rows of a kernel block of which only the diagonal is used; small, since the rest is wasted."""


def single_output(values: Any, estimator: Any) -> FloatArray:
    """Return one finite prediction a row as floats, whatever container and dtype it came in."""
    array = as_float_array(np.asarray(values), "prediction")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"{type(estimator).__name__} predicts an array of shape {array.shape}; skuq handles one target "
            f"at a time. {one_column_each()} If the columns are the parameters of a distribution, register a "
            "function that reads them: skuq.register."
        )
    return check_predictions(array, estimator)


def _bayesian_linear_dist(estimator: BayesianRidge | ARDRegression, X: Any) -> Normal:
    """Normal with the noise 1 / alpha_ apart from the uncertainty of the coefficients.

    The variance x' Sigma x + 1 / alpha_ is computed here: older versions of scikit-learn (1.6.0)
    do not centre x, and ``return_std`` gives a Series for a DataFrame and fails on object columns.
    """
    check_is_fitted(estimator)
    X = _as_numeric(X)
    loc = single_output(estimator.predict(X), estimator)
    centred = np.asarray(X, dtype=np.float64) - estimator.X_offset_
    if isinstance(estimator, ARDRegression):
        centred = centred[:, estimator.lambda_ < estimator.threshold_lambda]
    coefficients = np.maximum(np.einsum("ij,ij->i", centred @ estimator.sigma_, centred), 0.0)
    return Normal(loc, np.sqrt(coefficients + 1.0 / float(estimator.alpha_)), np.sqrt(coefficients))


def _gaussian_process_dist(estimator: GaussianProcessRegressor, X: Any) -> Normal:
    """Normal of a new observation; scikit-learn's std leaves the noise ``alpha`` out.

    The noise is ``alpha`` and any WhiteKernel in the kernel. The first is never in the reported
    std, the second always is, so the first is added and the second is taken out for the part that is
    uncertainty about the function. Both are in units of the scaled target under ``normalize_y``.
    """
    check_is_fitted(estimator, "X_train_")
    if not _gaussian_process_supports(estimator):
        raise NotProbabilisticError(
            "GaussianProcessRegressor has one `alpha` for each training row, so the noise of new rows is "
            "unknown. Give a scalar `alpha`, or a WhiteKernel in `kernel`."
        )
    loc, reported = estimator.predict(X, return_std=True)
    loc, reported = single_output(loc, estimator), single_output(reported, estimator)
    target_scale = float(np.ravel(estimator._y_train_std)[0])
    white = _white_noise(estimator.kernel_, _kernel_input(estimator, X)) * target_scale**2
    alpha = float(np.ravel(estimator.alpha)[0]) * target_scale**2
    return Normal(loc, np.sqrt(reported**2 + alpha), _part_without(reported, white))


def _gaussian_process_supports(estimator: GaussianProcessRegressor) -> bool:
    """Return whether the noise of new rows is known: not with one ``alpha`` for each training row."""
    return np.size(estimator.alpha) == 1


def _dummy_dist(estimator: DummyRegressor, X: Any) -> Normal:
    """Point mass at the constant, as DummyRegressor estimates no spread; its CRPS is the MAE."""
    check_is_fitted(estimator)
    return Normal(single_output(estimator.predict(X), estimator), 0.0)


def _has_return_std(estimator: Any) -> bool:
    """Return whether ``return_std`` is an explicit parameter of ``predict``; ``**params`` take anything."""
    predict = getattr(type(estimator), "predict", None)
    try:
        return "return_std" in inspect.signature(predict).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _return_std_dist(estimator: Any, X: Any) -> Distribution:
    """Normal from ``predict(X, return_std=True)``, the convention other packages follow too."""
    loc, scale = estimator.predict(X, return_std=True)
    return Normal(single_output(loc, estimator), single_output(scale, estimator))


def _part_without(scale: FloatArray, noise_variance: float | FloatArray) -> FloatArray:
    """Standard deviation that is left when independent noise is taken out."""
    return np.sqrt(np.maximum(scale**2 - noise_variance, 0.0))


def _as_numeric(X: Any) -> Any:
    """Turn object columns into floats and leave everything else, names included, as it is."""
    if hasattr(X, "dtypes") and hasattr(X, "astype"):  # a DataFrame keeps its column names
        return X.astype(np.float64)
    if isinstance(X, np.ndarray) and X.dtype.kind == "O":
        return np.asarray(X, dtype=np.float64)
    return X


def _kernel_input(estimator: GaussianProcessRegressor, X: Any) -> Any:
    """X as the kernel takes it: a numeric array, unless it works on structured objects."""
    return np.asarray(X, dtype=np.float64) if estimator.kernel_.requires_vector_input else X


def _white_noise(kernel: Any, X: Any) -> FloatArray:
    """Variance of the kernel that two observations at the same place do not share.

    scikit-learn's kernels leave WhiteKernel out when they are given a second argument, so the
    difference of the two diagonals is its part, inside sums and products too.
    """
    diagonal = np.asarray(kernel.diag(X), dtype=np.float64)
    shared = np.empty_like(diagonal)
    for start in range(0, count_rows(X), _BLOCK):
        block = safe_indexing(X, slice(start, start + _BLOCK))
        shared[start : start + _BLOCK] = np.diagonal(kernel(block, block))
    noise = diagonal - shared
    noise[noise <= 1e-12 * diagonal] = 0.0  # rounding, not noise
    return noise


NATIVES: tuple[Native, ...] = (
    Native(
        lambda estimator: isinstance(estimator, BayesianRidge | ARDRegression),
        _bayesian_linear_dist,
        exact=True,
    ),
    Native(
        lambda estimator: isinstance(estimator, GaussianProcessRegressor),
        _gaussian_process_dist,
        _gaussian_process_supports,
        exact=True,
    ),
    Native(lambda estimator: isinstance(estimator, DummyRegressor), _dummy_dist),
    Native(_has_return_std, _return_std_dist),
)
"""In the order in which they are tried; the last serves any package that follows the convention."""
