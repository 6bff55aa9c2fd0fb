"""Architecture of networks with normal weights: all layers of skuq's own, or the last behind the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skuq.neural._modules.last_layer import FeatureUserModule, body_of
from skuq.neural._modules.noise import first_raw_noise
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedModule
from skuq.neural._modules.variational import (
    Divergence,
    UncertainLayer,
    VariationalMLP,
    VariationalModule,
    initial_log_scale,
)

__all__ = ["VariationalArchitecture"]


class VariationalUserModule(FeatureUserModule, VariationalModule):
    """Networks of the user, behind which an uncertain last layer is put."""

    def forward_members(self, x: Tensor) -> Tensor:
        """Return mean and raw variance, (M, 2, B), for features (M, d, B)."""
        x = self.features(x)
        loc = self.head(x)
        if self.training and self._generators:
            _, _, weight_log_scale, bias_log_scale = (self.weights[name] for name in self.uncertain[0])
            scales = (2 * bias_log_scale).exp().unsqueeze(-1), (2 * weight_log_scale).exp()
            loc = loc + torch.baddbmm(*scales, x.square()).sqrt() * self.draw_normal(1, x)
        return self.with_noise(loc)


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
        width, n_members = self.hidden[-1], len(seeds)
        log_scale = initial_log_scale(width)
        extra = {
            "weight_log_scale": np.full((n_members, 1, width), log_scale),
            "bias_log_scale": np.full((n_members, 1), log_scale),
            "raw_noise": first_raw_noise(n_members),
        }
        build = body_of(self.module, width, n_features, 1)
        made = VariationalUserModule(build, [seed.init for seed in seeds], n_features, 1, dtype, extra)
        head = UncertainLayer("head.weight", "head.bias", "weight_log_scale", "bias_log_scale")
        made.set_up(seeds, [head], self.divergence)
        return made
