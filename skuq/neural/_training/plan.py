"""Options and specification of a training, and the plan of one fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skuq._fitting.training_data import TrainingData
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import check_integer, check_number, check_option
from skuq.neural._modules.architecture import Architecture
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._training.batches import AUTO_BATCH, MemberRows, batch_shape
from skuq.neural._training.scaling import Standardizer
from skuq.neural._training_loss import TrainingLoss

AUTO_EPOCHS = (8000, 40, 200)
"""Number of steps, smallest number of epochs and largest number of epochs for ``max_epochs="auto"``."""

LONG_TRAINING = (6000, 40, 1000)
"""Number of steps, smallest number of epochs and largest number of epochs of long trainings.

Trainings with random noise, such as dropout, and without selection of the epoch are long, because they need
as many steps for few rows as for many rows. With dropout on the 277 rows of the yacht data, the errors after
200 epochs were 1.4 times as large as the errors after 6000 steps.
"""

_MOST_EPOCHS = 1000
"""Maximum number of epochs of a second training after `AUTO_EPOCHS`."""

_STILL_IMPROVING = 0.95
"""If the best epoch is after this share of the epochs, a longer training may be better."""

PATIENCE = 2
"""A training with `AUTO_EPOCHS` ends after this multiple of its best epoch. For noisy targets, the best epoch
is often early."""

_N_FOLDS = 4
"""Number of folds of `plan_folds`. With 20 members, each row is left out by 5 members, which is enough to
estimate their spread."""


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a training. Fits with equal options may be trained together."""

    architecture: Architecture
    batch_size: int | str = 32
    max_epochs: int | str = "auto"
    auto_epochs: tuple[int, int, int] = AUTO_EPOCHS
    further_epochs: int = 0
    patience: float | None = None
    lr_schedule: str = "cosine"
    clip_norm: float | None = 5.0
    score_every: int = 2
    device: str = "auto"
    dtype: str = "float32"
    callbacks: Any = None
    net_params: Any = None
    verbose: int = 0

    def epochs(self, n_batches: int) -> int:
        if self.max_epochs == "auto":
            steps, fewest, most = self.auto_epochs
            return int(np.clip(-(-steps // n_batches), fewest, most)) + self.further_epochs
        if isinstance(self.max_epochs, str):
            raise ValueError(f"`max_epochs` must be 'auto' or a positive integer, got {self.max_epochs!r}.")
        return check_integer(self.max_epochs, "max_epochs") + self.further_epochs

    def longer(self, n_batches: int, best_epoch: int) -> TrainingOptions | None:
        # Targets without noise need more steps than targets with noise. If there are few rows, the largest
        # number of epochs of "auto" gives too few steps for such targets.
        # Such targets do not need small batches, whose purpose is to have more steps in 200 epochs.
        steps, fewest, most = self.auto_epochs
        size = AUTO_BATCH if self.batch_size == "auto" else self.batch_size
        more = replace(self, batch_size=size, auto_epochs=(steps, fewest, max(_MOST_EPOCHS, most)))
        epochs = self.epochs(n_batches)
        improving = best_epoch > _STILL_IMPROVING * epochs
        return more if improving and more.epochs(n_batches) > epochs else None


@dataclass(frozen=True)
class TrainingSpec:
    """Specification of the training of an estimator. It does not depend on the data."""

    # With `bootstrap`, epochs are scored on out-of-bag rows, otherwise on held-out rows. `draw_rows` replaces
    # the draws with replacement. If `counts_rows`, weights must be numbers of repetitions.

    loss: TrainingLoss
    learning_rate: float
    selection_score: TrainingLoss | None = None
    n_members: int = 1
    bootstrap: bool = False
    draw_rows: Callable[[Sequence[MemberSeed], IntArray], list[MemberRows]] | None = None
    counts_rows: bool = False

    def __post_init__(self) -> None:
        check_number(self.learning_rate, "learning_rate", positive=True)

    def plan(
        self,
        data: TrainingData,
        scaler: Standardizer,
        held_out: BoolArray,
        seed: int,
        row_factor: FloatArray | None = None,
    ) -> FitPlan:
        """Return the plan of one fit.

        The factor ``row_factor`` (n,) multiplies losses and scores, like weights.
        """
        weight, rows = data.sample_weight, rows_with_weight(~held_out, data)
        n_rows = float(len(rows) if weight is None else weight[rows].sum())
        if row_factor is not None:
            weight = data.repetitions * row_factor
        seeds = [replace(one, n_rows=n_rows) for one in MemberSeed.spawn(seed, self.n_members)]
        draw = self.draw_rows
        return FitPlan(
            X=scaler.features(data.X),
            y=scaler.target(data.y),
            seeds=seeds,
            rows=draw(seeds, rows) if draw else plan_members(seeds, rows, bootstrap=self.bootstrap),
            seed=seed,
            loss=self.loss,
            learning_rate=self.learning_rate,
            weight=None if weight is None else weight / weight[rows].mean(),
            selection_score=self.selection_score,
            selection_mask=~held_out if self.bootstrap else held_out,
            held_out=held_out,
            score_weight=weight,
        )


@dataclass(frozen=True, eq=False)
class FitPlan:
    """Standardized data of one fit, and the training rows of each member."""

    # `selection_mask` (n,) marks the rows that may score epochs; None marks all rows. A row scores only
    # members that are not trained on it.

    X: FloatArray
    y: FloatArray
    seeds: list[MemberSeed]
    rows: list[MemberRows]
    held_out: BoolArray  # rows on which no member may be trained, shape (n,)
    seed: int
    loss: TrainingLoss
    learning_rate: float
    weight: FloatArray | None = None  # in the loss; mean 1 over the training rows, shape (n,)
    selection_score: TrainingLoss | None = None
    selection_mask: BoolArray | None = None
    score_weight: FloatArray | None = None  # in the score, shape (n,)

    def batch_shape(self, batch_size: int | str) -> tuple[int, int]:
        return batch_shape(len(self.rows[0].drawn), batch_size)

    def out_of_bag(self) -> BoolArray:
        """Return the mask (n, M) of the rows on which each member is not trained."""
        return np.column_stack([rows.out_of_bag(len(self.y)) for rows in self.rows])

    def scored_rows(self) -> BoolArray:
        """Return a mask of shape (n, M): the rows on which the epochs of each member are scored."""
        mask = self.selection_mask
        return self.out_of_bag() if mask is None else self.out_of_bag() & mask[:, np.newaxis]


def resolve_learning_rate(rate: Any, auto: float) -> Any:
    """Return ``auto`` if ``rate`` is "auto", and ``rate`` otherwise. A later step checks numbers."""
    if isinstance(rate, str):
        check_option(rate, "learning_rate", ("auto",))
        return auto
    return rate


def plan_members(seeds: Sequence[MemberSeed], rows: IntArray, *, bootstrap: bool) -> list[MemberRows]:
    # The draws ignore weights, because rows with a large weight must also be out of bag for some members.
    return [
        MemberRows(rows[seed.rows.integers(len(rows), size=len(rows))] if bootstrap else rows, seed.order)
        for seed in seeds
    ]


def plan_folds(seeds: Sequence[MemberSeed], rows: IntArray) -> list[MemberRows]:
    """Return the rows outside one of four random folds for each member."""
    # Each group of four members has its own folds. All members have the same number of rows, which is the
    # number of rows outside the largest fold.
    k = min(_N_FOLDS, len(rows))
    if k < 2:
        return plan_members(seeds, rows, bootstrap=False)
    n_kept, plans = len(rows) - -(-len(rows) // k), []
    for member, seed in enumerate(seeds):
        fold = member % k
        if fold == 0:
            folds = np.array_split(seed.rows.permutation(rows), k)
        plans.append(MemberRows(np.concatenate(folds[:fold] + folds[fold + 1 :])[:n_kept], seed.order))
    return plans


def plan_pairs(seeds: Sequence[MemberSeed], rows: IntArray) -> list[MemberRows]:
    """Return bootstrap rows for pairs of successive members.

    Both members of a pair have the same rows in different orders.
    """
    drawn = [bag.drawn for bag in plan_members(seeds[::2], rows, bootstrap=True)]
    return [MemberRows(drawn[member // 2], seed.order) for member, seed in enumerate(seeds)]


def rows_with_weight(mask: BoolArray, data: TrainingData) -> IntArray:
    return np.flatnonzero(mask if data.sample_weight is None else mask & (data.sample_weight > 0))
