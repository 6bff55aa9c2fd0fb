"""Sums and means over rows with weights. A weight is a number of repetitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from skuq._typing import FloatArray, IntArray


def weighted_mean(values: FloatArray, weight: FloatArray | None) -> float:
    if weight is None:
        return float(values.mean())
    return weighted_sum(values, weight) / float(weight.sum())


def weighted_means(columns: tuple[FloatArray, ...], weight: FloatArray | None) -> FloatArray:
    return np.array([weighted_mean(column, weight) for column in columns])


def weighted_sum(values: FloatArray, weight: FloatArray | None) -> float:
    if weight is None:
        return float(values.sum())
    with np.errstate(invalid="ignore"):
        total = float(weight @ values)
    return float(weighted(values, weight).sum()) if np.isnan(total) else total


def weighted(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    if weight is None:
        return values
    with np.errstate(invalid="ignore"):
        product = values * weight
    return np.where(weight > 0, product, 0.0) if np.isnan(product).any() else product


def is_sparse(columns: Any) -> bool:
    return bool(sparse.issparse(columns))


def group_sums(columns: Any, group: IntArray, weight: FloatArray | None = None) -> Any:
    """Return the weighted sums of the rows of each group, shape (G, c).

    The sums are sparse if the columns are sparse.
    """
    n = group.size
    ones = np.ones(n) if weight is None else weight
    return sparse.csr_array((ones, group, np.arange(n + 1)), shape=(n, int(group.max()) + 1)).T @ columns
