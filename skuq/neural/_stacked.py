"""Stacked module: one torch module that contains many networks of the same shape.

One matrix contains all weights, with one row per member. This matrix is the only parameter for the optimizer.
The gradients of a member are clipped by the norm of one row, and all networks are saved by one copy.
"""

from __future__ import annotations

import copy
import math
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

from skuq._typing import FloatArray
from skuq._validation import check_option
from skuq.neural._input_layer import PLAIN_LAYERS, InputValues, Layers
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


ModuleT = TypeVar("ModuleT", bound="StackedModule")

_SMALL = 1024
"""Number of entries below which a matrix product takes less time than the call of the function."""


class StackedModule(nn.Module, metaclass=ABCMeta):
    """M networks of the same shape. A subclass implements `forward_members`."""

    # `blocks` contains the initial weights by name, each of shape (M, ...). `forward` has the rows in the
    # first dimension, as skorch and the losses require. `forward_members` has the features before the rows,
    # (M, d, B): the small matrix products of the last layer are then faster, and their results are
    # contiguous.

    any_precision = True
    """Whether the module can compute in every floating-point type."""

    def __init__(self, blocks: Mapping[str, FloatArray], dtype: torch.dtype) -> None:
        super().__init__()
        self._shapes = {name: tuple(values.shape[1:]) for name, values in blocks.items()}
        rows = [np.asarray(values).reshape(len(values), -1) for values in blocks.values()]
        self.flat = nn.Parameter(torch.as_tensor(np.concatenate(rows, axis=1), dtype=dtype))
        self._leaves: dict[str, Tensor] | None = None
        self._gradients: dict[str, Tensor] = {}
        self._workspaces: dict[tuple[str, int, int], Tensor] = {}
        self._draws: TrainingDraws | None = None

    # ------------------------------------------------------------------------------ for subclasses

    @abstractmethod
    def forward_members(self, x: Tensor) -> Tensor:
        """Return the outputs (M, k, B) for features (M, d, B)."""

    def penalty(self) -> Tensor | None:
        """Return a term (M,) that is added to the loss of each member, such as a divergence from a prior."""
        return None

    def begin_epoch(self, fraction: float) -> None:
        """Set the share of completed epochs, which is 0 in the first epoch.

        A module with a warm-up needs this share.
        """

    # ----------------------------------------------------------------------------------- weights

    @property
    def n_members(self) -> int:
        return len(self.flat)

    @property
    def values_a_row(self) -> int:
        """Return the approximate number of hidden values in memory, per row and member."""
        return int(self.flat.shape[1]) // 16

    @property
    def weights(self) -> dict[str, Tensor]:
        """Return the weights by name, each of shape (M, ...). They are views of the matrix."""
        return self._leaves if self._leaves is not None else self._split(self.flat)

    def _split(self, matrix: Tensor) -> dict[str, Tensor]:
        sizes = [math.prod(shape) for shape in self._shapes.values()]
        parts = torch.split(matrix, sizes, dim=1)
        return {
            name: part.view(len(part), *shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (B, M, k).

        The rows have the shape (B, d) if all members get the same rows, or (B, M, d).
        """
        if x.ndim == 2:
            x = x.unsqueeze(1).expand(-1, self.n_members, -1)
        return self.forward_members(x.permute(1, 2, 0)).permute(2, 0, 1)

    # ---------------------------------------------------------------------------------- training

    def begin_training(self) -> None:
        """Make the weights leaf tensors, because gradients for views of one matrix are slow."""
        # the leaf tensors share the memory of `flat`, which the optimizer changes
        self._leaves = {name: view.requires_grad_() for name, view in self._split(self.flat.detach()).items()}
        self.flat.grad = torch.zeros_like(self.flat)
        self._gradients = self._split(self.flat.grad)

    def end_training(self) -> None:
        self._leaves, self._gradients, self._workspaces, self.flat.grad = None, {}, {}, None
        self._draws = None

    def draw_by(self, seeds: Sequence[MemberSeed]) -> None:
        """Set the random generators of the training, and the number of rows of each member."""
        self._draws = TrainingDraws([seed.noise for seed in seeds])
        n_rows = torch.tensor([seed.n_rows for seed in seeds], dtype=self.flat.dtype)
        self.register_buffer("n_rows", n_rows)

    @property
    def draws(self) -> TrainingDraws:
        """Return the random numbers of the training. Only a module in training has them."""
        if self._draws is None:
            raise RuntimeError(
                "a copy or a part of a module that uses random draws cannot be trained. Train the original "
                "module."
            )
        return self._draws

    def backward(self, output: Tensor, gradient: Tensor, penalty: Tensor | None = None) -> None:
        """Write the gradients of the weights into ``flat.grad``.

        The gradient of the output has the shape (B, M, k).
        """
        sources, directions = [output], [gradient]
        if penalty is not None:
            sources, directions = [output, penalty], [gradient, torch.ones_like(penalty)]
        gradients = torch.autograd.grad(sources, list(self.weights.values()), directions)
        torch._foreach_copy_(list(self._gradients.values()), list(gradients))

    def clip_gradients(self, limit: float) -> None:
        """Scale the gradient of each member to a norm of at most ``limit``."""
        gradient = self.flat.grad
        if gradient is None:
            raise RuntimeError("there are no gradients to clip. Call `begin_training` and `backward` first.")
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        # on a CPU, the comparison saves time; on a GPU, it would wait for the result
        if gradient.is_cuda or norm.max() > limit:
            gradient.mul_(limit / norm.clamp_(min=limit))

    def _workspace(self, name: str, rows: int, columns: int) -> Tensor:
        """Return memory (M, rows, columns) for a result. All steps use the same memory, which saves time."""
        key = name, rows, columns
        if key not in self._workspaces:
            self._workspaces[key] = self.flat.new_empty(self.n_members, rows, columns)
        return self._workspaces[key]

    # ----------------------------------------------------------------------------------- members

    def take(self, members: slice) -> Self:
        taken = copy.copy(self)
        taken._parameters = dict(self._parameters)
        taken._buffers = {
            name: None if value is None else value[members].clone() for name, value in self._buffers.items()
        }
        taken._leaves, taken._gradients, taken._workspaces, taken._draws = None, {}, {}, None
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
        return {**self.__dict__, "_leaves": None, "_gradients": {}, "_workspaces": {}, "_draws": None}


def dense_blocks(
    rngs: Sequence[np.random.Generator], n_features: int, hidden: Sequence[int], n_outputs: int
) -> dict[str, FloatArray]:
    """Return initial weights like the weights of ``torch.nn.Linear``, drawn in float64 for all types."""
    sizes = [n_features, *hidden, n_outputs]
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


class StackedMLP(StackedModule):
    """M multilayer perceptrons, computed by batched matrix products."""

    def __init__(
        self,
        rngs: Sequence[np.random.Generator],
        n_features: int,
        hidden: Sequence[int],
        n_outputs: int,
        dtype: torch.dtype,
        layers: Layers = PLAIN_LAYERS,
    ) -> None:
        input_layer = layers.input_layer(n_features)
        dense = dense_blocks(rngs, input_layer.n_outputs(n_features), hidden, n_outputs)
        super().__init__({**dense, **input_layer.blocks(rngs, n_features)}, dtype)
        self.n_layers = len(hidden) + 1
        self.input_layer, self.activation = input_layer, layers.activation
        self._inputs: list[Tensor] = []
        self._sums: list[Tensor] = []
        self._kept: InputValues | None = None

    @property
    def layer_values(self) -> int:
        """Return the number of outputs of all layers, per row and member."""
        return sum(int(shape[0]) for name, shape in self._shapes.items() if name.startswith("weight"))

    def forward_members(self, x: Tensor) -> Tensor:
        if not (self.training and self._gradients):
            return self._run(x, [])
        self._inputs, self._sums = [], []
        with torch.no_grad():  # the method `backward` replaces autograd, which is slower
            return self._run(x, self._inputs, keep=True)

    def _run(self, x: Tensor, inputs: list[Tensor], *, keep: bool = False) -> Tensor:
        """Run the layers, and append the input of each layer to ``inputs``.

        If ``keep``, store values for the gradient in workspaces.
        """
        weights = self.weights
        if self.input_layer:
            x, kept = self.input_layer.forward(weights, x, self._workspace if keep else None)
            self._kept = kept if keep else None
        for k in range(self.n_layers):
            inputs.append(x)
            weight, hidden = weights[f"weight_{k}"], k < self.n_layers - 1
            out = self._workspace(f"hidden {k}", weight.shape[1], x.shape[2]) if keep and hidden else None
            x = torch.baddbmm(weights[f"bias_{k}"], weight, x, out=out)
            if hidden:
                x = self._activate(k, x, keep=keep)
        return x

    def _activate(self, k: int, x: Tensor, *, keep: bool) -> Tensor:
        if self.activation == "relu":
            return torch.relu_(x)
        if not keep:
            return torch.nn.functional.silu(x)
        self._sums.append(x)  # needed for the derivative of silu
        output = self._workspace(f"unit {k}", x.shape[1], x.shape[2])
        torch.ops.aten.silu.out(x, out=output)
        return output

    def backward(self, output: Tensor, gradient: Tensor, penalty: Tensor | None = None) -> None:
        with torch.no_grad():
            slope = gradient.permute(1, 2, 0)  # with respect to the output of a layer, (M, n_out, B)
            for k in reversed(range(self.n_layers)):
                x, weight = self._inputs[k], self.weights[f"weight_{k}"]
                self._weight_gradient(k, slope, x)
                torch.sum(slope, dim=2, keepdim=True, out=self._gradients[f"bias_{k}"])
                if k or self.input_layer:
                    # two workspaces alternate, because one is read while the other is written
                    workspace = self._workspace(f"slope {k % 2}", weight.shape[2], x.shape[2])
                    slope = torch.bmm(weight.transpose(1, 2), slope, out=workspace)
                if k and self.activation == "relu":
                    # x is the output of rectified linear units
                    torch.ops.aten.threshold_backward.grad_input(slope, x, 0, grad_input=slope)
                elif k:
                    torch.ops.aten.silu_backward.grad_input(slope, self._sums[k - 1], grad_input=slope)
            if self._kept is not None:
                self.input_layer.backward(self.weights, self._gradients, self._kept, slope)
        self._inputs, self._sums, self._kept = [], [], None

    def _weight_gradient(self, k: int, slope: Tensor, x: Tensor) -> None:
        """Write the gradient of the weights of a layer. Small products are faster in separate memory."""
        into = self._gradients[f"weight_{k}"]
        small = math.prod(into.shape[1:]) <= _SMALL
        out = self._workspace("gradient", into.shape[1], into.shape[2]) if small else into
        torch.bmm(slope, x.transpose(1, 2), out=out)
        if small:
            into.copy_(out)


MIN_NOISE = 1e-8
"""Smallest noise variance, relative to the variance of the target."""


def first_raw_noise(n_members: int, noise: bool = True) -> dict[str, FloatArray]:
    """Return the initial raw noise variance, for a standard deviation of 0.3.

    Without ``noise``, return no weight.
    """
    raw = math.log(math.expm1(0.3**2 - MIN_VARIANCE))
    return {"raw_noise": np.full((n_members, 1, 1), raw)} if noise else {}


def has_noise(module: StackedModule) -> bool:
    return "raw_noise" in module.weights


def with_noise(module: StackedModule, x: Tensor) -> Tensor:
    """Return means (M or S, 1, B) with the raw variance as second output. Logits are returned unchanged."""
    raw = module.weights.get("raw_noise")
    return x if raw is None else torch.cat([x, raw.expand_as(x)], dim=1)


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
    dtype = torch.float64 if module.any_precision else module.flat.dtype
    return module.take(slice(None)).to(device=device, dtype=dtype).eval()


def blocks_of(X: FloatArray, values_a_row: int, like: Tensor) -> Iterator[Tensor]:
    """Yield blocks of rows (b, d) with the type and the device of ``like``."""
    step = rows_at_once(values_a_row)
    for start in range(0, len(X), step):
        yield torch.as_tensor(X[start : start + step], dtype=like.dtype, device=like.device)


def output_blocks(
    module: StackedModule, X: FloatArray, device: torch.device, values_a_row: int | None = None
) -> Iterator[Tensor]:
    """Yield the k outputs of all members for blocks of b rows, shape (b, M, k), in float64."""
    module = to_predict(module, device)
    values = (values_a_row or module.values_a_row) * module.n_members
    with torch.no_grad():
        for block in blocks_of(X, values, module.flat):
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
