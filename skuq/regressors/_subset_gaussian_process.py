"""Gaussian process for pools, whose hyperparameters are fitted to a random subset of the rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.linalg import solve
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq._numeric import row_blocks
from skuq._typing import FloatArray
from skuq._validation import check_random_state, check_sample_weight

KERNEL_ROWS = 400
"""The likelihood of this number of rows determines the hyperparameters. The time of a step is proportional to
the square of this number times the number of columns."""

KERNEL_STEPS = 15
"""Number of steps of L-BFGS-B, the default of scipy with bounds. More steps hardly change the forecasts."""

MOST_SCALES = 40
"""With more columns, all columns have the same length scale."""

MOST_ROWS = 2000
"""The process is conditioned on at most this number of rows."""

MOST_ENTRIES = 2**22
"""At most this number of covariances between training rows and new rows is in memory at the same time."""


class SubsetGaussianProcess(RegressorMixin, BaseEstimator):
    """Mean of a Gaussian process with one length scale per column.

    The hyperparameters maximize the likelihood of a random subset of the rows, for a few steps. The mean is
    conditioned on a larger subset. Rows are drawn in proportion to their weights.
    """

    def __init__(self, random_state: int | np.random.RandomState | None = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the hyperparameters and the mean."""
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        given = check_sample_weight(sample_weight, len(y))
        weight = np.ones(len(y)) if given is None else given
        used = np.flatnonzero(weight)
        X, y, weight = X[used], y[used], weight[used]
        self._scaler = StandardScaler().fit(X, sample_weight=weight)
        self._center = np.average(y, weights=weight)
        self._scale = np.sqrt(np.average((y - self._center) ** 2, weights=weight)) or 1.0
        rng = check_random_state(self.random_state)
        order = rng.choice(len(y), min(MOST_ROWS, len(y)), replace=False, p=weight / weight.sum())
        X, y = self._scaler.transform(X[order]), (y[order] - self._center) / self._scale

        kernel = _fitted_kernel(X[:KERNEL_ROWS], y[:KERNEL_ROWS])
        self._covariance, noise = kernel.k1, kernel.k2.noise_level
        matrix = self._covariance(X)
        matrix[np.diag_indices_from(matrix)] += noise / weight[order]
        self._rows, self._dual = X, solve(matrix, y, assume_a="pos", overwrite_a=True)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the mean of the process."""
        check_is_fitted(self)
        X = self._scaler.transform(validate_data(self, X, reset=False, dtype=np.float64))
        mean = np.empty(len(X))
        for block in row_blocks(len(X), len(self._rows), MOST_ENTRIES):
            mean[block] = self._covariance(X[block], self._rows) @ self._dual
        forecast: FloatArray = self._center + self._scale * mean
        return forecast

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_dual")


def _fitted_kernel(X: FloatArray, y: FloatArray) -> Any:
    """Return the sum of a covariance function and a noise variance, with fitted hyperparameters."""
    columns = X.shape[1]
    # the expected distance between standardized rows
    scales = np.full(columns if columns <= MOST_SCALES else 1, np.sqrt(columns))
    covariance = ConstantKernel(1.0, (1e-3, 1e3)) * Matern(scales, (1e-2, 1e4), nu=1.5)
    kernel = covariance + WhiteKernel(0.1, (1e-6, 10.0))
    process = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = process.log_marginal_likelihood(theta, eval_gradient=True)
        return -value, -gradient

    bounds: Any = kernel.bounds
    found = minimize(loss, kernel.theta, jac=True, bounds=bounds, options={"maxiter": KERNEL_STEPS})
    return kernel.clone_with_theta(found.x)
