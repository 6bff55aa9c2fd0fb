"""Base class of the training losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor


class TrainingLoss(ABC):
    """Loss of network outputs, minimized on average over rows for each member."""

    target: ClassVar[str]  # "number" or "class"

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Number of outputs of the network."""

    @abstractmethod
    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the loss (...) for outputs (..., k) of the network at targets (...)."""

    def with_gradient(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss (...) and its derivative (..., k) with respect to the outputs."""
        leaf = output.detach().requires_grad_()
        loss = check_per_row(self, self(leaf, y), y)
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        return loss.detach(), gradient

    @abstractmethod
    def averaged_parts(self, output: Tensor) -> Sequence[Tensor]:
        """Return the quantities (M, B) whose means over members define the average forecast.

        ``output`` has shape (M, k, B), for M members and B rows. All losses with the same ``target`` and
        ``n_outputs`` have the same number of parts.
        """

    @abstractmethod
    def score_average(self, parts: Sequence[Tensor], y: Tensor) -> Tensor:
        """Return the score (B,) of each row's average forecast, from the means of `averaged_parts`."""


def check_per_row(loss: TrainingLoss, values: Tensor, y: Tensor) -> Tensor:
    """Return the values of a loss after checking that there is one per target."""
    if values.shape == y.shape:
        return values
    raise ValueError(
        f"`score` of {type(loss).__name__} must return one value for each target, of shape {tuple(y.shape)}, "
        f"got {tuple(values.shape)}. Do not average over rows."
    )
