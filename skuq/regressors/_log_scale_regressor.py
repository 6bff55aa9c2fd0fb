"""The default model of the size of errors: smooth, and of the same kind whatever the regressor."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from skuq._typing import FloatArray

__all__ = ["LogScaleRegressor", "best_linear_share", "weighted_mean"]

_RIDGE = 1.0
"""Regularisation of standardised columns, which matters with tens of rows."""

_BOOSTING = {"max_iter": 30, "learning_rate": 0.16, "max_leaf_nodes": 4, "max_bins": 63}
"""Few trees and bins: each tree takes 5 microseconds of a prediction for one row, and its size in a pickle.

Relative to 100 trees, a learning rate of 0.05 and 255 bins, on the development sets of
``benchmarks/real_data.py`` around Ridge and boosting, the CRPS is 0.9999 and 0.9993 and the interval score
0.999 and 0.994 (geometric means).
"""


class LogScaleRegressor(RegressorMixin, BaseEstimator):
    """A weighted mean of a linear model and of gradient boosting with trees of four leaves.

    Logarithms of absolute residuals have a standard deviation above 1 whatever the scale, so that their model
    must average over many rows. Trees of four leaves find where the scale changes; the linear model follows a
    trend without steps.

    Parameters
    ----------
    linear_share : float, default=0.5
        Weight of the linear model, from 0 to 1. With 1 there is no boosting.
    random_state : int or None, default=None
        Seed of the bins, where there are more rows than are needed to choose them.
    """

    def __init__(self, linear_share: float = 0.5, random_state: int | None = None) -> None:
        self.linear_share = linear_share
        self.random_state = random_state

    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        """Fit both models to columns of numbers, which may be NaN."""
        self.empty_ = np.isnan(X).all(axis=0)
        largest = np.abs(np.where(np.isnan(X), 0.0, X)).max(axis=0)
        self.largest_ = np.where(largest > 0, largest, 1.0)
        X = self._in_units(X)
        imputer = SimpleImputer().fit(X)
        scaler = StandardScaler().fit(imputer.transform(X))
        self.fill_, self.center_, self.spread_ = imputer.statistics_, scaler.mean_, scaler.scale_
        linear = Ridge(_RIDGE).fit(self._standardized(X), y, sample_weight=sample_weight)
        self.coef_, self.intercept_ = linear.coef_, linear.intercept_
        self.boosting_: Any = None
        if self.linear_share < 1:
            boosting = HistGradientBoostingRegressor(
                early_stopping=False, random_state=self.random_state, **_BOOSTING
            )
            self.boosting_ = boosting.fit(X, y, sample_weight=sample_weight)
        return self

    def predict_both(self, X: FloatArray) -> FloatArray:
        """Return the predictions of the linear model and of the boosting, shape (n, 2)."""
        X = self._in_units(X)
        return np.column_stack([self._linear(X), self.boosting_.predict(X)])

    def _in_units(self, X: FloatArray) -> FloatArray:
        """Return X in units of the largest values, so that squares are finite; 0 in empty columns."""
        scaled = X / self.largest_
        return np.where(self.empty_, 0.0, scaled) if self.empty_.any() else scaled

    def _standardized(self, X: FloatArray) -> FloatArray:
        """Return standardized columns, with the mean in place of NaN.

        The arithmetic of SimpleImputer and StandardScaler without their checks, which take ten times as long
        for one row.
        """
        return np.asarray((np.where(np.isnan(X), self.fill_, X) - self.center_) / self.spread_)

    def _linear(self, X: FloatArray) -> FloatArray:
        return np.asarray(self._standardized(X) @ self.coef_ + self.intercept_)

    def with_share(self, linear_share: float) -> Self:
        """Set the weight of the linear model, and drop a model of weight 0."""
        self.linear_share = linear_share
        if linear_share == 1:
            self.boosting_ = None
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the mean logarithm of each row; a model of weight 0 is not evaluated."""
        if self.linear_share == 1:
            return self._linear(self._in_units(X))
        if self.linear_share == 0:
            return np.asarray(self.boosting_.predict(self._in_units(X)))
        return weighted_mean(self.predict_both(X), self.linear_share)


def weighted_mean(both: FloatArray, linear_share: float) -> FloatArray:
    """Return the weighted mean of the predictions of both models, shape (n,)."""
    return np.asarray(linear_share * both[:, 0] + (1 - linear_share) * both[:, 1])


def best_linear_share(both: FloatArray, target: FloatArray, weight: FloatArray | None) -> float:
    """Return the share of the linear model with which the shrunk predictions have the least squared error.

    Parameters
    ----------
    both : ndarray of shape (n, 2)
        Predictions of the two models, which are not trained on these rows.
    target : ndarray of shape (n,)
        Logarithms of absolute residuals.
    weight : ndarray of shape (n,) or None
        How many observations each row stands for.
    """
    root = np.ones(len(target)) if weight is None else np.sqrt(weight)
    centred = root[:, np.newaxis] * (both - np.average(both, axis=0, weights=weight))
    factors, _ = nnls(centred, root * (target - np.average(target, weights=weight)))
    total = factors.sum()
    return float(factors[0] / total) if total > 0 else 0.5
