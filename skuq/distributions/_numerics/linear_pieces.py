"""Integrals of a cdf that is linear between knots, for each row.

Let F be the cdf and v_1 < ... < v_m the knots. The CRPS and the mean distance are sums of

    int F^k below y and int (1 - F)^k above y, with k = 2 and k = 1.

The functions return the parts of both integrals between v_1 and v_m.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from skuq._typing import FloatArray

Average: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""Function of both end values of a linear function. It returns the average of a power of the function."""


def mean_of_line(start: FloatArray, stop: FloatArray) -> FloatArray:
    return (start + stop) / 2


def mean_square_of_line(start: FloatArray, stop: FloatArray) -> FloatArray:
    return (start * start + start * stop + stop * stop) / 3


def linear_integrals(
    knots: FloatArray, cdf: FloatArray, sf: FloatArray, y: FloatArray, average: Average
) -> tuple[FloatArray, FloatArray]:
    """Return the integrals below and above y, both of shape (n,).

    The last axis of ``knots``, ``cdf`` and ``sf`` has m entries. The arrays have one row or n rows.
    """
    low, high = knots[..., :-1], knots[..., 1:]
    at = np.clip(y[:, np.newaxis], low, high)  # The piece that contains y is split at y.
    width = high - low
    share = np.divide(at - low, width, out=np.zeros(at.shape), where=width > 0)
    cdf_at = cdf[..., :-1] + share * np.diff(cdf)
    sf_at = sf[..., :-1] + share * np.diff(sf)
    below = (at - low) * average(cdf[..., :-1], cdf_at)
    above = (high - at) * average(sf_at, sf[..., 1:])
    return below.sum(axis=1), above.sum(axis=1)
