"""Histogram distributions with half-normal tails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri, ndtri_exp

from skuq._numeric import bisect, level_rounding, log_mass, row_blocks
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import as_float_array, check_finite, check_increasing, check_option
from skuq.distributions._base import Distribution
from skuq.distributions._normal import LOG_SQRT_2PI
from skuq.distributions._piecewise_cdf import (
    linear_integrals,
    mean_of_line,
    mean_square_of_line,
)
from skuq.distributions._value_quadrature import squared_normal_cdf

_HALF_NORMAL_MEDIAN = float(ndtri(0.75))
"""Median of the half-normal distribution with scale 1."""

_HALF_NORMAL_MEAN = float(np.sqrt(2 / np.pi))

_BLOCK = 1 << 18
"""Number of bars in a block of rows."""

_MOST_LANDMARKS = 512
"""Largest number of knots that divide a numerical integral."""

_NEGLIGIBLE = 1e-13
"""Knots with a smaller tail probability do not divide a numerical integral."""

_LARGEST_SCORE = 37.0
"""The tail probability of a larger normal score underflows."""

_FAR = 40.0
"""The density of a half-normal tail underflows before this number of scales."""

_TAIL_LANDMARKS = np.arange(0.6, 10.0, 0.6)
"""Points of a half-normal tail, in units of its scale."""


@dataclass(frozen=True, eq=False, repr=False)
class Binned(Distribution):
    """Histograms with the same bins in all rows, such as the forecasts of TabPFN.

    The density is constant in each bin. With ``tails=True``, the two outermost bins are replaced by
    half-normal tails, so every real number has a positive density.

    Parameters
    ----------
    edges : array-like of shape (k + 1,), k >= 1
        Strictly increasing edges of the bins in the units of y, the same for all rows.
    log_weights : array-like of shape (n, k)
        Natural logarithm of the weight of each bin, for example the logits of a network. Minus infinity means
        an empty bin. The weights are rescaled to sum to one in each row.
    tails : bool, default=True
        Whether the first and the last bin are half-normal tails. Half of the probability of such a bin lies
        beyond its outer edge. A single bin is split at its center into two tails. If False, all bins are
        uniform, and no probability lies beyond the edges.

    Attributes
    ----------
    edges : ndarray
        Edges as given. If a single bin was split, its center is a third edge.
    log_weights : ndarray of shape (n, k)
        Logarithms of the weights as given, not rescaled. If a single bin was split, the weight of both tails
        is 0.

    See Also
    --------
    Quantiles : Distributions given by quantiles at the same levels in all rows.

    Notes
    -----
    With tails, the distribution is TabPFN's ``FullSupportBarDistribution`` (Hollmann et al. 2025,
    https://doi.org/10.1038/s41586-024-08328-6). The lower tail starts at the second edge ``b`` and is the
    distribution of ``b - s |Z|``, where Z is standard normal and s is the width of the first bin divided by
    0.6745. The upper tail is analogous.

    The cdf, the quantiles, the density, the moments and the CRPS have closed forms. The first call costs O(n
    k). Later, a quantile costs O(log k) per row, and the CRPS costs O(k) per row. Other integrals, for
    example the CRPS of a mixture, are computed numerically. With more than 512 bins, the relative error
    depends on the roughness of the histogram. With 5000 bins and log weights whose standard deviation is 2,
    the error of E Y^2 was 6e-4 and the error of the CRPS of a mixture was less than 1e-4.
    With more than 512 bins, a recalibrator maps the levels of the edges, but it does not change the scale of
    the tails. In one case, the quantile at level 1e-6 was -6.0 instead of -8.8.

    The arrays of a row need about 40 k bytes, which is 0.2 MB with 5000 bins. Predict rows in blocks if there
    are more than about 10 000.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Binned
    >>> dist = Binned([0.0, 1.0, 2.0, 4.0], np.log([[0.1, 0.7, 0.2]]))
    >>> dist.cdf([1.5]).round(4)
    array([0.45])
    >>> dist.interval(0.96).round(2)
    array([[-0.9 ,  6.88]])
    >>> dist.crps([1.2]).round(4)
    array([0.2737])
    """

    edges: FloatArray
    log_weights: FloatArray
    tails: bool

    _PER_ROW = ("log_weights",)

    def __init__(self, edges: ArrayLike, log_weights: ArrayLike, tails: bool = True) -> None:
        borders = np.array(check_finite(np.atleast_1d(as_float_array(edges, "edges")), "edges"))
        if borders.ndim != 1 or borders.size < 2:
            raise ValueError(f"`edges` must have shape (k + 1,) with k >= 1 bins, got shape {borders.shape}.")
        check_increasing(borders, "edges")
        check_option(tails, "tails", (True, False))
        weights = _read_log_weights(log_weights, borders.size - 1)
        if tails and borders.size == 2:
            borders = np.array([borders[0], borders[0] / 2 + borders[1] / 2, borders[1]])
            weights = np.zeros((len(weights), 2))
        self._set(edges=borders, log_weights=weights, tails=bool(tails))

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Binned | None:
        if np.ptp(shift) > 0 or np.ptp(factor) > 0 or factor[0] == 0:
            return None
        edges, weights = shift[0] + factor[0] * self.edges, self.log_weights
        if factor[0] < 0:
            edges, weights = edges[::-1], weights[:, ::-1]
        return Binned(edges, weights, self.tails) if (np.diff(edges) > 0).all() else None

    # ------------------------------------------------ the cdf is linear between knots, with tails beyond them

    @cached_property
    def _knots(self) -> FloatArray:
        return self.edges[1:-1] if self.tails else self.edges

    @cached_property
    def _masses(self) -> FloatArray:
        mass = np.exp(self.log_weights - self.log_weights.max(axis=1, keepdims=True))
        mass /= mass.sum(axis=1, keepdims=True)
        return np.asarray(mass)

    @cached_property
    def _below(self) -> FloatArray:
        """Return the cdf at the knots, shape (n, m)."""
        return self._sums(self._masses)

    @cached_property
    def _above(self) -> FloatArray:
        """Return 1 - cdf at the knots, shape (n, m). Small values have full relative precision."""
        return self._sums(self._masses[:, ::-1])[:, ::-1]

    def _sums(self, masses: FloatArray) -> FloatArray:
        total = np.cumsum(masses, axis=1)
        if self.tails:
            return np.asarray(total[:, :-1])
        return np.concatenate([np.zeros((len(self), 1)), total[:, :-1], np.ones((len(self), 1))], axis=1)

    @property
    def _has_many_bins(self) -> bool:
        return bool(self.log_weights.shape[1] > _MOST_LANDMARKS)

    def _with_levels(self, level_map: Callable[[FloatArray], FloatArray]) -> Binned:
        """Return the histogram whose cdf at the knots is mapped, by a map of normal scores."""
        weights = self.log_weights - self._log_total[:, np.newaxis]
        for rows in row_blocks(len(self), self.log_weights.shape[1], _BLOCK):
            below, above = self._below[rows], self._above[rows]
            score = level_map(np.where(below < above, ndtri(below), -ndtri(above)))
            ends = np.full((len(score), 1), np.inf)
            edges = np.concatenate([-ends, score, ends], axis=1) if self.tails else score
            mapped = log_mass(edges[:, :-1], edges[:, 1:])
            # A bin whose predicted probability underflows keeps its logarithm.
            np.copyto(weights[rows], mapped, where=np.isfinite(mapped))
        return Binned(self.edges, weights, self.tails)

    @cached_property
    def _scales(self) -> tuple[float, float]:
        width = np.diff(self.edges)
        return float(width[0]) / _HALF_NORMAL_MEDIAN, float(width[-1]) / _HALF_NORMAL_MEDIAN

    def _beyond(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the distances of y below the lowest and above the highest knot, in scales of the tails."""
        low, high = self._scales
        return np.maximum(self._knots[0] - y, 0.0) / low, np.maximum(y - self._knots[-1], 0.0) / high

    def _between(self, y: FloatArray, levels: FloatArray) -> FloatArray:
        knots, row = self._knots, np.arange(len(self))
        start = np.clip(np.searchsorted(knots, y, side="right") - 1, 0, knots.size - 1)
        stop = np.minimum(start + 1, knots.size - 1)
        width = knots[stop] - knots[start]
        share = np.divide(y - knots[start], width, out=np.zeros(len(self)), where=width > 0)
        share = np.clip(share, 0.0, 1.0)
        return np.asarray((1 - share) * levels[row, start] + share * levels[row, stop])

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._probability(y, self._below, self._beyond(y), (self._below[:, 0], self._above[:, -1]))

    def _sf(self, y: FloatArray) -> FloatArray:
        return self._probability(
            y, self._above, self._beyond(y)[::-1], (self._above[:, -1], self._below[:, 0])
        )

    def _probability(
        self,
        y: FloatArray,
        levels: FloatArray,
        beyond: tuple[FloatArray, FloatArray],
        masses: tuple[FloatArray, FloatArray],
    ) -> FloatArray:
        """Return the cdf, or 1 - cdf if the arguments exchange the lower and the upper side."""
        small, large = (2 * mass * ndtr(-z) for z, mass in zip(beyond, masses, strict=True))
        inside = np.minimum(self._between(y, levels), 1.0)
        return np.where(beyond[0] > 0, small, np.where(beyond[1] > 0, 1 - large, inside))

    def _ppf(self, p: FloatArray) -> FloatArray:
        goal = p - level_rounding(p)
        row = np.arange(len(self))
        count = self._count(lambda knot: self._below[row, knot] < goal)
        return self._quantile(count, p, 1 - p, self._below, p)

    def _isf(self, q: FloatArray) -> FloatArray:
        goal = q + level_rounding(q)
        row = np.arange(len(self))
        count = self._count(lambda knot: self._above[row, knot] > goal)
        return self._quantile(count, 1 - q, q, self._above, q)

    def _count(self, is_passed: Callable[[IntArray], BoolArray]) -> IntArray:
        """Return the number of knots below the quantile."""
        return bisect(is_passed, np.zeros(len(self), dtype=np.intp), self._knots.size)

    def _quantile(
        self, count: IntArray, p: FloatArray, q: FloatArray, levels: FloatArray, level: FloatArray
    ) -> FloatArray:
        knots, row, m = self._knots, np.arange(len(self)), self._knots.size
        stop = np.clip(count, 1, m - 1) if m > 1 else np.zeros(len(self), dtype=np.intp)
        start = np.maximum(stop - 1, 0)
        step = levels[row, stop] - levels[row, start]
        share = np.divide(level - levels[row, start], step, out=np.zeros(len(self)), where=step != 0)
        share = np.clip(share, 0.0, 1.0)
        inside = np.minimum(knots[start] + share * (knots[stop] - knots[start]), knots[stop])
        lower = (count == 0) & (q > 0)  # Masses above the lower tail may underflow, so the level 1 is tested.
        upper = (count == m) | (q == 0)
        found = np.where(lower, self._lower(p), np.where(upper, self._upper(q), inside))
        return np.clip(found, *self._support)  # The levels 0 and 1 may lie in empty bins.

    @cached_property
    def _support(self) -> tuple[FloatArray, FloatArray]:
        """Return the outer edges of the first and of the last bin that is not empty."""
        ends = self.edges.copy()
        if self.tails:
            ends[[0, -1]] = -np.inf, np.inf
        used = np.isfinite(self.log_weights)
        return ends[np.argmax(used, axis=1)], ends[::-1][np.argmax(used[:, ::-1], axis=1)]

    def _lower(self, p: FloatArray) -> FloatArray:
        return np.asarray(self._knots[0] + self._scales[0] * self._tail_score(p, self._below[:, 0]))

    def _upper(self, q: FloatArray) -> FloatArray:
        return np.asarray(self._knots[-1] - self._scales[1] * self._tail_score(q, self._above[:, -1]))

    def _tail_score(self, p: FloatArray, mass: FloatArray) -> FloatArray:
        if not self.tails:
            return np.zeros(len(self))
        with np.errstate(over="ignore"):  # The mass may be nearly 0, and the share is at most 1.
            share = np.divide(p, mass, out=np.zeros(len(self)), where=mass > 0)
        return np.asarray(ndtri(np.minimum(share, 1.0) / 2))

    def _normal_score(self, y: FloatArray) -> FloatArray:
        score = super()._normal_score(y)
        for sign in (-1.0, 1.0):
            rows = np.flatnonzero((score == sign * np.inf) & np.isfinite(y))
            if rows.size:
                part = self._take(rows) if sign < 0 else self._take(rows)._mirrored()
                score[rows] = -sign * part._low_score(-sign * y[rows])
        return score

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        value = np.array(super()._from_normal_score(score))
        scores = np.broadcast_to(score, value.shape)
        for sign in (-1.0, 1.0):
            rows = np.flatnonzero((sign * scores > _LARGEST_SCORE) & np.isfinite(scores))
            if rows.size:
                part = self._take(rows) if sign < 0 else self._take(rows)._mirrored()
                value[rows] = -sign * part._low_quantile(-sign * scores[rows])
        return np.clip(value, *self._support)

    def _low_quantile(self, score: FloatArray) -> FloatArray:
        """Return the quantile from the logarithm of its level, which does not underflow."""
        row = np.arange(len(self))
        level = log_ndtr(score)
        mass = self.log_weights - self._log_total[:, np.newaxis]
        below = np.logaddexp.accumulate(mass, axis=1)
        bar = np.minimum((below < level[:, np.newaxis]).sum(axis=1), mass.shape[1] - 1)
        with np.errstate(divide="ignore"):
            passed = np.where(bar > 0, np.exp(below[row, np.maximum(bar - 1, 0)] - mass[row, bar]), 0.0)
        share = np.clip(np.exp(np.minimum(level - mass[row, bar], 0.0)) - passed, 0.0, 1.0)
        inside = self.edges[bar] + share * np.diff(self.edges)[bar]
        if not self.tails:
            return np.asarray(inside)
        tail = self._knots[0] + self._scales[0] * ndtri_exp(np.minimum(level - mass[:, 0], 0.0) - np.log(2))
        return np.asarray(np.where(bar > 0, inside, tail))

    def _mirrored(self) -> Binned:
        return Binned(-self.edges[::-1], self.log_weights[:, ::-1], self.tails)

    def _low_score(self, y: FloatArray) -> FloatArray:
        """Return the normal score from the logarithm of the cdf, which does not underflow."""
        width = np.diff(self.edges)
        with np.errstate(divide="ignore"):
            share = np.log(np.clip((y[:, np.newaxis] - self.edges[:-1]) / width, 0.0, 1.0))
            if self.tails:
                share[:, 0] = np.log(2) + log_ndtr(-self._beyond(y)[0])
            return np.asarray(ndtri_exp(logsumexp(self.log_weights + share, axis=1) - self._log_total))

    @cached_property
    def _log_total(self) -> FloatArray:
        return np.asarray(logsumexp(self.log_weights, axis=1))

    @property
    def has_density(self) -> bool:
        return True

    def _logpdf(self, y: FloatArray) -> FloatArray:
        bar = np.clip(np.searchsorted(self.edges, y, side="right") - 1, 0, self.edges.size - 2)
        log_mass = self.log_weights[np.arange(len(self)), bar] - self._log_total
        uniform = log_mass - np.log(np.diff(self.edges))[bar]
        if not self.tails:
            return np.where((y < self.edges[0]) | (y > self.edges[-1]), -np.inf, uniform)
        first, last = bar == 0, bar == self.edges.size - 2
        scale = np.where(first, *self._scales)
        z = np.where(first, *self._beyond(y))
        with np.errstate(over="ignore"):
            tail = log_mass + np.log(2) - np.log(scale) - LOG_SQRT_2PI - 0.5 * z * z
        return np.where(first | last, tail, uniform)

    # ------------------------------------------------------------------------------------ sums over the bars

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        unit = self.edges[-1] - self.edges[0]  # This unit prevents overflow of the squares.
        center = self._knots[self._knots.size // 2]
        edges, width = (self.edges - center) / unit, np.diff(self.edges) / unit
        middle = (edges[:-1] + edges[1:]) / 2
        variance = width**2 / 12
        if self.tails:
            low, high = (scale / unit for scale in self._scales)
            middle[0] = edges[1] - _HALF_NORMAL_MEAN * low
            middle[-1] = edges[-2] + _HALF_NORMAL_MEAN * high
            variance[[0, -1]] = np.square([low, high]) * (1 - _HALF_NORMAL_MEAN**2)
        mean, second = self._masses @ middle, self._masses @ variance
        for rows in row_blocks(len(self), self.log_weights.shape[1], _BLOCK):
            deviation = middle - mean[rows, np.newaxis]
            second[rows] += (self._masses[rows] * deviation**2).sum(axis=1)
        return center + unit * mean, unit * np.sqrt(second)

    def _crps(self, y: FloatArray) -> FloatArray:
        below, above = self._squared_integrals(y)
        return below + above

    def _squared_integrals(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        below, above = linear_integrals(self._knots, self._below, self._above, y, mean_square_of_line)
        for side, scale, mass, z in self._tail_parts(y):
            first, second = _first_power(z, mass, scale), _second_power(z, mass, scale)
            end = np.zeros_like(z)
            near_first, near_second = _first_power(end, mass, scale), _second_power(end, mass, scale)
            inner = np.maximum(scale * z - 2 * (near_first - first) + near_second - second, 0.0)
            below, above = (below + second, above + inner) if side < 0 else (below + inner, above + second)
        return below, above

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        below, above = linear_integrals(self._knots, self._below, self._above, y, mean_of_line)
        total = below + above
        for _, scale, mass, z in self._tail_parts(y):
            total += (
                scale * z - _first_power(np.zeros_like(z), mass, scale) + 2 * _first_power(z, mass, scale)
            )
        return total

    def _tail_parts(self, y: FloatArray) -> list[tuple[int, float, FloatArray, FloatArray]]:
        masses = self._below[:, 0], self._above[:, -1]
        return list(zip((-1, 1), self._scales, masses, self._beyond(y), strict=True))

    # ------------------------------------------------------------------------------- numerical integration

    _light_tails = True
    _integrates_values = True

    def _landmarks(self) -> FloatArray:
        knots = np.broadcast_to(self._knots, (len(self), self._knots.size))
        if self._has_many_bins:
            knots = self._knots[self._landmark_knots()]
        if not self.tails:
            return knots
        low, high = self._scales
        tails = np.concatenate(
            [self._knots[0] - low * _TAIL_LANDMARKS, self._knots[-1] + high * _TAIL_LANDMARKS]
        )
        return np.concatenate([knots, np.broadcast_to(tails, (len(self), tails.size))], axis=1)

    def _landmark_knots(self) -> IntArray:
        """Return the indices of knots between the extreme quantiles, evenly spaced by rank and by value."""
        row, last = np.arange(len(self)), self._knots.size - 1
        first = np.clip(self._count(lambda knot: self._below[row, knot] < _NEGLIGIBLE) - 1, 0, last)
        stop = np.clip(self._count(lambda knot: self._above[row, knot] > _NEGLIGIBLE), 0, last)
        share = np.linspace(0.0, 1.0, _MOST_LANDMARKS // 2)
        ranks = np.rint(first[:, np.newaxis] + (stop - first)[:, np.newaxis] * share).astype(np.intp)
        low, high = self._knots[first][:, np.newaxis], self._knots[stop][:, np.newaxis]
        places = np.searchsorted(self._knots, low + (high - low) * share)
        return np.concatenate([ranks, np.minimum(places, last)], axis=1)


def _first_power(z: FloatArray, mass: FloatArray, scale: float) -> FloatArray:
    """Return the integral of F below a point that is z scales away from the end of a half-normal tail."""
    near = np.minimum(z, _FAR)
    integral = np.exp(-0.5 * near * near - LOG_SQRT_2PI) - near * ndtr(-near)
    return np.asarray(2 * mass * scale * np.maximum(integral, 0.0))


def _second_power(z: FloatArray, mass: FloatArray, scale: float) -> FloatArray:
    """Return the integral of F^2 below the same point as in `_first_power`."""
    return np.asarray(4 * mass * mass * scale * squared_normal_cdf(-z))


def _read_log_weights(log_weights: ArrayLike, k: int) -> FloatArray:
    weights = np.array(as_float_array(log_weights, "log_weights"))
    if weights.ndim != 2 or weights.shape[1] != k or len(weights) == 0:
        raise ValueError(
            f"`log_weights` must have shape (n, {k}), with one column per bin, got shape {weights.shape}."
        )
    bad = (np.isnan(weights) | np.isposinf(weights)).any(axis=1)
    if bad.any():
        raise ValueError(
            "`log_weights` must be finite or minus infinity, got NaN or plus infinity at row "
            f"{int(np.argmax(bad))}."
        )
    empty = np.isneginf(weights).all(axis=1)
    if empty.any():
        raise ValueError(
            "`log_weights` must have a bin with a positive weight in each row, got only minus infinity at "
            f"row {int(np.argmax(empty))}."
        )
    return weights
