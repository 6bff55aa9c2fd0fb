"""Training losses of networks: proper scores of a normal distribution, in torch.

A loss is called with the outputs of the network and the target, and returns one value a row and member.
The network gives the mean and, where the loss needs it, a raw variance that `variance_of` makes
positive; both are in units of the standardised target.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from skuq._validation import check_integer, check_number
from skuq.neural._training_loss import TrainingLoss, check_per_row

__all__ = [
    "LOSSES",
    "BetaNLLLoss",
    "CRPSLoss",
    "CheckLoss",
    "IntervalLoss",
    "Loss",
    "NLLLoss",
    "SquaredErrorLoss",
    "read_loss",
    "resolve_selection_score",
    "variance_of",
]

MIN_VARIANCE = 1e-4
"""In units of the variance of the target: no network predicts a noise below a hundredth of its spread."""

_LEAST_SPREAD = 1e-8
"""Least variance of the average of members, whose difference of two squares may fall below 0."""

_LOG_2PI = math.log(2.0 * math.pi)
_SQRT_2 = math.sqrt(2.0)


def variance_of(raw: Tensor) -> Tensor:
    """Return a positive variance for any output of a network."""
    return softplus(raw) + MIN_VARIANCE


def _likelihood(output: Tensor, y: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """Return the negative log-likelihood, weighted by variance^beta, and its derivative by the outputs."""
    loc, raw = output.unbind(-1)
    variance = variance_of(raw)
    residual = loc - y
    precision = variance.reciprocal()
    standardised = residual * precision
    loss = torch.log(variance).add_(residual * standardised).add_(_LOG_2PI).mul_(0.5)
    gradient = torch.empty_like(output)
    gradient[..., 0] = standardised
    half_excess = torch.addcmul(precision, standardised, standardised, value=-1).mul_(0.5)
    torch.mul(torch.sigmoid(raw), half_excess, out=gradient[..., 1])
    if beta == 0:
        return loss, gradient
    weight = variance.sqrt() if beta == 0.5 else variance**beta
    return loss.mul_(weight), gradient.mul_(weight.unsqueeze(-1))


class Loss(TrainingLoss):
    """A score of a normal distribution with mean ``loc`` and variance ``variance`` at the target ``y``.

    A subclass writes `score`. Its value is minimised on average over rows, for each member of an ensemble
    by itself. Pass an instance as ``loss=`` to any neural estimator.

    Attributes
    ----------
    n_outputs : int
        Number of outputs of the network that it needs: 2, mean and raw variance, or 1 where it has no
        variance.

    See Also
    --------
    NLLLoss : The default score of probabilistic networks.

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
        """Return the score of each entry.

        Parameters
        ----------
        loc, variance : Tensor
            Mean and variance of the normal distribution, of shape (B,) or, in training, (B, M): rows first,
            then the members that are trained together.
        y : Tensor
            Target, of the same shape.

        Returns
        -------
        score : Tensor
            Scores of the same shape; smaller is better.
        """

    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the loss for outputs (..., k) of the network at targets (...)."""
        if self.n_outputs == 1:
            loc = output[..., 0]
            return self.score(loc, loc.new_zeros(()), y)
        loc, raw = output.unbind(-1)
        return self.score(loc, variance_of(raw), y)

    def selection_score(self) -> Loss:
        """Return the score by which epochs are compared.

        Returns
        -------
        loss : Loss
            This one, unless it is a training loss but no proper score.
        """
        return self

    def averaged_parts(self, output: Tensor) -> Sequence[Tensor]:
        loc = output[:, 0]
        square = loc * loc + variance_of(output[:, 1]) if output.shape[1] == 2 else loc * loc
        return loc, square

    def score_average(self, parts: Sequence[Tensor], y: Tensor) -> Tensor:
        # variance of the mixture of the members: mean of noise and squares less squared mean
        loc, square = parts
        variance = (square - loc * loc).clamp(min=_LEAST_SPREAD)
        return check_per_row(self, self.score(loc, variance, y), y)


@dataclass(frozen=True)
class NLLLoss(Loss):
    """Negative log-likelihood of the normal distribution.

    The sharpest score near a good fit. On targets that are not standardised, or trained for long, it
    it becomes over-confident; the estimators of this module standardise and keep the best epoch.

    See Also
    --------
    BetaNLLLoss : Learns the mean where the variance is large too.
    CRPSLoss : More robust to outliers.

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

    def with_gradient(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return _likelihood(output.detach(), y, 0.0)


@dataclass(frozen=True)
class BetaNLLLoss(Loss):
    r"""Negative log-likelihood weighted by :math:`\sigma^{2\beta}`, through which no gradient flows.

    By the plain likelihood, the mean is hardly learnt where the predicted noise is large. With ``beta=1``
    the mean is learnt as by squared errors, with ``beta=0`` as by the likelihood.

    Parameters
    ----------
    beta : float, default=0.5
        Exponent of the variance, between 0 and 1.

    See Also
    --------
    NLLLoss : The score itself, by which epochs are compared.

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

    def with_gradient(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return _likelihood(output.detach(), y, self.beta)

    def selection_score(self) -> Loss:
        return NLLLoss()


class _ScaleLoss(Loss):
    """A score that grows in proportion to the units of y, so that it follows from its slopes alone.

    By Euler's theorem it is ``scale`` times its derivative by the scale less the residual times that by
    the mean; both depend on ``z = residual / scale`` only. So one function gives the score, and its
    derivative without automatic differentiation.
    """

    @abstractmethod
    def _slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives of the score by the mean and by the standard deviation."""

    def score(self, loc: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        scale, residual = variance.sqrt(), y - loc
        by_loc, by_scale = self._slopes((residual / scale).detach())
        return scale * by_scale - residual * by_loc

    def with_gradient(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        output = output.detach()
        loc, raw = output.unbind(-1)
        scale, residual = variance_of(raw).sqrt_(), y - loc
        by_loc, by_scale = self._slopes(residual / scale)
        gradient = torch.empty_like(output)
        gradient[..., 0] = by_loc
        torch.mul(torch.sigmoid(raw).mul_(0.5), by_scale / scale, out=gradient[..., 1])
        return scale * by_scale - residual * by_loc, gradient


@dataclass(frozen=True)
class CRPSLoss(_ScaleLoss):
    """Continuous ranked probability score of the normal distribution, in closed form.

    In the units of the target, and robust: an outlier costs its distance, not the square.

    See Also
    --------
    CheckLoss : The same by quantiles, on a grid of levels.
    NLLLoss : Sharper where the noise is normal.

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


@dataclass(frozen=True)
class _LevelLoss(_ScaleLoss):
    """A score averaged over levels (i - 1/2) / n, i = 1..n: piecewise linear in the residual."""

    n_levels: int = 30

    def __post_init__(self) -> None:
        check_integer(self.n_levels, "n_levels")

    @cached_property
    def levels(self) -> Tensor:
        return (torch.arange(self.n_levels, dtype=torch.float64) + 0.5) / self.n_levels

    @abstractmethod
    def _steps(self, levels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return standard quantiles, ascending, and both slopes of each, shape (n, 2).

        First the slopes where the residual is below the quantile, then what is added where it is above.
        """

    @cached_property
    def _tables(self) -> dict[Any, tuple[Tensor, Tensor]]:
        """Quantiles, and mean slopes for 0, 1, ... of them below the residual, by type and device."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {"n_levels": self.n_levels}  # tables may lie on a device that is not there when loaded

    def _at(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return both mean slopes where the standardised residual is ``z``."""
        key = z.dtype, z.device
        if key not in self._tables:
            quantiles, start, added = self._steps(self.levels)
            slopes = start.mean(0) + torch.cat([added.new_zeros(1, 2), added.cumsum(0)]) / self.n_levels
            self._tables[key] = quantiles.to(z), slopes.T.to(z).contiguous()
        quantiles, slopes = self._tables[key]
        by_loc, by_scale = slopes[:, torch.searchsorted(quantiles, z.contiguous())]
        return by_loc, by_scale


@dataclass(frozen=True)
class CheckLoss(_LevelLoss):
    """Check (pinball) loss of the quantiles, averaged over levels.

    Twice it is the CRPS, for many levels.

    Parameters
    ----------
    n_levels : int, default=30
        Number of levels, at the middle of as many equal parts of (0, 1).

    See Also
    --------
    CRPSLoss : All levels at once, in closed form.

    Examples
    --------
    >>> import torch
    >>> from skuq.neural import CheckLoss
    >>> 2 * CheckLoss(1000).score(torch.tensor(0.0), torch.tensor(1.0), torch.tensor(0.0))
    tensor(0.2337)
    """

    def _steps(self, levels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = torch.special.ndtri(levels)
        both = torch.stack([torch.ones_like(z), z], dim=1)
        return z, (1 - levels).unsqueeze(1) * both, -both

    def _slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self._at(z)


@dataclass(frozen=True)
class IntervalLoss(_LevelLoss):
    """Interval score of the central intervals, averaged over coverages.

    Parameters
    ----------
    n_levels : int, default=30
        Number of coverages, at the middle of as many equal parts of (0, 1).

    See Also
    --------
    CheckLoss : The same bounds, scored one by one and without the weight of wide intervals.

    Examples
    --------
    >>> import torch
    >>> from skuq.neural import IntervalLoss
    >>> IntervalLoss(1).score(torch.tensor(0.0), torch.tensor(1.0), torch.tensor(0.0))
    tensor(1.3490)
    """

    def _steps(self, levels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = torch.special.ndtri((1 + levels) / 2)
        penalty = 2 / (1 - levels)
        inside = torch.stack([torch.zeros_like(z), 2 * z], dim=1)
        return z, inside, torch.stack([-penalty, -penalty * z], dim=1)

    def _slopes(self, z: Tensor) -> tuple[Tensor, Tensor]:
        above, by_scale = self._at(z.abs())
        return torch.sign(z) * above, by_scale


@dataclass(frozen=True)
class SquaredErrorLoss(Loss):
    """Squared error of the mean; the network predicts no noise.

    For ensembles of plain networks, whose only spread is that of their means.

    See Also
    --------
    NLLLoss : Learns the noise too.

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
    """Return the loss that a parameter stands for: one of `LOSSES` by name, or an instance of `Loss`."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    listing = ", ".join(repr(known) for known in LOSSES)
    raise ValueError(f"`{name}` must be one of {listing} or an instance of skuq.neural.Loss, got {loss!r}.")


def resolve_selection_score(
    keep_best: Any, *, of_mean: bool = False, also: Sequence[str] = ()
) -> Loss | None:
    """Return the score that a parameter ``keep_best`` stands for; None where it is False.

    Parameters
    ----------
    keep_best : str, Loss or False
        The parameter.
    of_mean : bool, default=False
        Whether networks predict no variance, so that only a score of the mean can select an epoch.
    also : sequence of str
        Further valid values, named in the error.
    """
    if isinstance(keep_best, bool | np.bool_) and not keep_best:
        return None
    is_score = isinstance(keep_best, Loss) or (isinstance(keep_best, str) and keep_best in LOSSES)
    score = read_loss(keep_best) if is_score else None
    if score is None or (of_mean and score.n_outputs > 1):
        names = ["squared_error"] if of_mean else [*also, *LOSSES]
        listing = ", ".join(repr(name) for name in names)
        which = " of the mean alone, as the network predicts no variance" if of_mean else ""
        raise ValueError(
            f"`keep_best` must be one of {listing}, an instance of skuq.neural.Loss{which}, or False, got "
            f"{keep_best!r}."
        )
    return score.selection_score()
