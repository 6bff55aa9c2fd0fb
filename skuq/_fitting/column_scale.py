"""Scale of each column. The division of a column by its scale avoids an overflow of squares."""

from __future__ import annotations

import numpy as np

from skuq._typing import FloatArray


def column_scale(X: FloatArray, mean: FloatArray, weight: FloatArray) -> FloatArray:
    magnitude = np.abs(X[weight > 0]).max(axis=0)
    safe = np.where(magnitude > 0, magnitude, 1.0)
    scale = safe * np.sqrt(weight @ np.square((X - mean) / safe) / weight.sum())
    constant = scale <= 4 * np.finfo(np.float64).eps * magnitude
    return np.where(constant, np.inf, scale)
