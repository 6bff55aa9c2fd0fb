"""Posterior of networks whose linear last layer has normally distributed weights."""

from __future__ import annotations

from dataclasses import dataclass

from skuq._typing import FloatArray
from skuq.neural._modules.device import read_device
from skuq.neural._modules.last_layer import LastLayerWeights, features_of
from skuq.neural._predictive.constant_noise import ConstantNoisePosterior


@dataclass(frozen=True, eq=False)
class LastLinearPosterior(ConstantNoisePosterior):
    """Normal weights of the last layer.

    The moments have a closed form, or are computed from ``n_draws`` functions.
    """

    weights: LastLayerWeights
    n_draws: int
    seed: int
    closed_form: bool = True

    def latent_moments(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.closed_form:
            return self.weights.moments(self._last_features(features))
        members = self.draw_latent(features)
        return members.mean(axis=1), members.var(axis=1)

    def draw_latent(self, features: FloatArray) -> FloatArray:
        return self.weights.draws(self._last_features(features), self.n_draws, self.seed)

    def _last_features(self, features: FloatArray) -> FloatArray:
        return features_of(self.module, features, read_device(self.device, 1))
