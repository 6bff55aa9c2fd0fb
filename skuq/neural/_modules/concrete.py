"""Concrete dropout: rates that are learnt, of hidden layers or of the features that a network gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from skuq._typing import FloatArray
from skuq.neural._modules.dropout import StackedDropout
from skuq.neural._modules.last_layer import FeatureUserModule, body_of
from skuq.neural._modules.noise import RandomisedModule
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedModule, dense_blocks

__all__ = ["ConcreteArchitecture", "ConcreteDropoutMLP", "ConcreteUserModule"]

FIRST_RATE, TEMPERATURE = 0.1, 0.1
"""The rate before training, and how far draws are from 0 and 1."""

LOGIT_SPEED = 10.0
"""The logits of the rates are stored divided by this, and so learn so much faster than weights: at their
speed, rates are still falling when training stops."""


def first_logits(n_members: int, n_layers: int) -> FloatArray:
    """Return the logits of the rates before training, as they are stored."""
    return np.full((n_members, n_layers), math.log(FIRST_RATE / (1 - FIRST_RATE)) / LOGIT_SPEED)


class LearntRates(RandomisedModule):
    r"""Networks that learn the rates of their dropout, one for each layer that has it.

    A unit is multiplied by (1 - z) / (1 - p), where z is nearly 0 or 1 and has a derivative with respect
    to p: the logistic function of (logit p + logit u) / temperature, for u uniform.
    """

    length_scale: float

    @property
    def logits(self) -> Tensor:
        """Logits of the rates, shape (M, L) for L layers."""
        return LOGIT_SPEED * self.weights["logits"]

    def _factors(self, k: int, uniform: Tensor) -> Tensor:
        logit = self.logits[:, k, None, None]
        noise = torch.logit(uniform, eps=1e-7)
        return torch.sigmoid((logit + noise) / -TEMPERATURE) / torch.sigmoid(-logit)

    def _with_penalty(self, total: Tensor, k: int, weight: Tensor) -> Tensor:
        """Return a sum (M,) with the divergence of layer k, whose units the weights (M, H', H) multiply."""
        logit = self.logits[:, k]
        log_rate, log_kept = logsigmoid(logit), logsigmoid(-logit)
        size = weight.square().sum((1, 2))
        total = total + 0.5 * self.length_scale**2 * size * torch.exp(-log_kept)
        return total + weight.shape[2] * (log_rate.exp() * log_rate + log_kept.exp() * log_kept)

    def rates(self) -> FloatArray:
        """Return the rates that the first member has learnt, one for each layer."""
        learnt: FloatArray = torch.sigmoid(self.logits.detach()[0]).to(torch.float64).numpy()
        return learnt


class ConcreteDropoutMLP(LearntRates, StackedDropout):
    r"""Dropout whose rates are learnt, one for each hidden layer, with mean and variance as outputs.

    Parameters
    ----------
    seeds : sequence of MemberSeed
        Generators of each member; ``n_rows`` divides the penalty.
    n_features : int
        Number of columns d of X.
    hidden : tuple of int
        Sizes of the hidden layers.
    n_outputs : int
        Number of outputs k.
    length_scale : float
        Prior length scale of the function.
    dtype : torch.dtype
        Type of the weights.
    """

    def __init__(
        self,
        seeds: Sequence[MemberSeed],
        n_features: int,
        hidden: tuple[int, ...],
        n_outputs: int,
        length_scale: float,
        dtype: torch.dtype,
    ) -> None:
        blocks = dense_blocks([seed.init for seed in seeds], n_features, hidden, n_outputs)
        blocks["logits"] = first_logits(len(seeds), len(hidden))
        super().__init__(blocks, seeds, (True,) * len(hidden), dtype)
        self.length_scale = length_scale

    def penalty(self) -> Tensor:
        """Return the Kullback-Leibler divergence from the prior for each row of data, shape (M,)."""
        weights = self.weights
        total = 0.5 * self.length_scale**2 * weights["weight_0"].square().sum((1, 2))
        for k in range(len(self.dropped)):
            total = self._with_penalty(total, k, weights[f"weight_{k + 1}"])
        return total / self.get_buffer("n_rows")


class ConcreteUserModule(FeatureUserModule, LearntRates):
    """Networks of the user, and dropout between them and a last layer of two outputs.

    Parameters
    ----------
    build : callable
        As `body_of` returns it.
    seeds : sequence of MemberSeed
        Generators of each member; ``n_rows`` divides the penalty, which is that of the last layer.
    n_features : int
        Number of columns d of X.
    length_scale : float
        Prior length scale of the function.
    dtype : torch.dtype
        Type of the weights.
    """

    def __init__(
        self,
        build: Callable[[int, int], Any],
        seeds: Sequence[MemberSeed],
        n_features: int,
        length_scale: float,
        dtype: torch.dtype,
    ) -> None:
        extra = {"logits": first_logits(len(seeds), 1)}
        super().__init__(build, [seed.init for seed in seeds], n_features, 2, dtype, extra)
        self.length_scale = length_scale
        self.set_seeds(seeds)

    def forward_members(self, x: Tensor) -> Tensor:
        """Return the outputs (M, 2, B) for features (M, d, B); with every unit but in training."""
        x = self.features(x)
        if self.training:
            x = x * self._factors(0, self.draw_uniform(x))
        return self.head(x)

    def penalty(self) -> Tensor:
        """Return the Kullback-Leibler divergence from the prior for each row of data, shape (M,)."""
        weight = self.weights["head.weight"]
        return self._with_penalty(weight.new_zeros(len(weight)), 0, weight) / self.get_buffer("n_rows")

    def values_of_draws(self, n_draws: int) -> int:
        """Return about how many hidden values of a row are in memory at once, of so many drawn networks."""
        return max(self.values_a_row, 2 * n_draws)  # the user's network runs once

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw networks, and return what gives their outputs (S, 2, B) for rows (B, d).

        They differ in their last layer, so that the user's network runs once.
        """
        weight, bias = self.weights["head.weight"], self.weights["head.bias"].unsqueeze(-1)
        uniform = torch.from_numpy(rng.random((n_draws, weight.shape[2], 1), dtype=np.float32))
        drawn = weight * self._factors(0, uniform.to(weight)).transpose(1, 2)
        return lambda x: torch.matmul(drawn, self.features(x.T.unsqueeze(0))) + bias


@dataclass(frozen=True)
class ConcreteArchitecture:
    """Builds a `ConcreteDropoutMLP`, or a `ConcreteUserModule` of the networks that ``module`` builds."""

    hidden: tuple[int, ...]
    length_scale: float
    module: Callable[[int, int], Any] | None = None

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
        """Return a module with one member a seed."""
        if self.module is not None:
            build = body_of(self.module, self.hidden[-1], n_features, n_outputs)
            return ConcreteUserModule(build, seeds, n_features, self.length_scale, dtype)
        return ConcreteDropoutMLP(seeds, n_features, self.hidden, n_outputs, self.length_scale, dtype)
