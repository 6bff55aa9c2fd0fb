"""One noise for all rows, beside a mean and an epistemic variance that networks give: finding and adding it.

All numbers are of the standardised target, but for what a model notes or returns to its user.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.neural._modules.noise import MIN_NOISE, minimum
from skuq.neural._training.plan import FitPlan
from skuq.neural._training.spec import counted
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["keep_noise", "likely_noise", "rows_of", "with_noise"]


def rows_of(
    plan: FitPlan, data: TrainingData, *, unseen: bool
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return standardised features and target, and weights, of the rows held out or trained on."""
    rows = counted(plan.held_out if unseen else ~plan.held_out, data)
    return plan.X[rows], plan.y[rows], None if data.sample_weight is None else data.sample_weight[rows]


def keep_noise(
    model: Any, noise: float, residual: FloatArray, epistemic: FloatArray, weight: FloatArray | None
) -> None:
    """Note the variance of the noise, and learn scale and tails from residuals beside both variances."""
    model._noise = noise
    model.noise_std_ = model.scaler_.y_scale * float(np.sqrt(noise))
    if model._calibrates():
        model._calibrate(residual / np.sqrt(noise + epistemic), weight)


def with_noise(model: Any, loc: FloatArray, epistemic: FloatArray) -> Distribution:
    """Return the calibrated distribution, in the units of y, for means and epistemic variances."""
    scaler = model.scaler_
    total = scaler.scale(model._noise + epistemic)
    dist: Distribution = model._calibration.apply(scaler.loc(loc), total, scaler.scale(epistemic))
    return dist


def likely_noise(residual: FloatArray, epistemic: FloatArray, weight: FloatArray | None) -> float:
    """Return the variance of the noise that makes residuals most likely, beside their epistemic variance."""
    square = np.square(residual)

    def cost(noise: float) -> float:
        variance = noise + epistemic
        return float(np.average(np.log(variance) + square / variance, weights=weight))

    return minimum(cost, MIN_NOISE, float(square.max()))
