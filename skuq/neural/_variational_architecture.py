"""What builds networks with normal weights: all layers of skuq's own, or the last behind the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from skuq.neural._last_layer import FeatureUserModule, HeadedNetwork, body_of
from skuq.neural._plan import MemberSeed
from skuq.neural._stacked import StackedModule
from skuq.neural._variational import (
    INITIAL_RAW_NOISE,
    Divergence,
    UncertainLayer,
    VariationalMLP,
    VariationalModule,
    initial_log_scale,
)

__all__ = ["VariationalArchitecture"]


class _HeadWithScales(nn.Module):
    """The user's network, a linear layer behind it, and what makes that layer uncertain."""

    def __init__(self, headed: HeadedNetwork) -> None:
        super().__init__()
        self.body, self.head = headed.body, headed.head
        log_scale = initial_log_scale(self.head.in_features)
        self.weight_log_scale = nn.Parameter(torch.full_like(self.head.weight, log_scale))
        self.bias_log_scale = nn.Parameter(torch.full_like(self.head.bias, log_scale))
        self.raw_noise = nn.Parameter(torch.full((1, 1), INITIAL_RAW_NOISE))

    def forward(self, x: Tensor) -> Tensor:
        loc = self.head(self.body(x))
        return torch.cat([loc, self.raw_noise.expand_as(loc)], dim=1)


class VariationalUserModule(FeatureUserModule, VariationalModule):
    """Networks of the user, behind which an uncertain last layer is put."""

    def forward_members(self, x: Tensor) -> Tensor:
        """Return mean and raw variance, or the features of the last layer, (M, k, B)."""
        if self.headless or not (self.training and getattr(self, "_generators", None)):
            return super().forward_members(x)
        self.headless = True
        try:
            x = super().forward_members(x)
        finally:
            self.headless = False
        weight, bias, weight_log_scale, bias_log_scale = (self.weights[name] for name in self.uncertain[0])
        loc = torch.baddbmm(bias.unsqueeze(-1), weight, x)
        scales = (2 * bias_log_scale).exp().unsqueeze(-1), (2 * weight_log_scale).exp()
        loc = loc + torch.baddbmm(*scales, x.square()).sqrt() * self._draw(1, x)
        return torch.cat([loc, self.weights["raw_noise"].expand_as(loc)], dim=1)


@dataclass(frozen=True)
class VariationalArchitecture:
    """Builds networks with uncertain weights, in all layers or in the last."""

    hidden: tuple[int, ...]
    module: Callable[[int, int], Any] | None
    last_layer: bool
    divergence: Divergence

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
        """Return a module with one member a seed."""
        if self.module is None:
            return VariationalMLP(
                seeds, (n_features, *self.hidden, 1), self.last_layer, self.divergence, dtype
            )
        headed = body_of(self.module, self.hidden[-1], n_features, 1)
        rngs = [seed.init for seed in seeds]
        made = VariationalUserModule(
            lambda d, k: _HeadWithScales(headed(d, k)), rngs, n_features, n_outputs, dtype
        )
        head = UncertainLayer("head.weight", "head.bias", "weight_log_scale", "bias_log_scale")
        made.set_up(seeds, [head], self.divergence)
        return made
