r"""Moments and CRPS of an increasing, piecewise linear function of a standard normal variable.

Let Z be standard normal, X = h(Z), and g the inverse of h. Then the cdf of X is Phi(g(x)). On a piece of g
with slope s, X = x_j + (Z - g_j) / s, so the moments of X are sums of moments of truncated normals. In

    CRPS(t) = int_-inf^t Phi(g(x))^2 dx + int_t^inf Phi(-g(x))^2 dx

the integral over each piece is a difference of two values of I(g) / s, where

    I(z) = int_-inf^z Phi(v)^2 dv = z Phi(z)^2 + 2 Phi(z) phi(z) - Phi(sqrt(2) z) / sqrt(pi).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from skuq._typing import FloatArray
from skuq.distributions._level_map import Pieces
from skuq.distributions._numerics.squared_cdf import squared_normal_cdf

_SQRT_2PI = math.sqrt(2 * math.pi)


def _density(z: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-0.5 * z * z) / _SQRT_2PI)


def pieces_moments(pieces: Pieces) -> tuple[float, float]:
    """Return the mean and the standard deviation of X. The function g is ``pieces``."""
    g = np.concatenate([[-np.inf], pieces.values, [np.inf]])
    anchor = np.maximum(np.arange(g.size - 1) - 1, 0)
    unit = 1 / float(pieces.slopes.min())  # This unit prevents overflow of the squares.
    spread = 1 / pieces.slopes / unit
    # Deviations from the median keep their precision if the mean is large.
    center = float(pieces.inverse(np.zeros(1))[0])
    start = (pieces.knots[anchor] - center) / unit - spread * pieces.values[anchor]
    density = _density(g)
    weighted = np.where(np.isfinite(g), g, 0.0) * density
    upper = g[:-1] > 0  # Above the median, the difference of two upper tails is more precise.
    inside = np.where(upper, ndtr(-g[:-1]) - ndtr(-g[1:]), ndtr(g[1:]) - ndtr(g[:-1]))
    first = density[:-1] - density[1:]
    second = inside + weighted[:-1] - weighted[1:]
    mean = float((start * inside + spread * first).sum())
    square = float((start**2 * inside + 2 * start * spread * first + spread**2 * second).sum())
    return center + unit * mean, unit * math.sqrt(max(square - mean**2, 0.0))


def pieces_crps(pieces: Pieces, t: FloatArray) -> FloatArray:
    """Return the CRPS of X at finite values t. The function g is ``pieces``."""
    below, above = squared_normal_cdf(pieces.values), squared_normal_cdf(-pieces.values)
    inner = pieces.slopes[1:-1]
    before = np.concatenate([[0.0], np.cumsum(np.diff(below) / inner)]) + below[0] / pieces.slopes[0]
    after = np.concatenate([np.cumsum((-np.diff(above) / inner)[::-1])[::-1], [0.0]])
    after += above[-1] / pieces.slopes[-1]
    piece, knot = pieces.find(t)
    slope = pieces.slopes[piece]
    g = pieces.values[knot] + slope * (t - pieces.knots[knot])
    lower = before[knot] + (squared_normal_cdf(g) - below[knot]) / slope
    upper = after[knot] + (squared_normal_cdf(-g) - above[knot]) / slope
    return np.asarray(np.maximum(lower, 0.0) + np.maximum(upper, 0.0))
