"""Learned constant noise variance, stored as a weight of a stacked module."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from skuq._typing import FloatArray
from skuq.neural._losses import MIN_VARIANCE, variance_of
from skuq.neural._modules.stacked import StackedModule

MIN_NOISE = 1e-8
"""Smallest noise variance, relative to the variance of the target."""


def first_raw_noise(n_members: int, noise: bool = True) -> dict[str, FloatArray]:
    """Return the initial raw noise variance, for a standard deviation of 0.3.

    Without ``noise``, return no weight.
    """
    raw = math.log(math.expm1(0.3**2 - MIN_VARIANCE))
    return {"raw_noise": np.full((n_members, 1, 1), raw)} if noise else {}


def has_noise(module: StackedModule) -> bool:
    return "raw_noise" in module.weights


def with_noise(module: StackedModule, x: Tensor) -> Tensor:
    """Return means (M or S, 1, B) with the raw variance as second output. Logits are returned unchanged."""
    raw = module.weights.get("raw_noise")
    return x if raw is None else torch.cat([x, raw.expand_as(x)], dim=1)


def noise_variance(module: StackedModule) -> float:
    return float(variance_of(module.weights["raw_noise"].detach().double()).flatten()[0])


def minimum(cost: Callable[[float], float], lowest: float, highest: float) -> float:
    if highest <= lowest:
        return lowest
    grid = np.linspace(np.log(lowest), np.log(highest), 60)
    best = int(np.argmin([cost(np.exp(point)) for point in grid]))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(lambda point: cost(np.exp(point)), bounds=bounds, method="bounded")
    return float(np.exp(min((found.x, grid[best]), key=lambda point: cost(np.exp(point)))))
