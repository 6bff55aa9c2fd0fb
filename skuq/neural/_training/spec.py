"""What an estimator trains, from its checked parameters; with data, the plan of one fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skuq._typing import BoolArray, IntArray
from skuq._validation import check_number
from skuq.neural._losses import Loss
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._training.batches import MemberRows
from skuq.neural._training.plan import FitPlan, plan_members
from skuq.neural._training.scaling import Standardiser
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["Recipe", "counted"]


@dataclass(frozen=True)
class Recipe:
    """What is trained, whatever the data.

    Attributes
    ----------
    loss : Loss
        What the members are trained by.
    learning_rate : float
        At the first epoch; checked here.
    judge : Loss or None
        The score by which the best epoch is chosen; None keeps the last.
    n_members : int
        Number of networks.
    bootstrap : bool
        Whether members draw their rows. Epochs are then judged by the rows that they left out, else by
        those that are held out of training.
    draw : callable or None
        ``draw(seeds, rows)`` returns the rows of each member, where they are drawn in another way than by
        `plan_members`.
    counts_rows : bool
        Whether training itself needs the number of rows, so that weights must count repetitions.
    """

    loss: Loss
    learning_rate: float
    judge: Loss | None = None
    n_members: int = 1
    bootstrap: bool = False
    draw: Callable[[Sequence[MemberSeed], IntArray], list[MemberRows]] | None = None
    counts_rows: bool = False

    def __post_init__(self) -> None:
        check_number(self.learning_rate, "learning_rate", positive=True)

    def plan(self, data: TrainingData, scaler: Standardiser, held_out: BoolArray, seed: int) -> FitPlan:
        """Return the plan of one fit, on the rows that are not held out."""
        weight, rows = data.sample_weight, counted(~held_out, data)
        n_rows = float(len(rows) if weight is None else weight[rows].sum())
        seeds = [replace(one, n_rows=n_rows) for one in MemberSeed.spawn(seed, self.n_members)]
        drawn = self.draw(seeds, rows) if self.draw else plan_members(seeds, rows, bootstrap=self.bootstrap)
        return FitPlan(
            X=scaler.features(data.X),
            y=scaler.target(data.y),
            seeds=seeds,
            rows=drawn,
            seed=seed,
            loss=self.loss,
            learning_rate=self.learning_rate,
            weight=None if weight is None else weight / weight[rows].mean(),
            judge=self.judge,
            judging=~held_out if self.bootstrap else held_out,
            held_out=held_out,
            judge_weight=weight,
        )


def counted(mask: BoolArray, data: TrainingData) -> IntArray:
    """Return the numbers of the rows of a mask; one of weight 0 is as if it were not there."""
    return np.flatnonzero(mask if data.sample_weight is None else mask & (data.sample_weight > 0))
