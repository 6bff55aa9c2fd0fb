"""Training rows of each member, and batches of these rows.

The rows and batches of a member do not depend on other members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skuq._typing import BoolArray, IntArray

AUTO_BATCH, _FEW_ROWS_BATCH, _FEW_ROWS = 64, 32, 600
"""Number of rows per batch with ``batch_size="auto"``, and with fewer than `_FEW_ROWS` training rows. With
few rows, an epoch has few steps."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Features (B, M, d), targets (B, M) or (B, M, q), and weights (B, M) or None, of one batch."""

    x: Tensor
    y: Tensor
    weight: Tensor | None

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, eq=False)
class MemberRows:
    """Indices of the training rows of a member, with repetitions, and the generator for their order."""

    drawn: IntArray
    order: np.random.Generator

    def out_of_bag(self, n: int) -> BoolArray:
        """Return the mask (n,) of the rows on which the member is not trained."""
        mask = np.ones(n, dtype=bool)
        mask[self.drawn] = False
        return mask


def batch_shape(n_rows: int, batch_size: int | str) -> tuple[int, int]:
    """Return the number of batches and the number of rows per batch."""
    if isinstance(batch_size, str):
        batch_size = _FEW_ROWS_BATCH if n_rows < _FEW_ROWS else AUTO_BATCH
    # All batches have the same size, because the gradient of a small last batch would be too noisy. Each
    # epoch therefore leaves out a few random rows.
    n_batches = max(1, round(n_rows / batch_size))
    return n_batches, n_rows // n_batches


class MemberBatches:
    """Batches of one epoch from the data of all fits. Each member has its own rows in its own order."""

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
        if self._whole is None:  # the order within a single batch does not matter
            self._whole = next(self._shuffled())
        yield self._whole

    def _shuffled(self) -> Iterator[Batch]:
        members, d = (len(self._rows), self.batch_size), self.X.shape[1]
        by_batch = np.empty((self.n_batches, *members), dtype=np.int64)
        for member, (rows, order) in enumerate(zip(self._rows, self._order, strict=True)):
            order.shuffle(rows)
            used = rows[: self.n_batches * self.batch_size]
            by_batch[:, member] = used.reshape(self.n_batches, self.batch_size)
        plan = torch.from_numpy(by_batch).to(self.X.device)
        for flat in plan.view(self.n_batches, -1):
            # matrix products are fastest if the members are the first dimension in memory
            x = self.X.index_select(0, flat).view(*members, d)
            y = self.y.index_select(0, flat).view(*members, *self.y.shape[1:])
            weight = None if self.weight is None else self.weight.index_select(0, flat).view(members).T
            yield Batch(x.transpose(0, 1), y.transpose(0, 1), weight)
