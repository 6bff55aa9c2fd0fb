"""Integrals of squared cdfs, which are the terms of the CRPS.

Let I(z) = int_-inf^z F(v)^2 dv. If F is symmetric about 0, then int_z^inf (1 - F(v))^2 dv = I(-z).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, ndtr

from skuq._typing import FloatArray

_SQRT_2, _SQRT_PI = math.sqrt(2.0), math.sqrt(math.pi)


def squared_normal_cdf(z: FloatArray) -> FloatArray:
    """Return I(z) = z Phi(z)^2 + 2 Phi(z) phi(z) - Phi(sqrt(2) z) / sqrt(pi) without cancellation."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        # With the Mills ratio M, Phi(-t) = phi(t) M(t), so phi(t)^2 is a factor of all three terms.
        t = np.maximum(np.where(np.isinf(z), 0.0, -z), 0.0)
        mills, double = (math.sqrt(math.pi / 2) * erfcx(x) for x in (t / _SQRT_2, t))
        tail = density**2 * (mills * (2 - t * mills) - _SQRT_2 * double)
        probability = ndtr(z)
        upper = probability * (z * probability + 2 * density) - ndtr(_SQRT_2 * z) / _SQRT_PI
    return np.asarray(np.where(z < 0, tail, upper))


def symmetric_integrals(
    integral: Callable[[FloatArray], FloatArray], y: FloatArray, loc: FloatArray, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return int F^2 below y and int (1 - F)^2 above y for loc + scale Z, where Z is symmetric."""
    distance, atom = y - loc, scale == 0
    z = distance / np.where(atom, 1.0, scale)
    # For a point mass and an infinite y, the product is 0 times infinity.
    with np.errstate(invalid="ignore"):
        below, above = (np.where(atom, np.maximum(x, 0.0), scale * integral(x)) for x in (z, -z))
    return below, above
