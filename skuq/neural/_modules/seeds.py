"""The random generators of each member of a stacked module."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["N_TRAINING_STREAMS", "MemberSeed"]

N_TRAINING_STREAMS = 5
"""Generators of a member in training; children of its seed from this number on are free for other uses."""


@dataclass(frozen=True, eq=False)
class MemberSeed:
    """The generators of one member: its initial weights, its rows, their order, and noise in training.

    ``torch_seed`` seeds torch's own generator, for layers of users that draw from it. ``n_rows`` is the
    total weight of the rows that the member learns from: what a penalty of its module is divided by.
    """

    init: np.random.Generator
    rows: np.random.Generator
    order: np.random.Generator
    noise: np.random.Generator
    torch_seed: int
    n_rows: float = 1.0

    @classmethod
    def spawn(cls, seed: int, n_members: int) -> list[MemberSeed]:
        """Return those of the first members of a fit; more members would leave them as they are."""
        members = []
        for member in np.random.SeedSequence(seed).spawn(n_members):
            init, rows, order, noise, last = (
                np.random.default_rng(child) for child in member.spawn(N_TRAINING_STREAMS)
            )
            members.append(cls(init, rows, order, noise, int(last.integers(1 << 62))))
        return members
