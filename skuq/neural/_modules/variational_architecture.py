"""Architecture of networks with normal weights: all layers of skuq's own, or the last behind the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from skuq._validation import check_option
from skuq.neural._modules.last_layer import FeatureArchitecture, FeatureUserModule, body_of
from skuq.neural._modules.noise import first_raw_noise
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedModule
from skuq.neural._modules.user_module import check_module
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
        """Return the outputs (M, k, B) for features (M, d, B)."""
        x = self.features(x)
        loc = self.head(x)
        if self.training and self._generators:
            _, _, weight_log_scale, bias_log_scale = (self.weights[name] for name in self.uncertain[0])
            scales = (2 * bias_log_scale).exp().unsqueeze(-1), (2 * weight_log_scale).exp()
            loc = loc + torch.baddbmm(*scales, x.square()).sqrt() * self.draw_normal(loc.shape[1], x)
        return self.with_noise(loc)

    def values_of_draws(self, n_draws: int) -> int:
        """Return about how many hidden values of a row are in memory at once, of so many drawn networks."""
        n_outputs = self.weights["head.bias"].shape[1]
        return max(self.values_a_row, n_draws * n_outputs)  # the user's network runs once


@dataclass(frozen=True)
class VariationalArchitecture:
    """Builds networks with uncertain weights, in all layers or in the last; with ``noise``, of one mean."""

    hidden: tuple[int, ...]
    module: Callable[[int, int], Any] | None
    last_layer: bool
    divergence: Divergence
    noise: bool = True

    @classmethod
    def of(
        cls,
        hidden: tuple[int, ...],
        module: Any,
        last_layer: Any,
        divergence: Divergence,
        *,
        noise: bool = True,
    ) -> Self:
        """Return the architecture of parameters, checked here but for ``hidden``."""
        plain = FeatureArchitecture.of(hidden, check_module(module))
        last_layer = check_option(last_layer, "last_layer", (True, False))
        if plain.module is not None and not last_layer:
            raise ValueError(
                "`module` is given, but only the weights of layers that skuq builds can be uncertain. Use "
                "last_layer=True, and `module` is the network before the last layer, or `hidden_layer_sizes`."
            )
        return cls(plain.hidden, plain.module, last_layer, divergence, noise)

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
        """Return a module with one member a seed."""
        k = 1 if self.noise else n_outputs
        if self.module is None:
            sizes = (n_features, *self.hidden, k)
            return VariationalMLP(seeds, sizes, self.last_layer, self.divergence, dtype, self.noise)
        width, n_members = self.hidden[-1], len(seeds)
        log_scale = initial_log_scale(width)
        extra = {
            "weight_log_scale": np.full((n_members, k, width), log_scale),
            "bias_log_scale": np.full((n_members, k), log_scale),
            **first_raw_noise(n_members, self.noise),
        }
        build = body_of(self.module, width, n_features, k)
        made = VariationalUserModule(build, [seed.init for seed in seeds], n_features, k, dtype, extra)
        head = UncertainLayer("head.weight", "head.bias", "weight_log_scale", "bias_log_scale")
        made.set_up(seeds, [head], self.divergence)
        return made
