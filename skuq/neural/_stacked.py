"""Stacked module: one torch module that contains many networks of the same shape.

One matrix contains all weights, with one row per member. This matrix is the only parameter for the optimizer.
The gradients of a member are clipped by the norm of one row, and all networks are saved by one copy.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

from skuq._typing import FloatArray
from skuq._validation import check_option
from skuq.neural._input_layer import InputLayer
from skuq.neural._losses import MIN_VARIANCE, variance_of

DEVICES = ("auto", "cpu", "cuda")
DTYPES = {"float32": torch.float32, "float64": torch.float64}

_MEMBERS_WORTH_A_GPU = 32
"""Smallest number of networks for which a GPU is used. A step on a GPU takes the same time for one network as
for hundreds of networks."""


def read_device(device: str, n_members: int) -> torch.device:
    check_option(device, "device", DEVICES)
    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise ValueError(
            "`device` is 'cuda', but torch finds no GPU. Use device='auto', or install torch with support "
            "for CUDA."
        )
    worth = available and n_members >= _MEMBERS_WORTH_A_GPU
    return torch.device("cuda" if device == "cuda" or (device == "auto" and worth) else "cpu")


def read_dtype(dtype: str) -> torch.dtype:
    return DTYPES[check_option(dtype, "dtype", tuple(DTYPES))]


@contextmanager
def thread_limit(n_threads: int = 1) -> Iterator[None]:
    """Limit the number of torch threads in the context. With more threads, small networks are slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded_torch(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the random generators of torch in the context, and restore their states afterward."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if on_gpu else []):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed all GPUs
        if on_gpu:
            torch.cuda.manual_seed(seed)
        yield


N_TRAINING_STREAMS = 5
"""Number of random generators of a member for its training. Other generators are used outside training."""


@dataclass(frozen=True, eq=False)
class MemberSeed:
    """Random generators of one member."""

    # `torch_seed` seeds the generator of torch, which layers of the user may use. `n_rows` is the total
    # weight of the training rows, by which the penalty of a module is divided.

    init: np.random.Generator
    rows: np.random.Generator
    order: np.random.Generator
    noise: np.random.Generator
    torch_seed: int
    n_rows: float = 1.0

    @classmethod
    def spawn(cls, seed: int, n_members: int) -> list[MemberSeed]:
        """Return the seeds of the members. The seed of a member does not depend on the number of members."""
        members = []
        for member in np.random.SeedSequence(seed).spawn(n_members):
            init, rows, order, noise, last = (
                np.random.default_rng(child) for child in member.spawn(N_TRAINING_STREAMS)
            )
            members.append(cls(init, rows, order, noise, int(last.integers(1 << 62))))
        return members


class TrainingDraws:
    """Random numbers of the training. Each member has its own generator."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self._generators = generators

    def uniform(self, x: Tensor) -> Tensor:
        """Return uniform numbers in [0, 1) with the shape (M, H, B) of x."""
        drawn = [rng.random(x.shape[1:], dtype=np.float32) for rng in self._generators]
        return torch.from_numpy(np.stack(drawn)).to(device=x.device, dtype=x.dtype)

    def normal(self, n_units: int, x: Tensor) -> Tensor:
        """Return standard normal numbers (M, n_units, B) for the B rows of x."""
        kind: Any = np.float64 if x.dtype == torch.float64 else np.float32
        drawn = [rng.standard_normal((n_units, x.shape[2]), kind) for rng in self._generators]
        return torch.from_numpy(np.stack(drawn)).to(x.device)


class Inputs(Protocol):
    """First part of a network: the input layer of skuq, or the network of the user."""

    any_precision: ClassVar[bool]  # whether the part can compute in every floating-point type

    @property
    def buffers(self) -> Mapping[str, Tensor]:
        """Return the buffers (M, ...) of the members by name."""

    def n_outputs(self, n_features: int) -> int:
        """Return the number of outputs for ``n_features`` features."""

    def n_values(self, n_features: int) -> int:
        """Return the approximate number of hidden values in memory, per row and member."""

    def blocks(self, rngs: Sequence[np.random.Generator], n_features: int) -> dict[str, FloatArray]:
        """Return the initial weights (M, ...) by name. Each member has its own random generator."""

    def forward(self, state: Mapping[str, Tensor], x: Tensor, training: bool) -> Tensor:
        """Return the outputs (M, k, B) for features (M, d, B), given the weights and the buffers."""


PLAIN_INPUTS = InputLayer()
ModuleT = TypeVar("ModuleT", bound="StackedModule")


class StackedModule(nn.Module):
    """M networks of the same shape: an input layer or a network of the user, followed by dense layers."""

    # `sizes` contains the numbers of outputs of the dense layers. It is empty if the network of the user
    # predicts. With `noise`, the raw value of a constant noise variance is an additional output. `extra`
    # contains the weights of a subclass. `forward` has the rows in the first dimension, as skorch and the
    # losses require. All other methods have the features before the rows, (M, d, B): the small matrix
    # products of the last layer are then faster, and their results are contiguous.

    def __init__(
        self,
        seeds: Sequence[MemberSeed],
        n_features: int,
        sizes: Sequence[int],
        dtype: torch.dtype,
        inputs: Inputs = PLAIN_INPUTS,
        activation: str = "relu",
        *,
        noise: bool = False,
        extra: Mapping[str, FloatArray] | None = None,
    ) -> None:
        super().__init__()
        rngs = [seed.init for seed in seeds]
        blocks = dense_blocks(rngs, (inputs.n_outputs(n_features), *sizes))
        blocks |= {**inputs.blocks(rngs, n_features), **(extra or {})}
        if noise:  # the initial standard deviation is 0.3
            raw = math.log(math.expm1(0.3**2 - MIN_VARIANCE))
            blocks["raw_noise"] = np.full((len(seeds), 1, 1), raw)
        self._shapes = {name: values.shape[1:] for name, values in blocks.items()}
        rows = [values.reshape(len(values), -1) for values in blocks.values()]
        self.flat = nn.Parameter(torch.as_tensor(np.concatenate(rows, axis=1), dtype=dtype))
        for name, value in inputs.buffers.items():
            self.register_buffer(name, value.clone())
        self.register_buffer("n_rows", torch.tensor([seed.n_rows for seed in seeds], dtype=dtype))
        self.sizes, self.inputs, self.activation = tuple(sizes), inputs, activation
        self.values_a_row = inputs.n_values(n_features) + sum(sizes)
        self._leaves: dict[str, Tensor] | None = None
        self._draws: TrainingDraws | None = TrainingDraws([seed.noise for seed in seeds])

    # ------------------------------------------------------------------------------ for subclasses

    def penalty(self) -> Tensor | None:
        """Return a term (M,) that is added to the loss of each member, such as a divergence from a prior."""
        return None

    def begin_epoch(self, fraction: float) -> None:
        """Set the share of completed epochs, which is 0 in the first epoch.

        A module with a warm-up needs this share.
        """

    def dense(self, k: int, x: Tensor) -> Tensor:
        """Return the sums (M, n_out, B) of a dense layer for its inputs (M, n_in, B)."""
        weights = self.weights
        return torch.baddbmm(weights[f"bias_{k}"], weights[f"weight_{k}"], x)

    # ------------------------------------------------------------------------------------ layers

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (B, M, k).

        The rows have the shape (B, d) if all members get the same rows, or (B, M, d).
        """
        if x.ndim == 2:
            x = x.unsqueeze(1).expand(-1, self.n_members, -1)
        return self.forward_members(x.permute(1, 2, 0)).permute(2, 0, 1)

    def forward_members(self, x: Tensor) -> Tensor:
        """Return the outputs (M, k, B) for features (M, d, B)."""
        x = self.features(x)
        return self.with_noise(self.dense(len(self.sizes) - 1, x) if self.sizes else x)

    def features(self, x: Tensor) -> Tensor:
        """Return the input (M, k, B) of the last dense layer for features (M, d, B)."""
        x = self.first_outputs(x)
        for k in range(len(self.sizes) - 1):
            x = self.dense(k, x)
            x = torch.relu_(x) if self.activation == "relu" else nn.functional.silu(x)
        return x

    def first_outputs(self, x: Tensor) -> Tensor:
        """Return the input (M, k, B) of the first dense layer for features (M, d, B)."""
        return self.inputs.forward(self.state(), x, self.training)

    def with_noise(self, x: Tensor) -> Tensor:
        """Return means (M or S, 1, B) with the raw variance as second output. Logits are not changed."""
        raw = self.weights.get("raw_noise")
        return x if raw is None else torch.cat([x, raw.expand_as(x)], dim=1)

    # ----------------------------------------------------------------------------------- weights

    @property
    def n_members(self) -> int:
        return len(self.flat)

    @property
    def weights(self) -> dict[str, Tensor]:
        """Return the weights by name, each of shape (M, ...). They are views of the matrix."""
        return self._leaves if self._leaves is not None else self._split(self.flat)

    def state(self) -> dict[str, Tensor]:
        """Return the weights and the buffers by name, each of shape (M, ...)."""
        buffers = {name: value for name, value in self._buffers.items() if value is not None}
        return {**self.weights, **buffers}

    def _split(self, matrix: Tensor) -> dict[str, Tensor]:
        sizes = [math.prod(shape) for shape in self._shapes.values()]
        parts = torch.split(matrix, sizes, dim=1)
        return {
            name: part.view(len(part), *shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def columns(self, first: str, last: str) -> slice:
        """Return the columns of ``flat`` with the weights from ``first`` to ``last``."""
        edges = np.cumsum([0, *(math.prod(shape) for shape in self._shapes.values())]).tolist()
        names = list(self._shapes)
        return slice(edges[names.index(first)], edges[names.index(last) + 1])

    # ---------------------------------------------------------------------------------- training

    def begin_training(self) -> None:
        """Make the weights leaf tensors, because gradients for views of one matrix are slow."""
        # the leaf tensors share the memory of `flat`, which the optimizer changes
        self._leaves = {name: view.requires_grad_() for name, view in self._split(self.flat.detach()).items()}
        self.flat.grad = torch.zeros_like(self.flat)

    def end_training(self) -> None:
        self._leaves = self._draws = self.flat.grad = None

    @property
    def draws(self) -> TrainingDraws:
        """Return the random numbers of the training. Only a module in training has them."""
        if self._draws is None:
            raise RuntimeError(
                "a copy or a part of a module that uses random draws cannot be trained. Train the original "
                "module."
            )
        return self._draws

    def backward(self, losses: Tensor) -> None:
        """Write the gradients of the losses (M,) into ``flat.grad``."""
        into = list(self._split(self._gradient()).values())
        torch._foreach_copy_(into, list(torch.autograd.grad(losses.sum(), list(self.weights.values()))))

    def clip_gradients(self, limit: float) -> None:
        """Scale the gradient of each member to a norm of at most ``limit``."""
        gradient = self._gradient()
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        # on a CPU, the comparison saves time; on a GPU, it would wait for the result
        if gradient.is_cuda or norm.max() > limit:
            gradient.mul_(limit / norm.clamp_(min=limit))

    def _gradient(self) -> Tensor:
        if self.flat.grad is None:
            raise RuntimeError("there are no gradients. Call `begin_training` first.")
        return self.flat.grad

    # ----------------------------------------------------------------------------------- members

    def take(self, members: slice) -> Self:
        taken = copy.copy(self)
        taken._parameters = dict(self._parameters)
        taken._buffers = {
            name: None if value is None else value[members].clone() for name, value in self._buffers.items()
        }
        taken._leaves = taken._draws = None
        taken.flat = nn.Parameter(self.flat.detach()[members].clone())
        return taken

    def with_weights(self, flat: Tensor) -> Self:
        made = self.take(slice(0, 1))
        made._buffers = {
            name: None if value is None else value.expand(len(flat), *value.shape[1:]).clone()
            for name, value in made._buffers.items()
        }
        made.flat = nn.Parameter(flat.detach().clone())
        return made

    @staticmethod
    def join(modules: Sequence[ModuleT]) -> ModuleT:
        if len(modules) == 1:
            return modules[0]
        joined = modules[0].take(slice(None))
        joined.flat = nn.Parameter(torch.cat([module.flat.detach() for module in modules]))
        for name in joined._buffers:
            joined._buffers[name] = torch.cat([module.get_buffer(name) for module in modules])
        return joined

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_leaves": None, "_draws": None}


def dense_blocks(rngs: Sequence[np.random.Generator], sizes: Sequence[int]) -> dict[str, FloatArray]:
    """Return initial weights like the weights of ``torch.nn.Linear``, drawn in float64 for all types."""
    layers = list(pairwise(sizes))
    blocks: dict[str, FloatArray] = {}
    for k, (n_in, n_out) in enumerate(layers):
        blocks[f"weight_{k}"] = np.empty((len(rngs), n_out, n_in))
        blocks[f"bias_{k}"] = np.empty((len(rngs), n_out, 1))
    for member, rng in enumerate(rngs):
        for k, (n_in, n_out) in enumerate(layers):
            bound = 1.0 / math.sqrt(n_in)
            blocks[f"weight_{k}"][member] = rng.uniform(-bound, bound, (n_out, n_in))
            blocks[f"bias_{k}"][member] = rng.uniform(-bound, bound, (n_out, 1))
    return blocks


class RandomModule(StackedModule, ABC):
    """Networks from which networks are drawn. The dense layers from ``first_random`` on are random."""

    first_random: int

    @abstractmethod
    def drawn_layer(self, k: int, n_draws: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return the drawn weights (S, n_out, n_in) and biases (S or 1, n_out, 1) of a dense layer."""

    def values_of_draws(self, n_draws: int) -> int:
        """Return the approximate number of hidden values per row for ``n_draws`` networks."""
        return max(self.values_a_row, n_draws * max(self.sizes))

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw networks from the first member. Return a function from rows (B, d) to outputs (S, k, B)."""
        weights, layers = self.weights, []
        for k in range(len(self.sizes)):
            fixed = weights[f"weight_{k}"], weights[f"bias_{k}"]
            layers.append(fixed if k < self.first_random else self.drawn_layer(k, n_draws, rng))

        def run(x: Tensor) -> Tensor:
            x = self.first_outputs(x.T.unsqueeze(0))
            for k, (weight, bias) in enumerate(layers):
                x = torch.matmul(weight, x).add_(bias)
                x = torch.relu_(x) if k < len(layers) - 1 else x
            return self.with_noise(x)

        return run


MIN_NOISE = 1e-8
"""Smallest noise variance, relative to the variance of the target."""


def noise_variance(module: StackedModule) -> float:
    return float(variance_of(module.weights["raw_noise"].detach().double()).flatten()[0])


def minimum(cost: Callable[[float], float], lowest: float, highest: float) -> float:
    if highest <= lowest:
        return lowest
    grid = np.linspace(np.log(lowest), np.log(highest), 60)
    best = int(np.argmin([cost(np.exp(point)) for point in grid]))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(lambda point: cost(np.exp(point)), bounds=bounds, method="bounded")
    return float(np.exp(min((found.x, grid[best]), key=lambda point: cost(np.exp(point)))))


_NUMBERS_AT_ONCE = 1 << 21
"""Maximum number of hidden values in a block of rows."""


def rows_at_once(values_a_row: int) -> int:
    return max(64, _NUMBERS_AT_ONCE // max(1, values_a_row))


def to_predict(module: StackedModule, device: torch.device) -> StackedModule:
    dtype = torch.float64 if module.inputs.any_precision else module.flat.dtype
    return module.take(slice(None)).to(device=device, dtype=dtype).eval()


def blocks_of(X: FloatArray, values_a_row: int, like: Tensor) -> Iterator[Tensor]:
    """Yield blocks of rows (b, d) with the type and the device of ``like``."""
    step = rows_at_once(values_a_row)
    for start in range(0, len(X), step):
        yield torch.as_tensor(X[start : start + step], dtype=like.dtype, device=like.device)


def output_blocks(module: StackedModule, X: FloatArray, device: torch.device) -> Iterator[Tensor]:
    """Yield the k outputs of all members for blocks of b rows, shape (b, M, k), in float64."""
    module = to_predict(module, device)
    with torch.no_grad():
        for block in blocks_of(X, module.values_a_row * module.n_members, module.flat):
            yield module(block).to("cpu", torch.float64)


def member_moments(
    module: StackedModule, X: FloatArray, device: torch.device, n_outputs: int = 2
) -> tuple[FloatArray, FloatArray]:
    """Return the means and variances (n, M) that the members predict.

    With one output, the variances are 0.
    """
    outputs: FloatArray = torch.cat(list(output_blocks(module, X, device))).numpy()
    if n_outputs == 1:
        return outputs[..., 0], np.zeros(outputs.shape[:2])
    return outputs[..., 0], variance_of(torch.from_numpy(outputs[..., 1])).numpy()
