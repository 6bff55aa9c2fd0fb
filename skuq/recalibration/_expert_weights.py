"""Weights of experts, such as step sizes, by their recent losses."""

from __future__ import annotations

import math

import numpy as np

from skuq._typing import FloatArray

_INTERVAL = 500
"""Number of steps I. In each period of I steps, the weighted experts are nearly as good as the best single
expert."""


class ExpertWeights:
    r"""Weights of K experts. They follow the best expert of the recent steps.

    For losses :math:`\ell_k`, the update is

    .. math::

        w_k \leftarrow (1 - \sigma) \, w_k e^{-\eta \ell_k} + \frac{\sigma}{K} \sum_j w_j e^{-\eta \ell_j},
        \quad \sigma = \frac{1}{2 I}, \quad \eta^2 = \frac{\log(2 K I) + 1}{I \, \overline{\ell^2}}

    (Gibbs and Candès 2024, algorithm 2 and theorem 3), where :math:`\overline{\ell^2}` is the mean of
    :math:`\sum_k w_k \ell_k^2` over the last I steps, or over all steps if there are fewer.
    """

    def __init__(self, n_experts: int) -> None:
        self.weights: FloatArray = np.full(n_experts, 1 / n_experts)
        self._squares = np.zeros(_INTERVAL)  # the latest value overwrites the earliest
        self._n_steps = 0

    def update(self, losses: FloatArray) -> None:
        self._squares[self._n_steps % _INTERVAL] = self.weights @ losses**2
        self._n_steps += 1
        mean_square = float(self._squares.sum()) / min(self._n_steps, _INTERVAL)
        if mean_square == 0:  # No expert had a loss.
            return
        rate = math.sqrt((math.log(2 * losses.size * _INTERVAL) + 1) / (_INTERVAL * mean_square))
        weights = self.weights * np.exp(-rate * (losses - losses.min()))
        weights /= weights.sum()
        share = 1 / (2 * _INTERVAL)
        self.weights = (1 - share) * weights + share / losses.size
