"""Model of the size of residuals as a function of X, fitted to the logarithms of absolute residuals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._fitting.columns import ScaleFeatures
from skuq._fitting.cross_fit import cross_fit
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.metadata import weights_for
from skuq._fitting.point_predict import point_predict
from skuq._fitting.training_data import TrainingData
from skuq._sklearn_compat import count_rows
from skuq._typing import FloatArray, IntArray
from skuq.prediction._failures import note_fold
from skuq.regressors._log_scale_regressor import LogScaleRegressor, best_linear_share, weighted_mean

SMALLEST_RESIDUAL = 0.02
"""Smallest absolute residual, in units of the mean absolute residual. Smaller values are replaced by it.

For normal residuals, 1 % are smaller. With a much smaller limit, residuals of exactly 0 would dominate the
scale model, for example for a tree and a target with many zeros.
"""


def log_residuals(
    residual: FloatArray,
    weight: FloatArray | None = None,
    *,
    positive: bool = False,
) -> tuple[FloatArray, float]:
    """Return log(abs(residual) / unit), and the unit. The unit is near the mean of abs(residual)."""
    # With logarithms, every predicted scale is positive and the influence of outliers is limited (Harvey
    # 1976). With `positive`, all logarithms are at least 1, because a Poisson or gamma loss requires positive
    # targets.
    size = np.abs(residual)
    lowest = math.e if positive else SMALLEST_RESIDUAL
    unit = float(np.average(size, weights=weight)) * SMALLEST_RESIDUAL / lowest
    if unit == 0:
        return np.ones_like(size), 0.0
    return np.log(np.maximum(size / unit, lowest)), unit


@dataclass(frozen=True, eq=False)
class MeanOfModels:
    """Mean of the predictions of several fitted models."""

    models: tuple[Any, ...]

    def predict(self, X: Any) -> FloatArray:
        return np.asarray(np.mean([model.predict(X) for model in self.models], axis=0))


@dataclass(frozen=True, eq=False)
class ScaleModel:
    """The scale ``unit * exp(intercept + slope * model(x))``.

    The exponent is limited to its range over the training rows.
    """

    model: Any  # None if the slope of the default model is 0
    intercept: float
    slope: float  # with 0, all rows have the same scale
    unit: float  # in the units of y
    bounds: tuple[float, float]  # range of the logarithms of the training rows

    def predict(self, X: Any) -> FloatArray:
        if self.model is None:
            return self.from_logarithm(np.zeros(count_rows(X)))
        with note_fold("the model of the scale"):
            return self.from_logarithm(point_predict(self.model, X))

    def from_logarithm(self, logarithm: FloatArray) -> FloatArray:
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
    """Return the scale model, with predictions that are shrunk by a linear fit to held-out rows."""
    center = np.average(out_of_fold, weights=weight)
    level = np.average(target, weights=weight)
    spread = out_of_fold - center
    variance = np.average(spread**2, weights=weight)
    slope = 0.0 if variance == 0 else float(np.average(spread * (target - level), weights=weight) / variance)
    slope = min(max(slope, 0.0), 1.0) if shrink else 1.0
    counted = target if weight is None else target[weight > 0]
    bounds = (float(counted.min()), float(counted.max()))
    if slope == 0 and isinstance(model, MeanOfModels | LogScaleRegressor):  # a user's model may raise
        model = None
    return ScaleModel(model, float(level - slope * center), slope, unit, bounds)


@dataclass(frozen=True, eq=False)
class FittedScale:
    """Fitted scale model, with its features and its out-of-fold predictions."""

    model: ScaleModel
    features: ScaleFeatures | None  # None for a user's scale estimator, which is fitted to X
    tested: IntArray  # rows with an out-of-fold prediction
    out_of_fold: FloatArray  # out-of-fold scales of these rows

    def predict(self, X: Any, loc: FloatArray) -> FloatArray:
        return self.model.predict(X if self.features is None else self.features(X, loc))


def fit_scale(
    rows: TrainingData,
    loc: FloatArray,
    estimator: Any,
    *,
    name: str,
    folds: Callable[[bool], Any],
    pairwise: bool,
    seed: int,
    shrink: bool = True,
    n_jobs: int | None = None,
    on_fold: Callable[[int], object] | None = None,
) -> FittedScale:
    """Fit a scale model to the residuals of rows.

    The point predictions ``loc`` come from models that are not trained on the rows.
    """
    # `estimator` None is `LogScaleRegressor` with `seed`. `name` is the name of the estimator in error
    # messages. `folds(is_default)` returns a splitter or pairs of training and test rows. `pairwise` is True
    # if X is a precomputed kernel.
    target, unit = log_residuals(rows.y - loc, rows.sample_weight, positive=bool(rows.y.min() >= 0))
    features, model = None, estimator
    if estimator is None:
        features, model = (
            ScaleFeatures.from_columns(rows.X, pairwise=pairwise),
            LogScaleRegressor(random_state=seed),
        )
    inputs = rows.X if features is None else features(rows.X, loc)
    params = weights_for(model, rows.sample_weight, name)
    fit = cross_fit(
        model,
        inputs,
        rows.target_of(model, target),
        cv=folds(features is not None),
        params=params,
        n_jobs=n_jobs,
        predict=point_predict if features is None else LogScaleRegressor.predict_both,
        on_fold=on_fold,
        name="the model of the scale, fold",
    )
    tested, predicted = fit.tested()
    weight = None if rows.sample_weight is None else rows.sample_weight[tested]
    if features is not None:
        model.set_params(linear_share=best_linear_share(predicted, target[tested], weight))
        predicted = weighted_mean(predicted, model.linear_share)
        for one in fit.estimators:
            one.with_share(model.linear_share)
    if features is not None and len(tested) == len(rows):
        fitted: Any = MeanOfModels(fit.estimators)
    else:
        with note_fold("the model of the scale"):
            fitted = fit_wrapped(model, inputs, rows.target_of(model, target), **params)
    scale_model = shrunk_scale_model(fitted, target[tested], predicted, unit, weight, shrink=shrink)
    return FittedScale(scale_model, features, tested, scale_model.from_logarithm(predicted))
