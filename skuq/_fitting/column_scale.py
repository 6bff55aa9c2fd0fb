"""Scale of each column, by which columns are divided so that squares do not overflow."""

from __future__ import annotations

import numpy as np

from skuq._typing import FloatArray


def column_scale(X: FloatArray, mean: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the root mean square of the centered columns, or inf for a constant column."""
    magnitude = np.abs(X[weight > 0]).max(axis=0)
    safe = np.where(magnitude > 0, magnitude, 1.0)
    scale = safe * np.sqrt(weight @ np.square((X - mean) / safe) / weight.sum())
    constant = scale <= 4 * np.finfo(np.float64).eps * magnitude
    return np.where(constant, np.inf, scale)
