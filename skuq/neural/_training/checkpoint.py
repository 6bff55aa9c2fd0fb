"""Which epoch was the best, judged on rows that the members have not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from skorch.callbacks import Callback
from torch import Tensor

from skuq._typing import FloatArray, IntArray
from skuq.neural._losses import Loss, one_each, variance_of
from skuq.neural._modules.evaluate import rows_at_once
from skuq.neural._modules.stacked import StackedModule
from skuq.neural._training.plan import FitPlan

__all__ = ["KeepBestEpoch"]


class _Hearing(NamedTuple):
    """The rows of all fits that are judged by one score: their numbers, fits, targets and weights."""

    judge: Loss
    rows: Tensor
    fits: Tensor
    y: Tensor
    weight: Tensor


class KeepBestEpoch(Callback):
    """Judge the ensembles every few epochs, and keep the weights of the best.

    Each fit is judged by itself: for each row, mean and variance of the members that have not seen it,
    scored by the fit's own score. Judging each member by itself stops before the mean has been learnt.

    Parameters
    ----------
    plans : sequence of FitPlan
        All fits of the net, in the order of their members.
    data : (Tensor, Tensor)
        Features and targets of all fits, one below the other.
    every : int
        Epochs between two judgements.
    """

    def __init__(self, plans: Sequence[FitPlan], data: tuple[Tensor, Tensor], every: int) -> None:
        self.plans, self.data, self.every = plans, data, every

    def initialize(self) -> KeepBestEpoch:
        """Find out, for each member, which rows it has not seen."""
        device = self.data[0].device
        n_rows = [len(plan.y) for plan in self.plans]
        offsets = np.cumsum([0, *n_rows])
        columns = [
            np.flatnonzero(mask) + offset
            for plan, offset in zip(self.plans, offsets, strict=False)
            for mask in plan.judged().T
        ]
        longest = max(len(column) for column in columns)
        nobody = int(offsets[-1])  # a row below the data takes what is asked for no row
        asked = np.full((len(columns), longest), nobody)
        for member, column in enumerate(columns):
            asked[member, : len(column)] = column
        self._asked = torch.from_numpy(asked).to(device)
        weights = [np.ones(len(p.y)) if p.judge_weight is None else p.judge_weight for p in self.plans]
        voices = np.bincount(asked.ravel(), minlength=nobody + 1)[:-1]
        self._n_voices = torch.as_tensor(voices, dtype=self.data[1].dtype, device=device).clamp(min=1)
        weight = torch.as_tensor(np.concatenate(weights), dtype=self.data[1].dtype, device=device)
        self._hearings = self._who_hears_whom(np.unique(np.concatenate(columns)), n_rows, weight)
        self._total = weight.new_zeros(len(self.plans))
        for hearing in self._hearings:
            self._total.index_add_(0, hearing.fits, hearing.weight)
        sizes = [len(plan.seeds) for plan in self.plans]
        self._owner = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)).to(device)
        self.scores_: list[FloatArray] = []
        self.best_epochs_ = np.zeros(len(sizes), dtype=int)
        self._best_scores = np.full(len(sizes), np.inf)
        self._best: Tensor | None = None
        self._latest = math.nan
        return self

    def _who_hears_whom(self, known: IntArray, n_rows: list[int], weight: Tensor) -> list[_Hearing]:
        """Return, for each score, the rows it is asked for."""
        fit_of_row = np.repeat(np.arange(len(n_rows)), n_rows)[known]
        device = self.data[0].device
        hearings = []
        judges: list[Loss] = []  # no set: a loss of the user's own need not be hashable
        for plan in self.plans:
            if plan.judge is not None and plan.judge not in judges:
                judges.append(plan.judge)
        for judge in judges:
            mine = np.array([plan.judge == judge for plan in self.plans])[fit_of_row]
            rows, fits = (torch.from_numpy(numbers[mine]).to(device) for numbers in (known, fit_of_row))
            hearings.append(_Hearing(judge, rows, fits, self.data[1][rows], weight[rows]))
        return hearings

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Judge, and remember the weights of the fits that are better than ever."""
        epoch = len(net.history)
        scores, better = np.full(len(self.plans), np.nan), np.zeros(len(self.plans), dtype=bool)
        if epoch % self.every == 0 or epoch == net.max_epochs:
            scores = self._judge(net.module_)
            better = scores < self._best_scores
            self._best_scores = np.where(better, scores, self._best_scores)
            self.best_epochs_ = np.where(better, epoch, self.best_epochs_)
            self._remember(net.module_, better)
            known = scores[np.isfinite(scores)]
            self._latest = float(known.mean()) if len(known) else math.inf
        self.scores_.append(scores)
        # In every epoch, for callbacks that read it, such as skorch's EarlyStopping.
        net.history.record("valid_loss", self._latest)
        net.history.record("valid_loss_best", bool(better.any()))

    def _remember(self, module: StackedModule, better: Any) -> None:
        """Copy the weights, and buffers, of the fits that are better."""
        tensors = module.state_dict()
        if self._best is None:
            self._best_state = {name: value.detach().clone() for name, value in tensors.items()}
            self._best = self._best_state["flat"]
            return
        if not better.any():
            return
        members = torch.as_tensor(better, device=self._owner.device)[self._owner]
        for name, value in tensors.items():
            self._best_state[name][members] = value.detach()[members]

    def on_train_end(self, net: Any, **kwargs: Any) -> None:
        """Put the best weights back; a fit that was not judged, or could not be, keeps the last."""
        unjudged = np.isinf(self._best_scores)
        self.best_epochs_[unjudged] = len(self.scores_)
        if self._best is not None:
            self._remember(net.module_, unjudged)
            with torch.no_grad():
                for name, value in net.module_.state_dict().items():
                    value.copy_(self._best_state[name])

    def _judge(self, module: StackedModule) -> FloatArray:
        """Return the score of each fit, infinite where it is no number."""
        X, y = self.data
        module.eval()
        first, second = (y.new_zeros(len(y) + 1) for _ in range(2))
        step = rows_at_once(module.values_a_row * module.n_members)
        with torch.no_grad():
            for asked in torch.split(self._asked, step, dim=1):
                rows = asked.clamp(max=len(y) - 1)
                output = module.forward_members(X[rows].transpose(1, 2))
                loc = output[:, 0]
                square = loc * loc + variance_of(output[:, 1]) if output.shape[1] == 2 else loc * loc
                for total, value in ((first, loc), (second, square)):
                    total.index_add_(0, asked.flatten(), value.flatten())
            loc = first[:-1] / self._n_voices
            variance = (second[:-1] / self._n_voices - loc * loc).clamp(min=1e-8)
            scores = self._scores(loc, variance)
        return np.where(np.isnan(scores), np.inf, scores)

    def _scores(self, loc: Tensor, variance: Tensor) -> FloatArray:
        """Return the mean score of each fit over its known rows, NaN where it is not judged."""
        value = torch.zeros_like(self._total)
        for judge, rows, fits, y, weight in self._hearings:
            score = judge.score(loc[rows], variance[rows], y)
            value.index_add_(0, fits, weight * one_each(judge, score, y))
        scores: FloatArray = (value / self._total).cpu().to(torch.float64).numpy()
        return scores
