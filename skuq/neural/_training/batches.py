"""The rows that each member is trained on, and their order, gathered by index.

Nothing here depends on how many other members there are, so that member k is the same in any ensemble.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skuq._typing import BoolArray, IntArray

__all__ = ["Batch", "MemberBatches", "MemberRows", "batch_shape"]


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch: features (B, M, d), targets (B, M) and weights (B, M) or None."""

    x: Tensor
    y: Tensor
    weight: Tensor | None

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, eq=False)
class MemberRows:
    """The rows of one fit that a member is trained on.

    Attributes
    ----------
    drawn : ndarray of shape (n_draws,)
        Row numbers, with repetitions where they are drawn.
    order : numpy.random.Generator
        Shuffles them in each epoch.
    """

    drawn: IntArray
    order: np.random.Generator

    def out_of_bag(self, n: int) -> BoolArray:
        """Return which of the fit's n rows the member is not trained on."""
        mask = np.ones(n, dtype=bool)
        mask[self.drawn] = False
        return mask


def batch_shape(n_rows: int, batch_size: int) -> tuple[int, int]:
    """Return how many batches an epoch has and how many rows each.

    All batches are equally large, so that none of one or two rows takes a wild step; the few rows that
    are left over are not used in the epoch, others in each.
    """
    n_batches = max(1, round(n_rows / batch_size))
    return n_batches, n_rows // n_batches


class MemberBatches:
    """Iterates over the batches of one epoch; each member has its own rows and order.

    Parameters
    ----------
    X : Tensor of shape (N, d)
        Standardised features of all fits, one below the other.
    y : Tensor of shape (N,)
        Standardised targets.
    weight : Tensor of shape (N,) or None
        Weights in the loss.
    members : sequence of MemberRows
        Rows of all members, as row numbers of X.
    shape : (int, int)
        Number of batches and rows a batch; see `batch_shape`.
    """

    def __init__(
        self,
        X: Tensor,
        y: Tensor,
        weight: Tensor | None,
        members: Sequence[MemberRows],
        shape: tuple[int, int],
    ) -> None:
        self.X, self.y, self.weight = X, y, weight
        self.n_batches, self.batch_size = shape
        self._order = [member.order for member in members]
        self._rows = [member.drawn.copy() for member in members]
        self._whole: Batch | None = None

    def __len__(self) -> int:
        return self.n_batches

    def __iter__(self) -> Iterator[Batch]:
        if self.n_batches > 1:
            yield from self._shuffled()
            return
        if self._whole is None:  # all rows in one batch are the same in any order, and so in each epoch
            self._whole = next(self._shuffled())
        yield self._whole

    def _shuffled(self) -> Iterator[Batch]:
        n_members, d = len(self._rows), self.X.shape[1]
        plan_shape = (self.n_batches, n_members, self.batch_size)
        by_batch = np.empty(plan_shape, dtype=np.int64)
        for member, (rows, order) in enumerate(zip(self._rows, self._order, strict=True)):
            order.shuffle(rows)
            used = rows[: self.n_batches * self.batch_size]
            by_batch[:, member] = used.reshape(self.n_batches, self.batch_size)
        plan = torch.from_numpy(by_batch).to(self.X.device)
        for flat in plan.view(self.n_batches, -1):
            # Members first in memory, as the matrix products need it; rows first in the shape.
            x = self.X.index_select(0, flat).view(n_members, self.batch_size, d)
            y = self.y.index_select(0, flat).view(n_members, self.batch_size)
            weight = None if self.weight is None else self.weight.index_select(0, flat).view_as(y).T
            yield Batch(x.transpose(0, 1), y.T, weight)
