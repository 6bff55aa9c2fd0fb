"""Levels near their ends, and levels that are equal but for rounding.

A level rarely reaches a quantile function as it was written: (1 - coverage) / 2 and 1 - q are computed, and
``np.linspace(.1, .9, 9)`` holds 0.30000000000000004. Where the quantile function jumps, at atoms, such a
difference would skip one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from skuq._typing import FloatArray

_ROUNDING = 2.0**-51
"""Four units in the last place just below 1, which is where complements are rounded."""

_SHARE = 1e-6
"""The tolerance never exceeds this share of a level, so that far tails keep their digits."""

_TINY = float(np.finfo(np.float64).tiny)
"""The least tail probability of a finite normal score."""


def smaller_tail(score: FloatArray) -> FloatArray:
    """Return Phi(-|score|) of normal scores; 0 at infinite ones alone, as what underflows is not the end."""
    tail = ndtr(-np.abs(score))
    return np.where(np.isinf(score), tail, np.maximum(tail, _TINY))


def level_rounding(p: FloatArray) -> FloatArray:
    """Return how far the levels ``p`` may be off by rounding alone."""
    return np.asarray(np.minimum(_ROUNDING, _SHARE * p))


def snap_levels(p: FloatArray, stored: FloatArray) -> FloatArray:
    """Return the levels ``p`` with those that equal a stored one but for rounding replaced by it.

    Parameters
    ----------
    p : ndarray
        Levels in [0, 1].
    stored : ndarray of shape (k,)
        Increasing levels.

    Returns
    -------
    snapped : ndarray
        Of the same shape, and in the same order: the map is monotone.
    """
    right = np.clip(np.searchsorted(stored, p), 0, stored.size - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(p - stored[left]) < np.abs(p - stored[right]), stored[left], stored[right])
    return np.where(np.abs(p - nearest) <= level_rounding(nearest), nearest, p)
