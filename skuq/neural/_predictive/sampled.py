"""Predictions by many networks that are drawn from the one trained; the same for all rows and all calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from skuq._typing import FloatArray
from skuq._validation import check_integer
from skuq.neural._losses import CRPSLoss, NLLLoss, read_judge, variance_of
from skuq.neural._modules.device import read_device
from skuq.neural._modules.evaluate import blocks_of, to_predict
from skuq.neural._training.spec import Recipe, counted
from skuq.neural._training.trainer import TrainedFit
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["learn_from_draws", "recipe_of_draws", "sample_members", "sample_moments"]

_SAMPLING = 5
"""Number of the child of the member's seed that draws networks; the first five are for training."""


class _DrawsNetworks(Protocol):
    """What a stacked module has from which networks are drawn."""

    values_a_draw: int

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw networks, and return what gives their mean and raw variance (S, 2, B) for rows (B, d)."""


def recipe_of_draws(model: Any, *, counts_rows: bool) -> Recipe:
    """Return what is trained: one network, by the likelihood."""
    check_integer(model.n_draws, "n_draws", minimum=2)
    judge = read_judge(model.keep_best, CRPSLoss())
    return Recipe(NLLLoss(), model.learning_rate, judge, counts_rows=counts_rows)


def learn_from_draws(model: Any, fit: TrainedFit, data: TrainingData) -> None:
    """Note what the networks are drawn by, and calibrate by the rows held out."""
    model._sampling_seed = fit.plan.seed
    if model._calibrates():
        unseen = data.take(counted(fit.plan.held_out, data))
        mean, epistemic, noise = sample_moments(model, unseen.X)
        model._calibrate_draws(unseen.y - mean, epistemic, noise, unseen.sample_weight)


def sample_members(model: Any, features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the noise by each network, shape (n, S), in the units of y."""
    loc, variance = (np.concatenate(parts) for parts in zip(*_blocks(model, features), strict=True))
    return model.scaler_.loc(loc), model.scaler_.scale(variance)


def sample_moments(model: Any, features: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, epistemic and noise standard deviation of each row, in the units of y."""
    moments = [
        (loc.mean(axis=1), loc.var(axis=1, ddof=1), variance.mean(axis=1))
        for loc, variance in _blocks(model, features)
    ]
    mean, epistemic, noise = (np.concatenate(parts) for parts in zip(*moments, strict=True))
    return model.scaler_.loc(mean), model.scaler_.scale(epistemic), model.scaler_.scale(noise)


def _blocks(model: Any, features: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield means and variances by the drawn networks for blocks of rows, (b, S), standardised."""
    rng = np.random.default_rng(np.random.SeedSequence(model._sampling_seed, spawn_key=(0, _SAMPLING)))
    module = to_predict(model.net_.module_, read_device(model.device, model.n_draws))
    drawing = cast(_DrawsNetworks, module)
    with torch.no_grad():
        run = drawing.networks(model.n_draws, rng)
        values_a_row = drawing.values_a_draw * model.n_draws
        for block in blocks_of(model.scaler_.features(features), values_a_row, module.flat):
            output = run(block).to("cpu", torch.float64)
            yield output[:, 0].T.numpy(), variance_of(output[:, 1]).T.numpy()
