"""One noise for all rows, beside a mean and an epistemic variance that networks give: finding and adding it.

All numbers are of the standardised target, but for what a model notes or returns to its user.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.neural._plan import FitPlan
from skuq.neural._recipe import counted
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["MIN_NOISE", "keep_noise", "likely_noise", "minimum", "rows_of", "with_noise"]

MIN_NOISE = 1e-8
"""In units of the variance of the target."""


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


def minimum(cost: Any, lowest: float, highest: float) -> float:
    """Return where a function of a positive number is smallest, found on a grid of logarithms first."""
    if highest <= lowest:
        return lowest
    grid = np.linspace(np.log(lowest), np.log(highest), 60)
    best = int(np.argmin([cost(np.exp(point)) for point in grid]))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(lambda point: cost(np.exp(point)), bounds=bounds, method="bounded")
    return float(np.exp(min((found.x, grid[best]), key=lambda point: cost(np.exp(point)))))
