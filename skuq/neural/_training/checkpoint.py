"""Callback that keeps the weights of the best epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from skorch.callbacks import Callback
from torch import Tensor

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.neural._modules.evaluate import rows_at_once
from skuq.neural._modules.stacked import StackedModule
from skuq.neural._training.plan import FitPlan
from skuq.neural._training_loss import TrainingLoss


class ScoringRows(NamedTuple):
    """Scored rows of all fits: row number, fit, target and weight of each row."""

    score: TrainingLoss
    rows: Tensor
    fits: Tensor
    y: Tensor
    weight: Tensor


class KeepBestEpoch(Callback):
    """Callback that scores each fit every few epochs and keeps the weights of its best epoch."""

    # The score of a row is the score of the averaged forecast of the members that are not trained on this
    # row. The scores of individual members are often best before the mean is learned. `data`
    # contains the features and targets of all fits in the order of `plans`. With `patience`, a fit ends at
    # this multiple of its best epoch, but not before `fewest` epochs. The weights of a fit that has ended no
    # longer change. The training ends when all fits have ended.

    def __init__(
        self,
        plans: Sequence[FitPlan],
        data: tuple[Tensor, Tensor],
        every: int,
        patience: float | None = None,
        fewest: int = 0,
    ) -> None:
        self.plans, self.data, self.every = plans, data, every
        self.patience, self.fewest = np.inf if patience is None else patience, fewest

    def initialize(self) -> KeepBestEpoch:
        """Find the rows on which each member is scored, and the rows of each score."""
        y = self.data[1]
        sizes = [len(plan.seeds) for plan in self.plans]
        rows_of_members = self._rows_of_members()
        self._member_rows = self._as_matrix(rows_of_members)
        weights = [np.ones(len(p.y)) if p.score_weight is None else p.score_weight for p in self.plans]
        weight = torch.as_tensor(np.concatenate(weights), dtype=y.dtype, device=y.device)
        self._scoring_rows = self._rows_by_score(np.unique(np.concatenate(rows_of_members)), weight)
        self._total_weight = weight.new_zeros(len(self.plans))
        for group in self._scoring_rows:
            self._total_weight.index_add_(0, group.fits, group.weight)
        self._fit_of_member = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self._fit_of_member = self._fit_of_member.to(y.device)
        self.scores_: list[FloatArray] = []
        self.best_epochs_ = np.zeros(len(sizes), dtype=int)
        self.n_epochs_ = np.zeros(len(sizes), dtype=int)
        self._running = np.ones(len(sizes), dtype=bool)
        self._best_scores = np.full(len(sizes), np.inf)
        self._best_state: dict[str, Tensor] = {}
        self._latest = math.nan
        return self

    def _rows_of_members(self) -> list[IntArray]:
        offsets = np.cumsum([0, *(len(plan.y) for plan in self.plans)])
        return [
            np.flatnonzero(mask) + offset
            for plan, offset in zip(self.plans, offsets, strict=False)
            for mask in plan.scored_rows().T
        ]

    def _as_matrix(self, rows_of_members: list[IntArray]) -> Tensor:
        y = self.data[1]
        padding_row = len(y)  # sums for this row are not used
        longest = max(len(rows) for rows in rows_of_members)
        matrix = np.full((len(rows_of_members), longest), padding_row)
        for member, rows in enumerate(rows_of_members):
            matrix[member, : len(rows)] = rows
        counts = np.bincount(matrix.ravel(), minlength=padding_row + 1)[:-1]
        # the sums of rows without members are divided by 1
        self._n_members_per_row = torch.as_tensor(counts, dtype=y.dtype, device=y.device).clamp(min=1)
        return torch.from_numpy(matrix).to(y.device)

    def _rows_by_score(self, scored: IntArray, weight: Tensor) -> list[ScoringRows]:
        fit_of_row = np.repeat(np.arange(len(self.plans)), [len(plan.y) for plan in self.plans])[scored]
        device = self.data[0].device
        scores: list[TrainingLoss] = []  # a list, because losses of users may not be hashable
        for plan in self.plans:
            if plan.selection_score is not None and plan.selection_score not in scores:
                scores.append(plan.selection_score)
        groups = []
        for score in scores:
            mine = np.array([plan.selection_score == score for plan in self.plans])[fit_of_row]
            rows, fits = (torch.from_numpy(numbers[mine]).to(device) for numbers in (scored, fit_of_row))
            groups.append(ScoringRows(score, rows, fits, self.data[1][rows], weight[rows]))
        return groups

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Score the fits, and copy the weights of each fit that has improved."""
        epoch = len(net.history)
        scores, better = np.full(len(self.plans), np.nan), np.zeros(len(self.plans), dtype=bool)
        if epoch % self.every == 0 or epoch == net.max_epochs:
            scores = self._score(net.module_)
            better = self._running & (scores < self._best_scores)
            # NaN and infinite scores are never better
            self._best_scores = np.where(better, scores, self._best_scores)
            self.best_epochs_ = np.where(better, epoch, self.best_epochs_)
            self._copy_state(net.module_, better)
            finite = scores[np.isfinite(scores)]
            self._latest = float(finite.mean()) if len(finite) else math.inf
        self.scores_.append(scores)
        self.n_epochs_[self._running] = epoch
        last = np.maximum(
            self.fewest, self.patience * np.where(self.best_epochs_ > 0, self.best_epochs_, np.inf)
        )
        self._running &= epoch < last
        # callbacks such as skorch's EarlyStopping expect a value in every epoch
        net.history.record("valid_loss", self._latest)
        net.history.record("valid_loss_best", bool(better.any()))

    @property
    def has_ended(self) -> bool:
        """Return whether no fit needs further epochs."""
        return not self._running.any()

    def _copy_state(self, module: StackedModule, fits: BoolArray) -> None:
        """Copy the weights and buffers of the members of the given fits."""
        tensors = module.state_dict()
        if not self._best_state:
            # the first copy contains all fits; later copies overwrite parts of it
            self._best_state = {name: value.detach().clone() for name, value in tensors.items()}
            return
        if not fits.any():
            return
        members = torch.as_tensor(fits, device=self._fit_of_member.device)[self._fit_of_member]
        for name, value in tensors.items():
            self._best_state[name][members] = value.detach()[members]

    def on_train_end(self, net: Any, **kwargs: Any) -> None:
        """Restore the best weights. A fit without a finite score keeps its last weights."""
        unscored = np.isinf(self._best_scores)
        self.best_epochs_[unscored] = len(self.scores_)
        if self._best_state:
            self._copy_state(net.module_, unscored)
            with torch.no_grad():
                for name, value in net.module_.state_dict().items():
                    value.copy_(self._best_state[name])

    def _score(self, module: StackedModule) -> FloatArray:
        """Return the score of each fit. NaN is replaced by infinity."""
        X, y = self.data
        module.eval()
        # sums over the members of each row; the last entry belongs to the padding row
        totals: list[Tensor] = []
        step = rows_at_once(module.values_a_row * module.n_members)
        with torch.no_grad():
            for member_rows in torch.split(self._member_rows, step, dim=1):
                rows = member_rows.clamp(max=len(y) - 1)  # the padding row uses the features of the last row
                output = module.forward_members(X[rows].transpose(1, 2))
                # all scores of one net need the same parts
                parts = self._scoring_rows[0].score.averaged_parts(output)
                totals = totals or [y.new_zeros(len(y) + 1) for _ in parts]
                for total, part in zip(totals, parts, strict=True):
                    total.index_add_(0, member_rows.flatten(), part.flatten())
            scores = self._mean_scores([total[:-1] / self._n_members_per_row for total in totals])
        return np.where(np.isnan(scores), np.inf, scores)

    def _mean_scores(self, averages: Sequence[Tensor]) -> FloatArray:
        """Return the mean score of each fit over its scored rows. It is NaN if there are no such rows."""
        value = torch.zeros_like(self._total_weight)
        for score, rows, fits, y, weight in self._scoring_rows:
            row_scores = score.score_average([average[rows] for average in averages], y)
            value.index_add_(0, fits, weight * row_scores)
        scores: FloatArray = (value / self._total_weight).cpu().to(torch.float64).numpy()
        return scores


class EndTraining(Callback):
    """Callback that ends the training when `KeepBestEpoch` needs no further epochs."""

    def __init__(self, keeper: KeepBestEpoch) -> None:
        self.keeper = keeper

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Raise the exception with which callbacks of skorch end a training."""
        if self.keeper.has_ended:
            raise KeyboardInterrupt
