"""Units that prevent overflow of squares. Division by a unit is exact, because units are powers of two."""

from __future__ import annotations

import numpy as np

from skuq._typing import FloatArray

_LEAST_PLAIN, _MOST_PLAIN = 2.0**-256, 2.0**256
"""Range of values whose squares neither overflow nor underflow, with a margin of a factor of 1e77."""


def power_of_two(size: float) -> float:
    return float(np.ldexp(0.5, np.frexp(size)[1])) if 0 < size < np.inf else 1.0


def unit_of(values: FloatArray) -> float:
    size = max(abs(float(values.max(initial=0.0))), abs(float(values.min(initial=0.0))))
    if size == np.inf:
        size = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    return power_of_two(size)


def square_unit(values: FloatArray) -> float:
    size = np.abs(values)
    if size.min(initial=1.0) >= _LEAST_PLAIN and size.max(initial=1.0) <= _MOST_PLAIN:
        return 1.0
    size = size[(size > 0) & np.isfinite(size)]
    median = float(np.partition(size, size.size // 2)[size.size // 2]) if size.size else 1.0
    return 1.0 if _LEAST_PLAIN <= median <= _MOST_PLAIN else power_of_two(median)


def square_in(unit: float, square: float) -> float:
    return float(square) * unit * unit


def mean_of(values: FloatArray, weight: FloatArray | None) -> float:
    return float(values.mean()) if weight is None else float(weight @ values) / float(weight.sum())


def standard_deviation(values: FloatArray, weight: FloatArray | None = None) -> float:
    """Return the standard deviation (divisor n) of finite values. It is exactly 0 for equal values."""
    unit = unit_of(values)
    scaled = values / unit
    gap = scaled - scaled[0 if weight is None else np.argmax(weight)]
    return unit * root_mean_square(gap - mean_of(gap, weight), weight)


def root_mean_square(values: FloatArray, weight: FloatArray | None = None) -> float:
    unit = unit_of(values)
    return unit * float(np.sqrt(mean_of(np.square(values / unit), weight)))
