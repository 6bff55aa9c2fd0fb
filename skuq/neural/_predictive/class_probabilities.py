"""Class probabilities of networks, and their entropies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import entr
from torch import Tensor

from skuq._typing import FloatArray
from skuq.neural._modules.device import read_device
from skuq.neural._modules.evaluate import output_blocks
from skuq.neural._modules.stacked import StackedMLP
from skuq.neural._predictive.posterior import TrainedNetworks
from skuq.neural._predictive.sampled import drawn_outputs


class EntropyParts(NamedTuple):
    """Entropies of the forecasts of n rows, in nats.

    Attributes
    ----------
    total : ndarray of shape (n,)
        Entropy of the mean of the members' probabilities, from 0 to log K for K classes.
    aleatoric : ndarray of shape (n,)
        Mean of the members' entropies.
    epistemic : ndarray of shape (n,)
        Mutual information of class and member, ``total - aleatoric``, from 0 to ``total``.
    """

    total: FloatArray
    aleatoric: FloatArray
    epistemic: FloatArray


@dataclass(frozen=True, eq=False)
class ClassPosterior(TrainedNetworks, ABC):
    """Networks that predict the logits of K classes, in blocks of rows."""

    @abstractmethod
    def _logits(self, X: FloatArray) -> Iterator[Tensor]:
        """Yield the logits (b, M, K) of M members for blocks of b rows."""

    def _proba(self, X: FloatArray) -> Iterator[FloatArray]:
        for logits in self._logits(X):
            yield torch.softmax(logits, dim=-1).numpy()

    def members(self, X: FloatArray) -> FloatArray:
        """Return the probabilities (n, M, K) that the members predict."""
        return np.concatenate(list(self._proba(X)))

    def mean(self, X: FloatArray) -> FloatArray:
        """Return the mean probabilities (n, K) over the members."""
        return np.concatenate([_mean_over_members(proba) for proba in self._proba(X)])

    def entropies(self, X: FloatArray) -> EntropyParts:
        parts = [
            (entr(_mean_over_members(proba)).sum(axis=-1), _mean_over_members(entr(proba).sum(axis=-1)))
            for proba in self._proba(X)
        ]
        total, aleatoric = (np.concatenate(part) for part in zip(*parts, strict=True))
        epistemic = np.clip(total - aleatoric, 0.0, total)
        return EntropyParts(total, np.minimum(aleatoric, total), epistemic)


class EnsembleClassPosterior(ClassPosterior):
    """Independently trained networks with equal weights."""

    def _logits(self, X: FloatArray) -> Iterator[Tensor]:
        device = read_device(self.device, self.module.n_members)
        # Wide layers have far more weights than outputs, so they are faster with larger blocks.
        values_a_row = self.module.layer_values if isinstance(self.module, StackedMLP) else None
        return output_blocks(self.module, self.scaler.features(X), device, values_a_row)


@dataclass(frozen=True, eq=False)
class DrawnClassPosterior(ClassPosterior):
    """Networks that are drawn from one trained network. All rows and all calls use the same draws."""

    n_draws: int
    seed: int

    def _logits(self, X: FloatArray) -> Iterator[Tensor]:
        for output in drawn_outputs(self, X, self.n_draws, self.seed):
            yield output.permute(2, 0, 1)


def _mean_over_members(values: FloatArray) -> FloatArray:
    """Return means over the second axis. The mean of equal members is exact."""
    first = values[:, 0]
    mean: FloatArray = first + (values - first[:, np.newaxis]).mean(axis=1)
    return mean
