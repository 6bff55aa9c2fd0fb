"""Comparisons with a tolerance for rounding errors.

Shares are sums of weights divided by their total, and edges are computed as low + i * step. The rounding
errors of both depend on the units of y. If a value equals a limit in exact arithmetic, the comparison after
rounding must have the same result.
"""

from __future__ import annotations

import numpy as np

from skuq._typing import BoolArray, FloatArray

ROUNDING = 1e-12
"""Relative tolerance for sums; the relative error of a sum of a million terms is about 1e-13."""

LEVEL_ROUNDING = 2.0**-51
"""Rounding error of 1 - p: four units in the last place of numbers slightly below 1."""

LEVEL_SHARE = 1e-6
"""Largest tolerance relative to a level, so that very small levels remain different."""


def reaches(value: float | FloatArray, limit: float | FloatArray, *, total: float = 1.0) -> BoolArray:
    """Return whether values reach a limit, with a tolerance for the rounding of sums with this total."""
    return np.asarray(np.asarray(value) >= np.asarray(limit) - ROUNDING * total)


def count_above(falling: FloatArray, limit: float, *, total: float = 1.0, closed: bool = False) -> int:
    """Return the number of values of a decreasing array above a limit; `closed` includes equal values."""
    slack = ROUNDING * total
    # searchsorted needs an increasing array.
    if closed:
        return int(np.searchsorted(-falling, slack - limit, side="right"))
    return int(np.searchsorted(-falling, -limit - slack, side="left"))


def last_of_ties(rising: FloatArray, scale: float | FloatArray) -> BoolArray:
    """Return whether each value of an increasing array is the last of its ties, up to rounding."""
    last = np.ones(rising.size, dtype=np.bool_)  # The last value has no successor.
    np.greater(np.diff(rising), ROUNDING * np.asarray(scale), out=last[:-1])
    return last


def level_rounding(p: FloatArray) -> FloatArray:
    """Return the rounding error of the levels."""
    return np.asarray(np.minimum(LEVEL_ROUNDING, LEVEL_SHARE * p))


def to_integers(values: FloatArray) -> FloatArray:
    """Return the nearest integers, and the lower of two equally near ones, up to rounding."""
    finite = np.isfinite(values)
    size = np.where(finite, np.abs(values), 0.0)
    slack = np.minimum(8 * np.spacing(size), 0.25)  # numbers beyond 2**52 are integers
    return np.where(finite, np.ceil(values - 0.5 - slack), values)
