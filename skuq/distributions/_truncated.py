"""Distributions that are conditional on a value between two bounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import check_support
from skuq.distributions._base import Distribution, check_distribution
from skuq.distributions._discrete import log_difference
from skuq.distributions._expectation import OutcomeRule, cdf_steps, rule_moments
from skuq.distributions._family import Atoms, Lattice, of_base
from skuq.distributions._level_quadrature import level_mean_distance, level_moments
from skuq.distributions._value_quadrature import (
    landmarks_between,
    value_mean_distance,
    value_moments,
)

_LEAST_LEVEL = 1e-13
"""Smallest level that is used for a base with atoms. It is larger than the rounding error of a level."""

_TINY = np.nextafter(0.0, 1.0)
"""The smallest positive number."""

_FEW_MASS = 1e-3
"""If the probability inside the bounds is at least this value, the landmarks of the base are enough."""


@dataclass(frozen=True, eq=False, repr=False)
class Truncated(Distribution):
    r"""Conditional distributions of Y given ``lower < Y <= upper``.

    Use this class in a `Hurdle` if all other values lie on one side of the atom. For example, the amount of
    rain on a rainy day is positive. `Supported` is the distribution of a clipped variable, with atoms at the
    bounds.

    Parameters
    ----------
    base : Distribution
        Distribution of Y, n rows. Tail mass at infinity, as in `ConformalPredictive`, is excluded.
    lower, upper : float or array-like of shape (n,), default=-inf, inf
        Ends of the interval, in the units of y. Infinite values mean that there is no bound.

    Raises
    ------
    ValueError
        If `lower` is not less than `upper`, or if a bound is NaN.

    See Also
    --------
    Supported : Clipped distributions, with atoms at the bounds.
    Hurdle : Mixtures of an atom and a distribution of all other values.

    Notes
    -----
    With the bounds a and b, the cdf inside the bounds is

    .. math:: \frac{F(y) - F(a)}{F(b) - F(a)}.

    In the lower tail, differences are computed from F, and in the upper tail from 1 - F, so they do not
    cancel. A row without probability inside the bounds is a point mass at the bound that is nearer to the
    median of the base. The CRPS integrates the cdf, with about 100 evaluations per row and a relative error
    of about 1e-7. The moments integrate over the levels, with about 250 evaluations and a smaller error. If
    a bound cuts a heavy tail of the base, the moments integrate over y.

    Truncation moves probability from outside to inside the bounds. Therefore, the CRPS of a row may increase.
    In contrast, `Supported` without ``integer`` never increases the CRPS of a row.

    Examples
    --------
    >>> from skuq.distributions import Normal, Truncated
    >>> amount = Truncated(Normal([0.5, 2.0], 1.0), lower=0.0)
    >>> amount.interval(0.9).round(2)
    array([[0.1 , 2.32],
           [0.54, 3.66]])
    """

    base: Distribution
    lower: FloatArray
    upper: FloatArray

    _PER_ROW = ("base", "lower", "upper")
    _ALIKE = ("has_density",)

    def __init__(self, base: Distribution, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf) -> None:
        check_distribution(base, "base")
        low, high, _ = check_support(lower, upper, len(base))
        self._set(base=base._finite_part(), lower=low, upper=high)

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        return self.base._cdf(self.lower), self.base._sf(self.upper)

    @cached_property
    def _log_mass(self) -> FloatArray:
        return log_difference(self.base, self.lower, self.upper)

    @cached_property
    def _mass(self) -> FloatArray:
        return np.where(self._empty, 1.0, np.exp(self._log_mass))

    @cached_property
    def _empty(self) -> BoolArray:
        return np.asarray(np.exp(self._log_mass) == 0)

    @cached_property
    def _point(self) -> FloatArray:
        middle = self.base._ppf(np.asarray(0.5))
        inside = np.nextafter(self.lower, np.inf)
        return np.where(middle <= self.lower, inside, self.upper)

    def _cdf(self, y: FloatArray) -> FloatArray:
        inside, low = np.clip(y, self.lower, self.upper), self._ends[0]
        part = self.base._cdf(inside) - low
        if low.max() >= 0.5:
            part = np.where(low < 0.5, part, self.base._sf(self.lower) - self.base._sf(inside))
        return np.where(self._empty, y >= self._point, np.clip(part / self._mass, 0.0, 1.0))

    def _sf(self, y: FloatArray) -> FloatArray:
        inside, high = np.clip(y, self.lower, self.upper), self._ends[1]
        part = self.base._sf(inside) - high
        if high.max() >= 0.5:
            part = np.where(high < 0.5, part, self.base._cdf(self.upper) - self.base._cdf(inside))
        return np.where(self._empty, y < self._point, np.clip(part / self._mass, 0.0, 1.0))

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self._at_levels(p, 1.0 - p)

    def _isf(self, q: FloatArray) -> FloatArray:
        return self._at_levels(1.0 - q, q)

    def _at_levels(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return the quantile at level p = 1 - q. The smaller tail of the base is used."""
        low, high = self._ends
        if not self.base.has_density:  # an atom at the lower end is outside
            p = np.maximum(p, _LEAST_LEVEL)
        # The product of a small level and a small mass underflows, but the level 0 is the end of the support.
        inner_low, inner_high = (np.maximum(each * self._mass, _TINY * (each > 0)) for each in (p, q))
        below, above = np.minimum(low + inner_low, 1.0), np.minimum(high + inner_high, 1.0)
        is_lower = below <= above
        value = np.where(
            is_lower,
            self.base._ppf(np.where(is_lower, below, 0.5)),
            self.base._isf(np.where(is_lower, 0.5, above)),
        )
        return np.where(self._empty, self._point, np.clip(value, self.lower, self.upper))

    @cached_property
    def has_density(self) -> bool:
        return self.base.has_density and not self._empty.any()

    has_mass = of_base("has_mass")

    def _logpdf(self, y: FloatArray) -> FloatArray:
        inside = (self.lower < y) & (y <= self.upper)
        return np.where(inside, self.base._logpdf(y) - self._log_mass, -np.inf)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        if self._cuts_heavy_tails:
            return value_moments(self)
        if self._has_smooth_quantiles:
            return level_moments(self)
        return rule_moments(OutcomeRule(self), self._ppf(np.asarray(0.5)))

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        if self._cuts_heavy_tails:
            return value_mean_distance(self, y)
        if self._has_smooth_quantiles:
            return level_mean_distance(self, y)
        distance = OutcomeRule(self).expect(lambda outcome: np.abs(outcome - y), y)
        return np.where(np.isnan(distance), np.inf, distance)  # An outer quantile of the base is infinite.

    @property
    def _integrable(self) -> Distribution:
        return self  # The base is not winsorized.

    @property
    def _bounded(self) -> bool:
        return bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    @property
    def _light_tails(self) -> bool:
        return self._bounded or self.base._light_tails

    @property
    def _has_smooth_quantiles(self) -> bool:
        return self.has_density and not (self.base._integrates_values or self.base._level_breaks().size)

    @property
    def _cuts_heavy_tails(self) -> bool:
        return self._bounded and self.has_density and not self.base._light_tails

    def _listed_atoms(self) -> Atoms | None:
        atoms = self.base._listed_atoms()
        return None if atoms is None else cdf_steps(self, atoms)

    def _lattice(self) -> Lattice | None:
        return self.base._lattice()

    _integrates_values = True

    def _landmarks(self) -> FloatArray:
        points = landmarks_between(self.base, self.lower, self.upper)
        points = np.clip(points, self.lower[:, np.newaxis], self.upper[:, np.newaxis])
        if self._mass.min() > _FEW_MASS and not self._empty.any():
            return points
        return np.concatenate([super()._landmarks(), points], axis=1)

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        if (factor <= 0).any():  # a negative factor would exchange the open and the closed end
            return None
        moved = self.base._affine(shift, factor)
        if moved is None:
            return None
        return Truncated(moved, shift + factor * self.lower, shift + factor * self.upper)
