"""What is to be trained: the data of one fit, its members, and what they have in common with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import check_integer
from skuq.neural._losses import Loss
from skuq.neural._modules.architecture import Architecture
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._training.batches import MemberRows, batch_shape

__all__ = [
    "AUTO_EPOCHS",
    "LONG_TRAINING",
    "FitPlan",
    "TrainingOptions",
    "plan_members",
]

AUTO_EPOCHS = (8000, 40, 200)
"""What ``max_epochs="auto"`` stands for: steps of training, and the fewest and most epochs."""

LONG_TRAINING = (6000, 40, 1000)
"""The same where no rows say when to stop, or where training is noisy. There, a few rows need as many steps
as many: with dropout, after 200 epochs on the 277 rows of the yachts, errors were 1.4 times as large as after
6000 steps."""


@dataclass(frozen=True)
class TrainingOptions:
    """How networks are trained; fits with equal options may be trained together."""

    architecture: Architecture
    batch_size: int = 32
    max_epochs: int | str = "auto"
    auto_epochs: tuple[int, int, int] = AUTO_EPOCHS
    further_epochs: int = 0
    lr_schedule: str = "cosine"
    clip_norm: float | None = 5.0
    judge_every: int = 2
    device: str = "auto"
    dtype: str = "float32"
    callbacks: Any = None
    net_params: Any = None
    verbose: int = 0

    def epochs(self, n_batches: int) -> int:
        """Return the number of epochs; "auto" is so many steps, within the bounds of `auto_epochs`."""
        if self.max_epochs == "auto":
            steps, fewest, most = self.auto_epochs
            return int(np.clip(-(-steps // n_batches), fewest, most)) + self.further_epochs
        if isinstance(self.max_epochs, str):
            raise ValueError(f"`max_epochs` must be 'auto' or a positive integer, got {self.max_epochs!r}.")
        return check_integer(self.max_epochs, "max_epochs") + self.further_epochs


@dataclass(frozen=True, eq=False)
class FitPlan:
    """One fit: standardised data, and who learns from which rows of it.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Standardised features.
    y : ndarray of shape (n,)
        Standardised target.
    seeds : list of MemberSeed
        One a member.
    rows : list of MemberRows
        One a member, all with equally many rows.
    held_out : ndarray of bool of shape (n,)
        Which rows are kept from all members.
    seed : int
        What ``seeds`` were spawned from.
    loss : Loss
        What the members are trained by.
    learning_rate : float
        At the first epoch.
    weight : ndarray of shape (n,) or None
        Weights in the loss, of mean 1 over the rows that are trained on.
    judge : Loss or None
        The score by which the best epoch is chosen, on rows that members have not seen; None keeps the
        last epoch.
    judging : ndarray of bool of shape (n,) or None
        Which rows epochs may be judged by, where members have not seen them; None is all.
    judge_weight : ndarray of shape (n,) or None
        Weights of the rows in the score.
    """

    X: FloatArray
    y: FloatArray
    seeds: list[MemberSeed]
    rows: list[MemberRows]
    held_out: BoolArray
    seed: int
    loss: Loss
    learning_rate: float
    weight: FloatArray | None = None
    judge: Loss | None = None
    judging: BoolArray | None = None
    judge_weight: FloatArray | None = None

    def batch_shape(self, batch_size: int) -> tuple[int, int]:
        """Return the number of batches in an epoch, and the rows of each."""
        return batch_shape(len(self.rows[0].drawn), batch_size)

    def unseen(self) -> BoolArray:
        """Say which rows each member is not trained on, shape (n, M)."""
        return np.column_stack([rows.unseen(len(self.y)) for rows in self.rows])

    def judged(self) -> BoolArray:
        """Say which rows each member may be judged by, shape (n, M)."""
        return self.unseen() if self.judging is None else self.unseen() & self.judging[:, np.newaxis]


def plan_members(seeds: Sequence[MemberSeed], rows: IntArray, *, bootstrap: bool) -> list[MemberRows]:
    """Return each member's rows: as many as there are, drawn with replacement, or all of them.

    Weights play no part: they are for the losses. Drawn by its weight, a heavy row would hardly ever be
    left out, and nothing could be judged by it.
    """
    return [
        MemberRows(rows[seed.rows.integers(len(rows), size=len(rows))] if bootstrap else rows, seed.order)
        for seed in seeds
    ]
