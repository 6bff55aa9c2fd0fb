"""Concrete dropout with learned dropout rates of hidden layers, or of the inputs of a last layer."""

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
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedModule, dense_blocks
from skuq.neural._modules.user_module import StackedUserModule, headed

FIRST_RATE, TEMPERATURE = 0.1, 0.1
"""Initial dropout rate, and temperature of the concrete distribution."""

LOGIT_SPEED = 10.0
"""Learning rate of the logits, relative to the learning rate of the weights. With 1, the dropout rates would
still decrease at the end of training."""


def first_logits(n_members: int, n_layers: int) -> FloatArray:
    return np.full((n_members, n_layers), math.log(FIRST_RATE / (1 - FIRST_RATE)) / LOGIT_SPEED)


class LearnedRates(StackedModule):
    """Networks with one learned dropout rate for each layer with dropout."""

    # A unit is multiplied by (1 - z) / (1 - p). Here z is the logistic function of (logit p + logit u) /
    # temperature with u uniform. The value of z is close to 0 or 1, and differentiable with respect to p.

    length_scale: float

    @property
    def logits(self) -> Tensor:
        """Return the logits of the rates, shape (M, L) for L layers."""
        return LOGIT_SPEED * self.weights["logits"]

    def _factors(self, k: int, uniform: Tensor) -> Tensor:
        logit = self.logits[:, k, None, None]
        noise = torch.logit(uniform, eps=1e-7)
        return torch.sigmoid((logit + noise) / -TEMPERATURE) / torch.sigmoid(-logit)

    def _with_penalty(self, total: Tensor, k: int, weight: Tensor) -> Tensor:
        """Return ``total`` (M,) plus the divergence of layer k, given the weights of the next layer."""
        logit = self.logits[:, k]
        log_rate, log_kept = logsigmoid(logit), logsigmoid(-logit)
        size = weight.square().sum((1, 2))
        total = total + 0.5 * self.length_scale**2 * size * torch.exp(-log_kept)
        return total + weight.shape[2] * (log_rate.exp() * log_rate + log_kept.exp() * log_kept)

    def rates(self) -> FloatArray:
        learned: FloatArray = torch.sigmoid(self.logits.detach()[0]).to(torch.float64).numpy()
        return learned


class ConcreteDropoutMLP(LearnedRates, StackedDropout):
    """Multilayer perceptrons with one learned dropout rate for each hidden layer."""

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
        """Return the divergence from the prior, divided by the number of rows, shape (M,)."""
        weights = self.weights
        total = 0.5 * self.length_scale**2 * weights["weight_0"].square().sum((1, 2))
        for k in range(len(self.dropped)):
            total = self._with_penalty(total, k, weights[f"weight_{k + 1}"])
        return total / self.get_buffer("n_rows")


class ConcreteUserModule(StackedUserModule, LearnedRates):
    """Networks that the user builds, followed by dropout and by a last layer with two outputs."""

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
        self.draw_by(seeds)

    def forward_members(self, x: Tensor) -> Tensor:
        x = self.features(x)
        if self.training:
            x = x * self._factors(0, self.draws.uniform(x))
        return self.head(x)

    def penalty(self) -> Tensor:
        """Return the divergence of the last layer from the prior, per training row, shape (M,)."""
        weight = self.weights["head.weight"]
        return self._with_penalty(weight.new_zeros(len(weight)), 0, weight) / self.get_buffer("n_rows")

    def values_of_draws(self, n_draws: int) -> int:
        return max(self.values_a_row, 2 * n_draws)  # the user's network runs only once

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw last layers. Return a function from rows (B, d) to outputs (S, 2, B)."""
        weight, bias = self.weights["head.weight"], self.weights["head.bias"].unsqueeze(-1)
        uniform = torch.from_numpy(rng.random((n_draws, weight.shape[2], 1), dtype=np.float32))
        drawn = weight * self._factors(0, uniform.to(weight)).transpose(1, 2)
        return lambda x: torch.matmul(drawn, self.features(x.T.unsqueeze(0))) + bias


@dataclass(frozen=True)
class ConcreteArchitecture:
    """Settings of a `ConcreteDropoutMLP`, or of a `ConcreteUserModule` if ``module`` is given."""

    hidden: tuple[int, ...]
    length_scale: float
    module: Callable[[int, int], Any] | None = None

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
        if self.module is not None:
            build = headed(self.module, self.hidden[-1], n_features, n_outputs)
            return ConcreteUserModule(build, seeds, n_features, self.length_scale, dtype)
        return ConcreteDropoutMLP(seeds, n_features, self.hidden, n_outputs, self.length_scale, dtype)
