"""Samples as quantiles at uniform levels."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import FloatArray

_QUANTILES_AT_ONCE = 2048
"""Number of quantiles per call for distributions with few rows."""


def inverse_samples(dist: Any, m: int, rng: np.random.RandomState) -> FloatArray:
    """Return m samples of each row, shape (n, m); one call draws several samples of few rows."""
    n = len(dist)
    draws = max(min(_QUANTILES_AT_ONCE // max(n, 1), m), 1)
    repeated = dist if draws == 1 else dist[np.tile(np.arange(n), draws)]
    samples = np.empty((m, n))
    for start in range(0, m, draws):
        block = samples[start : start + draws]
        part = repeated if len(block) == draws else repeated[: block.size]
        block[:] = part._ppf(rng.uniform(size=block.size)).reshape(block.shape)
    return samples.T
