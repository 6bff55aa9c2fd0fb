"""Training loss for several targets: the sum of the losses of the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from skuq.neural._losses import Loss, variance_of
from skuq.neural._training_loss import TrainingLoss


@dataclass(frozen=True)
class JointLoss(TrainingLoss):
    """Sum of the losses of all targets. The forecast of a target is conditional on all earlier targets.

    With the negative log-likelihood, the sum is the negative log-likelihood of the multivariate normal
    distribution.
    """

    # A network has three blocks of outputs: the means, the raw variances, and the coefficients below the
    # diagonal of the matrix B. Given the targets before j, target j has the mean m_j + sum_k B_jk (y_k - m_k)
    # and the variance v_j. The covariance matrix is L L' with the Cholesky factor L = (I - B)^-1
    # diag(v)^(1/2).

    loss: Loss
    n_targets: int
    target: ClassVar[str] = "number"

    @property
    def n_outputs(self) -> int:
        return self.n_targets * (self.n_targets + 3) // 2

    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        loc, raw, coefficients = split_output(output, self.n_targets)
        given = loc + _product(coefficients, y - loc)
        return self.loss(torch.stack([given, raw], dim=-1), y).sum(dim=-1)

    def with_gradient(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        loc, raw, coefficients = split_output(output.detach(), self.n_targets)
        residual = y - loc
        given = loc + _product(coefficients, residual)
        values, slope = self.loss.with_gradient(torch.stack([given, raw], dim=-1), y)
        by_given, by_raw = slope.unbind(-1)
        row, column = _below_diagonal(self.n_targets)
        by_loc = by_given - _product(coefficients.mT, by_given)
        by_coefficients = by_given[..., row] * residual[..., column]
        return values.sum(dim=-1), torch.cat([by_loc, by_raw, by_coefficients], dim=-1)

    def averaged_parts(self, output: Tensor) -> Sequence[Tensor]:
        loc, factor = normal_parameters(output.movedim(1, -1), self.n_targets)
        square = factor @ factor.mT + loc.unsqueeze(-1) * loc.unsqueeze(-2)
        row, column = torch.tril_indices(self.n_targets, self.n_targets)
        return *loc.unbind(-1), *square[..., row, column].unbind(-1)

    def score_average(self, parts: Sequence[Tensor], y: Tensor) -> Tensor:
        # The average forecast is the normal distribution with the mean and covariance of the mixture.
        d = self.n_targets
        loc = torch.stack(list(parts[:d]), dim=-1).double()
        square = torch.stack(list(parts[d:]), dim=-1).double()
        row, column = torch.tril_indices(d, d)
        covariance = square.new_zeros(*square.shape[:-1], d, d)
        covariance[..., row, column] = square - loc[..., row] * loc[..., column]
        factor, failed = torch.linalg.cholesky_ex(covariance)
        residual = (y - loc).unsqueeze(-1)
        scale = factor.diagonal(dim1=-2, dim2=-1)
        z = torch.linalg.solve_triangular(factor, residual, upper=False).squeeze(-1)
        score = self.loss.score(y - scale * z, scale * scale, y.double()).sum(dim=-1)
        return torch.where(failed > 0, torch.inf, score).to(y.dtype)


def split_output(output: Tensor, d: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return means (..., d), raw variances (..., d) and coefficients (..., d, d) of outputs."""
    loc, raw, below = torch.split(output, [d, d, d * (d - 1) // 2], dim=-1)
    coefficients = output.new_zeros(*output.shape[:-1], d, d)
    row, column = _below_diagonal(d)
    coefficients[..., row, column] = below
    return loc, raw, coefficients


def normal_parameters(output: Tensor, d: int) -> tuple[Tensor, Tensor]:
    """Return the means (..., d), and the Cholesky factors (..., d, d) of the covariance matrices."""
    loc, raw, coefficients = split_output(output, d)
    scale = torch.diag_embed(variance_of(raw).sqrt())
    # With `unitriangular`, the solver assumes that the diagonal of I - B is 1.
    factor = torch.linalg.solve_triangular(-coefficients, scale, upper=False, unitriangular=True)
    return loc, factor


def _product(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


@lru_cache(maxsize=8)
def _below_diagonal(d: int) -> tuple[Tensor, Tensor]:
    row, column = torch.tril_indices(d, d, offset=-1)
    return row, column
