"""A linear last layer on the features that a network has learnt: the network, and a normal posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from skuq._typing import FloatArray
from skuq.neural._modules.evaluate import blocks_of, to_predict
from skuq.neural._modules.input_layer import PLAIN_LAYERS, Layers
from skuq.neural._modules.noise import MIN_NOISE, minimum
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedMLP, StackedModule
from skuq.neural._modules.user_module import StackedUserModule, check_network, check_outputs

__all__ = [
    "FeatureArchitecture",
    "FeatureUserModule",
    "HeadedNetwork",
    "LastLayerWeights",
    "body_of",
    "features_of",
]

_FIXED_POINT_STEPS = 50
_MIN_PRECISION, _MAX_PRECISION = 1e-8, 1e8


# ------------------------------------------------------------------------------------------- networks


class _HasFeatures(Protocol):
    def features(self, x: Tensor) -> Tensor: ...


class FeatureMLP(StackedMLP):
    """A multilayer perceptron that returns the input of its last layer."""

    def features(self, x: Tensor) -> Tensor:
        """Return the input of the last layer, (M, k, B), for features (M, d, B)."""
        inputs: list[Tensor] = []
        self._run(x, inputs)
        return inputs[-1]


class HeadedNetwork(nn.Module):
    """The user's network and a linear layer behind it."""

    def __init__(self, body: nn.Module, width: int, n_outputs: int) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(width, n_outputs)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(self.body(x))
        return output


class FeatureUserModule(StackedUserModule):
    """The same for a network whose body is the user's own."""

    def features(self, x: Tensor) -> Tensor:
        """Return what the body gives, (M, k, B), for features (M, d, B)."""
        return self._run(self._call_body, x)

    def head(self, x: Tensor) -> Tensor:
        """Return the outputs of the last layer, (M, k, B), for its input."""
        weights = self.weights
        return torch.baddbmm(weights["head.bias"].unsqueeze(-1), weights["head.weight"], x)

    def _call_body(self, state: dict[str, Tensor], x: Tensor) -> Tensor:
        body = cast(HeadedNetwork, self._pattern[0]).body
        mine = {name.removeprefix("body."): v for name, v in state.items() if name.startswith("body.")}
        output: Tensor = functional_call(body, mine, (x,))
        return output


def body_of(
    module: Callable[[int, int], Any], width: int, n_features: int, n_outputs: int
) -> Callable[[int, int], HeadedNetwork]:
    """Return what builds the user's network, of so many outputs, with a linear layer behind it."""

    def build(_: int, __: int) -> HeadedNetwork:
        body = check_network(module(n_features, width))
        which = ", the features of the last layer, as many as `hidden_layer_sizes` ends with"
        check_outputs(body, n_features, width, which)
        return HeadedNetwork(body, width, n_outputs)

    return build


@dataclass(frozen=True)
class FeatureArchitecture:
    """Builds networks whose last layer is linear, and that return its features."""

    hidden: tuple[int, ...]
    module: Callable[[int, int], Any] | None = None
    layers: Layers = PLAIN_LAYERS

    @classmethod
    def of(
        cls,
        hidden: tuple[int, ...],
        module: Callable[[int, int], Any] | None,
        layers: Layers = PLAIN_LAYERS,
    ) -> Self:
        """Return the architecture of checked parameters; ``module`` is the network before the last layer."""
        if module is not None and not hidden:
            raise ValueError(
                "`hidden_layer_sizes` must end with the number of features that `module` gives, got ()."
            )
        return cls(hidden, module, layers)

    def __call__(
        self, seeds: Sequence[MemberSeed], n_features: int, n_outputs: int, dtype: torch.dtype
    ) -> StackedModule:
        """Return a module with one member a seed."""
        rngs = [seed.init for seed in seeds]
        if self.module is None:
            return FeatureMLP(rngs, n_features, self.hidden, n_outputs, dtype, self.layers)
        build = body_of(self.module, self.hidden[-1], n_features, n_outputs)
        return FeatureUserModule(build, rngs, n_features, n_outputs, dtype)


def features_of(module: StackedModule, X: FloatArray, device: torch.device) -> FloatArray:
    """Return the features of the one member's last layer, with a column of ones for the bias."""
    module = to_predict(module, device)
    body = cast(_HasFeatures, module)
    with torch.no_grad():
        blocks = blocks_of(X, module.values_a_row, module.flat)
        parts = [body.features(block.T.unsqueeze(0))[0].T.to("cpu", torch.float64) for block in blocks]
    return np.column_stack([torch.cat(parts).numpy(), np.ones(len(X))])


# ------------------------------------------------------------------------------------------ posteriors


@dataclass(frozen=True, eq=False)
class LastLayerWeights:
    """Independent normal weights in a rotated basis; in units of the standardised target.

    Attributes
    ----------
    rotation : ndarray of shape (k, k) or None
        Its columns are the basis; None is the basis of the features.
    mean, variance : ndarray of shape (k,)
        Means and variances of the weights.
    """

    rotation: FloatArray | None
    mean: FloatArray
    variance: FloatArray

    def moments(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and epistemic variance of each row, both of shape (n,)."""
        rotated = self._rotated(features)
        return rotated @ self.mean, np.square(rotated) @ self.variance

    def draws(self, features: FloatArray, n_draws: int, seed: int) -> FloatArray:
        """Return functions drawn at random, at each row, shape (n, n_draws); the same for equal seeds."""
        z = np.random.default_rng(seed).standard_normal((n_draws, len(self.mean)))
        return self._rotated(features) @ (self.mean + np.sqrt(self.variance) * z).T

    def _rotated(self, features: FloatArray) -> FloatArray:
        return features if self.rotation is None else features @ self.rotation


@dataclass(frozen=True, eq=False)
class Evidence:
    """Bayesian linear regression on features, with the prior and the noise of most evidence.

    Attributes
    ----------
    rotation, eigenvalues : ndarray of shape (k, k), (k,)
        Eigenvectors and eigenvalues of the features' second moments, summed over rows.
    projected : ndarray of shape (k,)
        Products of features and target, in the rotated basis.
    precision : float
        Prior precision of each weight.
    noise : float
        Variance of the noise.
    """

    rotation: FloatArray
    eigenvalues: FloatArray
    projected: FloatArray
    precision: float
    noise: float

    @classmethod
    def maximise(cls, features: FloatArray, y: FloatArray, weight: FloatArray | None) -> Evidence:
        """Find precision and noise by MacKay's fixed point, weights counting repetitions."""
        counts = np.ones(len(y)) if weight is None else weight
        weighted = features * counts[:, np.newaxis]
        eigenvalues, rotation = np.linalg.eigh(weighted.T @ features)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        projected = rotation.T @ (weighted.T @ y)
        rotated, n = features @ rotation, float(counts.sum())
        precision, noise = 1.0, 0.1
        for _ in range(_FIXED_POINT_STEPS):
            shrunk = eigenvalues + precision * noise
            mean = projected / shrunk
            determined = float(np.sum(eigenvalues / shrunk))  # how many weights the data determine
            squared_error = float(counts @ np.square(y - rotated @ mean))
            precision = float(np.clip(determined / max(mean @ mean, 1e-300), _MIN_PRECISION, _MAX_PRECISION))
            noise = max(squared_error / max(n - determined, 1e-3 * n), MIN_NOISE)
        return cls(rotation, eigenvalues, projected, precision, noise)

    def posterior(self) -> LastLayerWeights:
        """Return the normal posterior of the weights."""
        shrunk = self.eigenvalues + self.precision * self.noise
        return LastLayerWeights(self.rotation, self.projected / shrunk, self.noise / shrunk)

    def with_likely_noise(self, features: FloatArray, y: FloatArray, weight: FloatArray | None) -> Evidence:
        """Return the same prior with the noise that makes unseen rows most likely, at least the present.

        Mean and covariance of the weights follow from the noise.
        """
        square = np.square(features @ self.rotation)
        rotated = features @ self.rotation

        def cost(noise: float) -> float:
            posterior = replace(self, noise=noise).posterior()
            variance = noise + square @ posterior.variance
            residual = y - rotated @ posterior.mean
            return float(np.average(np.log(variance) + np.square(residual) / variance, weights=weight))

        return replace(self, noise=minimum(cost, self.noise, max(1.0, 10 * self.noise)))
