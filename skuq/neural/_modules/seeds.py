"""Random generators of the members of a stacked module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

N_TRAINING_STREAMS = 5
"""Number of random generators of a member for its training. Other generators are used outside training."""


@dataclass(frozen=True, eq=False)
class MemberSeed:
    """Random generators of one member."""

    # `torch_seed` seeds the generator of torch, which layers of the user may use. `n_rows` is the total
    # weight of the training rows, by which the penalty of a module is divided.

    init: np.random.Generator
    rows: np.random.Generator
    order: np.random.Generator
    noise: np.random.Generator
    torch_seed: int
    n_rows: float = 1.0

    @classmethod
    def spawn(cls, seed: int, n_members: int) -> list[MemberSeed]:
        """Return the seeds of the members. The seed of a member does not depend on the number of members."""
        members = []
        for member in np.random.SeedSequence(seed).spawn(n_members):
            init, rows, order, noise, last = (
                np.random.default_rng(child) for child in member.spawn(N_TRAINING_STREAMS)
            )
            members.append(cls(init, rows, order, noise, int(last.integers(1 << 62))))
        return members


class TrainingDraws:
    """Random numbers of the training. Each member has its own generator."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self._generators = generators

    def uniform(self, x: Tensor) -> Tensor:
        """Return uniform numbers in [0, 1) with the shape (M, H, B) of x."""
        drawn = [rng.random(x.shape[1:], dtype=np.float32) for rng in self._generators]
        return torch.from_numpy(np.stack(drawn)).to(device=x.device, dtype=x.dtype)

    def normal(self, n_units: int, x: Tensor) -> Tensor:
        """Return standard normal numbers (M, n_units, B) for the B rows of x."""
        kind: Any = np.float64 if x.dtype == torch.float64 else np.float32
        drawn = [rng.standard_normal((n_units, x.shape[2]), kind) for rng in self._generators]
        return torch.from_numpy(np.stack(drawn)).to(x.device)
