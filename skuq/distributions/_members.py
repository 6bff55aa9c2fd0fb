"""What the families with several members a row share: weights and the quantile search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_finite, check_non_negative

PRECISION = 4 * np.finfo(float).eps


def read_weights(weights: ArrayLike | None, n: int, m: int) -> FloatArray | None:
    """Return member weights, shape (n, m) and each row summing to one, or None for equal weights."""
    if weights is None:
        return None
    array = check_non_negative(check_finite(as_float_array(weights, "weights"), "weights"), "weights")
    if array.shape not in {(m,), (n, m)}:
        raise ValueError(f"`weights` must have shape ({m},) or ({n}, {m}), one a member, got {array.shape}.")
    array = np.broadcast_to(array, (n, m))
    total = array.sum(axis=1, keepdims=True)
    if (total == 0).any():
        raise ValueError(
            f"`weights` must have a positive sum in every row, got only zeros at row {np.argmin(total)}."
        )
    return np.asarray(array / total)


def read_members(values: ArrayLike, name: str) -> FloatArray:
    """Return a finite copy of shape (n, m) with at least one row and one member."""
    array = as_float_array(values, name)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"`{name}` must have shape (n, m) with n, m >= 1, one row a sample, got {array.shape}."
        )
    return np.array(check_finite(array, name))


def root_mean_square(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Root of the weighted mean of squares of each row, shape (n,), in a unit that keeps squares in range.

    What has no weight does not count, though it be infinite.
    """
    size = np.where(weights > 0, np.abs(values), 0.0)
    unit = size.max(axis=1)
    scaled = size / np.where((unit > 0) & np.isfinite(unit), unit, 1.0)[:, np.newaxis]
    return np.asarray(unit * np.sqrt((weights * np.square(scaled)).sum(axis=1)))


def search_quantile(
    cdf: Callable[[FloatArray], FloatArray], p: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Smallest y in [low, high] with cdf(y) >= p, for all rows at once.

    Chandrupatla's method (1997, https://doi.org/10.1016/S0965-9978(96)00051-8) on log cdf - log p:
    inverse quadratic steps where they are safe, bisection where they are not, so that it also
    meets jumps and plateaus; the log keeps relative precision at levels such as 1e-300.
    """
    tiny = np.finfo(float).tiny

    def gap(y: FloatArray) -> FloatArray:
        return np.log(np.maximum(cdf(y), tiny)) - np.log(np.maximum(p, tiny))

    b = np.array(low, dtype=float)
    fb = gap(b)
    answer_low = (fb >= 0) | ~np.isfinite(b) | (low == high)  # the lower end already reaches the level
    a = np.where(answer_low, b, high)
    fa = np.where(answer_low, fb, gap(a))
    settled = answer_low | ~np.isfinite(a)
    a, b = np.where(settled, 0.0, a), np.where(settled, 0.0, b)
    c, fc, t = a.copy(), fa.copy(), np.where(settled, 0.0, 0.5)
    for _ in range(200):
        x = a + t * (b - a)
        fx = gap(x)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        closest = np.minimum(np.abs(a), np.abs(b))
        width = np.abs(b - a)
        settled |= (width <= PRECISION * closest) | (fa == 0) | (width == 0)
        if settled.all():
            break
        with np.errstate(all="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            quadratic = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi) & np.isfinite(quadratic)
            least = np.minimum(0.5, 0.5 * PRECISION * closest / width)
        t = np.where(smooth, np.clip(quadratic, least, 1 - least), 0.5)
        t = np.where(settled, 0.0, t)
    reached = np.where(fa >= 0, a, np.where(fb >= 0, b, np.maximum(a, b)))
    return np.where(answer_low, low, np.where(np.isfinite(high), reached, high))
