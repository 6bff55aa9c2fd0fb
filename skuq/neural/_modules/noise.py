"""Parts of some stacked networks: random numbers in training, and a learnt variance of the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from skuq._typing import FloatArray
from skuq.neural._losses import MIN_VARIANCE, variance_of
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedModule

__all__ = ["MIN_NOISE", "ConstantNoiseModule", "RandomisedModule", "first_raw_noise", "minimum"]

MIN_NOISE = 1e-8
"""Smallest variance of the noise, in units of the variance of the target."""


class RandomisedModule(StackedModule):
    """Networks that draw in training, each from a generator of its own, and so the same in any ensemble.

    The generators go with the training: a copy, a part or what is left after it can only predict.
    """

    _generators: Sequence[np.random.Generator] = ()

    def set_seeds(self, seeds: Sequence[MemberSeed]) -> None:
        """Set the generators, and the number of rows that each member learns from."""
        self._generators = [seed.noise for seed in seeds]
        n_rows = torch.tensor([seed.n_rows for seed in seeds], dtype=self.flat.dtype)
        self.register_buffer("n_rows", n_rows)

    def draw_uniform(self, x: Tensor) -> Tensor:
        """Return numbers from 0 to 1 of the shape of x."""
        drawn = [rng.random(x.shape[1:], dtype=np.float32) for rng in self._each(x)]
        return torch.from_numpy(np.stack(drawn)).to(device=x.device, dtype=x.dtype)

    def draw_normal(self, n_units: int, x: Tensor) -> Tensor:
        """Return standard normal values (M, n_units, B) for B rows x."""
        kind: Any = np.float64 if x.dtype == torch.float64 else np.float32
        drawn = [rng.standard_normal((n_units, x.shape[2]), kind) for rng in self._each(x)]
        return torch.from_numpy(np.stack(drawn)).to(x.device)

    def _each(self, x: Tensor) -> Sequence[np.random.Generator]:
        if len(self._generators) != len(x):
            raise RuntimeError("a part or a copy of a module that draws at random cannot be trained.")
        return self._generators

    def end_training(self) -> None:
        """Delete the generators too."""
        super().end_training()
        self._generators = ()

    def take(self, members: slice) -> Self:
        """Return a module of its own with some of the members, for prediction."""
        taken = super().take(members)
        taken._generators = ()
        return taken

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_generators": ()}


def first_raw_noise(n_members: int, noise: bool = True) -> dict[str, FloatArray]:
    """Return the raw variance of the noise before training, a standard deviation of 0.3, if there is one."""
    raw = math.log(math.expm1(0.3**2 - MIN_VARIANCE))
    return {"raw_noise": np.full((n_members, 1, 1), raw)} if noise else {}


class ConstantNoiseModule(StackedModule):
    """Networks that learn one variance of the noise for all rows, among their weights as ``raw_noise``.

    Those of classes have none: their outputs stay as they are.
    """

    @property
    def has_noise(self) -> bool:
        """Whether a noise is among the weights."""
        return "raw_noise" in self._shapes

    def with_noise(self, x: Tensor) -> Tensor:
        """Return mean and raw variance (M or S, 2, B) for means (M or S, 1, B), or outputs unchanged."""
        return torch.cat([x, self.weights["raw_noise"].expand_as(x)], dim=1) if self.has_noise else x

    def noise_variance(self) -> float:
        """Return the first member's variance of the noise."""
        return float(variance_of(self.weights["raw_noise"].detach().double()).flatten()[0])


def minimum(cost: Callable[[float], float], lowest: float, highest: float) -> float:
    """Return where a function of a positive number is smallest, found on a grid of logarithms first."""
    if highest <= lowest:
        return lowest
    grid = np.linspace(np.log(lowest), np.log(highest), 60)
    best = int(np.argmin([cost(np.exp(point)) for point in grid]))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(lambda point: cost(np.exp(point)), bounds=bounds, method="bounded")
    return float(np.exp(min((found.x, grid[best]), key=lambda point: cost(np.exp(point)))))
