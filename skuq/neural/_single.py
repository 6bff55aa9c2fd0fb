"""What the estimators of one network share: rows held out of training, and what is learnt from them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from skuq._typing import BoolArray, FloatArray
from skuq._validation import check_number, check_option, check_single_coverage, effective_rows
from skuq.neural._calibrate import Calibration
from skuq.neural._holdout import hold_out
from skuq.neural._losses import Loss
from skuq.neural._plan import FitPlan, MemberSeed, TrainingOptions, plan_members
from skuq.neural._standardise import Standardiser
from skuq.regressors._training import TrainingData

__all__ = [
    "LongOptions",
    "held_out_calibration",
    "likely_noise",
    "minimum",
    "rows_of",
    "single_holdout",
    "single_plan",
]

AUTO_STEPS, MIN_EPOCHS, MAX_EPOCHS = 6000, 40, 1000
MIN_NOISE = 1e-8
"""In units of the variance of the target."""


@dataclass(frozen=True)
class LongOptions(TrainingOptions):
    """Options of a network that is trained until it converges, and for some further epochs."""

    further_epochs: int = 0

    @classmethod
    def of(cls, options: TrainingOptions, **changes: Any) -> LongOptions:
        """Return the same options, for a long training."""
        same = {field.name: getattr(options, field.name) for field in fields(TrainingOptions)}
        return cls(**{**same, **changes})

    def epochs(self, n_batches: int) -> int:
        """Return the number of epochs; "auto" is 6000 steps, but 40 to 1000 epochs."""
        if self.max_epochs == "auto":
            planned = int(np.clip(-(-AUTO_STEPS // n_batches), MIN_EPOCHS, MAX_EPOCHS))
        else:
            planned = super().epochs(n_batches)
        return planned + self.further_epochs


def single_holdout(owner: Any, data: TrainingData, seed: int, judge: Loss | None) -> BoolArray:
    """Say which rows are kept from the network, for calibration or early stopping."""
    if judge is None and owner.calibration is None:
        return np.zeros(len(data), dtype=bool)
    return hold_out(owner.validation, data, seed)


def single_plan(
    owner: Any,
    data: TrainingData,
    scaler: Standardiser,
    held_out: BoolArray,
    seed: int,
    *,
    loss: Loss,
    judge: Loss | None,
    learning_rate: float,
    counts_rows: bool,
) -> FitPlan:
    """Return the plan of one network on the rows that are not held out."""
    check_option(owner.calibration, "calibration", ("split", None))
    check_single_coverage(owner.calibration_coverage, "calibration_coverage")
    weight = data.sample_weight
    if counts_rows or owner.calibration is not None:
        effective_rows(weight, len(data))  # raises where weights do not count repetitions
    rows = np.flatnonzero(~held_out if weight is None else ~held_out & (weight > 0))
    n_rows = float(len(rows) if weight is None else weight[rows].sum())
    seeds = [replace(one, n_rows=n_rows) for one in MemberSeed.spawn(seed, 1)]
    return FitPlan(
        X=scaler.features(data.X),
        y=scaler.target(data.y),
        seeds=seeds,
        rows=plan_members(seeds, rows, bootstrap=False),
        seed=seed,
        loss=loss,
        learning_rate=check_number(learning_rate, "learning_rate", positive=True),
        weight=None if weight is None else weight / weight[rows].mean(),
        judge=judge,
        judging=held_out,
        held_out=held_out,
        judge_weight=weight,
    )


def rows_of(
    plan: FitPlan, data: TrainingData, *, unseen: bool
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return standardised features and target, and weights, of the rows held out or trained on."""
    rows = plan.held_out if unseen else ~plan.held_out
    if data.sample_weight is None:
        return plan.X[rows], plan.y[rows], None
    rows = rows & (data.sample_weight > 0)
    return plan.X[rows], plan.y[rows], data.sample_weight[rows]


def held_out_calibration(owner: Any, residual: FloatArray, scale: FloatArray, weight: Any) -> Calibration:
    """Return scale and tails from the residuals of held-out rows, and note them as attributes."""
    calibration = Calibration()
    if owner.calibration is not None and owner.scaler_.y_scale > 0:
        z = residual / scale
        calibration = Calibration.of_scale_and_tails(z, owner.calibration_coverage, weight)
    owner.factor_, owner.df_ = calibration.factor, calibration.df
    return calibration


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
