"""Statistics of weighted points of several targets."""

from __future__ import annotations

import numpy as np

from skuq._ranks import rank_target
from skuq._typing import FloatArray


def weighted_means(values: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return the means over the points, shape (n,). The values have the shape (n, K)."""
    return np.asarray(
        values.mean(axis=1) if weights is None else np.einsum("bk,bk->b", values * 1.0, weights)
    )


def correlations(points: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return the correlation matrices, shape (n, d, d). The points have the shape (n, K, d)."""
    share = np.full(points.shape[:2], 1.0 / points.shape[1]) if weights is None else weights
    centered = points - points[:, :1]  # keeps precision if the points are far from 0
    centered -= np.einsum("bk,bkd->bd", share, centered)[:, np.newaxis]
    unit = np.abs(centered).max(axis=1, keepdims=True)
    centered /= np.where(unit > 0, unit, 1.0)  # prevents overflow of the squares
    covariance = np.einsum("bk,bki,bkj->bij", share, centered, centered, optimize=True)
    return correlation_of(covariance)


def correlation_of(covariance: FloatArray) -> FloatArray:
    """Return correlation matrices. The correlation with a constant is 0."""
    std = np.sqrt(np.maximum(np.einsum("...ii->...i", covariance), 0.0))
    inverse = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)
    matrix = inverse[..., :, np.newaxis] * covariance * inverse[..., np.newaxis, :]
    matrix = np.clip(matrix, -1.0, 1.0)
    np.einsum("...ii->...i", matrix)[...] = 1.0
    return np.asarray(matrix)


def box_levels(levels: FloatArray, weights: FloatArray | None, coverage: float) -> FloatArray:
    """Return the smallest coverage of central intervals that jointly contain enough points, shape () or (b,).

    ``levels`` contains the levels of the points in the marginals, shape (K, d) or (b, K, d).
    """
    outermost = np.abs(2.0 * levels - 1.0).max(axis=-1)
    order = outermost.argsort(axis=-1, kind="stable")
    ordered = np.take_along_axis(outermost, order, axis=-1)
    k = outermost.shape[-1]
    if weights is None:
        index = int(np.ceil(rank_target(np.asarray(coverage * k), float(k)))) - 1
        return np.asarray(ordered[..., index])
    total = np.cumsum(np.take_along_axis(weights, order, axis=-1), axis=-1)
    index = (total < rank_target(np.asarray(coverage), 1.0)).sum(axis=-1, keepdims=True)
    return np.asarray(np.take_along_axis(ordered, np.minimum(index, k - 1), axis=-1)[..., 0])
