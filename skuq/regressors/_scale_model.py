"""A model of how the spread of residuals varies with X, trained on their logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline

from skuq._sklearn_compat import count_rows
from skuq._typing import FloatArray
from skuq.prediction._failures import located
from skuq.prediction._point import point_predict
from skuq.regressors._log_scale_regressor import LogScaleRegressor

__all__ = [
    "SMALLEST_RESIDUAL",
    "MeanOfModels",
    "ScaleModel",
    "log_residuals",
    "scale_estimator_like",
    "shrunk_scale_model",
]

SMALLEST_RESIDUAL = 0.02
"""Residuals count as at least this share of their mean: one may be small by chance, as is 1 % of normal ones.
With a much smaller share, residuals of exactly 0, as those of a tree for the zeros of a zero-inflated target,
would determine the scale model."""


def log_residuals(
    residual: FloatArray,
    weight: FloatArray | None = None,
    *,
    positive: bool = False,
    unit: float | None = None,
) -> tuple[FloatArray, float]:
    """Return log(abs(residual) / unit) and the unit, of the size of the mean of abs(residual).

    The logarithm makes every prediction a positive scale whatever the model, bounds the pull of
    outliers, and turns units into a constant (Harvey 1976, doi:10.2307/1913974); the unit takes that
    constant out, so that a regularised model has the same target in every unit. Residuals that are
    all zero give unit 0.

    Parameters
    ----------
    residual : ndarray of shape (n,)
        In the units of y.
    weight : ndarray of shape (n,) or None
        How many observations each row stands for.
    positive : bool
        Take a unit so small that all logarithms are at least 1, for models that were chosen for a
        non-negative y and may take no other (a Poisson or gamma loss).
    unit : float, default=None
        The unit that other residuals gave; None takes that of these.
    """
    size = np.abs(residual)
    lowest = math.e if positive else SMALLEST_RESIDUAL
    if unit is None:
        unit = float(np.average(size, weights=weight)) * SMALLEST_RESIDUAL / lowest
    if unit == 0:
        return np.ones_like(size), 0.0
    return np.log(np.maximum(size / unit, lowest)), unit


def scale_estimator_like(estimator: Any) -> Any:
    """Return an unfitted estimator that takes the same X, to model the size of the estimator's residuals.

    The estimator itself, without what is about its own target: a transformation of y, or that it is
    frozen.
    """
    if isinstance(estimator, FrozenEstimator):
        return scale_estimator_like(estimator.estimator)
    if isinstance(estimator, TransformedTargetRegressor):
        return (
            LinearRegression() if estimator.regressor is None else scale_estimator_like(estimator.regressor)
        )
    if isinstance(estimator, Pipeline):
        like = clone(estimator)
        name, last = like.steps[-1]
        like.steps[-1] = (name, scale_estimator_like(last))
        return like
    return estimator


@dataclass(frozen=True, eq=False)
class MeanOfModels:
    """The mean prediction of some fitted models."""

    models: tuple[Any, ...]

    def predict(self, X: Any) -> FloatArray:
        """Return the mean prediction of each row."""
        return np.asarray(np.mean([model.predict(X) for model in self.models], axis=0))


@dataclass(frozen=True, eq=False)
class ScaleModel:
    """The scale ``unit * exp(intercept + slope * model(x))``, clipped to the range of the training residuals.

    Attributes
    ----------
    model : estimator or None
        Fitted to the logarithms of residuals; None for the default model where the slope is 0.
    intercept, slope : float
        The shrinkage: a slope of 0 is one scale for all rows.
    unit : float
        In the units of y.
    bounds : tuple of float
        Range of the logarithms in training.
    """

    model: Any
    intercept: float
    slope: float
    unit: float
    bounds: tuple[float, float]

    def predict(self, X: Any) -> FloatArray:
        """Return the scale of each row."""
        if self.model is None:
            return self.from_logarithm(np.zeros(count_rows(X)))
        with located("the model of the scale"):
            return self.from_logarithm(point_predict(self.model, X))

    def from_logarithm(self, logarithm: FloatArray) -> FloatArray:
        """Return the scale from what the model predicts."""
        shrunk = np.clip(self.intercept + self.slope * logarithm, *self.bounds)
        scale: FloatArray = self.unit * np.exp(shrunk)
        return scale


def shrunk_scale_model(
    model: Any,
    target: FloatArray,
    out_of_fold: FloatArray,
    unit: float,
    weight: FloatArray | None,
    *,
    shrink: bool = True,
) -> ScaleModel:
    """Return the scale model with its predictions shrunk to what they were worth out of fold.

    The least-squares line through (out-of-fold prediction, target), its slope held to [0, 1]: a model
    without skill, such as a fully grown tree on pure noise, becomes one constant scale instead of a
    random one.

    Parameters
    ----------
    model : estimator
        Fitted to all targets.
    target, out_of_fold : ndarray of shape (n,)
        Logarithms of residuals, and their predictions by models that are not trained on them.
    unit : float
        Of the residuals.
    weight : ndarray of shape (n,) or None
        How many observations each row stands for.
    shrink : bool, default=True
        False keeps the slope at 1; only the level is learnt.
    """
    centre = np.average(out_of_fold, weights=weight)
    level = np.average(target, weights=weight)
    spread = out_of_fold - centre
    variance = np.average(spread**2, weights=weight)
    slope = 0.0 if variance == 0 else float(np.average(spread * (target - level), weights=weight) / variance)
    slope = min(max(slope, 0.0), 1.0) if shrink else 1.0
    counted = target if weight is None else target[weight > 0]
    bounds = (float(counted.min()), float(counted.max()))
    if slope == 0 and isinstance(model, MeanOfModels | LogScaleRegressor):  # others may raise for new rows
        model = None
    return ScaleModel(model, float(level - slope * centre), slope, unit, bounds)
