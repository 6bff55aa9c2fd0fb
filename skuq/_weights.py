"""Sums and means over rows with weights. A weight is a number of repetitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import betaincinv

from skuq._typing import ArrayLike, FloatArray, IntArray


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


def weighted_quantiles(values: FloatArray, levels: ArrayLike, weight: FloatArray | None) -> FloatArray:
    """Return quantiles. With integer weights, `numpy.quantile` of the repeated rows has the same values."""
    order = np.argsort(values)
    counts = np.ones(values.size) if weight is None else weight[order]
    first = np.cumsum(counts) - counts
    # A row has the places `first` to `last` of the ordered sample.
    last = first + np.maximum(counts - 1, 0)
    places, repeated = np.c_[first, last][counts > 0], np.c_[values[order], values[order]][counts > 0]
    return np.asarray(np.interp(np.asarray(levels) * (counts.sum() - 1), places.ravel(), repeated.ravel()))


def binomial_interval(
    hits: float | FloatArray, n: float | FloatArray, error: float
) -> tuple[FloatArray, FloatArray]:
    """Return the exact interval of a share of hits (Clopper and Pearson 1934).

    The probability that the interval does not contain the share is at most `error`.
    """
    hits, misses = np.asarray(hits), np.asarray(n - hits)
    # Without hits or without misses, the beta distribution is not defined, and the interval ends at 0 or 1.
    low = betaincinv(np.where(hits > 0, hits, 1.0), misses + 1, error / 2)
    high = betaincinv(hits + 1, np.where(misses > 0, misses, 1.0), 1 - error / 2)
    return np.where(hits > 0, low, 0.0), np.where(misses > 0, high, 1.0)


def is_sparse(columns: Any) -> bool:
    return bool(sparse.issparse(columns))


def group_sums(columns: Any, group: IntArray, weight: FloatArray | None = None) -> Any:
    """Return the weighted sums of the rows of each group, shape (G, c).

    The sums are sparse if the columns are sparse.
    """
    n = group.size
    ones = np.ones(n) if weight is None else weight
    return sparse.csr_array((ones, group, np.arange(n + 1)), shape=(n, int(group.max()) + 1)).T @ columns
