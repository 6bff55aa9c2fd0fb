"""Functions of probability levels near 0 and 1, with rounding errors, and at random.

Levels such as (1 - coverage) / 2 and 1 - q have rounding errors, and ``np.linspace(.1, .9, 9)`` contains
0.30000000000000004. If such a level were slightly larger than the cdf at an atom, the quantile would be the
next atom.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from skuq._rounding import level_rounding
from skuq._typing import FloatArray

_TINY = float(np.finfo(np.float64).tiny)
"""Smallest tail probability with a finite normal score."""

_QUANTILES_AT_ONCE = 2048
"""Distributions of few rows are sampled with at most this number of quantiles per call."""


def smaller_tail(score: FloatArray) -> FloatArray:
    """Return Phi(-|score|). The result is positive for all finite scores."""
    tail = ndtr(-np.abs(score))
    return np.where(np.isinf(score), tail, np.maximum(tail, _TINY))


def snap_levels(p: FloatArray, stored: FloatArray) -> FloatArray:
    """Replace each level that equals a stored level up to rounding with the stored level."""
    right = np.clip(np.searchsorted(stored, p), 0, stored.size - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(p - stored[left]) < np.abs(p - stored[right]), stored[left], stored[right])
    return np.where(np.abs(p - nearest) <= level_rounding(nearest), nearest, p)


def inverse_samples(dist: Any, m: int, rng: np.random.RandomState) -> FloatArray:
    """Return quantiles at m random levels per row, shape (n, m).

    If there are few rows, one call draws several levels per row.
    """
    n = len(dist)
    draws = max(min(_QUANTILES_AT_ONCE // max(n, 1), m), 1)
    repeated = dist if draws == 1 else dist[np.tile(np.arange(n), draws)]
    samples = np.empty((m, n))
    for start in range(0, m, draws):
        block = samples[start : start + draws]
        part = repeated if len(block) == draws else repeated[: block.size]
        block[:] = part._ppf(rng.uniform(size=block.size)).reshape(block.shape)
    return samples.T
