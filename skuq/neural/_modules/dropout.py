"""Perceptrons some of whose hidden units are left out at random, in training and in prediction.

In training every row has a draw of its own. In prediction a draw of the units is a network, the same for
all rows: then what is predicted for a row does not depend on the rows beside it, and no numbers are drawn
for rows.
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
from skuq.neural._modules.noise import ConstantNoiseModule, RandomisedModule, first_raw_noise
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedModule, dense_blocks
from skuq.neural._modules.user_module import StackedUserModule

__all__ = ["DropoutArchitecture", "DropoutMLP", "DropoutUserModule", "StackedDropout"]

_DROPOUT_LAYERS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)


class StackedDropout(RandomisedModule):
    """M perceptrons with dropout after hidden layers; a subclass writes the factors.

    Parameters
    ----------
    blocks : mapping of str to ndarray of shape (M, ...)
        Dense blocks, and further weights.
    seeds : sequence of MemberSeed
        Generators of the members; ``noise`` draws in training.
    dropped : tuple of bool
        For each hidden layer, whether units of it are left out.
    dtype : torch.dtype
        Type of the weights.
    """

    def __init__(
        self,
        blocks: dict[str, FloatArray],
        seeds: Sequence[MemberSeed],
        dropped: tuple[bool, ...],
        dtype: torch.dtype,
    ) -> None:
        super().__init__(blocks, dtype)
        self.dropped = dropped
        self.set_seeds(seeds)

    @abstractmethod
    def _factors(self, k: int, uniform: Tensor) -> Tensor:
        """Return what the units of hidden layer k are multiplied by, for uniform draws (M or S, H, B)."""

    def _outputs(self, x: Tensor) -> Tensor:
        """Return the outputs for what the last layer gives, both (M or S, k, B)."""
        return x

    def forward_members(self, x: Tensor) -> Tensor:
        """Return the outputs (M, k, B) for features (M, d, B); with every unit but in training."""
        weights, n_hidden = self.weights, len(self.dropped)
        for k in range(n_hidden + 1):
            x = torch.baddbmm(weights[f"bias_{k}"], weights[f"weight_{k}"], x)
            if k < n_hidden:
                x = torch.relu(x)
                if self.training and self.dropped[k]:
                    x = x * self._factors(k, self.draw_uniform(x))
        return self._outputs(x)

    # ------------------------------------------------------------------------------- networks drawn

    def values_of_draws(self, n_draws: int) -> int:
        """Return about how many hidden values of a row are in memory at once, of so many drawn networks."""
        return n_draws * max(
            int(shape[0]) for name, shape in self._shapes.items() if name.startswith("weight")
        )

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw networks, and return what gives their outputs (S, k, B) for rows (B, d)."""
        layers = self.layers_of_samples(n_draws, rng)
        return lambda x: self.run_samples(layers, x.T)

    def layers_of_samples(self, n_draws: int, rng: np.random.Generator) -> list[tuple[Tensor, Tensor]]:
        """Draw networks from the one member: weights and biases of each layer.

        Parameters
        ----------
        n_draws : int
            Number S of networks.
        rng : numpy.random.Generator
            Generator of the units left out.

        Returns
        -------
        layers : list of (Tensor, Tensor)
            Weights (H', H), or (S, H', H) where they follow dropped units, and biases (H', 1).
        """
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
        """Return the outputs (S, k, B) of drawn networks for features (d, B).

        Up to the first dropped units the networks are one, and run once.
        """
        for k, (weight, bias) in enumerate(layers):
            x = torch.matmul(weight, x).add_(bias)
            if k < len(layers) - 1:
                x = torch.relu_(x)
        return self._outputs(x)


class DropoutMLP(StackedDropout, ConstantNoiseModule):
    """Dropout at a given rate, with the logits of classes, or a mean and one learnt variance of the noise.

    Parameters
    ----------
    seeds : sequence of MemberSeed
        Generators of each member.
    n_features : int
        Number of columns d of X.
    hidden : tuple of int
        Sizes of the hidden layers.
    dropped : tuple of bool
        For each of them, whether units are left out.
    rate : float
        Probability that a unit is left out.
    dtype : torch.dtype
        Type of the weights.
    n_classes : int or None, default=None
        Number of outputs; None is one output and a noise.
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
        return self.with_noise(x)


class DropoutUserModule(StackedUserModule, ConstantNoiseModule):
    """Networks of the user with dropout layers of their own, and perhaps a learnt variance of the noise.

    Parameters
    ----------
    build : callable
        ``build(n_features, k)`` returns a module that maps (B, d) to (B, k), where k is 1 or `n_classes`.
    seeds : sequence of MemberSeed
        Generators of each member.
    n_features : int
        Number of columns d of X.
    dtype : torch.dtype
        Type of the weights.
    n_classes : int or None, default=None
        Number of outputs; None is one output and a noise.
    """

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
                "`module` must build a network with dropout layers, such as torch.nn.Dropout(0.2), got one "
                "without: all that is drawn from it would be the same."
            )
        self._try_drawing(torch.zeros(2, n_features, dtype=dtype))

    def _try_drawing(self, x: Tensor) -> None:
        try:
            with torch.no_grad():
                self.networks(2, np.random.default_rng(0))(x)
        except Exception as error:  # vmap fails with errors of many kinds
            raise ValueError(
                "`module` must build a network that torch.func.vmap can run, without control flow that "
                f"depends on values, so that one draw of its dropout layers serves all rows; got: {error}"
            ) from error

    def _dropout_layers(self) -> list[Any]:
        return [layer for layer in self._pattern[0].modules() if isinstance(layer, _DROPOUT_LAYERS)]

    def forward_members(self, x: Tensor) -> Tensor:
        """Return the outputs (M, k, B) for features (M, d, B)."""
        return self.with_noise(super().forward_members(x))

    def values_of_draws(self, n_draws: int) -> int:
        """Return about how many hidden values of a row are in memory at once, of so many drawn networks."""
        return n_draws * self.values_a_row

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw networks, and return what gives their outputs (S, k, B) for rows (B, d).

        Every call seeds torch alike, so that the draws are the same for all blocks of rows.
        """
        seed, pattern = int(rng.integers(1 << 62)), self._pattern[0].eval()
        for layer in self._dropout_layers():
            layer.train()
        state = {name: value[0] for name, value in self._state().items()}

        def one_row(x: Tensor) -> Tensor:
            output: Tensor = functional_call(pattern, state, (x.unsqueeze(0),))[0]
            return output

        draws = vmap(vmap(one_row, randomness="same"), randomness="different")

        def run(x: Tensor) -> Tensor:
            with seeded_torch(seed, x.device):
                return self.with_noise(draws(x.expand(n_draws, *x.shape)).transpose(1, 2))

        return run


@dataclass(frozen=True)
class DropoutArchitecture:
    """Builds a `DropoutMLP`, or a `DropoutUserModule` of the networks that ``module`` builds."""

    hidden: tuple[int, ...]
    rate: float = 0.2
    last_layer: bool = False
    module: Callable[[int, int], Any] | None = None
    noise: bool = True

    @classmethod
    def of(
        cls,
        hidden: tuple[int, ...],
        dropout: Any,
        last_layer: Any,
        module: Callable[[int, int], Any] | None,
        *,
        noise: bool = True,
    ) -> Self:
        """Return the architecture of parameters, of which ``dropout`` and ``last_layer`` are checked here."""
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
        """Return a module with one member a seed; with ``noise``, its second output is that."""
        n_classes = None if self.noise else n_outputs
        if self.module is not None:
            return DropoutUserModule(self.module, seeds, n_features, dtype, n_classes)
        n_hidden = len(self.hidden)
        dropped = tuple(not self.last_layer or k == n_hidden - 1 for k in range(n_hidden))
        return DropoutMLP(seeds, n_features, self.hidden, dropped, self.rate, dtype, n_classes)
