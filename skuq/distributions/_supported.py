"""Distributions that are clipped to a narrower support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_support
from skuq.distributions._affine import affine
from skuq.distributions._base import Distribution
from skuq.distributions._concatenated import concat
from skuq.distributions._members import root_mean_square
from skuq.distributions._messages import NO_MEAN
from skuq.distributions._mixture import Mixture
from skuq.distributions._numerics.cdf_quadrature import value_crps, value_moments
from skuq.distributions._numerics.level_quadrature import Inside, level_moments
from skuq.distributions._transformed import WINSOR_LEVEL, Transformed
from skuq.distributions._unreachable_levels import LevelKind, UnreachableLevel


@dataclass(frozen=True, eq=False, repr=False)
class Supported(Distribution):
    r"""Distributions of ``clip(Y, lower, upper)``, as `Distribution.clip` returns them.

    The probability of Y below ``lower`` becomes an atom at ``lower``, and the probability above ``upper``
    becomes an atom at ``upper``. Use it for targets with known limits, such as rainfall or a share, and for
    measurements that saturate. It differs from the truncated distribution, which is the conditional
    distribution of Y inside the bounds and has no atoms.

    Parameters
    ----------
    base : Distribution
        Distribution of Y, n rows.
    lower, upper : float or array-like of shape (n,), default=-inf, inf
        Ends of the support, in the units of y. Infinite values mean that there is no bound.

    Raises
    ------
    ValueError
        If `lower` is not less than `upper`, or a bound is NaN.

    See Also
    --------
    skuq.metrics.threshold_weighted_crps_loss : The CRPS of clipped forecasts and targets.
    Transformed : Strictly monotone transformations, without atoms.

    Notes
    -----
    The cdf, the quantiles and the intervals are exact. Let a and b be the bounds, and c the number in [a, b]
    that is nearest to y. The CRPS is

    .. math:: |y - c| + \int_a^c F(x)^2 dx + \int_c^b (1 - F(x))^2 dx.

    The integrals have closed forms for `Normal`, `StudentT`, `Quantiles`, `Empirical` and `SharedEmpirical`,
    at three times the cost of the CRPS of the base. For other families, the CRPS, the mean and the standard
    deviation are integrals of the cdf, with about 100 evaluations per row and a relative error of about 1e-8.

    If the mean of a `Transformed` base is infinite, these integrals use the winsorized distribution that
    `Transformed` describes.

    The distribution has a density only if no row has mass at its bounds.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> rain = Normal([1.0, 4.0], [2.0, 2.0]).clip(lower=0.0)
    >>> rain
    Supported(n=2)
    >>> rain.interval(0.9).round(2)
    array([[0.  , 4.29],
           [0.71, 7.29]])
    >>> rain.cdf(0.0).round(2), rain.mean().round(2)
    (array([0.31, 0.02]), array([1.4 , 4.02]))
    """

    base: Distribution
    lower: FloatArray
    upper: FloatArray

    def __init__(self, base: Distribution, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf) -> None:
        if not isinstance(base, Distribution):
            raise TypeError(f"`base` must be a Distribution, got {type(base).__name__}.")
        low, high = check_support(lower, upper, len(base))
        self._set(base=base, lower=low, upper=high)

    def _rows(self) -> int:
        return len(self.base)

    def _take(self, rows: IntArray) -> Supported:
        return Supported(self.base[rows], self.lower[rows], self.upper[rows])

    @classmethod
    def _merge(cls, parts: Sequence[Supported]) -> Supported | None:
        if len({part.has_density for part in parts}) > 1:
            return None
        base = concat([part.base for part in parts])
        lower, upper = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("lower", "upper")
        )
        return cls(base, lower, upper)

    def _inside(self, y: FloatArray) -> FloatArray:
        return np.clip(y, self.lower, self.upper)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return np.where(y < self.lower, 0.0, np.where(y >= self.upper, 1.0, self.base._cdf(y)))

    def _sf(self, y: FloatArray) -> FloatArray:
        return np.where(y < self.lower, 1.0, np.where(y >= self.upper, 0.0, self.base._sf(y)))

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self._inside(self.base._ppf(p))

    def _isf(self, q: FloatArray) -> FloatArray:
        return self._inside(self.base._isf(q))

    def _normal_score(self, y: FloatArray) -> FloatArray:
        score = self.base._normal_score(y)
        return np.where(y < self.lower, -np.inf, np.where(y >= self.upper, np.inf, score))

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        return self._inside(self.base._from_normal_score(score))

    @property
    def _bounded(self) -> bool:
        return bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    @cached_property
    def has_density(self) -> bool:
        atoms = self.base._cdf(self.lower).any() or self.base._sf(self.upper).any()
        return self.base.has_density and not atoms

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return np.where(self._inside(y) == y, self.base._logpdf(y), -np.inf)

    def _crps(self, y: FloatArray) -> FloatArray:
        finite, inside = self._finite_part(), self._inside(y)
        if finite is not self:
            return finite._crps(y)
        # Integrals over a tail are small, so their difference has little cancellation.
        low, at, high = (self.base._squared_integrals(x) for x in (self.lower, inside, self.upper))
        if low is None or at is None or high is None:
            return value_crps(self._integrable, y)
        return np.abs(y - inside) + np.maximum(at[0] - low[0], 0.0) + np.maximum(at[1] - high[1], 0.0)

    def _weighted_crps(self, y: FloatArray, weight: Polynomial) -> FloatArray:
        finite = self._finite_part()
        return (
            finite._weighted_crps(y, weight)
            if finite is not self
            else value_crps(self._integrable, y, weight)
        )

    @cached_property
    def _integrable(self) -> Supported:
        if self._light_tails or not isinstance(self.base, Transformed):
            return self
        endless = ~np.isfinite(level_moments(self)[0])
        lowest, highest = self.base._ppf(np.asarray(WINSOR_LEVEL)), self.base._isf(np.asarray(WINSOR_LEVEL))
        lower = np.where(endless, np.maximum(self.lower, lowest), self.lower)
        upper = np.where(endless, np.minimum(self.upper, highest), self.upper)
        # If the bounds are beyond the winsorized levels, the result is a point mass.
        return Supported(self.base, lower, np.maximum(upper, np.nextafter(lower, np.inf)))

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        finite = self._finite_part()
        if finite is not self:
            return finite.mean(), finite.std()
        leaves = self._leaves()
        if len(leaves) > 1:  # Each component of a mixture is integrated between its own landmarks.
            mixture = Mixture([leaf for _, leaf in leaves], np.column_stack([w for w, _ in leaves]))
            return mixture.mean(), mixture.std()
        part = self._integrable
        # Rows with heavy tails may overflow here; they are computed below.
        with np.errstate(over="ignore", invalid="ignore"):
            mean, std = value_moments(part)
        rows = np.flatnonzero(np.isinf(self.lower) | np.isinf(self.upper))
        if rows.size and self.base.has_density and not (self._light_tails or self.base._integrates_values):
            mean[rows], std[rows] = part._take(rows)._level_moments()
        return mean, std

    def _level_moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the moments of rows with heavy tails as integrals over the levels."""
        low, high = self.base._cdf(self.lower), self.base._sf(self.upper)
        inner = Inside(self.base, low, high)
        center, spread = level_moments(inner)
        if np.isnan(center).any():
            raise ValueError(NO_MEAN.format(row=int(np.argmax(np.isnan(center)))))
        mass = np.stack([low, inner.mass, high], axis=1)
        value = np.where(mass > 0, np.stack([self.lower, center, self.upper], axis=1), 0.0)
        mean = np.asarray((mass * value).sum(axis=1))
        # If the mean is infinite, the standard deviation is infinite too.
        with np.errstate(invalid="ignore"):
            deviation = value - mean[:, np.newaxis]
            deviation[:, 1] = np.hypot(spread, deviation[:, 1])
        return mean, np.where(np.isfinite(mean), root_mean_square(mass, deviation), np.inf)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        return np.clip(self.base._sample(m, rng), self.lower[:, np.newaxis], self.upper[:, np.newaxis])

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        return self._outcome_rule().expect(lambda outcome: np.abs(outcome - y), y)

    def _leaves(self) -> list[tuple[Any, Distribution]]:
        leaves = self.base._leaves()
        if self.has_density:
            return leaves
        if len(leaves) == 1:
            return [(1.0, self)]
        return [(weight, Supported(leaf, self.lower, self.upper)) for weight, leaf in leaves]

    def _finite_part(self) -> Distribution:
        finite = self.base._finite_part()
        return self if finite is self.base else Supported(finite, self.lower, self.upper)

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        return None if self._bounded else self.base._unreachable_level(level, kind)

    @property
    def _light_tails(self) -> bool:
        return self._bounded or self.base._light_tails

    @property
    def _integrates_values(self) -> bool:
        return True

    def _landmarks(self) -> FloatArray:
        return np.clip(self.base._landmarks(), self.lower[:, np.newaxis], self.upper[:, np.newaxis])

    def _level_breaks(self) -> FloatArray:
        return self.base._level_breaks()

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        if (factor == 0).any():
            return None
        ends = shift + factor * self.lower, shift + factor * self.upper
        return Supported(affine(self.base, shift, factor), np.minimum(*ends), np.maximum(*ends))


# The base class cannot import its subclass, so the subclass is assigned here.
Distribution._supported = Supported
