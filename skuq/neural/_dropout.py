"""Perceptrons some of whose hidden units are left out at random, in training and in prediction.

In training every row has a draw of its own. In prediction a draw of the units is a network, the same for
all rows: then what is predicted for a row does not depend on the rows beside it, and no numbers are drawn
for rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from skuq._typing import FloatArray
from skuq.neural._losses import MIN_VARIANCE, variance_of
from skuq.neural._plan import MemberSeed
from skuq.neural._stacked import StackedModule, dense_blocks

__all__ = [
    "ConcreteArchitecture",
    "ConcreteDropoutMLP",
    "DropoutArchitecture",
    "DropoutMLP",
    "StackedDropout",
]

FIRST_NOISE = 0.3
"""Standard deviation of the noise before training, in that of the target."""

FIRST_RATE, TEMPERATURE = 0.1, 0.1
"""Of concrete dropout: the rate before training, and how far its draws are from 0 and 1."""

LOGIT_SPEED = 10.0
"""The logits of the rates are stored divided by this, and so learn so much faster than weights: at their
speed, rates are still falling when training stops."""


class StackedDropout(StackedModule):
    """M perceptrons with dropout after hidden layers; a subclass says with which factors.

    Parameters
    ----------
    blocks : mapping of str to ndarray of shape (M, ...)
        Dense blocks, and whatever else is learnt.
    seeds : sequence of MemberSeed
        Whose ``noise`` draws in training.
    dropped : tuple of bool
        For each hidden layer, whether units of it are left out.
    dtype : torch.dtype
        Of the weights.
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
        self._noise = [seed.noise for seed in seeds]

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
                    x = x * self._factors(k, self._draw(x))
        return self._outputs(x)

    def _draw(self, x: Tensor) -> Tensor:
        """Return uniform numbers of the shape of x, each member's from its own generator."""
        if len(self._noise) != len(x):
            raise RuntimeError("a part or a copy of a module with dropout cannot be trained.")
        drawn = np.empty(x.shape, dtype=np.float32)
        for member, rng in zip(drawn, self._noise, strict=True):
            rng.random(out=member, dtype=np.float32)
        return torch.from_numpy(drawn).to(device=x.device, dtype=x.dtype)

    # ------------------------------------------------------------------------------- networks drawn

    def layers_of_samples(self, n_samples: int, rng: np.random.Generator) -> list[tuple[Tensor, Tensor]]:
        """Draw networks from the one member: weights and biases of each layer.

        Parameters
        ----------
        n_samples : int
            Number S of networks.
        rng : numpy.random.Generator
            Draws which units they have.

        Returns
        -------
        layers : list of (Tensor, Tensor)
            Weights (H', H), or (S, H', H) where they follow dropped units, and biases (H', 1).
        """
        weights, layers = self.weights, []
        for k in range(len(self.dropped) + 1):
            weight = weights[f"weight_{k}"][0]
            if k and self.dropped[k - 1]:
                uniform = torch.from_numpy(rng.random((n_samples, weight.shape[1], 1), dtype=np.float32))
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

    # -------------------------------------------------------------------------------------- members

    def take(self, members: slice) -> Self:
        """Return a module of its own with some of the members, for prediction."""
        taken = super().take(members)
        taken._noise = []
        return taken

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_noise": []}


class DropoutMLP(StackedDropout):
    """Dropout at a given rate, and one variance of the noise for all rows, which is learnt.

    Parameters
    ----------
    seeds : sequence of MemberSeed
        One for each member.
    n_features : int
        Number of columns d of X.
    hidden : tuple of int
        Sizes of the hidden layers.
    dropped : tuple of bool
        For each of them, whether units are left out.
    rate : float
        Probability of being left out.
    dtype : torch.dtype
        Of the weights.
    """

    def __init__(
        self,
        seeds: Sequence[MemberSeed],
        n_features: int,
        hidden: tuple[int, ...],
        dropped: tuple[bool, ...],
        rate: float,
        dtype: torch.dtype,
    ) -> None:
        blocks = dense_blocks([seed.init for seed in seeds], n_features, hidden, 1)
        blocks["noise"] = np.full((len(seeds), 1, 1), math.log(math.expm1(FIRST_NOISE**2 - MIN_VARIANCE)))
        super().__init__(blocks, seeds, dropped, dtype)
        self.rate = rate

    def _factors(self, k: int, uniform: Tensor) -> Tensor:
        return (uniform >= self.rate).to(uniform.dtype) / (1 - self.rate)

    def _outputs(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.weights["noise"].expand_as(x)], dim=1)

    def noise_variance(self) -> float:
        """Return the variance of the noise that the first member has learnt."""
        return float(variance_of(self.weights["noise"].detach()[0]))


class ConcreteDropoutMLP(StackedDropout):
    r"""Dropout whose rates are learnt, one for each hidden layer, with mean and variance as outputs.

    A unit is multiplied by (1 - z) / (1 - p), where z is nearly 0 or 1 and has a derivative with respect
    to p: the logistic function of (logit p + logit u) / temperature, for u uniform.

    Parameters
    ----------
    seeds : sequence of MemberSeed
        One for each member; ``n_rows`` divides the penalty.
    n_features : int
        Number of columns d of X.
    hidden : tuple of int
        Sizes of the hidden layers.
    n_outputs : int
        Number of outputs k.
    length_scale : float
        Prior length scale: what weights of the first layer are measured by.
    dtype : torch.dtype
        Of the weights.
    """

    def __init__(
        self,
        seeds: Sequence[MemberSeed],
        n_features: int,
        hidden: tuple[int, ...],
        n_outputs: int,
        length_scale: float,
        dtype: torch.dtype,
    ) -> None:
        blocks = dense_blocks([seed.init for seed in seeds], n_features, hidden, n_outputs)
        logit = math.log(FIRST_RATE / (1 - FIRST_RATE))
        blocks["logits"] = np.full((len(seeds), len(hidden)), logit / LOGIT_SPEED)
        super().__init__(blocks, seeds, (True,) * len(hidden), dtype)
        self.hidden = hidden
        self.length_scale = length_scale
        self.register_buffer("n_rows", torch.tensor([seed.n_rows for seed in seeds], dtype=dtype))

    @property
    def logits(self) -> Tensor:
        """Logits of the rates, shape (M, L) for L hidden layers."""
        return LOGIT_SPEED * self.weights["logits"]

    def _factors(self, k: int, uniform: Tensor) -> Tensor:
        logit = self.logits[:, k, None, None]
        noise = torch.logit(uniform, eps=1e-7)
        return torch.sigmoid((logit + noise) / -TEMPERATURE) / torch.sigmoid(-logit)

    def penalty(self) -> Tensor:
        """Return the Kullback-Leibler divergence from the prior for each row of data, shape (M,)."""
        weights, logits = self.weights, self.logits
        total = 0.5 * self.length_scale**2 * weights["weight_0"].square().sum((1, 2))
        for k, n_units in enumerate(self.hidden):
            logit = logits[:, k]
            log_rate, log_kept = logsigmoid(logit), logsigmoid(-logit)
            size = weights[f"weight_{k + 1}"].square().sum((1, 2))
            total = total + 0.5 * self.length_scale**2 * size * torch.exp(-log_kept)
            total = total + n_units * (log_rate.exp() * log_rate + log_kept.exp() * log_kept)
        return total / self.get_buffer("n_rows")

    def rates(self) -> FloatArray:
        """Return the rates that the first member has learnt, one for each hidden layer."""
        learnt: FloatArray = torch.sigmoid(self.logits.detach()[0]).to(torch.float64).numpy()
        return learnt


# ------------------------------------------------------------------------------------- architectures


@dataclass(frozen=True)
class DropoutArchitecture:
    """Builds a `DropoutMLP`."""

    hidden: tuple[int, ...]
    rate: float
    last_layer: bool

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
        """Return a module with one member a seed; its second output is the noise."""
        n_hidden = len(self.hidden)
        dropped = tuple(not self.last_layer or k == n_hidden - 1 for k in range(n_hidden))
        return DropoutMLP(seeds, n_features, self.hidden, dropped, self.rate, dtype)


@dataclass(frozen=True)
class ConcreteArchitecture:
    """Builds a `ConcreteDropoutMLP`."""

    hidden: tuple[int, ...]
    length_scale: float

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
        """Return a module with one member a seed."""
        return ConcreteDropoutMLP(seeds, n_features, self.hidden, n_outputs, self.length_scale, dtype)
