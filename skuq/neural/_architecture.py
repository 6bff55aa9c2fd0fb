"""Networks from a function that the user passes, and the settings from which a stacked module is built."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from skuq._typing import FloatArray
from skuq.neural._input_layer import PLAIN_LAYERS, Layers
from skuq.neural._stacked import Inputs, MemberSeed, StackedModule, seeded_torch

_MAX_TORCH_SEED = 2**63
_TRIAL_ROWS = 3
"""Number of rows in a trial run of a network."""


class UserNetworks:
    """M networks that the user's function ``build(n_features, n_outputs)`` builds."""

    # torch is seeded for each member before its network is built. `vectorized` is False if the control flow
    # of the network depends on values; the members then run one after another, with the same results. With
    # `headed`, a dense layer follows the networks.

    any_precision: ClassVar[bool] = False  # the user's code may contain constants of a fixed type

    def __init__(self, build: Callable[[int, int], Any], width: int, dtype: torch.dtype, headed: bool):
        self.build, self.width, self.dtype, self.headed = build, width, dtype, headed
        self.vectorized = True

    def __getstate__(self) -> dict[str, Any]:
        """Exclude the function of the user, which is not needed again and may not be picklable."""
        return {**self.__dict__, "build": None}

    def n_outputs(self, n_features: int) -> int:
        return self.width

    def n_values(self, n_features: int) -> int:
        return self._n_values

    def blocks(self, rngs: Sequence[np.random.Generator], n_features: int) -> dict[str, FloatArray]:
        """Build the networks, and return their initial weights."""
        networks = []
        for rng in rngs:  # each member has its own seed
            with seeded_torch(int(rng.integers(_MAX_TORCH_SEED)), torch.device("cpu")):
                network = self.build(n_features, self.width)
            networks.append(check_network(network).to(self.dtype))
        params, buffers = stack_module_state(networks)
        if not params and not self.headed:
            raise ValueError("`module` must build a network with weights, got a network without weights.")
        which = ", as the last of `hidden_layer_sizes` requires" if self.headed else ""
        with _counted_values(networks[0]) as n_values:
            check_outputs(networks[0], n_features, self.width, which)
        self._n_values = -(-sum(n_values) // _TRIAL_ROWS)
        self.pattern = copy.deepcopy(networks[0]).to("meta")
        self.buffers = {_buffer_name(name): value for name, value in buffers.items()}
        self._names = {name: _weight_name(name) for name in params}
        self._names |= {name: _buffer_name(name) for name in buffers}
        weights = {_weight_name(name): value.detach() for name, value in params.items()}
        self._try_vectorized(weights, torch.zeros(len(rngs), n_features, _TRIAL_ROWS, dtype=self.dtype))
        return {name: value.numpy() for name, value in weights.items()}

    def _try_vectorized(self, weights: Mapping[str, Tensor], x: Tensor) -> None:
        """Set ``vectorized`` by a trial run. The run does not change the generator of torch."""
        buffers = {name: value.clone() for name, value in self.buffers.items()}
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            try:
                self.forward({**weights, **buffers}, x, True)
            except Exception:  # vmap raises errors of many types
                self.vectorized = False
                self.forward({**weights, **buffers}, x, True)

    def forward(self, state: Mapping[str, Tensor], x: Tensor, training: bool) -> Tensor:
        """Return the outputs (M, k, B) for features (M, d, B). Each member has its own weights."""
        self.pattern.train(training)
        own, rows = self.state_of(state), x.transpose(1, 2)
        if self.vectorized:
            outputs: Tensor = vmap(self.call, randomness="different")(own, rows)
        else:
            outputs = torch.stack(
                [
                    self.call({name: value[k] for name, value in own.items()}, part)
                    for k, part in enumerate(rows)
                ]
            )
        return outputs.transpose(1, 2)

    def state_of(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights and buffers with the names in the network of the user."""
        return {name: state[stacked_name] for name, stacked_name in self._names.items()}

    def call(self, state: dict[str, Tensor], x: Tensor) -> Tensor:
        """Return the outputs (B, k) of one network for rows (B, d)."""
        output: Tensor = functional_call(self.pattern, state, (x,))
        return output


def _weight_name(name: str) -> str:
    return f"module.{name}"


def _buffer_name(name: str) -> str:
    return "buffer_" + name.replace(".", "__")


def check_module(module: Any) -> Callable[[int, int], Any] | None:
    if module is not None and not callable(module):
        raise TypeError(
            "`module` must be a class or function that returns a torch.nn.Module for the arguments "
            f"(n_features, n_outputs), or None, got {module!r}."
        )
    if isinstance(module, nn.Module):
        raise TypeError(
            "`module` must be a class or function that builds a new network, got an instance of "
            f"{type(module).__name__}. Pass a function: module=lambda n_features, n_outputs: ..."
        )
    checked: Callable[[int, int], Any] | None = module
    return checked


def check_network(network: Any) -> nn.Module:
    if isinstance(network, nn.Module):
        return network
    raise TypeError(
        "`module` must be a class or function that returns a torch.nn.Module for the arguments "
        f"(n_features, n_outputs), got a function that returns {type(network).__name__}."
    )


@contextmanager
def _counted_values(network: nn.Module) -> Iterator[list[int]]:
    """Yield a list to which a run of the network appends the size of the output of each layer."""
    counts: list[int] = []

    def count(_: nn.Module, __: Any, output: Any) -> None:
        values = output if isinstance(output, tuple | list) else (output,)
        counts.extend(value.numel() for value in values if isinstance(value, Tensor))

    hooks = [layer.register_forward_hook(count) for layer in network.modules()]
    try:
        yield counts
    finally:
        for hook in hooks:
            hook.remove()


def check_outputs(network: nn.Module, n_features: int, n_outputs: int, which: str = "") -> None:
    """Raise an error if a network does not map (n, n_features) to (n, n_outputs).

    The text ``which`` is part of the error message.
    """
    dtype = next((weight.dtype for weight in network.parameters()), torch.get_default_dtype())
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        output = network.eval()(torch.zeros(_TRIAL_ROWS, n_features, dtype=dtype))
    network.train()
    if not isinstance(output, Tensor) or output.shape != (_TRIAL_ROWS, n_outputs):
        given = f"the shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise ValueError(
            f"`module` must build a network that maps (n, {n_features}) to (n, {n_outputs}){which}, got "
            f"{given} for {_TRIAL_ROWS} rows."
        )


@dataclass(frozen=True)
class Architecture:
    """Settings from which a stacked module is built. Equal settings give the same module."""

    # With `headed`, the networks of the user are followed by a dense layer, and the last entry of `hidden` is
    # the number of their outputs. `options` contains further parameters of the class `kind`.

    kind: type[StackedModule]
    hidden: tuple[int, ...]
    module: Callable[[int, int], Any] | None = None
    layers: Layers = PLAIN_LAYERS
    headed: bool = False
    noise: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.headed and self.module is not None and not self.hidden:
            raise ValueError("`hidden_layer_sizes` must contain the number of outputs of `module`, got ().")

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
        """Return a module with one member per seed."""
        n_outputs = 1 if self.noise else n_outputs
        if self.module is None:
            inputs: Inputs = self.layers.input_layer(n_features)
            sizes: tuple[int, ...] = (*self.hidden, n_outputs)
        else:
            sizes = (n_outputs,) if self.headed else ()
            width = self.hidden[-1] if self.headed else n_outputs
            inputs = UserNetworks(self.module, width, dtype, self.headed)
        activation = self.layers.activation
        return self.kind(
            seeds, n_features, sizes, dtype, inputs, activation, noise=self.noise, **self.options
        )
