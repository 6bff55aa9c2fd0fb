"""When numbers count as equal: one rule for shares and their limits, for ties, and for values on an edge.

A share is a sum of weights over their total, an edge is low + i * step: rounding moves both off their values
in exact arithmetic, by different bits in different units of y. A limit that is attained in exact arithmetic
must count as attained here too.
"""

from __future__ import annotations

import numpy as np

from skuq._typing import BoolArray, FloatArray

ROUNDING = 1e-12
"""Part of the total by which rounding may move a sum: that of a million terms errs by about 1e-13 of it."""


def reaches(value: float | FloatArray, limit: float | FloatArray, *, total: float = 1.0) -> BoolArray:
    """Return whether values are not below a limit, up to the rounding of sums whose total is `total`."""
    return np.asarray(np.asarray(value) >= np.asarray(limit) - ROUNDING * total)


def count_above(falling: FloatArray, limit: float, *, total: float = 1.0, closed: bool = False) -> int:
    """Return how many values of a falling sequence are above a limit; `closed` counts those equal to it."""
    slack = ROUNDING * total
    # negated, because searchsorted needs a rising sequence
    if closed:
        return int(np.searchsorted(-falling, slack - limit, side="right"))
    return int(np.searchsorted(-falling, -limit - slack, side="left"))


def last_of_ties(rising: FloatArray, scale: float | FloatArray) -> BoolArray:
    """Return which values of a rising sequence are the last of those that count as equal.

    Parameters
    ----------
    rising : ndarray of shape (m,)
        At least one value.
    scale : float or ndarray of shape (m - 1,)
        Size of the numbers, or of each value but the first, that the values have been computed from.
    """
    last = np.ones(rising.size, dtype=np.bool_)  # the last value of all has no successor
    np.greater(np.diff(rising), ROUNDING * np.asarray(scale), out=last[:-1])
    return last
