"""Units of columns: what is divided by before anything is squared."""

from __future__ import annotations

import numpy as np

from skuq._typing import FloatArray

__all__ = ["column_scale"]


def column_scale(X: FloatArray, mean: FloatArray, weight: FloatArray) -> FloatArray:
    """Root mean square of the centred columns; infinite where constant, so that the column drops out."""
    magnitude = np.abs(X[weight > 0]).max(axis=0)
    safe = np.where(magnitude > 0, magnitude, 1.0)
    scale = safe * np.sqrt(weight @ np.square((X - mean) / safe) / weight.sum())
    constant = scale <= 4 * np.finfo(np.float64).eps * magnitude
    return np.where(constant, np.inf, scale)
