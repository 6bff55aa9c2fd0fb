"""Networks with independent normal weights, trained by local reparameterization."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from torch import Tensor

from skuq._typing import FloatArray
from skuq._validation import check_number, check_option
from skuq.neural._architecture import StackedUserModule, check_module, headed
from skuq.neural._last_layer import FeatureArchitecture, LastLayerWeights
from skuq.neural._stacked import (
    MemberSeed,
    StackedMLP,
    StackedModule,
    dense_blocks,
    first_raw_noise,
    has_noise,
    with_noise,
)


def initial_log_scale(n_inputs: int) -> float:
    return math.log(0.05 / math.sqrt(n_inputs))


class UncertainLayer(NamedTuple):
    """Names of the weights of a layer: the means, and the logarithms of the standard deviations."""

    weight: str
    bias: str
    weight_log_scale: str
    bias_log_scale: str


@dataclass(frozen=True)
class Divergence:
    """Settings of the divergence from the prior, whose weight increases during the first epochs."""

    # Without a given prior variance, the prior variance of a layer is the mean square of its weights, which
    # maximizes the evidence. Biases have a standard normal prior.

    kl_weight: float
    warm_up: float
    prior_variance: float | None = None

    @classmethod
    def from_params(cls, kl_weight: Any, warm_up: Any, prior_variance: float | None = None) -> Self:
        warm_up = check_number(warm_up, "warm_up")
        if not 0 <= warm_up <= 1:
            raise ValueError(f"`warm_up` must lie between 0 and 1, got {warm_up}.")
        return cls(check_number(kl_weight, "kl_weight", positive=True), warm_up, prior_variance)


class VariationalModule(StackedModule):
    """M networks with normally distributed weights in some layers."""

    # In training, each row has its own random weights, which are drawn through the mean and the variance of
    # each unit (local reparameterization). Otherwise, the network has the mean weights. The outputs are the
    # logits of classes, or the mean and a constant raw noise variance. A subclass implements the forward
    # pass.

    uncertain: tuple[UncertainLayer, ...]
    divergence: Divergence

    def set_up(
        self, seeds: Sequence[MemberSeed], uncertain: Sequence[UncertainLayer], divergence: Divergence
    ) -> None:
        """Set the uncertain layers, and the random generators of the training."""
        self.uncertain, self.divergence, self._warmth = tuple(uncertain), divergence, 1.0
        self.draw_by(seeds)

    def begin_epoch(self, fraction: float) -> None:
        """Increase the weight of the prior gradually, because it would dominate at the start of training."""
        warm_up = self.divergence.warm_up
        self._warmth = 1.0 if fraction >= warm_up else fraction / warm_up

    def penalty(self) -> Tensor:
        """Return the divergence of the posterior from the prior, per training row, shape (M,)."""
        total = sum((self._divergence_of(layer) for layer in self.uncertain), self.flat.new_zeros(()))
        return self._penalty_factor() * total

    def _penalty_factor(self) -> Tensor:
        factor: Tensor = self.divergence.kl_weight * self._warmth / self.get_buffer("n_rows")
        return factor

    def _divergence_of(self, layer: UncertainLayer) -> Tensor:
        weight, bias, weight_log_scale, bias_log_scale = (self.weights[name].flatten(1) for name in layer)
        squares = weight.square() + (2 * weight_log_scale).exp()
        given = self.divergence.prior_variance
        if given is None:  # the quadratic terms are then constant
            weights = 0.5 * weight.shape[1] * squares.mean(1).log() - weight_log_scale.sum(1)
        else:
            log_ratio = 0.5 * math.log(given) - weight_log_scale
            weights = (0.5 * squares / given + log_ratio - 0.5).sum(1)
        squares = bias.square() + (2 * bias_log_scale).exp()
        return weights + (0.5 * squares - bias_log_scale - 0.5).sum(1)

    # ------------------------------------------------------------------------------- the posterior

    def last_layer_weights(self) -> LastLayerWeights:
        weight, bias, weight_log_scale, bias_log_scale = (self._first(name) for name in self.uncertain[-1])
        mean, log_scale = np.append(weight, bias), np.append(weight_log_scale, bias_log_scale)
        return LastLayerWeights(None, mean, np.exp(2 * log_scale))

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw last layers. Return a function from rows (B, d) to outputs (S, k, B)."""
        weight, bias, weight_log_scale, bias_log_scale = (
            self.weights[name][0] for name in self.uncertain[-1]
        )
        drawn_weight = _drawn(weight, weight_log_scale, n_draws, rng)
        drawn_bias = _drawn(bias, bias_log_scale, n_draws, rng).view(n_draws, -1, 1)
        return lambda x: torch.matmul(drawn_weight, self.features(x.T.unsqueeze(0))[0]).add_(drawn_bias)

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """Return the input (M, k, B) of the last layer, with the mean weights of all other layers."""

    def _first(self, name: str) -> FloatArray:
        values: FloatArray = self.weights[name][0].detach().double().cpu().numpy().ravel()
        return values


class VariationalMLP(VariationalModule):
    """Multilayer perceptrons with normally distributed weights in all layers, or only in the last layer."""

    # `sizes` contains the number of columns of X, the sizes of the hidden layers and the number of outputs.
    # With `noise`, a learned constant noise variance is an additional output.

    def __init__(
        self,
        seeds: Sequence[MemberSeed],
        sizes: Sequence[int],
        last_layer: bool,
        divergence: Divergence,
        dtype: torch.dtype,
        noise: bool = True,
    ) -> None:
        blocks = dense_blocks([seed.init for seed in seeds], sizes[0], sizes[1:-1], sizes[-1])
        first = len(sizes) - 2 if last_layer else 0
        self_layers = [
            UncertainLayer(*(f"{name}_{k}" for name in UncertainLayer._fields)) for k in range(len(sizes) - 1)
        ]
        for k in range(first, len(sizes) - 1):
            log_scale = initial_log_scale(sizes[k])
            for mean, scale in zip(self_layers[k][:2], self_layers[k][2:], strict=True):
                blocks[scale] = np.full_like(blocks[mean], log_scale)
        blocks |= first_raw_noise(len(seeds), noise)
        super().__init__(blocks, dtype)
        self.sizes, self.layers = tuple(sizes), tuple(self_layers)
        self._inputs: list[Tensor] = []
        self._deviations: list[tuple[Tensor, Tensor, Tensor]] = []
        self.set_up(seeds, self_layers[first:], divergence)

    def forward_members(self, x: Tensor) -> Tensor:
        if self.training and self._gradients and self._draws:
            with torch.no_grad():  # the method `backward` replaces autograd, which is slower
                return self._run_training(x)
        weights, last = self.weights, self.layers[-1]
        return with_noise(self, torch.baddbmm(weights[last.bias], weights[last.weight], self.features(x)))

    def features(self, x: Tensor) -> Tensor:
        weights = self.weights
        for layer in self.layers[:-1]:
            x = torch.relu_(torch.baddbmm(weights[layer.bias], weights[layer.weight], x))
        return x

    def _run_training(self, x: Tensor) -> Tensor:
        """Run the layers with random weights, and store the values that the gradient needs."""
        weights, n_certain = self.weights, len(self.layers) - len(self.uncertain)
        units = list(self.sizes[n_certain + 1 :])
        noises = torch.split(self.draws.normal(sum(units), x), units, dim=1)
        self._inputs, self._deviations = [], []
        for k, layer in enumerate(self.layers):
            self._inputs.append(x)
            loc = torch.baddbmm(weights[layer.bias], weights[layer.weight], x)
            if k >= n_certain:
                weight_variance = weights[layer.weight_log_scale].mul(2).exp_()
                bias_variance = weights[layer.bias_log_scale].mul(2).exp_()
                std = torch.baddbmm(bias_variance, weight_variance, x.square()).sqrt_()
                noise = noises[k - n_certain]
                loc.addcmul_(std, noise)
                self._deviations.append((weight_variance, bias_variance, noise / std))
            x = torch.relu_(loc) if k < len(self.layers) - 1 else loc
        return with_noise(self, x)

    def penalty(self) -> Tensor:
        with torch.no_grad():
            return super().penalty()

    def backward(self, output: Tensor, gradient: Tensor, penalty: Tensor | None = None) -> None:
        into, n_certain = self._gradients, len(self.layers) - len(self.uncertain)
        with torch.no_grad():
            slope = gradient.permute(1, 2, 0)
            if has_noise(self):
                torch.sum(slope[:, 1:], dim=2, keepdim=True, out=into["raw_noise"])
                slope = slope[:, :1]
            for k in reversed(range(len(self.layers))):
                x, layer = self._inputs[k], self.layers[k]
                torch.bmm(slope, x.transpose(1, 2), out=into[layer.weight])
                torch.sum(slope, dim=2, keepdim=True, out=into[layer.bias])
                below = torch.bmm(self.weights[layer.weight].transpose(1, 2), slope) if k else None
                if k >= n_certain:
                    weight_variance, _, relative_noise = self._deviations[k - n_certain]
                    slope = slope * relative_noise  # twice the derivative of the loss for the variance
                    self._backward_scales(k, slope)
                    if below is not None:
                        below.addcmul_(x, torch.bmm(weight_variance.transpose(1, 2), slope))
                if below is not None:
                    slope = torch.ops.aten.threshold_backward(below, x, 0)
            if penalty is not None:
                self._backward_penalty()
        self._inputs, self._deviations = [], []

    def _backward_scales(self, k: int, slope: Tensor) -> None:
        """Write the gradient with respect to the logarithms of the standard deviations of a layer."""
        x, layer = self._inputs[k], self.layers[k]
        weight_variance, bias_variance, _ = self._deviations[k - len(self.layers) + len(self.uncertain)]
        into = self._gradients
        torch.bmm(slope, x.square().transpose(1, 2), out=into[layer.weight_log_scale])
        into[layer.weight_log_scale].mul_(weight_variance)
        torch.sum(slope, dim=2, keepdim=True, out=into[layer.bias_log_scale]).mul_(bias_variance)

    def _backward_penalty(self) -> None:
        factor = self._penalty_factor().view(-1, 1, 1)
        for layer, (weight_variance, bias_variance, _) in zip(self.uncertain, self._deviations, strict=True):
            weight, bias = self.weights[layer.weight], self.weights[layer.bias]
            relative = factor / self._prior_variance(weight, weight_variance)
            self._gradients[layer.weight].addcmul_(weight, relative)
            self._gradients[layer.weight_log_scale].addcmul_(weight_variance, relative).sub_(factor)
            self._gradients[layer.bias].addcmul_(bias, factor)
            self._gradients[layer.bias_log_scale].addcmul_(bias_variance, factor).sub_(factor)

    def _prior_variance(self, weight: Tensor, variance: Tensor) -> Tensor | float:
        given = self.divergence.prior_variance
        return (weight.square() + variance).mean(dim=(1, 2), keepdim=True) if given is None else given

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        if len(self.uncertain) == 1:  # only the last layer is uncertain
            return super().networks(n_draws, rng)
        drawn = self.drawn(n_draws, rng).to(device=self.flat.device, dtype=self.flat.dtype)
        return lambda x: drawn.forward_members(x.T.expand(n_draws, *x.T.shape))

    def values_of_draws(self, n_draws: int) -> int:
        return n_draws * max(self.sizes[1:])

    def drawn(self, n_draws: int, rng: np.random.Generator) -> StackedMLP:
        parts = []
        for layer in self.layers:
            for mean, log_scale in zip(layer[:2], layer[2:], strict=True):
                values = np.tile(self._first(mean), (n_draws, 1))
                if layer in self.uncertain:
                    values += np.exp(self._first(log_scale)) * rng.standard_normal(values.shape)
                parts.append(values)
        pattern = StackedMLP([rng], self.sizes[0], self.sizes[1:-1], self.sizes[-1], torch.float64)
        return pattern.with_weights(torch.from_numpy(np.concatenate(parts, axis=1)))


def _drawn(mean: Tensor, log_scale: Tensor, n_draws: int, rng: np.random.Generator) -> Tensor:
    """Draw independent normal values (S, ...) with the given means and logarithms of standard deviations."""
    z = torch.from_numpy(rng.standard_normal((n_draws, *mean.shape)))
    return mean + log_scale.exp() * z.to(mean)


def drawn_networks(module: StackedModule, n_draws: int, seed: int) -> StackedMLP:
    return cast(VariationalMLP, module).drawn(n_draws, np.random.default_rng(seed))


class VariationalUserModule(StackedUserModule, VariationalModule):
    """Networks that the user builds, followed by an uncertain last layer."""

    def forward_members(self, x: Tensor) -> Tensor:
        x = self.features(x)
        loc = self.head(x)
        if self.training and self._draws:
            _, _, weight_log_scale, bias_log_scale = (self.weights[name] for name in self.uncertain[0])
            scales = (2 * bias_log_scale).exp().unsqueeze(-1), (2 * weight_log_scale).exp()
            loc = loc + torch.baddbmm(*scales, x.square()).sqrt() * self.draws.normal(loc.shape[1], x)
        return with_noise(self, loc)

    def values_of_draws(self, n_draws: int) -> int:
        n_outputs = self.weights["head.bias"].shape[1]
        return max(self.values_a_row, n_draws * n_outputs)  # the user's network runs only once


@dataclass(frozen=True)
class VariationalArchitecture:
    """Settings of networks whose weights are uncertain in all layers, or only in the last layer."""

    hidden: tuple[int, ...]
    module: Callable[[int, int], Any] | None
    last_layer: bool
    divergence: Divergence
    noise: bool = True

    @classmethod
    def from_params(
        cls,
        hidden: tuple[int, ...],
        module: Any,
        last_layer: Any,
        divergence: Divergence,
        *,
        noise: bool = True,
    ) -> Self:
        """Check all parameters except ``hidden``, and return the settings."""
        plain = FeatureArchitecture.from_params(hidden, check_module(module))
        last_layer = check_option(last_layer, "last_layer", (True, False))
        if plain.module is not None and not last_layer:
            raise ValueError(
                "`module` must be None with last_layer=False, because only layers that skuq builds can have "
                "random weights. Use `hidden_layer_sizes`, or last_layer=True with `module`."
            )
        return cls(plain.hidden, plain.module, last_layer, divergence, noise)

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
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
        build = headed(self.module, width, n_features, k)
        made = VariationalUserModule(build, [seed.init for seed in seeds], n_features, k, dtype, extra)
        head = UncertainLayer("head.weight", "head.bias", "weight_log_scale", "bias_log_scale")
        made.set_up(seeds, [head], self.divergence)
        return made
