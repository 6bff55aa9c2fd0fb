"""Multilayer perceptrons with dropout in training and prediction.

In training, each row has its own draw. In prediction, a draw is one network for all rows, so that the
prediction for a row does not depend on other rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from skuq._typing import FloatArray
from skuq._validation import check_number, check_option
from skuq.neural._modules.device import seeded_torch
from skuq.neural._modules.noise import first_raw_noise, with_noise
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedModule, dense_blocks
from skuq.neural._modules.user_module import StackedUserModule

_DROPOUT_LAYERS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)


class StackedDropout(StackedModule):
    """M perceptrons with dropout after each hidden layer whose number is in ``dropped``."""

    def __init__(
        self,
        blocks: dict[str, FloatArray],
        seeds: Sequence[MemberSeed],
        dropped: tuple[bool, ...],
        dtype: torch.dtype,
    ) -> None:
        super().__init__(blocks, dtype)
        self.dropped = dropped
        self.draw_by(seeds)

    @abstractmethod
    def _factors(self, k: int, uniform: Tensor) -> Tensor:
        """Return the factors of the units of hidden layer k, given uniform draws (M or S, H, B)."""

    def _outputs(self, x: Tensor) -> Tensor:
        """Return the outputs (M or S, k, B), given the values of the last layer."""
        return x

    def forward_members(self, x: Tensor) -> Tensor:
        weights, n_hidden = self.weights, len(self.dropped)
        for k in range(n_hidden + 1):
            x = torch.baddbmm(weights[f"bias_{k}"], weights[f"weight_{k}"], x)
            if k < n_hidden:
                x = torch.relu(x)
                if self.training and self.dropped[k]:
                    x = x * self._factors(k, self.draws.uniform(x))
        return self._outputs(x)

    # ------------------------------------------------------------------------------- networks drawn

    def values_of_draws(self, n_draws: int) -> int:
        return n_draws * max(
            int(shape[0]) for name, shape in self._shapes.items() if name.startswith("weight")
        )

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw networks. Return a function from rows (B, d) to outputs (S, k, B)."""
        layers = self.layers_of_samples(n_draws, rng)
        return lambda x: self.run_samples(layers, x.T)

    def layers_of_samples(self, n_draws: int, rng: np.random.Generator) -> list[tuple[Tensor, Tensor]]:
        """Draw networks. Return the weights (S, H', H) after dropout and the biases of each layer."""
        weights, layers = self.weights, []
        for k in range(len(self.dropped) + 1):
            weight = weights[f"weight_{k}"][0]
            if k and self.dropped[k - 1]:
                uniform = torch.from_numpy(rng.random((n_draws, weight.shape[1], 1), dtype=np.float32))
                factors = self._factors(k - 1, uniform.to(device=weight.device, dtype=weight.dtype))
                weight = weight * factors.transpose(1, 2)
            layers.append((weight, weights[f"bias_{k}"][0]))
        return layers

    def run_samples(self, layers: list[tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
        """Return the outputs (S, k, B) of drawn networks for features (d, B)."""
        for k, (weight, bias) in enumerate(layers):
            x = torch.matmul(weight, x).add_(bias)
            if k < len(layers) - 1:
                x = torch.relu_(x)
        return self._outputs(x)


class DropoutMLP(StackedDropout):
    """Perceptrons with a given dropout rate.

    The outputs are logits, or a mean and a constant noise variance.
    """

    def __init__(
        self,
        seeds: Sequence[MemberSeed],
        n_features: int,
        hidden: tuple[int, ...],
        dropped: tuple[bool, ...],
        rate: float,
        dtype: torch.dtype,
        n_classes: int | None = None,
    ) -> None:
        blocks = dense_blocks([seed.init for seed in seeds], n_features, hidden, n_classes or 1)
        blocks |= first_raw_noise(len(seeds), n_classes is None)
        super().__init__(blocks, seeds, dropped, dtype)
        self.rate = rate

    def _factors(self, k: int, uniform: Tensor) -> Tensor:
        return (uniform >= self.rate).to(uniform.dtype) / (1 - self.rate)

    def _outputs(self, x: Tensor) -> Tensor:
        return with_noise(self, x)


class DropoutUserModule(StackedUserModule):
    """Networks with dropout layers that the user builds. The outputs are the same as for `DropoutMLP`."""

    def __init__(
        self,
        build: Callable[[int, int], Any],
        seeds: Sequence[MemberSeed],
        n_features: int,
        dtype: torch.dtype,
        n_classes: int | None = None,
    ) -> None:
        extra = first_raw_noise(len(seeds), n_classes is None)
        super().__init__(build, [seed.init for seed in seeds], n_features, n_classes or 1, dtype, extra)
        if not any(layer.p > 0 for layer in self._dropout_layers()):
            raise ValueError(
                "`module` must build a network with dropout layers, got a network without dropout layers. "
                "All draws of such a network are equal. Add a layer such as torch.nn.Dropout(0.2)."
            )
        self._try_drawing(torch.zeros(2, n_features, dtype=dtype))

    def _try_drawing(self, x: Tensor) -> None:
        try:
            with torch.no_grad():
                self.networks(2, np.random.default_rng(0))(x)
        except Exception as error:  # vmap raises errors of many types
            raise ValueError(
                "`module` must build a network that torch.func.vmap supports. skuq uses vmap to apply each "
                f"draw of the dropout layers to all rows. Error of vmap: {error}. Avoid `if` and `while` "
                "that depend on values of tensors."
            ) from error

    def _dropout_layers(self) -> list[Any]:
        return [layer for layer in self._pattern[0].modules() if isinstance(layer, _DROPOUT_LAYERS)]

    def forward_members(self, x: Tensor) -> Tensor:
        return with_noise(self, super().forward_members(x))

    def values_of_draws(self, n_draws: int) -> int:
        return n_draws * self.values_a_row

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw networks. Return a function from rows (B, d) to outputs (S, k, B)."""
        seed, pattern = int(rng.integers(1 << 62)), self._pattern[0].eval()
        for layer in self._dropout_layers():
            layer.train()
        state = {name: value[0] for name, value in self._state().items()}

        def one_row(x: Tensor) -> Tensor:
            output: Tensor = functional_call(pattern, state, (x.unsqueeze(0),))[0]
            return output

        draws = vmap(vmap(one_row, randomness="same"), randomness="different")

        def run(x: Tensor) -> Tensor:
            with seeded_torch(seed, x.device):  # the same seed gives the same draws for all blocks of rows
                return with_noise(self, draws(x.expand(n_draws, *x.shape)).transpose(1, 2))

        return run


@dataclass(frozen=True)
class DropoutArchitecture:
    """Settings of a `DropoutMLP`, or of a `DropoutUserModule` if ``module`` is given."""

    hidden: tuple[int, ...]
    rate: float = 0.2
    last_layer: bool = False
    module: Callable[[int, int], Any] | None = None
    noise: bool = True

    @classmethod
    def from_params(
        cls,
        hidden: tuple[int, ...],
        dropout: Any,
        last_layer: Any,
        module: Callable[[int, int], Any] | None,
        *,
        noise: bool = True,
    ) -> Self:
        last_layer = check_option(last_layer, "last_layer", (True, False))
        if module is not None:
            return cls((), module=module, noise=noise)
        rate = check_number(dropout, "dropout")
        if not 0 < rate < 1:
            raise ValueError(f"`dropout` must lie strictly between 0 and 1, got {rate}.")
        return cls(hidden, rate, last_layer, noise=noise)

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
        n_classes = None if self.noise else n_outputs
        if self.module is not None:
            return DropoutUserModule(self.module, seeds, n_features, dtype, n_classes)
        n_hidden = len(self.hidden)
        dropped = tuple(not self.last_layer or k == n_hidden - 1 for k in range(n_hidden))
        return DropoutMLP(seeds, n_features, self.hidden, dropped, self.rate, dtype, n_classes)
