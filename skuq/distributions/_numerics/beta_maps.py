"""Beta calibration maps of probability levels, averaged over k maps per row, and their inverse.

The map from a level F to log odds is a log F - b log(1 - F) + c. As a function of the log odds t of F, the
map is nearly a straight line of slope a for very negative t, and of slope b for very positive t. The
difference between the map and the nearer line is at most max(a, b) log 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from skuq._typing import FloatArray, IntArray

_LOG_2 = math.log(2.0)
_MOST_STEPS = 200
_PRECISION = 8 * np.finfo(float).eps
_BLOCK = 2**16
"""An array of one block has at most this number of entries."""


@dataclass(frozen=True)
class BetaMaps:
    """Parameters and weights of k maps for each of n rows. All arrays have the shape (k, n)."""

    a: FloatArray
    b: FloatArray
    c: FloatArray
    weights: FloatArray

    def rows(self, chosen: slice) -> BetaMaps:
        return BetaMaps(self.a[:, chosen], self.b[:, chosen], self.c[:, chosen], self.weights[:, chosen])

    def pick(self, maps: IntArray, rows: IntArray) -> BetaMaps:
        a, b, c = (table[maps, rows][np.newaxis] for table in (self.a, self.b, self.c))
        return BetaMaps(a, b, c, np.ones_like(a))

    def middle(self) -> BetaMaps:
        a, b, c = ((self.weights * table).sum(axis=0)[np.newaxis] for table in (self.a, self.b, self.c))
        return BetaMaps(a, b, c, np.ones_like(a))

    def lower(self, log_lower: FloatArray, log_upper: FloatArray) -> FloatArray:
        return self._in_blocks(BetaMaps._lower, log_lower, log_upper)

    def upper(self, log_lower: FloatArray, log_upper: FloatArray) -> FloatArray:
        return self._in_blocks(BetaMaps._upper, log_lower, log_upper)

    def log_density(self, log_lower: FloatArray, log_upper: FloatArray) -> FloatArray:
        return self._in_blocks(BetaMaps._log_density, log_lower, log_upper)

    def invert(self, target: FloatArray) -> FloatArray:
        return self._in_blocks(BetaMaps._invert, target)

    def _in_blocks(self, function: Callable[..., FloatArray], *values: FloatArray) -> FloatArray:
        k, n = self.a.shape
        step = max(1, _BLOCK // k)
        if n <= step:
            return function(self, *values)
        parts = [slice(start, start + step) for start in range(0, n, step)]
        return np.concatenate(
            [function(self.rows(part), *(value[part] for value in values)) for part in parts]
        )

    def _mean(self, values: FloatArray) -> FloatArray:
        return np.asarray((self.weights * values).sum(axis=0))

    def _odds(self, log_lower: FloatArray, log_upper: FloatArray) -> FloatArray:
        return self.a * log_lower - self.b * log_upper + self.c

    def _lower(self, log_lower: FloatArray, log_upper: FloatArray) -> FloatArray:
        return np.minimum(self._mean(expit(self._odds(log_lower, log_upper))), 1.0)

    def _upper(self, log_lower: FloatArray, log_upper: FloatArray) -> FloatArray:
        return np.minimum(self._mean(expit(-self._odds(log_lower, log_upper))), 1.0)

    def _log_density(self, log_lower: FloatArray, log_upper: FloatArray) -> FloatArray:
        size = np.abs(self._odds(log_lower, log_upper))
        slope = np.logaddexp(np.log(self.a) - log_lower, np.log(self.b) - log_upper)
        with np.errstate(divide="ignore"):
            terms = np.log(self.weights) + slope - size - 2 * np.log1p(np.exp(-size))
        return np.asarray(np.logaddexp.reduce(terms, axis=0))

    def _invert(self, target: FloatArray) -> FloatArray:
        finite = np.isfinite(target)
        inside = np.where(finite, target, 0.0)
        low, high = self._bracket(inside)
        guess = (low + high) / 2
        if len(self.a) > 1:
            guess = np.clip(self.middle()._invert(inside), low, high)
        return np.where(finite, self._newton(inside, low, high, guess), target)

    def _bracket(self, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        a, b, gap = self.a, self.b, target - self.c
        upper = gap >= (b - a) * _LOG_2  # The root is above the level 1/2.
        low = np.where(upper, np.maximum(gap / b - _LOG_2, 0.0), (gap - b * _LOG_2) / a).min(axis=0)
        high = np.where(upper, (gap + a * _LOG_2) / b, np.minimum(gap / a + _LOG_2, 0.0)).max(axis=0)
        return low, np.maximum(low, high)

    def _newton(self, target: FloatArray, low: FloatArray, high: FloatArray, t: FloatArray) -> FloatArray:
        """Return the root by Newton's method. Long steps are replaced by bisection (as in rtsafe)."""
        done = np.zeros(t.shape, dtype=bool)
        last = high - low
        for _ in range(_MOST_STEPS):
            value, slope = self._mapped_odds(t)
            gap = value - target
            low, high = np.where(gap < 0, t, low), np.where(gap > 0, t, high)
            with np.errstate(all="ignore"):
                step = t - gap / slope
                tolerance = _PRECISION * np.maximum(np.abs(t), 1.0)
                shrinks = np.abs(step - t) <= np.maximum(last / 2, tolerance)
            step = np.where((step >= low) & (step <= high) & shrinks, step, (low + high) / 2)
            last = np.abs(step - t)
            settled = (gap == 0) | (last <= tolerance)
            t = np.where(done | (gap == 0), t, step)
            done |= settled  # Converged rows stop, so that the result of a row does not depend on other rows.
            if done.all():
                break
        return t

    def _mapped_odds(self, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        odds = self._odds(-np.logaddexp(0.0, -t), -np.logaddexp(0.0, t))
        under, over = expit(odds), expit(-odds)
        below, above = self._mean(under), self._mean(over)
        slope = self._mean(under * over * (self.a * expit(-t) + self.b * expit(t)))
        # If a division fails because of an underflow, the step is a bisection.
        with np.errstate(all="ignore"):
            return np.log(below) - np.log(above), slope / below + slope / above
