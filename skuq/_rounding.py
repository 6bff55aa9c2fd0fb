"""Tolerances of comparisons after rounding: shares and limits, ties, and values on an edge.

A share is a sum of weights over their total, and an edge is low + i * step. The rounding errors of both
depend on the units of y. A value that equals a limit in exact arithmetic must reach the limit after rounding,
too.
"""

from __future__ import annotations

import numpy as np

from skuq._typing import BoolArray, FloatArray

ROUNDING = 1e-12
"""Relative rounding error of a sum; a sum of a million terms has an error of about 1e-13 of the total."""

LEVEL_ROUNDING = 2.0**-51
"""Four units in the last place just below 1, the rounding error of complements."""

LEVEL_SHARE = 1e-6
"""Largest tolerance relative to a level, so that far tails keep their digits."""


def reaches(value: float | FloatArray, limit: float | FloatArray, *, total: float = 1.0) -> BoolArray:
    """Return whether values are not below a limit, up to the rounding of sums with this total."""
    return np.asarray(np.asarray(value) >= np.asarray(limit) - ROUNDING * total)


def count_above(falling: FloatArray, limit: float, *, total: float = 1.0, closed: bool = False) -> int:
    """Return the number of values of a falling sequence above a limit; `closed` includes equal values."""
    slack = ROUNDING * total
    # searchsorted needs a rising sequence
    if closed:
        return int(np.searchsorted(-falling, slack - limit, side="right"))
    return int(np.searchsorted(-falling, -limit - slack, side="left"))


def last_of_ties(rising: FloatArray, scale: float | FloatArray) -> BoolArray:
    """Return whether each value of a rising array of shape (m,), m >= 1, is the last of its equal values.

    Values are equal up to rounding. ``scale`` is the size of the numbers from which the values were computed;
    it may be an array with one entry per value except the first.
    """
    last = np.ones(rising.size, dtype=np.bool_)  # the last value has no successor
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
