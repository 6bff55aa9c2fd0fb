"""Weights and quantile searches for families with several members per row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


# `Mixture` and `NormalMixture` have the next four functions as methods. Quantiles are found by a search
# between the quantiles of the members. A mixture has four more attributes: ``_w()`` returns the weights of
# the members, shape (n, m) or (1, m). ``_of_members(method, at)`` returns the quantiles or the normal scores
# of the members, shape (n, m). ``_atoms(upper)`` returns the function that maps y to the largest atom <= y,
# or None if there are no atoms. ``_kept`` caches quantiles at levels that all rows share.


def mixture_ppf(mixture: Any, p: FloatArray) -> FloatArray:
    return _get(mixture, "_ppf", search_quantile, mixture._cdf, p)


def mixture_isf(mixture: Any, q: FloatArray) -> FloatArray:
    return _get(mixture, "_isf", search_upper_quantile, mixture._sf, q)


def _get(mixture: Any, side: str, search: Any, tail: ValueFunction, level: FloatArray) -> FloatArray:
    key = None if level.ndim else (side, float(level))
    if key in mixture._kept:
        return np.array(mixture._kept[key])
    levels, ends = np.broadcast_to(level, (len(mixture),)), _bracket(mixture, side, level)
    found: FloatArray = search(tail, levels, *ends, mixture._atoms(upper=side == "_isf"))
    if key is not None and (len(mixture._kept) + 1) * found.size <= MOST_KEPT:
        mixture._kept[key] = found.copy()
    return found


def mixture_normal_score(mixture: Any, y: FloatArray) -> FloatArray:
    score = Family._normal_score(mixture, y)
    if not np.isinf(score).any():
        return score
    # If the level underflows, its score is computed from the logarithms of the tails of the members.
    members = mixture._of_members("_normal_score", y)
    return np.where(np.isinf(score), mixture_score(members, mixture._w()), score)


def mixture_quantile(mixture: Any, score: FloatArray) -> FloatArray:
    if np.abs(score).max() < SATURATED:
        return Family._from_normal_score(mixture, score)
    target = np.broadcast_to(score, (len(mixture),))
    ends = _bracket(mixture, "_from_normal_score", target)
    return search_score(mixture._normal_score, target, *ends)


def _bracket(mixture: Any, method: str, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    active, values = mixture._w() > 0, mixture._of_members(method, at)
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
