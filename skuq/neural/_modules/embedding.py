"""Learned vectors for the categories of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skuq._typing import FloatArray

_MAX_WIDTH = 8
_START = 0.3
"""Standard deviation of the initial vectors. The CRPS was similar with 0.1 and 1."""


def table_size(n_codes: int) -> int:
    """Return the next power of two, so that folds with other rare categories are trained together."""
    return 1 << (n_codes - 1).bit_length()


@dataclass(frozen=True)
class Embeddings:
    """Learned vectors of the codes of each column; ``sizes`` contains the number of codes per column.

    The code 0, for missing and unknown categories, starts at the vector 0, the mean of the other vectors.
    """

    sizes: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sizes)

    @property
    def widths(self) -> list[int]:
        return [min(_MAX_WIDTH, size // 2 + 1) for size in self.sizes]

    def blocks(self, rngs: Sequence[np.random.Generator]) -> dict[str, FloatArray]:
        """Return initial vectors (M, width, size) per column; each member has its own generator."""
        blocks = {}
        for j, shape in enumerate(zip(self.widths, self.sizes, strict=True)):
            vectors = np.stack([rng.normal(0.0, _START, shape) for rng in rngs])
            vectors[:, :, 0] = 0.0
            blocks[_name(j)] = vectors
        return blocks

    def forward(self, weights: Mapping[str, Tensor], codes: Tensor) -> list[Tensor]:
        """Return the vectors (M, width, B) of each column, for codes (M, n_columns, B)."""
        return [torch.gather(weights[_name(j)], 2, index) for j, index in enumerate(self._positions(codes))]

    def backward(self, gradients: Mapping[str, Tensor], codes: Tensor, slope: Tensor) -> None:
        """Write the gradients, given the gradient ``slope`` of all vectors (M, sum of widths, B)."""
        parts = torch.split(slope, self.widths, dim=1)
        for j, (index, part) in enumerate(zip(self._positions(codes), parts, strict=True)):
            gradients[_name(j)].zero_().scatter_add_(2, index, part)

    def _positions(self, codes: Tensor) -> list[Tensor]:
        columns = codes.to(torch.int64).unsqueeze(2).unbind(1)
        return [column.expand(-1, width, -1) for column, width in zip(columns, self.widths, strict=True)]


NO_EMBEDDINGS = Embeddings()


def _name(j: int) -> str:
    return f"embedding_{j}"
