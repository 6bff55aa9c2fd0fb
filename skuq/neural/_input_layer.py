"""Input layer for tables, with learned frequencies, embeddings and scales before the first dense layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from skuq._typing import FloatArray
from skuq._validation import check_integer_or_auto, check_option

_N_COMBINATIONS = 3
"""Maximum number of combinations of cosines per column."""
_FREQUENCY_STD = 0.1
"""Standard deviation of the initial frequencies, in periods per standard deviation of the column."""
_START = 0.1
"""Size of the initial weights of the combinations, relative to a dense layer. With 1, forecasts are worse if
there are few rows."""
_AUTO_FREQUENCIES, _AUTO_WAVES = 8, 256
"""Maximum number of frequencies per column, and largest total number, with ``n_frequencies="auto"``."""
_SCALE_RATE = 6.0
"""Learning rate of the scales, relative to the other weights. The stored scales are divided by this
number."""
_MAX_WIDTH = 8
"""Largest length of the vectors of a column of categories."""
_EMBEDDING_STD = 0.3
"""Standard deviation of the initial vectors. The CRPS was similar with 0.1 and 1."""


@dataclass(frozen=True)
class Embeddings:
    """Learned vectors of the codes of each column.

    The tuple ``sizes`` contains the number of codes of each column. The code 0 means missing and unknown
    categories. The vector of this code starts at 0, the mean of the other vectors.
    """

    sizes: tuple[int, ...] = ()

    @property
    def widths(self) -> list[int]:
        return [min(_MAX_WIDTH, size // 2 + 1) for size in self.sizes]

    def blocks(self, rngs: Sequence[np.random.Generator]) -> dict[str, FloatArray]:
        """Return initial vectors (M, width, size) for each column. Each member has its own generator."""
        blocks = {}
        for j, shape in enumerate(zip(self.widths, self.sizes, strict=True)):
            vectors = np.stack([rng.normal(0.0, _EMBEDDING_STD, shape) for rng in rngs])
            vectors[:, :, 0] = 0.0
            blocks[_name(j)] = vectors
        return blocks

    def forward(self, weights: Mapping[str, Tensor], codes: Tensor) -> list[Tensor]:
        """Return the vectors (M, width, B) of each column for codes (M, n_columns, B)."""
        columns = codes.to(torch.int64).unsqueeze(2).unbind(1)
        return [
            torch.gather(weights[_name(j)], 2, column.expand(-1, width, -1))
            for j, (column, width) in enumerate(zip(columns, self.widths, strict=True))
        ]


_NO_EMBEDDINGS = Embeddings()


def _name(j: int) -> str:
    return f"embedding_{j}"


@dataclass(frozen=True)
class InputLayer:
    """Settings and weights of the input layer. By default, the layer has no effect."""

    # The outputs for a column x of numbers are x and min(3, F) linear combinations of cos(2 pi f x + b), with
    # F learned frequencies f and phases b per column (PBLD embedding, Holzmüller, Grinsztajn and Steinwart,
    # 2024). The last columns contain codes. Each code becomes a learned vector. If `scaled`, each output
    # is multiplied by a learned scale.

    n_frequencies: int = 0
    scaled: bool = False
    embeddings: Embeddings = _NO_EMBEDDINGS
    any_precision: ClassVar[bool] = True
    buffers: ClassVar[dict[str, Tensor]] = {}

    def n_numbers(self, n_features: int) -> int:
        return n_features - len(self.embeddings.sizes)

    def n_outputs(self, n_features: int) -> int:
        return self.n_numbers(n_features) * (1 + self.n_combinations) + sum(self.embeddings.widths)

    def n_values(self, n_features: int) -> int:
        """Return the approximate number of hidden values in memory, per row and member."""
        return self.n_outputs(n_features) + self.n_numbers(n_features) * self.n_frequencies

    @property
    def n_combinations(self) -> int:
        return min(_N_COMBINATIONS, self.n_frequencies)

    def blocks(self, rngs: Sequence[np.random.Generator], n_features: int) -> dict[str, FloatArray]:
        """Return the initial weights. Each member has its own random generator."""
        blocks: dict[str, FloatArray] = {}
        if self.n_frequencies:
            d, n = self.n_numbers(n_features), self.n_frequencies
            bound = _START / math.sqrt(n)
            drawn = [
                (
                    rng.normal(0.0, _FREQUENCY_STD, (d, n, 1)),
                    rng.uniform(-math.pi, math.pi, (d, n, 1)),
                    rng.uniform(-bound, bound, (d, self.n_combinations, n)),
                    rng.uniform(-bound, bound, (d, self.n_combinations, 1)),
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
        return {**blocks, **self.embeddings.blocks(rngs)}

    def forward(self, state: Mapping[str, Tensor], x: Tensor, training: bool) -> Tensor:
        """Return the input (M, k, B) of the first dense layer for x (M, d, B)."""
        numbers = x[:, : self.n_numbers(x.shape[1])] if self.embeddings.sizes else x
        parts = [numbers]
        if self.n_frequencies:
            phase, frequency, column = state["phase"], state["frequency"], numbers.unsqueeze(2)
            waves = torch.cos(torch.addcmul(phase, frequency, column, value=2 * math.pi))
            shift, combination = (state[name].flatten(0, 1) for name in ("shift", "combination"))
            combined = torch.baddbmm(shift, combination, waves.flatten(0, 1))
            parts.append(combined.view(len(x), -1, x.shape[2]))
        if self.embeddings.sizes:
            parts += self.embeddings.forward(state, x[:, numbers.shape[1] :])
        inputs = torch.cat(parts, dim=1) if len(parts) > 1 else numbers
        return inputs * (_SCALE_RATE * state["scale"]) if self.scaled else inputs


@dataclass(frozen=True)
class Layers:
    """Settings of the layers of a network, without the sizes of the layers."""

    n_frequencies: int | str = 0
    scaled: bool = False
    activation: str = "relu"
    embeddings: Embeddings = _NO_EMBEDDINGS

    @classmethod
    def from_params(cls, n_frequencies: Any, input_scale: Any, activation: Any) -> Layers:
        """Check the parameters and return the layers."""
        return cls(
            check_integer_or_auto(n_frequencies, "n_frequencies", minimum=0),
            check_option(input_scale, "input_scale", (True, False)),
            check_option(activation, "activation", ("relu", "silu")),
        )

    def with_codes(self, n_codes: Sequence[int]) -> Layers:
        """Return layers with an embedding for each column of codes."""
        return replace(self, embeddings=Embeddings(tuple(1 << (n - 1).bit_length() for n in n_codes)))

    def input_layer(self, n_features: int) -> InputLayer:
        n_numbers, n_frequencies = n_features - len(self.embeddings.sizes), self.n_frequencies
        if isinstance(n_frequencies, str):
            n_frequencies = min(_AUTO_FREQUENCIES, _AUTO_WAVES // max(1, n_numbers))
        return InputLayer(n_frequencies if n_numbers else 0, self.scaled, self.embeddings)


PLAIN_LAYERS = Layers()
"""Layers with rectified linear units, and without frequencies, embeddings and scales."""
