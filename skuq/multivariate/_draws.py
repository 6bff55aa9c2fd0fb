"""Random points of a weighted sample."""

from __future__ import annotations

import numpy as np

from skuq._typing import FloatArray, IntArray


def draw_points(weights: FloatArray | None, n: int, k: int, m: int, rng: np.random.RandomState) -> IntArray:
    """Return the indices of m random points for each of n rows, shape (n, m).

    The weights have the shape (k,) or (n, k).
    """
    if weights is None:
        return rng.randint(k, size=(n, m))
    total = np.cumsum(np.broadcast_to(weights, (n, k)), axis=1)
    levels = rng.uniform(size=(n, m)) * total[:, -1:]
    index = np.array(
        [np.searchsorted(row, level, side="right") for row, level in zip(total, levels, strict=True)]
    )
    return np.asarray(np.minimum(index, k - 1))
