"""Comparisons with a tolerance for rounding errors.

Shares are sums of weights divided by their total, and edges are computed as low + i * step. The rounding
errors of shares and edges depend on the units of y. If a value equals a limit in exact arithmetic, the
comparison must treat the value and the limit as equal despite rounding errors.
"""

from __future__ import annotations

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray

ROUNDING = 1e-12
"""Relative tolerance for sums. The relative error of a sum of a million terms is about 1e-13."""

EQUAL = 2.0**-45
"""Values are equal if they differ by at most this share of their size, or of the typical size of all values.

The predictions of one model differ by some units in the last place between processors. A million random
numbers differ by more.
"""

LEVEL_ROUNDING = 2.0**-51
"""Rounding error of 1 - p. It is four units in the last place of numbers slightly below 1."""

LEVEL_SHARE = 1e-6
"""Largest tolerance, as a share of a level, so that very small levels remain different."""


def reaches(value: float | FloatArray, limit: float | FloatArray, *, total: float = 1.0) -> BoolArray:
    return np.asarray(np.asarray(value) >= np.asarray(limit) - ROUNDING * total)


def count_above(falling: FloatArray, limit: float, *, total: float = 1.0, closed: bool = False) -> int:
    """Count the values of a decreasing array above a limit, or at least at the limit if ``closed``."""
    slack = ROUNDING * total
    # searchsorted needs an increasing array.
    if closed:
        return int(np.searchsorted(-falling, slack - limit, side="right"))
    return int(np.searchsorted(-falling, -limit - slack, side="left"))


def rounding_error(values: FloatArray, sample: FloatArray) -> FloatArray:
    """Return the difference from each value that is rounding, among the values of a sample.

    The last axis holds the sample. A few large values do not make smaller values equal.
    """
    own, size = (np.where(np.isfinite(each), np.abs(each), 0.0) for each in (values, sample))
    typical = np.quantile(size, 0.9, axis=-1, keepdims=True, method="lower") if size.size else 0.0
    return np.asarray(EQUAL * np.maximum(own, typical))


def equal_step(rising: FloatArray) -> FloatArray:
    """Return the largest difference of adjacent values that are equal up to rounding."""
    return rounding_error(np.maximum(np.abs(rising[..., 1:]), np.abs(rising[..., :-1])), rising)


def last_of_ties(rising: FloatArray, step: float | FloatArray) -> BoolArray:
    """Return a mask of increasing values that is False if the next value is larger by at most ``step``."""
    last = np.ones(rising.shape, dtype=np.bool_)  # The last value has no successor.
    with np.errstate(invalid="ignore"):  # Infinite values are equal.
        np.greater(np.diff(rising), step, out=last[..., :-1])
    return last


def distinct(values: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the increasing values that differ by more than rounding, and the place of each value in them."""
    order = np.argsort(values)
    rising = values[order]
    last = last_of_ties(rising, equal_step(rising))
    place = np.empty(values.shape, dtype=np.intp)
    place[order] = np.cumsum(last) - last
    return rising[last], place


def level_rounding(p: FloatArray) -> FloatArray:
    return np.asarray(np.minimum(LEVEL_ROUNDING, LEVEL_SHARE * p))


def to_integers(values: FloatArray) -> FloatArray:
    finite = np.isfinite(values)
    size = np.where(finite, np.abs(values), 0.0)
    slack = np.minimum(8 * np.spacing(size), 0.25)  # numbers beyond 2**52 are integers
    return np.where(finite, np.ceil(values - 0.5 - slack), values)
