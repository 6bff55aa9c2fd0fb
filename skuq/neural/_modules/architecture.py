"""Architectures: the settings of stacked modules, with a method that builds the module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from skuq.neural._modules.input_layer import PLAIN_LAYERS, Layers
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedMLP, StackedModule
from skuq.neural._modules.user_module import StackedUserModule


class Architecture(Protocol):
    """Settings from which a stacked module is built. Equal settings give the same module."""

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
        """Return a module with one member per seed."""


@dataclass(frozen=True)
class MLPArchitecture:
    """Multilayer perceptrons, or networks from a function that the user passes."""

    hidden: tuple[int, ...]
    module: Callable[[int, int], Any] | None = None
    layers: Layers = PLAIN_LAYERS

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
        rngs = [seed.init for seed in seeds]
        if self.module is not None:
            return StackedUserModule(self.module, rngs, n_features, n_outputs, dtype)
        return StackedMLP(rngs, n_features, self.hidden, n_outputs, dtype, self.layers)
