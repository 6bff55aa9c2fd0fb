"""Training losses of networks, in torch: scores of a normal distribution, of classes and of several targets.

The outputs of a network for a normal distribution are the mean and, if the loss needs a variance, a raw
variance. Both are outputs for the standardized target. `variance_of` converts the raw variance to a positive
variance. A loss returns one value per row and member.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from skuq._validation import check_integer, check_number


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


MIN_VARIANCE = 1e-4
"""Smallest noise variance, relative to the variance of the target."""

_LEAST_SPREAD = 1e-8
"""Lower limit of the variance of an averaged forecast. Without it, rounding could make a difference of
squares negative."""

_LOG_2PI = math.log(2.0 * math.pi)
_SQRT_2 = math.sqrt(2.0)


def variance_of(raw: Tensor) -> Tensor:
    return softplus(raw) + MIN_VARIANCE


class Loss(TrainingLoss):
    """Score of a normal distribution with mean ``loc`` and variance ``variance`` for the target ``y``.

    The smaller the better. A subclass implements `score`. The training minimizes the mean of the score over
    rows, for each member. Pass an instance as the parameter ``loss`` of a neural estimator.

    Attributes
    ----------
    n_outputs : int
        Number of outputs of the network that the loss needs: 2 for a mean and a raw variance, 1 for a mean.

    See Also
    --------
    NLLLoss : Negative log-likelihood.

    Examples
    --------
    >>> import torch
    >>> from skuq.neural import Loss
    >>> class LaplaceLoss(Loss):
    ...     def score(self, loc, variance, y):
    ...         spread = (0.5 * variance).sqrt()
    ...         return (y - loc).abs() / spread + spread.log()
    >>> LaplaceLoss().score(torch.tensor(0.0), torch.tensor(2.0), torch.tensor(1.0))
    tensor(1.)
    """

    n_outputs: ClassVar[int] = 2
    target: ClassVar[str] = "number"

    @abstractmethod
    def score(self, loc: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        """Return the score of each row and member.

        The smaller the better.

        Parameters
        ----------
        loc, variance : Tensor of shape (B,) or (B, M)
            Mean and variance of the normal distribution for B rows, and in training also for M members.
        y : Tensor of the same shape
            Target.

        Returns
        -------
        score : Tensor of the same shape
            Scores.
        """

    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the losses (...) of network outputs (..., k) for targets (...)."""
        if self.n_outputs == 1:
            loc = output[..., 0]
            return check_per_row(self, self.score(loc, loc.new_zeros(()), y), y)
        loc, raw = output.unbind(-1)
        return check_per_row(self, self.score(loc, variance_of(raw), y), y)

    def selection_score(self) -> Loss:
        """Return the score that selects the epoch.

        Returns
        -------
        loss : Loss
            This loss if it is a proper score, otherwise a similar proper score.
        """
        return self

    def averaged_parts(self, output: Tensor) -> Sequence[Tensor]:
        loc = output[:, 0]
        square = loc * loc + variance_of(output[:, 1]) if output.shape[1] == 2 else loc * loc
        return loc, square

    def score_average(self, parts: Sequence[Tensor], y: Tensor) -> Tensor:
        # the average forecast is the mixture of the members
        loc, square = parts
        variance = (square - loc * loc).clamp(min=_LEAST_SPREAD)
        return check_per_row(self, self.score(loc, variance, y), y)


@dataclass(frozen=True)
class NLLLoss(Loss):
    """Negative log-likelihood of the normal distribution.

    The smaller the better. With normal noise and many rows, no other score gives more accurate estimates,
    because this is maximum likelihood. Networks that are trained with this loss become overconfident after
    long training, or if the target is not standardized. For this reason, the estimators of `skuq.neural`
    standardize the target and can select the best epoch.

    See Also
    --------
    BetaNLLLoss : Weighted likelihood. Networks learn the mean better in regions with large variance.
    CRPSLoss : Score that is more robust to outliers.

    Examples
    --------
    >>> import torch
    >>> from skuq.neural import NLLLoss
    >>> NLLLoss().score(torch.tensor(0.0), torch.tensor(1.0), torch.tensor(0.0))
    tensor(0.9189)
    """

    def score(self, loc: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        residual = y - loc
        return 0.5 * (variance.log() + residual * residual / variance + _LOG_2PI)


@dataclass(frozen=True)
class BetaNLLLoss(Loss):
    r"""Negative log-likelihood, weighted with :math:`\sigma^{2\beta}` [1]_.

    The smaller the better. The gradient treats the weight as a constant. With the unweighted likelihood,
    networks learn the mean poorly in regions where the predicted variance is large. With ``beta=1``, the
    gradient with respect to the mean is the gradient of the squared error. With ``beta=0``, the loss is the
    negative log-likelihood.

    Parameters
    ----------
    beta : float, default=0.5
        Exponent of the variance, between 0 and 1.

    See Also
    --------
    NLLLoss : Unweighted score. It is used to select the epoch.

    References
    ----------
    .. [1] M. Seitzer, A. Tavakoli, D. Antic, G. Martius, "On the pitfalls of heteroscedastic uncertainty
       estimation with probabilistic neural networks", ICLR 2022, arXiv:2203.09168.

    Examples
    --------
    >>> import torch
    >>> from skuq.neural import BetaNLLLoss, NLLLoss
    >>> loc, variance, y = torch.tensor(0.0), torch.tensor(4.0), torch.tensor(1.0)
    >>> BetaNLLLoss(0.5).score(loc, variance, y) / NLLLoss().score(loc, variance, y)
    tensor(2.)
    """

    beta: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= check_number(self.beta, "beta") <= 1:
            raise ValueError(f"`beta` must lie between 0 and 1, got {self.beta}.")

    def score(self, loc: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        fixed = variance.detach()
        weight = fixed.sqrt() if self.beta == 0.5 else fixed**self.beta
        return weight * NLLLoss().score(loc, variance, y)

    def selection_score(self) -> Loss:
        return NLLLoss()


class _ScaleLoss(Loss):
    """Score in the units of y, computed from its derivatives (Euler's theorem)."""

    # The score is `scale` times the derivative with respect to the scale minus `residual` times the
    # derivative with respect to the mean. Both derivatives depend only on `residual / scale`.

    @abstractmethod
    def _slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives of the score with respect to the mean and the standard deviation."""

    def score(self, loc: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        scale, residual = variance.sqrt(), y - loc
        by_loc, by_scale = self._slopes((residual / scale).detach())
        return scale * by_scale - residual * by_loc


@dataclass(frozen=True)
class CRPSLoss(_ScaleLoss):
    """Continuous ranked probability score of the normal distribution, in closed form.

    The smaller the better, in units of the standardized target. The score is robust: it increases linearly
    with the distance of an outlier.

    See Also
    --------
    CheckLoss : The same score for a finite number of quantiles.
    NLLLoss : Score that gives more accurate estimates for normal noise.

    Examples
    --------
    >>> import torch
    >>> from skuq.neural import CRPSLoss
    >>> CRPSLoss().score(torch.tensor(0.0), torch.tensor(1.0), torch.tensor(0.0))
    tensor(0.2337)
    """

    def _slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        density = torch.exp(-0.5 * z * z)
        return -torch.erf(z / _SQRT_2), density * math.sqrt(2 / math.pi) - 1 / math.sqrt(math.pi)


SlopeTable: TypeAlias = tuple[Tensor, Tensor]
"""Standard normal quantiles (n,) in ascending order, and both derivatives (2, n + 1) between adjacent
quantiles."""


def _middle_levels(n_levels: int) -> Tensor:
    return (torch.arange(n_levels, dtype=torch.float64) + 0.5) / n_levels


@lru_cache(maxsize=8)
def _check_slopes(n_levels: int, dtype: torch.dtype, device: torch.device) -> SlopeTable:
    levels = _middle_levels(n_levels)
    z = torch.special.ndtri(levels)
    both = torch.stack([torch.ones_like(z), z], dim=1)
    return _slope_table(z, (1 - levels).unsqueeze(1) * both, -both, dtype, device)


@lru_cache(maxsize=8)
def _interval_slopes(n_levels: int, dtype: torch.dtype, device: torch.device) -> SlopeTable:
    levels = _middle_levels(n_levels)
    z = torch.special.ndtri((1 + levels) / 2)
    penalty = 2 / (1 - levels)
    inside = torch.stack([torch.zeros_like(z), 2 * z], dim=1)
    return _slope_table(z, inside, torch.stack([-penalty, -penalty * z], dim=1), dtype, device)


def _slope_table(
    quantiles: Tensor, start: Tensor, added: Tensor, dtype: torch.dtype, device: torch.device
) -> SlopeTable:
    """Return the quantiles, and the derivatives between them, averaged over the levels.

    The derivative of a level increases by ``added`` at the quantile of the level.
    """
    slopes = start.mean(0) + torch.cat([added.new_zeros(1, 2), added.cumsum(0)]) / len(quantiles)
    return quantiles.to(device, dtype), slopes.T.to(device, dtype).contiguous()


def _look_up(table: SlopeTable, z: Tensor) -> tuple[Tensor, Tensor]:
    quantiles, slopes = table
    by_loc, by_scale = slopes[:, torch.searchsorted(quantiles, z.contiguous())]
    return by_loc, by_scale


@dataclass(frozen=True)
class CheckLoss(_ScaleLoss):
    """Check (pinball) loss of quantiles, averaged over levels.

    The smaller the better. With many levels, the loss approaches half the CRPS.

    Parameters
    ----------
    n_levels : int, default=30
        Number of levels. The levels are the midpoints of ``n_levels`` equal parts of (0, 1).

    See Also
    --------
    CRPSLoss : The limit for many levels, in closed form.

    Examples
    --------
    >>> import torch
    >>> from skuq.neural import CheckLoss
    >>> 2 * CheckLoss(1000).score(torch.tensor(0.0), torch.tensor(1.0), torch.tensor(0.0))
    tensor(0.2337)
    """

    n_levels: int = 30

    def __post_init__(self) -> None:
        check_integer(self.n_levels, "n_levels")

    def _slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return _look_up(_check_slopes(self.n_levels, z.dtype, z.device), z)


@dataclass(frozen=True)
class IntervalLoss(_ScaleLoss):
    """Interval score of central intervals, averaged over coverages.

    The smaller the better.

    Parameters
    ----------
    n_levels : int, default=30
        Number of coverages. The coverages are the midpoints of ``n_levels`` equal parts of (0, 1).

    See Also
    --------
    CheckLoss : Pinball loss, in which wide intervals do not have a larger weight than narrow intervals.

    Examples
    --------
    >>> import torch
    >>> from skuq.neural import IntervalLoss
    >>> IntervalLoss(1).score(torch.tensor(0.0), torch.tensor(1.0), torch.tensor(0.0))
    tensor(1.3490)
    """

    n_levels: int = 30

    def __post_init__(self) -> None:
        check_integer(self.n_levels, "n_levels")

    def _slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        above, by_scale = _look_up(_interval_slopes(self.n_levels, z.dtype, z.device), z.abs())
        return torch.sign(z) * above, by_scale


@dataclass(frozen=True)
class SquaredErrorLoss(Loss):
    """Squared error of the mean, without a noise variance.

    The smaller the better. Use this loss for ensembles whose members predict only a mean.

    See Also
    --------
    NLLLoss : Loss that also learns the noise variance.

    Examples
    --------
    >>> import torch
    >>> from skuq.neural import SquaredErrorLoss
    >>> SquaredErrorLoss()(torch.tensor([[1.0]]), torch.tensor([3.0]))
    tensor([4.])
    """

    n_outputs: ClassVar[int] = 1

    def score(self, loc: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        return (y - loc) ** 2


LOSSES: dict[str, Loss] = {
    "nll": NLLLoss(),
    "beta_nll": BetaNLLLoss(),
    "crps": CRPSLoss(),
    "check": CheckLoss(),
    "interval": IntervalLoss(),
    "squared_error": SquaredErrorLoss(),
}


def read_loss(loss: Any, name: str = "loss") -> Loss:
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    listing = ", ".join(repr(known) for known in LOSSES)
    raise ValueError(f"`{name}` must be one of {listing} or an instance of skuq.neural.Loss, got {loss!r}.")


def resolve_selection_score(
    keep_best: Any, *, of_mean: bool = False, also: Sequence[str] = ()
) -> Loss | None:
    """Return the score of ``keep_best``, or None if it is False.

    If ``of_mean``, a score that needs a variance raises an error.
    """
    if isinstance(keep_best, bool | np.bool_) and not keep_best:
        return None
    is_score = isinstance(keep_best, Loss) or (isinstance(keep_best, str) and keep_best in LOSSES)
    score = read_loss(keep_best) if is_score else None
    if score is None or (of_mean and score.n_outputs > 1):
        names = ["squared_error"] if of_mean else [*also, *LOSSES]
        listing = ", ".join(repr(name) for name in names)
        which = " that does not use a variance (the network predicts only a mean)" if of_mean else ""
        raise ValueError(
            f"`keep_best` must be one of {listing}, an instance of skuq.neural.Loss{which}, or False, got "
            f"{keep_best!r}."
        )
    return score.selection_score()


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

    def averaged_parts(self, output: Tensor) -> Sequence[Tensor]:
        return torch.softmax(output, dim=1).unbind(dim=1)

    def score_average(self, parts: Sequence[Tensor], y: Tensor) -> Tensor:
        proba = torch.stack(list(parts)).gather(0, y.long().unsqueeze(0)).squeeze(0)
        return -proba.clamp(min=torch.finfo(proba.dtype).tiny).log()


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
