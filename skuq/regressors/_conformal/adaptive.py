"""Adaptive conformal inference: the coverage that is aimed at answers to the misses that were seen.

Gibbs and Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021,
https://arxiv.org/abs/2106.00170.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skuq._typing import BoolArray, FloatArray
from skuq.distributions._numerics.ranks import RANK_TOLERANCE

__all__ = ["AdaptiveLevels", "Observed", "rank_probability"]


def rank_probability(coverage: FloatArray | float, symmetric: bool) -> FloatArray:
    """Return the level of the ranks of the scores: the coverage, or its upper level on each side."""
    requested = np.asarray(coverage, dtype=np.float64)
    return requested if symmetric else (1 + requested) / 2


@dataclass(frozen=True, eq=False)
class Observed:
    """What rows that were predicted together and then observed say about every level.

    Attributes
    ----------
    weight_below : ndarray of shape (m,)
        Weight of the calibration scores that fall short of each row, as they were at that moment: an
        interval covers the row if it reaches beyond them.
    total : ndarray of shape (m,)
        Weight of all calibration scores and of the row itself.
    weight : ndarray of shape (m,)
        How many observations each row stands for.
    """

    weight_below: FloatArray
    total: FloatArray
    weight: FloatArray

    def missed(self, miscoverage: float, symmetric: bool) -> BoolArray:
        """Return which rows lay outside the interval of this miscoverage: conformal p-value not above it."""
        if miscoverage <= 0:  # the interval was the whole line
            return np.zeros(self.weight_below.shape, dtype=bool)
        if miscoverage >= 1:  # it was empty
            return np.ones(self.weight_below.shape, dtype=bool)
        target = rank_probability(1 - miscoverage, symmetric) * self.total
        return np.asarray(self.weight_below >= target * (1 - RANK_TOLERANCE))


class AdaptiveLevels:
    r"""The miscoverage :math:`\alpha_t` to aim at now, for any nominal coverage.

    .. math:: \alpha_{t+1} = \alpha_t + \gamma (\alpha - \mathrm{err}_t), \quad \alpha_1 = \alpha

    (eq. 2 of the paper), rows that were predicted together having one level. It is replayed
    from what was observed when a coverage is first requested, and continued from there.

    Parameters
    ----------
    gamma : float
        The step.
    symmetric : bool
        Whether one score serves both bounds.
    """

    def __init__(self, gamma: float, symmetric: bool) -> None:
        self._gamma = gamma
        self._symmetric = symmetric
        self._reached: dict[float, tuple[int, float]] = {}

    def miscoverage(self, coverage: float, observed: Sequence[Observed]) -> float:
        """Return the level after everything observed; it may lie outside [0, 1] by up to a step."""
        requested = 1 - coverage
        done, level = self._reached.get(coverage, (0, requested))
        for rows in observed[done:]:
            misses = float(rows.weight @ rows.missed(level, self._symmetric))
            level += self._gamma * (requested * float(rows.weight.sum()) - misses)
        self._reached[coverage] = (len(observed), level)
        return level
