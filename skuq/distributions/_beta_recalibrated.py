"""Distributions whose probability levels are recalibrated by a separate beta map for each row.

A map may be the average of k maps per row. The map from a level F to log odds is a log F - b log(1 - F) + c.
As a function of the log odds t of F, the map is nearly a straight line of slope a for very negative t, and of
slope b for very positive t. The difference between the map and the nearer line is at most max(a, b) log 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, log_ndtr, ndtri_exp

from skuq._numeric import row_blocks
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_finite, check_positive
from skuq.distributions._affine import affine
from skuq.distributions._base import Distribution, check_distribution
from skuq.distributions._empirical import Empirical
from skuq.distributions._expectation import cdf_steps
from skuq.distributions._family import Atoms, Lattice, of_base
from skuq.distributions._level_quadrature import LevelKind, UnreachableLevel
from skuq.distributions._members import read_weights
from skuq.distributions._value_quadrature import LANDMARK_TAIL, quantile_landmarks

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
        parts = [
            function(self.rows(block), *(value[block] for value in values))
            for block in row_blocks(self.a.shape[1], len(self.a), _BLOCK)
        ]
        return np.concatenate(parts)

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


_TINY = float(np.finfo(float).tiny)
_LARGEST_ODDS = 700.0
"""Largest absolute log odds of a level that does not underflow."""

_SAMPLED = 2**14
"""Number of draws per block."""

_HEAVY = 2.5
"""A tail counts as light if the ratio of its quantile at 1e-12 to its quantile at 1e-6 is at most this value.
For an exponential tail, the ratio is 2."""


@dataclass(frozen=True, eq=False, repr=False)
class BetaRecalibrated(Distribution):
    r"""Distributions recalibrated by a beta map per row: the cdf is G(y) = B(F(y)).

    F is the cdf of ``base``, and each row has its own map B.

    Parameters
    ----------
    base : Distribution
        Distribution with cdf F to recalibrate, n rows.
    a : float or array-like of shape (n,) or (n, k)
        Exponent of the lower tail, above 0. In the lower tail, :math:`G` is proportional to :math:`F^a`.
    b : float or array-like of shape (n,) or (n, k)
        Exponent of the upper tail, above 0. In the upper tail, :math:`1 - G` is proportional to :math:`(1 -
        F)^b`.
    c : float or array-like of shape (n,) or (n, k)
        Shift of the log odds of the probability level. A positive shift makes smaller values of y more
        probable.
    weights : array-like of shape (k,) or (n, k), default=None
        Non-negative weights of the k maps of each row. They are rescaled to sum to one. None means equal
        weights.

    Returns
    -------
    dist : BetaRecalibrated or Empirical
        If ``base`` is an `Empirical`, the result is an `Empirical` with new weights. Otherwise, it is a
        `BetaRecalibrated`.

    See Also
    --------
    Recalibrated : Distributions with one piecewise linear map of the probability levels for all rows.
    skuq.recalibration.GPBetaRecalibrator : Fit the parameters as functions of the prediction.

    Notes
    -----
    Let :math:`s` be the logistic function. Then

    .. math:: G(y) = \sum_k w_k \, s\{a_k \log F(y) - b_k \log[1 - F(y)] + c_k\},

    With :math:`a = b = 1` and :math:`c = 0`, G equals F. An average over k maps can represent the uncertainty
    of the parameters. The map is computed from both tail probabilities of the base, so levels as small as
    1e-300 have full precision.

    A quantile is computed by a search, with about six evaluations of the n by k maps. Mean, standard
    deviation and CRPS are integrals of the cdf, with about 100 evaluations. If the tails of the base are
    heavier than exponential, these methods integrate the quantile function, with about 2500 evaluations. An
    infinite standard deviation is then returned as a very large number.

    References
    ----------
    Song, Diethe, Kull and Flach (2019), "Distribution calibration for regression", ICML, PMLR 97, eq. 5.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.distributions._beta_recalibrated import BetaRecalibrated
    >>> dist = BetaRecalibrated(Normal([0.0, 0.0], 1.0), a=[1.0, 2.0], b=[1.0, 2.0], c=[0.0, 1.0])
    >>> dist.median().round(3)
    array([ 0.   , -0.312])
    >>> dist.interval(0.9).round(3)
    array([[-1.645,  1.645],
           [-1.164,  0.599]])
    """

    base: Distribution
    a: FloatArray
    b: FloatArray
    c: FloatArray
    weights: FloatArray | None

    _PER_ROW = ("base", "a", "b", "c", "weights")

    def __new__(  # type: ignore[misc]
        cls,
        base: Distribution,
        a: ArrayLike,
        b: ArrayLike,
        c: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> Distribution:
        if not isinstance(base, Empirical):
            return super().__new__(cls)
        maps = _maps_of(*_read_tables(base, a, b, c, weights))
        levels = np.minimum(base._cumulative(), 1.0)
        with np.errstate(divide="ignore"):
            mapped = np.array([maps.lower(np.log(u), np.log1p(-u)) for u in levels.T])
        return Empirical(base.members, np.diff(mapped, axis=0, prepend=0.0).T)

    def __init__(
        self, base: Distribution, a: ArrayLike, b: ArrayLike, c: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        a, b, c, weights = _read_tables(base, a, b, c, weights)
        self._set(base=base, a=a, b=b, c=c, weights=weights)

    @cached_property
    def _maps(self) -> BetaMaps:
        return _maps_of(self.a, self.b, self.c, self.weights)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._maps.lower(*log_levels(self.base, y))

    def _sf(self, y: FloatArray) -> FloatArray:
        return self._maps.upper(*log_levels(self.base, y))

    has_density = of_base("has_density")

    def _logpdf(self, y: FloatArray) -> FloatArray:
        # Levels are limited from below, because infinity times a density of 0 is NaN.
        log_lower, log_upper = (
            np.where(np.isneginf(log), math.log(_TINY), log) for log in log_levels(self.base, y)
        )
        return self._maps.log_density(log_lower, log_upper) + self.base._logpdf(y)

    def _ppf(self, p: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return self._at_odds(np.log(p) - np.log1p(-p))

    def _isf(self, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return self._at_odds(np.log1p(-q) - np.log(q))

    def _at_odds(self, target: FloatArray) -> FloatArray:
        return self._of_base(self._maps.invert(np.broadcast_to(target, (len(self),))))

    def _of_base(self, odds: FloatArray) -> FloatArray:
        if (np.isfinite(odds) & (np.abs(odds) > _LARGEST_ODDS)).any():  # These levels would underflow.
            return self.base._from_normal_score(-np.sign(odds) * ndtri_exp(-np.logaddexp(0.0, np.abs(odds))))
        tail, upper = expit(-np.abs(odds)), odds > 0
        if not upper.any():
            return self.base._ppf(tail)
        if upper.all():
            return self.base._isf(tail)
        return np.where(upper, self.base._isf(tail), self.base._ppf(tail))

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        if self.base._finite_part() is self.base:
            return None
        if kind == "coverage":
            level, kind = np.concatenate([1 - level, 1 + level], axis=None) / 2, "level"
        with np.errstate(divide="ignore"):
            targets = np.log(level) - np.log1p(-level)
        each = [targets] if kind == "row" else np.ravel(targets)
        odds = [self._maps.invert(np.broadcast_to(target, (len(self),))) for target in each]
        return self.base._unreachable_level(expit(np.concatenate(odds)), kind)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        finite = self._finite_part()
        if finite is not self:
            return finite._sample(m, rng)
        # First, one of the k maps is drawn. The inverse of one map is k times faster than the inverse of the
        # average.
        n = len(self)
        edges, out = np.cumsum(self._maps.weights, axis=0)[:-1], np.empty((m, n))
        at_once = max(1, _SAMPLED // n)
        for start in range(0, m, at_once):
            draws = out[start : start + at_once]
            rows = np.tile(np.arange(n), len(draws))
            maps = (rng.uniform(size=rows.size) >= edges[:, rows]).sum(axis=0)
            odds = self._maps.pick(maps, rows).invert(rng.logistic(size=rows.size))
            for draw, levels in zip(draws, odds.reshape(draws.shape), strict=True):
                draw[:] = self._of_base(levels)
        return out.T

    @property
    def _integrable(self) -> Distribution:
        return self  # The base is not winsorized.

    def _listed_atoms(self) -> Atoms | None:
        atoms = self.base._listed_atoms()
        return None if atoms is None else cdf_steps(self, atoms)

    def _lattice(self) -> Lattice | None:
        return self.base._lattice()

    @cached_property
    def _integrates_values(self) -> bool:
        """Return whether the base has exponential or lighter tails.

        Levels below 1e-13 are then negligible.
        """
        middle = self.base._ppf(np.asarray(0.5))
        near, far = (
            np.concatenate([middle - self.base._ppf(tail), self.base._isf(tail) - middle])
            for tail in (np.asarray(1e-6), np.asarray(1e-12))
        )
        return bool((far <= _HEAVY * near).all())

    def _landmarks(self) -> FloatArray:
        # Landmarks may be approximate. For all landmarks except the ends, the averaged parameters are precise
        # enough.
        middle = self._maps.middle()
        single = BetaRecalibrated(self.base, middle.a[0], middle.b[0], middle.c[0])
        own = quantile_landmarks(single, np.empty(0))
        ends = [self._ppf(np.asarray(LANDMARK_TAIL[0])), self._isf(np.asarray(LANDMARK_TAIL[0]))]
        points = [own, np.stack(ends, axis=1)]
        smooth = self.base.has_density and not self.base._integrates_values
        if not smooth or self.base._level_breaks().size:  # The cdf of the base may have kinks or jumps.
            points.append(self.base._landmarks())
        return np.concatenate(points, axis=1)

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        if (factor == 0).any():
            return None
        kept = (factor > 0)[:, np.newaxis]
        a, b = np.where(kept, self.a, self.b), np.where(kept, self.b, self.a)
        c = np.where(kept, self.c, -self.c)  # A negative factor exchanges the tails.
        return BetaRecalibrated(affine(self.base, shift, factor), a, b, c, self.weights)


def log_levels(dist: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log F(y) and log(1 - F(y)) with full precision in both tails."""
    lower, upper = dist._cdf(y), dist._sf(y)
    if min(lower.min(), upper.min()) < _TINY:
        score = dist._normal_score(y)
        return log_ndtr(score), log_ndtr(-score)
    with np.errstate(divide="ignore"):
        log_lower = np.where(lower < 0.5, np.log(lower), np.log1p(-np.minimum(upper, 1.0)))
        log_upper = np.where(upper < 0.5, np.log(upper), np.log1p(-np.minimum(lower, 1.0)))
    return log_lower, log_upper


def _maps_of(a: FloatArray, b: FloatArray, c: FloatArray, weights: FloatArray | None) -> BetaMaps:
    shares = np.broadcast_to(1.0 / a.shape[1], a.shape) if weights is None else weights
    return BetaMaps(a.T, b.T, c.T, shares.T)


def _read_tables(
    base: Distribution, a: ArrayLike, b: ArrayLike, c: ArrayLike, weights: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]:
    """Return checked copies of the parameters and weights, each of shape (n, k)."""
    check_distribution(base, "base")
    named = (("a", a), ("b", b), ("c", c))
    tables = [check_finite(as_float_array(values, name), name) for name, values in named]
    check_positive(tables[0], "a")
    check_positive(tables[1], "b")
    n, given = len(base), [table.shape for table in tables]
    columns = [table[:, np.newaxis] if table.ndim == 1 else table for table in tables]
    try:
        wide = list(np.broadcast_arrays(*columns, np.empty((n, 1))))[:3]
    except ValueError:
        wide = [np.empty(0)]
    if wide[0].shape[:-1] != (n,):
        raise ValueError(f"`a`, `b` and `c` must be numbers or have shape ({n},) or ({n}, k), got {given}.")
    shares = read_weights(weights, *wide[0].shape)
    alpha, beta, shift = (np.array(table, order="F") for table in wide)
    return alpha, beta, shift, None if shares is None else np.asfortranarray(shares)
