"""Weights and quantile searches for families with several members per row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from skuq._numeric import level_rounding
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_finite, check_non_negative
from skuq.distributions._family import Family

PRECISION = 4 * np.finfo(float).eps

SATURATED = 37.0
"""Beyond this normal score, quantiles are searched by normal scores, because probabilities underflow."""

ValueFunction = Callable[[FloatArray], FloatArray]


MOST_KEPT = 1 << 22
"""A mixture caches at most this number of values."""


class QuantileCache:
    """Cache of quantiles at levels that all rows share.

    Without a cache, each quantile would require a new search.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, float], FloatArray] = {}

    def get(self, side: str, level: FloatArray, search: Callable[[FloatArray], FloatArray]) -> FloatArray:
        if level.ndim:
            return search(level)
        key = side, float(level)
        found = self._kept.get(key)
        if found is None:
            found = search(level)
            if (len(self._kept) + 1) * found.size <= MOST_KEPT:
                self._kept[key] = found
        return found.copy()


class SearchedQuantiles(Family):
    """Quantiles of a mixture, which are found by a search between the quantiles of its members."""

    @abstractmethod
    def _w(self) -> FloatArray:
        """Return the weights of the members, shape (n, m) or (1, m)."""

    @abstractmethod
    def _of_members(self, method: str, at: FloatArray) -> FloatArray:
        """Return the quantiles or the normal scores of the members, shape (n, m)."""

    @abstractmethod
    def _atoms(self, upper: bool) -> ValueFunction | None:
        """Return the function that maps y to the largest atom <= y. Return None if there are no atoms."""

    def _normal_score(self, y: FloatArray) -> FloatArray:
        score = super()._normal_score(y)
        if not np.isinf(score).any():
            return score
        # If the level underflows, its score is computed from the logarithms of the tails of the members.
        members = self._of_members("_normal_score", y)
        return np.where(np.isinf(score), mixture_score(members, self._w()), score)

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        if np.abs(score).max() < SATURATED:
            return super()._from_normal_score(score)
        target = np.broadcast_to(score, (len(self),))
        return search_score(self._normal_score, target, *self._bracket("_from_normal_score", target))

    @cached_property
    def _quantiles(self) -> QuantileCache:
        return QuantileCache()

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self._quantiles.get("ppf", p, self._search_ppf)

    def _isf(self, q: FloatArray) -> FloatArray:
        return self._quantiles.get("isf", q, self._search_isf)

    def _search_ppf(self, p: FloatArray) -> FloatArray:
        levels, ends = np.broadcast_to(p, (len(self),)), self._bracket("_ppf", p)
        return search_quantile(self._cdf, levels, *ends, self._atoms(upper=False))

    def _search_isf(self, q: FloatArray) -> FloatArray:
        levels, ends = np.broadcast_to(q, (len(self),)), self._bracket("_isf", q)
        return search_upper_quantile(self._sf, levels, *ends, self._atoms(upper=True))

    def _bracket(self, method: str, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        active, values = self._w() > 0, self._of_members(method, at)
        return np.where(active, values, np.inf).min(axis=1), np.where(active, values, -np.inf).max(axis=1)


def read_weights(weights: ArrayLike | None, n: int, m: int) -> FloatArray | None:
    """Return weights of shape (n, m) whose rows sum to 1, or None for equal weights."""
    if weights is None:
        return None
    array = check_non_negative(check_finite(as_float_array(weights, "weights"), "weights"), "weights")
    if array.shape not in {(m,), (n, m)}:
        raise ValueError(
            f"`weights` must have shape ({m},) or ({n}, {m}), one per member, got {array.shape}."
        )
    array = np.broadcast_to(array, (n, m))
    total = array.sum(axis=1, keepdims=True)
    if (total == 0).any():
        raise ValueError(
            f"`weights` must have a positive sum in every row, got only zeros at row {np.argmin(total)}."
        )
    return np.asarray(array / total)


def read_members(values: ArrayLike, name: str) -> FloatArray:
    """Return a checked copy of the members, shape (n, m)."""
    array = as_float_array(values, name)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"`{name}` must have shape (n, m) with n, m >= 1, one row per sample, got {array.shape}."
        )
    return np.array(check_finite(array, name))


def root_mean_square(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return the weighted root mean square of each row, shape (n,). Members of weight 0 may be infinite."""
    size = np.where(weights > 0, np.abs(values), 0.0)
    unit = size.max(axis=1)
    scaled = size / np.where((unit > 0) & np.isfinite(unit), unit, 1.0)[:, np.newaxis]
    return np.asarray(unit * np.sqrt((weights * np.square(scaled)).sum(axis=1)))


def search_quantile(
    cdf: ValueFunction, p: FloatArray, low: FloatArray, high: FloatArray, atoms: ValueFunction | None = None
) -> FloatArray:
    """Return the smallest y in [low, high] with cdf(y) >= p. The search handles all rows at once."""
    # A rounding error of the cdf at an atom must not change the result to the next atom.
    level = _log(p if atoms is None else p - level_rounding(p))
    return _search(lambda y: _log(cdf(y)) - level, low, high, atoms)


def search_upper_quantile(
    sf: ValueFunction, q: FloatArray, low: FloatArray, high: FloatArray, atoms: ValueFunction | None = None
) -> FloatArray:
    """Return the smallest y in [low, high] with P(Y > y) <= q, without cancellation."""
    level = _log(q if atoms is None else q + level_rounding(q))
    return _search(lambda y: level - _log(sf(y)), low, high, atoms)


def _log(probability: FloatArray) -> FloatArray:
    return np.asarray(np.log(np.maximum(probability, np.finfo(float).tiny)))


def _search(gap: ValueFunction, low: FloatArray, high: FloatArray, atoms: ValueFunction | None) -> FloatArray:
    found = search_crossing(gap, low, high)
    if atoms is None:
        return found
    # The result may differ from an atom by a rounding error. It may also be a point above the atom at which
    # the cdf has the same value.
    atom = np.where(np.isfinite(found), atoms(found), np.inf)
    atom = np.where((atom >= low) & (atom < found), atom, found)
    return np.where(gap(atom) >= 0, atom, found)


def search_crossing(gap: ValueFunction, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the smallest y in [low, high] with gap(y) >= 0. The function ``gap`` is increasing.

    The method of Chandrupatla (1997, https://doi.org/10.1016/S0965-9978(96)00051-8) takes inverse quadratic
    steps if they are safe, and bisects otherwise. The method also converges if the function has jumps or
    constant parts.
    """
    b = np.array(low, dtype=float)
    fb = gap(b)
    # In these rows, gap(low) >= 0, so the lower end is the result.
    answer_low = (fb >= 0) | ~np.isfinite(b) | (low == high)
    a = np.where(answer_low, b, high)
    fa = np.where(answer_low, fb, gap(a))
    answer_high = ~answer_low & (fa < 0)  # In these rows, gap(high) < 0 because of rounding errors.
    settled = answer_low | answer_high | ~np.isfinite(a)
    # Rows with a result get the interval [0, 0], so that they need no more steps.
    a, b = np.where(settled, 0.0, a), np.where(settled, 0.0, b)
    c, fc, t = a.copy(), fa.copy(), np.where(settled, 0.0, 0.5)
    for _ in range(200):
        x = a + t * (b - a)
        fx = gap(x)
        # a is the latest point, b is the other end of the interval, and c is the replaced point.
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
            # The step is inverse quadratic if the curve through the three points is monotone (Chandrupatla's
            # criterion). Otherwise, it is a bisection.
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            quadratic = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi) & np.isfinite(quadratic)
            # Each step has a minimum length, so that the interval shrinks from both sides.
            least = np.minimum(0.5, 0.5 * PRECISION * closest / width)
        t = np.where(smooth, np.clip(quadratic, least, 1 - least), 0.5)
        t = np.where(settled, 0.0, t)
    # The result is the end of the final interval at which the gap is not negative.
    reached = np.where(fa >= 0, a, np.where(fb >= 0, b, np.maximum(a, b)))
    return np.where(answer_low, low, np.where(answer_high | ~np.isfinite(high), high, reached))


def search_score(score: ValueFunction, target: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the smallest y in [low, high] with score(y) >= target."""
    inside = np.isfinite(target)
    goal = np.where(inside, target, 0.0)
    found = search_crossing(lambda y: score(y) - goal, low, high)
    return np.where(inside, found, np.where(target > 0, high, low))


def mixture_score(scores: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the normal scores of a mixture. The normal scores of its members have the shape (n, m)."""
    with np.errstate(divide="ignore"):  # The logarithm of a tail without probability is -inf.
        lower, upper = (logsumexp(log_ndtr(side), axis=1, b=weights) for side in (scores, -scores))
    # Rounding of the weights must not make the logarithm of a probability positive.
    lower, upper = np.minimum(lower, 0.0), np.minimum(upper, 0.0)
    return np.where(lower < upper, ndtri_exp(lower), -ndtri_exp(upper))
