"""Linear last layer of a network, and the normal posterior of the weights of this layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from skuq._typing import FloatArray
from skuq.neural._predictive import ConstantNoisePosterior
from skuq.neural._stacked import MIN_NOISE, StackedModule, blocks_of, minimum, read_device, to_predict

_FIXED_POINT_STEPS = 50
_MIN_PRECISION, _MAX_PRECISION = 1e-8, 1e8


def features_of(module: StackedModule, X: FloatArray, device: torch.device) -> FloatArray:
    module = to_predict(module, device)
    with torch.no_grad():
        blocks = blocks_of(X, module.values_a_row, module.flat)
        parts = [module.features(block.T.unsqueeze(0))[0].T.to("cpu", torch.float64) for block in blocks]
    return np.column_stack([torch.cat(parts).numpy(), np.ones(len(X))])


@dataclass(frozen=True, eq=False)
class LastLayerWeights:
    """Normal weights of a last layer, independent in the basis of the columns of ``rotation``."""

    rotation: FloatArray | None
    mean: FloatArray
    variance: FloatArray

    def moments(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the epistemic variance of each row, both (n,)."""
        rotated = self._rotated(features)
        return rotated @ self.mean, np.square(rotated) @ self.variance

    def draws(self, features: FloatArray, n_draws: int, seed: int) -> FloatArray:
        """Return the values (n, n_draws) of random functions. Equal seeds give equal functions."""
        z = np.random.default_rng(seed).standard_normal((n_draws, len(self.mean)))
        return self._rotated(features) @ (self.mean + np.sqrt(self.variance) * z).T

    def _rotated(self, features: FloatArray) -> FloatArray:
        return features if self.rotation is None else features @ self.rotation


@dataclass(frozen=True, eq=False)
class Evidence:
    """Bayesian linear regression. The ``precision`` and the variance ``noise`` maximize the evidence."""

    # `rotation` and `eigenvalues` are the eigendecomposition of X'WX. `projected` is X'Wy in the basis of the
    # eigenvectors.

    rotation: FloatArray
    eigenvalues: FloatArray
    projected: FloatArray
    precision: float
    noise: float

    @classmethod
    def maximize(cls, features: FloatArray, y: FloatArray, weight: FloatArray) -> Evidence:
        """Maximize the evidence by MacKay's fixed-point iteration. A weight is a number of repetitions."""
        weighted = features * weight[:, np.newaxis]
        eigenvalues, rotation = np.linalg.eigh(weighted.T @ features)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        projected = rotation.T @ (weighted.T @ y)
        rotated, n = features @ rotation, float(weight.sum())
        precision, noise = 1.0, 0.1
        for _ in range(_FIXED_POINT_STEPS):
            shrunk = eigenvalues + precision * noise
            mean = projected / shrunk
            determined = float(np.sum(eigenvalues / shrunk))  # effective number of parameters
            squared_error = float(weight @ np.square(y - rotated @ mean))
            precision = float(np.clip(determined / max(mean @ mean, 1e-300), _MIN_PRECISION, _MAX_PRECISION))
            noise = max(squared_error / max(n - determined, 1e-3 * n), MIN_NOISE)
        return cls(rotation, eigenvalues, projected, precision, noise)

    def posterior(self) -> LastLayerWeights:
        shrunk = self.eigenvalues + self.precision * self.noise
        return LastLayerWeights(self.rotation, self.projected / shrunk, self.noise / shrunk)

    def with_likely_noise(self, features: FloatArray, y: FloatArray, weight: FloatArray) -> Evidence:
        square = np.square(features @ self.rotation)
        rotated = features @ self.rotation

        def cost(noise: float) -> float:
            posterior = replace(self, noise=noise).posterior()
            variance = noise + square @ posterior.variance
            residual = y - rotated @ posterior.mean
            return float(np.average(np.log(variance) + np.square(residual) / variance, weights=weight))

        return replace(self, noise=minimum(cost, self.noise, max(1.0, 10 * self.noise)))


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
