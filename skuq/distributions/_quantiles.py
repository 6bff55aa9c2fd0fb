"""Distributions given by quantiles at a few levels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import check_increasing, check_open_unit
from skuq.distributions._base import Distribution
from skuq.distributions._level_quadrature import snap_levels
from skuq.distributions._members import SATURATED, read_members
from skuq.distributions._normal import Normal, noise_scale, read_epistemic_scale
from skuq.distributions._piecewise_cdf import linear_integrals, mean_square_of_line


@dataclass(frozen=True, eq=False, repr=False)
class Quantiles(Distribution):
    """Distributions given by their quantiles, for example the quantiles of a multi-quantile regression.

    The cdf is linear between the levels. Beyond the outermost levels, the cdf has exponential tails that
    continue its value and its slope. Mean, standard deviation and CRPS have closed forms.

    Parameters
    ----------
    levels : array-like of shape (k,), k >= 2
        Strictly increasing levels in (0, 1), the same for all rows.
    values : array-like of shape (n, k)
        Quantiles of each row, in the units of y. Crossing quantiles are sorted. Sorting never increases the
        pinball loss (the monotone rearrangement of Chernozhukov, Fernandez-Val and Galichon 2010,
        https://doi.org/10.3982/ECTA7880). Equal values form an atom.
    epistemic_scale : float or array-like of shape (n,), default=None
        Standard deviation of the regression function f(x). The methods `epistemic` and `aleatoric` require
        this argument. The epistemic part is normal. The aleatoric part is a rescaled copy of the whole
        distribution.

    Attributes
    ----------
    levels : ndarray of shape (k,)
        Levels as given.
    values : ndarray of shape (n, k)
        Quantiles, sorted in each row.

    Notes
    -----
    Each method costs O(n k) time and memory. Below the first quantile ``v_1`` at level ``p_1``, the cdf is
    ``p_1 exp((y - v_1) / tau)`` with ``tau = p_1 (v_2 - v_1) / (p_2 - p_1)``. The formula of the upper tail
    is analogous. The exponential form of the tails is an assumption.

    Examples
    --------
    >>> from skuq.distributions import Quantiles
    >>> dist = Quantiles([0.1, 0.5, 0.9], [[-1.0, 0.0, 2.0]])
    >>> dist.cdf([1.0])
    array([0.7])
    >>> dist.quantile([0.05, 0.5]).round(4)
    array([[-1.1733,  0.    ]])
    """

    levels: FloatArray
    values: FloatArray
    epistemic_scale: FloatArray | None

    _PER_ROW = ("values", "epistemic_scale")

    def __init__(
        self, levels: ArrayLike, values: ArrayLike, epistemic_scale: ArrayLike | None = None
    ) -> None:
        p = np.array(check_increasing(np.atleast_1d(check_open_unit(levels, "levels")), "levels"))
        v = read_members(values, "values")
        if p.size < 2:
            raise ValueError(f"`levels` must hold at least two levels, got {p.size}.")
        if v.shape[1] != p.size:
            raise ValueError(
                f"`values` must have {p.size} columns, one column per level, got shape {v.shape}."
            )
        if (v[:, 1:] < v[:, :-1]).any():  # The comparison is much faster than the sort.
            v.sort(axis=1)
        self._set(levels=p, values=v, epistemic_scale=None)
        if epistemic_scale is not None:
            part = read_epistemic_scale(epistemic_scale, self.std(), "the standard deviation")
            self._set(epistemic_scale=part)

    @cached_property
    def _tails(self) -> tuple[FloatArray, FloatArray]:
        """Return the decay lengths of both tails. A length is 0 if the outermost quantile is an atom."""
        p, v = self.levels, self.values
        lower = p[0] * (v[:, 1] - v[:, 0]) / (p[1] - p[0])
        upper = (1 - p[-1]) * (v[:, -1] - v[:, -2]) / (p[-1] - p[-2])
        return lower, upper

    def _moments_about(self, center: FloatArray, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return E Z and E Z^2 of Z = (Y - ``center``) / ``unit``."""
        p, (lower, upper) = self.levels, (length / unit for length in self._tails)
        v = (self.values - center[:, np.newaxis]) / unit[:, np.newaxis]
        a, b, step = v[:, :-1], v[:, 1:], np.diff(p)
        low, high, q = v[:, 0], v[:, -1], 1 - p[-1]
        # The pieces are uniform distributions. The tails are exponential distributions, with E X = 1 and E
        # X^2 = 2 in units of the decay length.
        first = (a + b) @ step / 2 + p[0] * (low - lower) + q * (high + upper)
        second = (
            (a * a + a * b + b * b) @ step / 3
            + p[0] * (low**2 - 2 * low * lower + 2 * lower**2)
            + q * (high**2 + 2 * high * upper + 2 * upper**2)
        )
        return first, second

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        width = self.values[:, -1] - self.values[:, 0]
        center, unit = self.median(), np.where(width > 0, width, 1.0)
        first, second = self._moments_about(center, unit)
        return center + unit * first, unit * np.sqrt(np.maximum(second - first**2, 0.0))

    def _segment(
        self, y: FloatArray
    ) -> tuple[BoolArray, BoolArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        k = self.levels.size
        # If several quantiles are equal, the last of them is used, so that the cdf is continuous from the
        # right.
        count = (self.values <= y[:, np.newaxis]).sum(axis=1)
        left = np.clip(count - 1, 0, k - 2)
        row = np.arange(len(self))
        ends = self.values[row, left], self.values[row, left + 1]
        return count == 0, count == k, *ends, self.levels[left], self.levels[left + 1]

    def _cdf(self, y: FloatArray) -> FloatArray:
        below, above, start, stop, p, p_next = self._segment(y)
        lower, upper = self._tails
        inside = p + (p_next - p) * _ratio(y - start, stop - start)
        under = self.levels[0] * _decay(y - self.values[:, 0], lower)
        over = 1 - (1 - self.levels[-1]) * _decay(self.values[:, -1] - y, upper)
        return np.where(below, under, np.where(above, over, inside))

    def _cdf_between(self, y: FloatArray, levels: FloatArray) -> FloatArray | None:
        """Return the mean of the stored levels below and at y. Return None if a level is not stored."""
        p = self.levels
        if not np.isin(snap_levels(levels, p), p).all():
            return None
        # Quantiles below y are counted twice, and quantiles equal to y once.
        place = np.zeros(len(self), dtype=np.intp)
        for column in self.values.T:
            place += column < y
            place += column <= y
        ends = np.concatenate([[0.0], p, [1.0]])
        values = np.empty(2 * p.size + 1)
        values[::2], values[1::2] = (ends[:-1] + ends[1:]) / 2, p
        return values[place]

    def _sf(self, y: FloatArray) -> FloatArray:
        above = y >= self.values[:, -1]
        over = (1 - self.levels[-1]) * _decay(self.values[:, -1] - y, self._tails[1])
        return np.where(above, over, 1 - self._cdf(y))

    def _normal_score(self, y: FloatArray) -> FloatArray:
        score = super()._normal_score(y)
        if not np.isinf(score).any():
            return score
        # The logarithm of an exponential tail is finite even if the tail underflows.
        (lower, upper), (low, high) = self._tails, (self.values[:, 0], self.values[:, -1])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            under = ndtri_exp(np.log(self.levels[0]) - np.maximum(low - y, 0.0) / lower)
            over = -ndtri_exp(np.log1p(-self.levels[-1]) - np.maximum(y - high, 0.0) / upper)
        score = np.where(np.isneginf(score) & (lower > 0), under, score)
        return np.where(np.isposinf(score) & (upper > 0), over, score)

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        if np.abs(score).max() < SATURATED:
            return super()._from_normal_score(score)
        (lower, upper), (low, high) = self._tails, (self.values[:, 0], self.values[:, -1])
        log_tail = log_ndtr(-np.abs(score))
        with np.errstate(invalid="ignore"):
            under = low + np.where(lower > 0, lower * (log_tail - np.log(self.levels[0])), 0.0)
            over = high - np.where(upper > 0, upper * (log_tail - np.log1p(-self.levels[-1])), 0.0)
        inside = super()._from_normal_score(np.clip(score, -SATURATED, SATURATED))
        return np.where(score < -SATURATED, under, np.where(score > SATURATED, over, inside))

    def _ppf(self, p: FloatArray) -> FloatArray:
        k = self.levels.size
        p = snap_levels(p, self.levels)
        if p.ndim == 0 and (own := np.flatnonzero(self.levels == p)).size:
            return np.array(self.values[:, own[0]])
        right = np.clip(np.searchsorted(self.levels, p, side="left"), 1, k - 1)
        row = np.arange(len(self))
        start, stop = self.values[row, right - 1], self.values[row, right]
        share = (p - self.levels[right - 1]) / (self.levels[right] - self.levels[right - 1])
        # Rounding must not make the result larger than the next stored quantile.
        inside = np.where(share < 1, np.minimum(start + share * (stop - start), stop), stop)
        if self.levels[0] <= p.min() and p.max() <= self.levels[-1]:
            return inside
        return np.where(
            p < self.levels[0],
            self._lower_tail(p),
            np.where(p > self.levels[-1], self._upper_tail(1 - p), inside),
        )

    def _isf(self, q: FloatArray) -> FloatArray:
        q = snap_levels(q, (1 - self.levels)[::-1])
        if q.ndim == 0 and q >= 1 - self.levels[-1]:
            return self._ppf(1 - q)
        return np.where(q < 1 - self.levels[-1], self._upper_tail(q), self._ppf(1 - q))

    def _lower_tail(self, p: FloatArray) -> FloatArray:
        lower = self._tails[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.values[:, 0] + np.where(lower > 0, lower * np.log(p / self.levels[0]), 0.0)

    def _upper_tail(self, q: FloatArray) -> FloatArray:
        upper = self._tails[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.values[:, -1] - np.where(upper > 0, upper * np.log(q / (1 - self.levels[-1])), 0.0)

    def _level_breaks(self) -> FloatArray:
        return self.levels

    def _tail_table(self, x: FloatArray) -> FloatArray:
        p, v, (lower, upper) = self.levels, self.values, self._tails
        tails = np.stack([np.interp(places, knots, p) for places, knots in zip(x, v, strict=True)])
        half = x.shape[1] // 2
        tails[:, half:] = 1 - tails[:, half:]
        at, column = np.nonzero(x < v[:, [0]])
        mass = p[0] * _decay(x[at, column] - v[at, 0], lower[at])
        tails[at, column] = np.where(column < half, mass, 1 - mass)
        at, column = np.nonzero(x >= v[:, [-1]])
        mass = (1 - p[-1]) * _decay(v[at, -1] - x[at, column], upper[at])
        tails[at, column] = np.where(column < half, 1 - mass, mass)
        return tails

    _light_tails = True

    @cached_property
    def has_density(self) -> bool:
        return bool((np.diff(self.values, axis=1) > 0).all())

    def _logpdf(self, y: FloatArray) -> FloatArray:
        below, above, start, stop, p, p_next = self._segment(y)
        lower, upper = self._tails
        with np.errstate(divide="ignore"):
            inside = np.log((p_next - p) / (stop - start))
            under = np.log(self.levels[0] / lower) + (y - self.values[:, 0]) / lower
            over = np.log((1 - self.levels[-1]) / upper) + (self.values[:, -1] - y) / upper
        return np.where(below, under, np.where(above, over, inside))

    def _crps(self, y: FloatArray) -> FloatArray:
        below, above = self._squared_integrals(y)
        return below + above

    def _squared_integrals(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the integral of F^2 below y and the integral of (1 - F)^2 above y."""
        v, (lower, upper), s = self.values, self._tails, 1 - self.levels
        below, above = linear_integrals(v, self.levels, s, y, mean_square_of_line)
        lower_tail = _tail_integrals(v[:, 0] - y, self.levels[0], lower)
        upper_tail = _tail_integrals(y - v[:, -1], s[-1], upper)
        return below + lower_tail[1] + upper_tail[0], above + lower_tail[0] + upper_tail[1]

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        return self._crps(y) + self._half_mean_difference()

    def _half_mean_difference(self) -> FloatArray:
        """Return E|X - X'| / 2 of two independent draws, which is the integral of F (1 - F)."""
        p, (lower, upper), q = self.levels, self._tails, 1 - self.levels[-1]
        # This is the mean of f (1 - f) for a linear function f.
        inside = (p[:-1] + p[1:]) / 2 - (p[:-1] ** 2 + p[:-1] * p[1:] + p[1:] ** 2) / 3
        total = np.diff(self.values, axis=1) @ inside
        return np.asarray(total + lower * (p[0] - p[0] ** 2 / 2) + upper * (q - q**2 / 2))

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Quantiles | None:
        values = shift[:, np.newaxis] + factor[:, np.newaxis] * self.values
        epistemic = None if self.epistemic_scale is None else np.abs(factor) * self.epistemic_scale
        if (factor > 0).all():
            return Quantiles(self.levels, values, epistemic)
        if (factor < 0).all():
            return Quantiles((1 - self.levels)[::-1], values[:, ::-1], epistemic)
        return None

    def epistemic(self) -> Distribution:
        if self.epistemic_scale is None:
            return super().epistemic()
        return Normal(self.mean(), self.epistemic_scale)

    def aleatoric(self) -> Distribution:
        if self.epistemic_scale is None:
            return super().aleatoric()
        std = self.std()
        share = _ratio(noise_scale(std, self.epistemic_scale), std)
        return Quantiles(self.levels, share[:, np.newaxis] * (self.values - self.mean()[:, np.newaxis]))


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole > 0)


def _decay(distance: FloatArray, length: FloatArray) -> FloatArray:
    """Return exp(distance / length) for distance <= 0. For a tail of length 0, the result is 0."""
    with np.errstate(over="ignore"):  # The quotient may overflow to -inf, whose exponential is 0.
        scaled = np.divide(distance, length, out=np.full(np.shape(distance), -np.inf), where=length > 0)
    return np.asarray(np.exp(np.minimum(scaled, 0.0)))


def _tail_integrals(outside: FloatArray, mass: float, length: FloatArray) -> tuple[FloatArray, FloatArray]:
    distance = np.maximum(outside, 0.0)
    at = mass * _decay(-distance, length)
    return distance - 2 * length * (mass - at) + length * (mass**2 - at**2) / 2, length * at**2 / 2
