"""Cross-entropy loss of classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from skuq.neural._training_loss import TrainingLoss


@dataclass(frozen=True)
class CrossEntropyLoss(TrainingLoss):
    """Cross-entropy of the softmax of the outputs. The targets are the codes 0 to K - 1 of the classes."""

    n_classes: int
    target: ClassVar[str] = "class"

    @property
    def n_outputs(self) -> int:
        return self.n_classes

    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        log_proba = torch.log_softmax(output, dim=-1)
        return -log_proba.gather(-1, y.long().unsqueeze(-1)).squeeze(-1)

    def with_gradient(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        # (M, K, B) is the memory layout of the networks and of the backward pass
        logits, codes = output.detach().movedim(0, -1), y.movedim(0, -1).long().unsqueeze(-2)
        log_proba = torch.log_softmax(logits, dim=-2)
        loss = -log_proba.gather(-2, codes).squeeze(-2)
        # the gradient is the probabilities minus the one-hot encoded target
        gradient = log_proba.exp_()
        gradient.scatter_add_(-2, codes, gradient.new_full((), -1.0).expand(codes.shape))
        return loss.movedim(-1, 0), gradient.movedim(-1, 0)

    def averaged_parts(self, output: Tensor) -> Sequence[Tensor]:
        return torch.softmax(output, dim=1).unbind(dim=1)

    def score_average(self, parts: Sequence[Tensor], y: Tensor) -> Tensor:
        proba = torch.stack(list(parts)).gather(0, y.long().unsqueeze(0)).squeeze(0)
        return -proba.clamp(min=torch.finfo(proba.dtype).tiny).log()
