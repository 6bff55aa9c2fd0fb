r"""Mean absolute differences of count distributions in closed form, for their CRPS.

With E[X 1{X <= y}] = E[X] H(y - 1), where H is the cdf of the same family with another parameter,

    E |X - y|       = y (2 F(y) - 1) - E[X] (2 H(y - 1) - 1),
    CRPS(y)         = E |X - y| - E |X - X'| / 2,
    E |X - X'| / 2  = m (I0(2m) + I1(2m)) exp(-2m)                              Poisson(m), H = F
                    = n p q 2F1(1 - n, 1/2; 2; 4 p q)                           Binomial(n, p), H = F_{n - 1}
                    = n q / p^2 2F1(n + 1, 1/2; 2; -4 q / p^2)                  NegBin(n, p), H = F_{n + 1}

with q = 1 - p (Wei and Held 2014, Calibration tests for count data; Jordan, Krueger and Lerch 2019).
scipy's 2F1 is NaN for large n and small p of the negative binomial distribution. These rows are sums of
F (1 - F).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from skuq._typing import FloatArray

_POINTS_PER_STD = 8
"""Number of evaluated integers per standard deviation of a wide row. On this scale, F (1 - F) is smooth."""

_BLOCK = 1 << 20
"""An array contains at most this number of evaluations of the cdf."""


class CountMeans(NamedTuple):
    """The means E |X - y| and E |X - X'| / 2, both of shape (n,)."""

    distance: FloatArray
    half_difference: FloatArray


def count_means(frozen: Any, parameters: dict[str, FloatArray], y: FloatArray) -> CountMeans | None:
    """Return the means of a frozen Poisson, binomial or negative binomial distribution.

    Otherwise, return None.
    """
    x = y - parameters["loc"]
    family = type(frozen.dist)  # A subclass, such as Bernoulli of binomial, has other parameters.
    with np.errstate(all="ignore"):
        if family is type(stats.poisson):
            mean = parameters["mu"]
            half = mean * (special.i0e(2 * mean) + special.i1e(2 * mean))
            shifted = stats.poisson.cdf(x - 1, mean)
        elif family is type(stats.binom):
            n, p = parameters["n"], parameters["p"]
            mean, variance = n * p, n * p * (1 - p)
            half = variance * special.hyp2f1(1 - n, 0.5, 2.0, 4 * p * (1 - p))
            shifted = stats.binom.cdf(x - 1, np.maximum(n - 1, 0), p)
        elif family is type(stats.nbinom):
            n, p = parameters["n"], parameters["p"]
            mean, variance = n * (1 - p) / p, n * (1 - p) / p**2
            half = variance * special.hyp2f1(n + 1, 0.5, 2.0, -4 * (1 - p) / p**2)
            shifted = stats.nbinom.cdf(x - 1, n + 1, p)
        else:
            return None
    distance = x * (2 * frozen.cdf(y) - 1) - mean * (2 * shifted - 1)
    return CountMeans(np.asarray(distance, dtype=float), _complete(frozen, parameters, half))


def _complete(frozen: Any, parameters: dict[str, FloatArray], half: Any) -> FloatArray:
    """Return E |X - X'| / 2. Rows that are not finite are replaced by sums."""
    values = np.array(half, dtype=float)
    rows = np.flatnonzero(~np.isfinite(values))
    if not rows.size:
        return values
    std = np.broadcast_to(frozen.std(), values.shape)[rows]
    stride = np.maximum(np.floor(std / _POINTS_PER_STD), 1.0)
    low, high = (np.broadcast_to(end, values.shape)[rows] for end in (frozen.ppf(1e-16), frozen.isf(1e-15)))
    n_points = np.ceil((high - low) / stride).astype(int) + 2
    size = max(1, _BLOCK // int(n_points.max()))
    for start in range(0, rows.size, size):
        block = slice(start, start + size)
        each = {name: value[rows[block], np.newaxis] for name, value in parameters.items()}
        k = low[block, np.newaxis] - 1 + stride[block, np.newaxis] * np.arange(n_points[block].max())
        cdf = frozen.dist.cdf(k, **each)
        values[rows[block]] = stride[block] * (cdf * (1 - cdf)).sum(axis=1)
    return values
