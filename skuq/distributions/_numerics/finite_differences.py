"""Finite differences of functions without a known derivative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skuq._typing import FloatArray

_STENCIL = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
"""Coefficients of central differences of order eight."""

_SHORTER = (1.0, 1e-2, 1e-4, 1e-6)
"""These factors shorten the step near an end of the domain."""


def derivative(function: Callable[[FloatArray], FloatArray], x: FloatArray, step: FloatArray) -> FloatArray:
    """Return the derivative by central differences. The steps are shorter near an end of the domain."""
    slope = np.full(x.shape, np.nan)
    with np.errstate(all="ignore"):
        for factor in _SHORTER:
            if not np.isnan(slope).any():
                return slope
            exact = (x + factor * step) - x  # This is the step after rounding.
            total = np.zeros_like(x)
            for k, coefficient in enumerate(_STENCIL, start=1):
                total += coefficient * (function(x + k * exact) - function(x - k * exact))
            slope = np.where(np.isfinite(slope), slope, total / exact)
        for side in (exact, -exact):
            slope = np.where(np.isfinite(slope), slope, (function(x + side) - function(x)) / side)
    return slope
