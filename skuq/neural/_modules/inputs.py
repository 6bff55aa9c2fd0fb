"""What features pass before the first dense layer: periodic functions beside them, and a learnt scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skuq._typing import FloatArray
from skuq._validation import check_integer, check_option

__all__ = ["NO_INPUT_LAYER", "InputLayer"]

_NUMBERS = 3
"""Numbers into which the periodic functions of a column are combined."""
_FREQUENCY_STD = 0.1
"""Standard deviation of the first frequencies, in periods for each standard deviation of the column."""
_START = 0.1
"""Size of the first combinations, as a share of that of a dense layer: a network begins as a plain one, and
periodic functions grow where they help. Begun at full size, they add noise on few rows."""
_SCALE_RATE = 6.0
"""Learning rate of the scales, in units of that of the other weights. What is stored is the scale divided by
it: of a weight so stored, the steps of Adam are that much larger."""


@dataclass(frozen=True)
class InputLayer:
    """Settings, weights and derivatives of the layer in front; with the defaults there is none.

    A column x becomes x and ``_NUMBERS`` linear combinations of cos(2 pi f x + b) over its own F frequencies
    f and phases b, all of them learnt (the PBLD embedding of Holzmüller, Grinsztajn and Steinwart, 2024);
    then each of these numbers is multiplied by its learnt scale.

    Attributes
    ----------
    n_frequencies : int
        Number of frequencies F of a column; with 0 there are no periodic functions.
    scaled : bool
        Whether what goes into the first dense layer is scaled.
    """

    n_frequencies: int = 0
    scaled: bool = False

    @classmethod
    def of(cls, n_frequencies: int, input_scale: bool) -> InputLayer:
        """Return the layer of parameters, which are checked."""
        n_frequencies = check_integer(n_frequencies, "n_frequencies", minimum=0)
        return cls(n_frequencies, check_option(input_scale, "input_scale", (True, False)))

    def __bool__(self) -> bool:
        return bool(self.n_frequencies) or self.scaled

    def n_outputs(self, n_features: int) -> int:
        """Return how many numbers go into the first dense layer."""
        return n_features * (1 + _NUMBERS) if self.n_frequencies else n_features

    def blocks(self, rngs: Sequence[np.random.Generator], n_features: int) -> dict[str, FloatArray]:
        """Return initial weights, each member's drawn by its own generator."""
        blocks: dict[str, FloatArray] = {}
        if self.n_frequencies:
            d, n = n_features, self.n_frequencies
            bound = _START / math.sqrt(n)
            drawn = [
                (
                    rng.normal(0.0, _FREQUENCY_STD, (d, n, 1)),
                    rng.uniform(-math.pi, math.pi, (d, n, 1)),
                    rng.uniform(-bound, bound, (d, _NUMBERS, n)),
                    rng.uniform(-bound, bound, (d, _NUMBERS, 1)),
                )
                for rng in rngs
            ]
            names = ("frequency", "phase", "combination", "shift")
            blocks = {
                name: np.stack(parts) for name, parts in zip(names, zip(*drawn, strict=True), strict=True)
            }
        if self.scaled:
            shape = (len(rngs), self.n_outputs(n_features), 1)
            blocks["scale"] = np.full(shape, 1.0 / _SCALE_RATE)
        return blocks

    def forward(self, weights: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return what goes into the first dense layer, and what `backward` needs, for x (M, d, B)."""
        features, angles, waves = x, x, x
        if self.n_frequencies:
            column = x.unsqueeze(2)
            angles = torch.addcmul(weights["phase"], weights["frequency"], column, value=2 * math.pi)
            waves = torch.cos(angles)
            combined = torch.matmul(weights["combination"], waves) + weights["shift"]
            x = torch.cat([x, combined.flatten(1, 2)], dim=1)
        output = x * (_SCALE_RATE * weights["scale"]) if self.scaled else x
        return output, (features, angles, waves, x)

    def backward(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        kept: tuple[Tensor, ...],
        slope: Tensor,
    ) -> None:
        """Write the gradients; ``slope`` is the derivative by what goes into the first dense layer."""
        features, angles, waves, unscaled = kept
        if self.scaled:
            torch.sum(slope * unscaled, dim=2, keepdim=True, out=gradients["scale"]).mul_(_SCALE_RATE)
            slope = slope * (_SCALE_RATE * weights["scale"])
        if self.n_frequencies:
            d = features.shape[1]
            slope = slope[:, d:].reshape(len(slope), d, _NUMBERS, -1)
            torch.sum(slope, dim=3, keepdim=True, out=gradients["shift"])
            gradients["combination"].copy_(torch.matmul(slope, waves.transpose(2, 3)))
            # through the cosine, whose derivative is minus the sine
            slope = torch.matmul(weights["combination"].transpose(2, 3), slope).mul_(torch.sin(angles)).neg_()
            torch.sum(slope, dim=3, keepdim=True, out=gradients["phase"])
            by_frequency = torch.matmul(slope, features.unsqueeze(3))
            gradients["frequency"].copy_(by_frequency.mul_(2 * math.pi))


NO_INPUT_LAYER = InputLayer()
"""Nothing in front: features go into the first dense layer as they are."""
