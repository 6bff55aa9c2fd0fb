"""Networks that are drawn from one trained network. All rows and all calls use the same draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor

from skuq._typing import BoolArray, FloatArray
from skuq.distributions import Distribution, Empirical
from skuq.neural._losses import variance_of
from skuq.neural._modules.device import read_device
from skuq.neural._modules.evaluate import blocks_of, member_moments, to_predict
from skuq.neural._modules.seeds import N_TRAINING_STREAMS
from skuq.neural._modules.stacked import StackedModule
from skuq.neural._predictive.calibration import Calibration
from skuq.neural._predictive.constant_noise import ConstantNoisePosterior
from skuq.neural._predictive.posterior import Moments, Posterior, TrainedNetworks


class _DrawsNetworks(Protocol):
    """Stacked module from which networks are drawn."""

    def values_of_draws(self, n_draws: int) -> int:
        """Return the approximate number of hidden values per row for ``n_draws`` networks."""

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw networks. Return a function from rows (B, d) to outputs (S, k, B)."""


def drawn_outputs(trained: TrainedNetworks, X: FloatArray, n_draws: int, seed: int) -> Iterator[Tensor]:
    """Yield the outputs (S, k, b) of drawn networks for blocks of rows, in float64."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, N_TRAINING_STREAMS)))
    module = to_predict(trained.module, read_device(trained.device, n_draws))
    drawing = cast(_DrawsNetworks, module)
    with torch.no_grad():
        run = drawing.networks(n_draws, rng)
        for block in blocks_of(trained.scaler.features(X), drawing.values_of_draws(n_draws), module.flat):
            yield run(block).to("cpu", torch.float64)


@dataclass(frozen=True, eq=False)
class DropoutPosterior(Posterior):
    """One network with ``n_draws`` draws of dropped units. Each draw predicts a mean and a noise variance."""

    n_draws: int
    seed: int
    output: str = "moments"

    @property
    def calibrates_tails(self) -> bool:
        return self.output == "moments"

    def draw(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        loc, variance = (np.concatenate(parts) for parts in zip(*self._blocks(X), strict=True))
        return self.scaler.loc(loc), self.scaler.scale(variance)

    def moments(self, X: FloatArray) -> Moments:
        parts = [
            (loc.mean(axis=1), loc.var(axis=1, ddof=1), variance.mean(axis=1))
            for loc, variance in self._blocks(X)
        ]
        mean, variance, noise = (np.concatenate(part) for part in zip(*parts, strict=True))
        epistemic = self.scaler.scale(variance)
        return Moments(self.scaler.loc(mean), epistemic, np.hypot(epistemic, self.scaler.scale(noise)))

    def standardized_residuals(self, X: FloatArray, y: FloatArray, oob_mask: BoolArray) -> FloatArray:
        moments = self.moments(X)
        spread = moments.total if self.output == "moments" else moments.epistemic
        if spread is None or (self.output == "members" and not spread.min() > 0):
            raise ValueError(
                "the calibration needs draws with different predictions, but in some held-out rows, all "
                "predictions are equal. "
                "Use a higher `dropout`, output='moments', or calibration=None."
            )
        return (y - moments.mean) / spread

    def distribution(self, X: FloatArray, calibration: Calibration) -> Distribution:
        if self.output == "moments":
            moments = self.moments(X)
            return calibration.apply(moments.mean, moments.total, moments.epistemic)
        loc, _ = self.draw(X)
        mean = loc.mean(axis=1, keepdims=True)
        return Empirical(mean + calibration.factor * (loc - mean))

    def _blocks(self, X: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield means and variances (b, S) of the standardized target.

        There are S draws for each block of rows.
        """
        for output in drawn_outputs(self, X, self.n_draws, self.seed):
            yield output[:, 0].T.numpy(), variance_of(output[:, 1]).T.numpy()


@dataclass(frozen=True, eq=False)
class SampledPosterior(ConstantNoisePosterior):
    """Networks that ``sample(module)`` returns. They are draws from normal weights, or snapshots."""

    sample: Callable[[StackedModule], StackedModule]

    def latent_moments(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        members = self.draw_latent(features)
        return members.mean(axis=1), members.var(axis=1)

    def draw_latent(self, features: FloatArray) -> FloatArray:
        networks = self.sample(self.module)
        return member_moments(networks, features, read_device(self.device, networks.n_members), 1)[0]
