"""Architectures of stacked modules, and networks from a function that the user passes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from skuq._typing import FloatArray
from skuq.neural._input_layer import PLAIN_LAYERS, Layers
from skuq.neural._stacked import MemberSeed, StackedMLP, StackedModule, seeded_torch

_MAX_TORCH_SEED = 2**63
_TRIAL_ROWS = 3
"""Number of rows in a trial run of a network."""


class StackedUserModule(StackedModule):
    """M networks built by the user's function ``build(n_features, n_outputs)``."""

    # torch is seeded for each member before its network is built. `extra` contains additional weights (M,
    # ...) of a subclass. `vectorized` is False if the control flow of the network depends on values; the
    # members then run one after another, with the same results.

    any_precision = False  # the user's code may contain constants of a fixed type

    def __init__(
        self,
        build: Callable[[int, int], nn.Module],
        rngs: Sequence[np.random.Generator],
        n_features: int,
        n_outputs: int,
        dtype: torch.dtype,
        extra: Mapping[str, FloatArray] | None = None,
    ) -> None:
        networks = []
        for rng in rngs:  # each member has its own seed
            with seeded_torch(int(rng.integers(_MAX_TORCH_SEED)), torch.device("cpu")):
                network = build(n_features, n_outputs)
            networks.append(check_network(network).to(dtype))
        params, buffers = stack_module_state(networks)
        if not params:
            raise ValueError("`module` must build a network with weights, got a network without weights.")
        with _counted_values(networks[0]) as n_values:
            check_outputs(networks[0], n_features, n_outputs)
        self._n_values = -(-sum(n_values) // _TRIAL_ROWS)
        blocks = {name: value.detach().numpy() for name, value in params.items()}
        super().__init__({**(extra or {}), **blocks}, dtype)
        for name, value in buffers.items():
            self.register_buffer(_mangled(name), value.clone())
        self._weight_names, self._buffer_names = list(params), list(buffers)
        # stored in a list, so that nn.Module does not register this network, which is not trained
        self.vectorized = True
        self._pattern = [copy.deepcopy(networks[0]).to("meta")]
        self._try_vectorized(n_features)

    @property
    def values_a_row(self) -> int:
        return max(self._n_values, super().values_a_row)

    def _try_vectorized(self, n_features: int) -> None:
        """Set ``vectorized`` by a trial run. The run changes neither buffers nor the generator of torch."""
        before = {name: value.clone() for name, value in self.named_buffers()}
        x = torch.zeros(self.n_members, n_features, _TRIAL_ROWS, dtype=self.flat.dtype)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            try:
                self._run_whole(x)
            except Exception:  # vmap raises errors of many types
                self.vectorized = False
                self._run_whole(x)
        for name, value in before.items():
            self.get_buffer(name).copy_(value)

    def forward_members(self, x: Tensor) -> Tensor:
        return self._run_whole(x)

    def _run_whole(self, x: Tensor) -> Tensor:
        return self._run(lambda state, rows: functional_call(self._pattern[0], state, (rows,)), x)

    def _run(self, call: Callable[[dict[str, Tensor], Tensor], Tensor], x: Tensor) -> Tensor:
        """Call the network, or its layers before the last, for rows (B, d).

        Each member has its own weights.
        """
        self._pattern[0].train(self.training)
        state, rows = self._state(), x.transpose(1, 2)
        if self.vectorized:
            outputs: Tensor = vmap(call, in_dims=(0, 0), randomness="different")(state, rows)
        else:
            outputs = torch.stack(
                [call({name: value[k] for name, value in state.items()}, part) for k, part in enumerate(rows)]
            )
        return outputs.transpose(1, 2)

    def _state(self) -> dict[str, Tensor]:
        weights = self.weights
        buffers = {name: self.get_buffer(_mangled(name)) for name in self._buffer_names}
        return {**{name: weights[name] for name in self._weight_names}, **buffers}

    # ------------------------------------------------------- networks that `headed` builds

    def features(self, x: Tensor) -> Tensor:
        """Return the outputs (M, k, B) of the layers before the last for features (M, d, B)."""
        return self._run(self._call_body, x)

    def head(self, x: Tensor) -> Tensor:
        """Return the outputs (M, k, B) of the last layer for inputs x of this layer."""
        weights = self.weights
        return torch.baddbmm(weights["head.bias"].unsqueeze(-1), weights["head.weight"], x)

    def _call_body(self, state: dict[str, Tensor], x: Tensor) -> Tensor:
        body = cast(HeadedNetwork, self._pattern[0]).body
        mine = {name.removeprefix("body."): v for name, v in state.items() if name.startswith("body.")}
        output: Tensor = functional_call(body, mine, (x,))
        return output


class HeadedNetwork(nn.Module):
    """Network of the user, followed by a linear layer."""

    def __init__(self, body: nn.Module, width: int, n_outputs: int) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(width, n_outputs)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(self.body(x))
        return output


def headed(
    module: Callable[[int, int], Any], width: int, n_features: int, n_outputs: int
) -> Callable[[int, int], HeadedNetwork]:

    def build(_: int, __: int) -> HeadedNetwork:
        body = check_network(module(n_features, width))
        which = ", as the last of `hidden_layer_sizes` requires"
        check_outputs(body, n_features, width, which)
        return HeadedNetwork(body, width, n_outputs)

    return build


def _mangled(name: str) -> str:
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
