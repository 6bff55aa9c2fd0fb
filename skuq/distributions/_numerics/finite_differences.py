"""Derivatives of functions that are known only by calling them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skuq._typing import FloatArray

_STENCIL = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
"""Central differences of order eight."""

_SHORTER = (1.0, 1e-2, 1e-4, 1e-6)
"""Factors of the step, for where the function ends close by."""


def derivative(function: Callable[[FloatArray], FloatArray], x: FloatArray, step: FloatArray) -> FloatArray:
    """Return the derivative at finite x, by ever shorter differences where the function is not defined.

    At the very end of its domain the difference is taken to the side where it is.
    """
    slope = np.full(x.shape, np.nan)
    with np.errstate(all="ignore"):
        for factor in _SHORTER:
            if not np.isnan(slope).any():
                return slope
            exact = (x + factor * step) - x  # a step that is exact in floating point
            total = np.zeros_like(x)
            for k, coefficient in enumerate(_STENCIL, start=1):
                total += coefficient * (function(x + k * exact) - function(x - k * exact))
            slope = np.where(np.isfinite(slope), slope, total / exact)
        for side in (exact, -exact):
            slope = np.where(np.isfinite(slope), slope, (function(x + side) - function(x)) / side)
    return slope
