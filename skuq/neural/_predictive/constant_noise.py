"""Posterior of networks that do not predict a variance. The noise variance is constant."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from skuq._fitting.training_data import TrainingData
from skuq._typing import BoolArray, FloatArray
from skuq.distributions import Distribution
from skuq.neural._modules.noise import MIN_NOISE, minimum
from skuq.neural._predictive.calibration import Calibration
from skuq.neural._predictive.posterior import Posterior


@dataclass(frozen=True, eq=False)
class ConstantNoisePosterior(Posterior):
    """Random functions for the standardized target. The noise has the constant variance ``noise``."""

    noise: float

    @abstractmethod
    def latent_moments(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the epistemic variance of the standardized target for standardized features."""

    @abstractmethod
    def draw_latent(self, features: FloatArray) -> FloatArray:
        """Return the values (n, S) of S random functions for the standardized target."""

    @property
    def noise_std(self) -> float:
        """Return the standard deviation of the noise, in the units of y."""
        return float(self.scaler.y_scale * np.sqrt(self.noise))

    def with_likely_noise(self, rows: TrainingData) -> Self:
        mean, epistemic = self.latent_moments(self.scaler.features(rows.X))
        residual = self.scaler.target(rows.y) - mean
        return replace(self, noise=likely_noise(residual, epistemic, rows.sample_weight))

    def draw(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        loc = self.scaler.loc(self.draw_latent(self.scaler.features(X)))
        return loc, np.full(loc.shape, self.noise_std)

    def standardized_residuals(self, X: FloatArray, y: FloatArray, oob_mask: BoolArray) -> FloatArray:
        mean, epistemic = self.latent_moments(self.scaler.features(X))
        z: FloatArray = (self.scaler.target(y) - mean) / np.sqrt(self.noise + epistemic)
        return z

    def distribution(self, X: FloatArray, calibration: Calibration) -> Distribution:
        mean, epistemic = self.latent_moments(self.scaler.features(X))
        total = self.scaler.scale(self.noise + epistemic)
        return calibration.apply(self.scaler.loc(mean), total, self.scaler.scale(epistemic))


def likely_noise(residual: FloatArray, epistemic: FloatArray, weight: FloatArray | None) -> float:
    square = np.square(residual)

    def cost(noise: float) -> float:
        variance = noise + epistemic
        return float(np.average(np.log(variance) + square / variance, weights=weight))

    return minimum(cost, MIN_NOISE, float(square.max()))
