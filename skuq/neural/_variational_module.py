"""Networks with independent normal weights, trained by local reparameterization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skuq.neural._last_layer import LastLayerWeights
from skuq.neural._stacked import PLAIN_INPUTS, Inputs, MemberSeed, RandomModule


@dataclass(frozen=True)
class Divergence:
    """Settings of the divergence from the prior, whose weight increases during the first epochs."""

    # Without a given prior variance, the prior variance of a layer is the mean square of its weights, which
    # maximizes the evidence. Biases have a standard normal prior.

    kl_weight: float
    warm_up: float
    prior_variance: float | None = None


class VariationalModule(RandomModule):
    """M networks with normally distributed weights in the dense layers, or only in the last dense layer."""

    # In training, each row has its own random weights, which are drawn through the mean and the variance of
    # each unit (local reparameterization). Otherwise, the network has the mean weights. The outputs are the
    # logits of classes, or the mean and a constant raw noise variance.

    def __init__(
        self,
        seeds: Sequence[MemberSeed],
        n_features: int,
        sizes: Sequence[int],
        dtype: torch.dtype,
        inputs: Inputs = PLAIN_INPUTS,
        *args: Any,
        last_layer: bool,
        divergence: Divergence,
        **options: Any,
    ) -> None:
        n_layers, widths = len(sizes), (inputs.n_outputs(n_features), *sizes)
        first_random = n_layers - 1 if last_layer else 0
        extra = {}
        for k in range(first_random, n_layers):
            n_in, n_out = widths[k : k + 2]
            log_scale = math.log(0.05 / math.sqrt(n_in))
            extra[f"log_scale_weight_{k}"] = np.full((len(seeds), n_out, n_in), log_scale)
            extra[f"log_scale_bias_{k}"] = np.full((len(seeds), n_out, 1), log_scale)
        super().__init__(seeds, n_features, sizes, dtype, inputs, *args, extra=extra, **options)
        self.first_random, self.divergence, self._warmth = first_random, divergence, 1.0
        first, last = f"weight_{first_random}", f"bias_{n_layers - 1}"
        self._means = self.columns(first, last)
        self._log_scales = self.columns(f"log_scale_{first}", f"log_scale_{last}")
        self._n_weights = [values[0].size for values in extra.values()]

    def variance(self, name: str) -> Tensor:
        return torch.exp(2 * self.weights[f"log_scale_{name}"])

    def dense(self, k: int, x: Tensor) -> Tensor:
        loc = super().dense(k, x)
        if not (self.training and self._draws) or k < self.first_random:
            return loc
        variance = torch.baddbmm(self.variance(f"bias_{k}"), self.variance(f"weight_{k}"), x.square())
        return torch.addcmul(loc, variance.sqrt(), self.draws.normal(loc.shape[1], x))

    def begin_epoch(self, fraction: float) -> None:
        """Increase the weight of the prior gradually, because it would dominate at the start of training."""
        warm_up = self.divergence.warm_up
        self._warmth = 1.0 if fraction >= warm_up else fraction / warm_up

    def penalty(self) -> Tensor:
        """Return the divergence of the posterior from the prior, per training row, shape (M,)."""
        flat, given = self.flat.detach(), self.divergence.prior_variance
        mean, log_scale = flat[:, self._means], flat[:, self._log_scales]
        variance = torch.exp(2 * log_scale)
        square = torch.addcmul(variance, mean, mean)
        prior = torch.ones_like(square)
        layers = (
            torch.split(matrix, self._n_weights, dim=1)[::2] for matrix in (square, prior)
        )  # without biases
        for of_layer, of_prior in zip(*layers, strict=True):
            of_prior[:] = of_layer.mean(1, keepdim=True) if given is None else given
        factor = self.divergence.kl_weight * self._warmth / self.get_buffer("n_rows").unsqueeze(1)
        # `backward` adds these derivatives, because autograd takes three times as long
        self._slopes = factor * mean / prior, factor * (variance / prior - 1)
        values = 0.5 * (square / prior + torch.log(prior) - 1) - log_scale
        return (factor * values).sum(1)

    def backward(self, losses: Tensor) -> None:
        super().backward(losses)
        for columns, slope in zip((self._means, self._log_scales), self._slopes, strict=True):
            self._gradient()[:, columns].add_(slope)

    # ------------------------------------------------------------------------------- the posterior

    def last_layer_weights(self) -> LastLayerWeights:
        """Return the posterior of the last layer, which has one output."""
        weights, k = self.weights, len(self.sizes) - 1
        names = (f"weight_{k}", f"bias_{k}")
        mean, log_scale = (
            torch.cat([weights[prefix + name][0].detach().double().flatten() for name in names]).cpu().numpy()
            for prefix in ("", "log_scale_")
        )
        return LastLayerWeights(None, mean, np.exp(2 * log_scale))

    def drawn_layer(self, k: int, n_draws: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        drawn = []
        for name in (f"weight_{k}", f"bias_{k}"):
            mean = self.weights[name]
            z = torch.from_numpy(rng.standard_normal((n_draws, *mean.shape[1:])))
            drawn.append(mean + self.weights[f"log_scale_{name}"].exp() * z.to(mean))
        return drawn[0], drawn[1]
