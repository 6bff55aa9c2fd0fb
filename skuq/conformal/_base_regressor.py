"""Base class of the conformal regressors."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.seeds import MAX_SEED
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_coverage, check_random_state
from skuq.distributions import Distribution


class ConformalStrategy(Protocol):
    """A fitted method of a conformal regressor."""

    @property
    def n_calibration(self) -> float:
        """Number of calibration rows, or the sum of their weights."""

    def point(self, X: Any) -> FloatArray:
        """Return point predictions, shape (n,)."""

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        """Return the intervals with guaranteed coverage, shape (n, 2, k)."""

    def dist(self, X: Any) -> Distribution:
        """Return the predictive distributions."""


class BaseConformalRegressor(BaseUncertaintyRegressor):
    """Base class of the conformal regressors. The method `_fit` of a subclass sets ``_conformal``."""

    _conformal: ConformalStrategy

    @property
    def n_calibration_(self) -> float:
        """Current number of calibration rows, or the sum of their weights."""
        check_is_fitted(self)
        return self._conformal.n_calibration

    def predict_interval(self, X: Any, coverage: ArrayLike = DEFAULT_COVERAGE) -> FloatArray:
        """Return the prediction intervals with guaranteed coverage.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the central interval. Strictly between 0 and 1.

        Returns
        -------
        bounds : ndarray of shape (n, 2), or (n, 2, k) for k coverages
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of y. If there are
            too few calibration rows for the coverage, the bounds are infinite and a `SmallSampleWarning` is
            issued.
        """
        self._check_new(X)
        checked = check_coverage(coverage)
        bounds = self._bounds_on_support(self._conformal.interval(X, np.atleast_1d(checked)))
        return bounds if checked.ndim else bounds[:, :, 0]

    def _draw_seeds(self) -> list[int]:
        seeds: list[int] = check_random_state(self.random_state).randint(MAX_SEED, size=2).tolist()
        return seeds

    def _point(self, X: Any) -> FloatArray:
        return self._conformal.point(X)

    def _predict_dist(self, X: Any) -> Distribution:
        return self._conformal.dist(X)
