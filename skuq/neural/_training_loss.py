"""Base class of the training losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor


class TrainingLoss(ABC):
    """Loss of network outputs. For each member, the training minimizes the mean loss over rows.

    Attributes
    ----------
    n_outputs : int
        Number of outputs of the network.
    target : {"number", "class"}
        Kind of the target.
    """

    target: ClassVar[str]

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Return the number of outputs of the network."""

    @abstractmethod
    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the losses (...) of network outputs (..., k) for targets (...)."""

    def with_gradient(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and its derivative with respect to the outputs.

        Parameters
        ----------
        output : Tensor of shape (..., k)
            Outputs of the network.
        y : Tensor of shape (...)
            Targets.

        Returns
        -------
        loss : Tensor of shape (...)
            Values of the loss.
        gradient : Tensor of shape (..., k)
            Derivative of each value with respect to the outputs.
        """
        leaf = output.detach().requires_grad_()
        loss = check_per_row(self, self(leaf, y), y)
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        return loss.detach(), gradient

    @abstractmethod
    def averaged_parts(self, output: Tensor) -> Sequence[Tensor]:
        """Return the quantities whose means over members define the averaged forecast.

        Parameters
        ----------
        output : Tensor of shape (M, k, B)
            Outputs of M members for B rows.

        Returns
        -------
        parts : sequence of Tensor of shape (M, B)
            The number of parts is the same for all losses with the same ``target`` and ``n_outputs``.
        """

    @abstractmethod
    def score_average(self, parts: Sequence[Tensor], y: Tensor) -> Tensor:
        """Return the score of the averaged forecast of each row.

        The smaller the better.

        Parameters
        ----------
        parts : sequence of Tensor of shape (B,)
            Means of `averaged_parts` over the members.
        y : Tensor of shape (B,)
            Targets.

        Returns
        -------
        score : Tensor of shape (B,)
            Scores.
        """


def check_per_row(loss: TrainingLoss, values: Tensor, y: Tensor) -> Tensor:
    if values.shape == y.shape:
        return values
    raise ValueError(
        f"`score` of {type(loss).__name__} must return one value for each target, of shape {tuple(y.shape)}, "
        f"got {tuple(values.shape)}. Do not average over rows."
    )
