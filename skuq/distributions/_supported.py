"""Distributions on a known support: an interval, or the integers of an interval."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial

from skuq._numeric import to_integers
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import check_support
from skuq.distributions._affine import affine
from skuq.distributions._base import Distribution, check_distribution
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._discrete import (
    TAIL,
    Term,
    log_difference,
    log_masses,
    step_moments,
    sum_steps,
    with_atoms,
)
from skuq.distributions._expectation import OutcomeRule, StepPanels, rule_moments
from skuq.distributions._family import INTEGERS, Atoms, Lattice
from skuq.distributions._level_quadrature import LevelKind, UnreachableLevel
from skuq.distributions._mixture import Mixture
from skuq.distributions._transformed import WINSOR_LEVEL, Transformed, rows_to_winsorize
from skuq.distributions._value_quadrature import (
    UNIFORM,
    landmarks_between,
    step_terms,
    value_crps,
    value_mean_distance,
    value_moments,
)

_ONE = np.ones(())

MOST_SUMMED = 128
"""Largest number of integers per row in a sum, if the base has a density."""

MOST_STEPS = 1 << 14
"""Largest number of integers per row in a sum, if the cdf of the base has steps."""


@dataclass(frozen=True, eq=False, repr=False)
class Supported(Distribution):
    r"""Distributions of ``clip(Y, lower, upper)``, optionally rounded to integers.

    The probability of Y below ``lower`` becomes an atom at ``lower``, and the probability above ``upper``
    becomes an atom at ``upper``. Use this class for targets with known limits, such as rainfall or a share,
    and for measurements that saturate. With ``integer=True``, Y is first rounded to the nearest integer. The
    result is the predictive distribution of a count. `Distribution.clip` returns this class. `Truncated` is
    the conditional distribution of Y inside the bounds, without the atoms.

    Parameters
    ----------
    base : Distribution
        Distribution of Y, n rows.
    lower, upper : float or array-like of shape (n,), default=-inf, inf
        Ends of the support, in the units of y. Infinite values mean that there is no bound.
    integer : bool, default=False
        Whether Y is rounded to the nearest integer. If two integers are equally near, Y is rounded down. With
        True, the bounds must be integers or infinite.

    Raises
    ------
    ValueError
        If `lower` is not less than `upper`, or if a bound is NaN. If `integer` is True, also if a bound is
        neither an integer nor infinite.

    See Also
    --------
    Truncated : Conditional distributions inside the bounds.
    skuq.recalibration.SupportMap : Clip all forecasts in the last step of a Pipeline.
    skuq.metrics.threshold_weighted_crps_loss : The CRPS of clipped forecasts and targets.
    Transformed : Distributions of strictly monotone functions of a variable. They add no atoms.

    Notes
    -----
    The cdf, the quantiles and the intervals are exact. Let a and b be the bounds, and c the number in [a, b]
    that is nearest to y. The CRPS is

    .. math:: |y - c| + \int_a^c F(x)^2 dx + \int_c^b (1 - F(x))^2 dx.

    For y inside the bounds, this is the CRPS of the base minus two tail integrals, so clipping never
    increases the CRPS of a row. The integrals have closed forms for `Normal`, `StudentT`, `Quantiles`,
    `Empirical` and `SharedEmpirical`. For other families, the CRPS, the mean and the standard deviation
    integrate the cdf between quantiles of the base and the bounds, with about 100 evaluations per row and a
    relative error of about 1e-8. If the tails of the base may be heavy, each doubling of the distance between
    the median and a bound needs ten more evaluations, and the relative error is about 1e-7.

    If the mean of a `Transformed` base is infinite, these integrals use the winsorized distribution that
    `Transformed` describes.

    With ``integer=True``, the cdf at an integer k inside the bounds is :math:`F(k + 1/2)`. The integrals
    become sums over the integers, with one evaluation of the cdf per integer. If a row has more than 128
    integers between its quantiles at 1e-15 and 1 - 1e-15, a quadrature rule for sums evaluates about 500 of
    them, with a relative error of about 1e-9. If the cdf of the base has steps, the sum contains up to 16384
    integers. Rounding may increase the CRPS of a row. On average, it lowers the CRPS if the integers are far
    apart compared with the spread of the forecast. If a row has more than 300 integers, mixtures and
    recalibrations of this row integrate the cdf as if it were smooth.

    A row has a density only if it has no mass at its bounds and is not rounded. `logpmf` returns the masses
    of the atoms.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.distributions._supported import Supported
    >>> rain = Normal([1.0, 4.0], [2.0, 2.0]).clip(lower=0.0)
    >>> rain
    Supported(n=2)
    >>> rain.interval(0.9).round(2)
    array([[0.  , 4.29],
           [0.71, 7.29]])
    >>> rain.cdf(0.0).round(2), rain.mean().round(2)
    (array([0.31, 0.02]), array([1.4 , 4.02]))
    >>> count = Supported(Normal([1.0, 4.0], [2.0, 2.0]), lower=0.0, integer=True)
    >>> count.interval(0.9)
    array([[0., 4.],
           [1., 7.]])
    >>> count.logpmf(2.0).round(2)
    array([-1.74, -2.11])
    """

    base: Distribution
    lower: FloatArray
    upper: FloatArray
    integer: bool

    _PER_ROW = ("base", "lower", "upper")
    _ALIKE = ("has_density",)

    def __init__(
        self,
        base: Distribution,
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
        integer: bool = False,
    ) -> None:
        check_distribution(base, "base")
        low, high, whole = check_support(lower, upper, len(base), integer)
        self._set(base=base, lower=low, upper=high, integer=whole)

    def _inside(self, y: FloatArray) -> FloatArray:
        return np.clip(y, self.lower, self.upper)

    def _map(self, values: FloatArray) -> FloatArray:
        return self._inside(to_integers(values) if self.integer else values)

    def _last(self, y: FloatArray) -> FloatArray:
        return np.floor(y) + 0.5 if self.integer else y

    def _cdf(self, y: FloatArray) -> FloatArray:
        inside = self.base._cdf(self._last(y))
        return np.where(y < self.lower, 0.0, np.where(y >= self.upper, 1.0, inside))

    def _sf(self, y: FloatArray) -> FloatArray:
        inside = self.base._sf(self._last(y))
        return np.where(y < self.lower, 1.0, np.where(y >= self.upper, 0.0, inside))

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self._map(self.base._ppf(p))

    def _isf(self, q: FloatArray) -> FloatArray:
        return self._map(self.base._isf(q))

    def _normal_score(self, y: FloatArray) -> FloatArray:
        score = self.base._normal_score(self._last(y))
        return np.where(y < self.lower, -np.inf, np.where(y >= self.upper, np.inf, score))

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        return self._map(self.base._from_normal_score(score))

    def _clip(self, lower: FloatArray, upper: FloatArray, integer: bool) -> Distribution:
        low, high = np.clip(self.lower, lower, upper), np.clip(self.upper, lower, upper)
        whole = all((np.round(bound) == bound).all() for bound in (low, high, self.lower, self.upper))
        if (low >= high).any() or ((self.integer or integer) and not whole):
            return Supported(self, lower, upper, integer)
        return Supported(self.base, low, high, self.integer or integer)

    @property
    def _bounded(self) -> bool:
        return bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    @cached_property
    def has_density(self) -> bool:
        if self.integer or not self.base.has_density:
            return False
        return not (self.base._cdf(self.lower).any() or self.base._sf(self.upper).any())

    @property
    def has_mass(self) -> bool:
        return self.integer or self.base.has_mass

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return np.where(self._inside(y) == y, self.base._logpdf(y), -np.inf)

    def _logpmf(self, y: FloatArray) -> FloatArray:
        if self.integer:
            return np.where(np.floor(y) == y, log_difference(self, y - 1, y), -np.inf)
        is_bound = np.isfinite(y) & ((y == self.lower) | (y == self.upper))
        bound = np.where(is_bound, y, 0.0)
        at_bound = log_difference(self, np.nextafter(bound, -np.inf), bound)
        return np.where(is_bound, at_bound, log_masses(self, y))

    def _crps(self, y: FloatArray) -> FloatArray:
        finite, inside = self._finite_part(), self._inside(y)
        if finite is not self:
            return finite._crps(y)
        if self.integer:
            return self._sum_integers(y, *step_terms(UNIFORM))
        # Integrals over a tail are small, so their difference has little cancellation.
        low, at, high = (self.base._squared_integrals(x) for x in (self.lower, inside, self.upper))
        if low is None or at is None or high is None:
            return value_crps(self._integrable, y)
        return np.abs(y - inside) + np.maximum(at[0] - low[0], 0.0) + np.maximum(at[1] - high[1], 0.0)

    def _weighted_crps(self, y: FloatArray, weight: Polynomial) -> FloatArray:
        finite = self._finite_part()
        if finite is not self:
            return finite._weighted_crps(y, weight)
        if not self.integer:
            return value_crps(self._integrable, y, weight)
        return self._sum_integers(y, *step_terms(weight))

    @property
    def _integrable(self) -> Any:
        if self._light_tails:
            return self
        if not isinstance(self.base, Transformed):
            return super()._integrable
        endless = rows_to_winsorize(self)
        if not endless.any():
            return self
        lower = np.where(endless, self._ppf(np.asarray(WINSOR_LEVEL)), self.lower)
        upper = np.where(endless, self._isf(np.asarray(WINSOR_LEVEL)), self.upper)
        # If the bounds are beyond the winsorized levels, the result is a point mass.
        least = lower + 1 if self.integer else np.nextafter(lower, np.inf)
        return Supported(self.base, lower, np.maximum(upper, least), self.integer)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        finite = self._finite_part()
        if finite is not self:
            return finite.mean(), finite.std()
        if self.integer:
            return self._integer_moments()
        if self._lattice() is not None or self._listed_atoms() is not None:
            return super()._moments()
        leaves = self._leaves()
        if len(leaves) > 1:  # Each component of a mixture is integrated between its own landmarks.
            mixture = Mixture([leaf for _, leaf in leaves], np.column_stack([w for w, _ in leaves]))
            return mixture.mean(), mixture.std()
        part = self._integrable
        smooth = self.base.has_density and not (self._light_tails or self.base._integrates_values)
        endless = smooth & (np.isinf(part.lower) | np.isinf(part.upper))
        mean, std = np.empty(len(self)), np.empty(len(self))
        if not endless.all():
            mean[~endless], std[~endless] = value_moments(part._take(np.flatnonzero(~endless)))
        if endless.any():
            heavy = part._take(np.flatnonzero(endless))
            mean[endless], std[endless] = rule_moments(OutcomeRule(heavy), heavy.median())
        return mean, std

    # ------------------------------------------------------------------------------ integers

    @cached_property
    def _window(self) -> tuple[FloatArray, FloatArray]:
        """Return the first and the last integer of the sums. Integrals replace the sums outside the range."""
        low, high = self._ppf(TAIL), self._isf(TAIL)
        size = self._most_summed
        around = np.clip(self._ppf(np.asarray(0.5)) - size // 2, low, high - size)
        first = np.where(high - low > size, around, low)
        return first, np.minimum(first + size, high)

    @property
    def _most_summed(self) -> int:
        return MOST_SUMMED if self.base.has_density else MOST_STEPS

    @cached_property
    def _wide(self) -> IntArray:
        """Return the rows whose integers do not fit into the window."""
        first, last = self._window
        return np.flatnonzero(last - first == self._most_summed)

    @cached_property
    def _wide_rule(self) -> OutcomeRule:
        return OutcomeRule(self._take(self._wide)._integrable, sum_integers=False)

    @cached_property
    def _wide_steps(self) -> StepPanels:
        part = self._take(self._wide)._integrable
        return StepPanels(part, INTEGERS, np.ones(len(part), dtype=bool))

    @cached_property
    def _winsorized(self) -> BoolArray:
        """Return a mask of the wide rows that are winsorized."""
        rows, part = self._wide, self._take(self._wide)._integrable
        return np.asarray((part.lower > self.lower[rows]) | (part.upper < self.upper[rows]))

    def _sum_integers(self, y: FloatArray, below: Term, above: Term) -> FloatArray:
        """Return the integral of below(F) up to y and above(1 - F) from y, as sums over integers."""
        (low, high), rows = self._window, self._wide
        score: FloatArray = np.maximum(y - high, 0.0) * below(_ONE) + np.maximum(low - y, 0.0) * above(_ONE)
        if rows.size:
            high = high.copy()
            high[rows] = low[rows]
        score += sum_steps(self, y, low, high, below, above)
        if rows.size:
            score[rows] = self._wide_steps.integrate_cdf(y[rows], below, above)
        return score

    def _squared_integrals(self, y: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        if not self.integer:
            return None
        # beyond the outer quantiles, the integral to infinity is 0 on one side and not used on the other
        y = np.where(np.isinf(y), np.clip(y, self._ppf(TAIL), self._isf(TAIL)), y)
        parts = ((np.square, np.zeros_like), (np.zeros_like, np.square))
        below, above = (self._sum_integers(y, *part) for part in parts)
        return below, above

    def _integer_moments(self) -> tuple[FloatArray, FloatArray]:
        center, (first, last) = self._ppf(np.asarray(0.5)), self._window
        one, two = step_moments(self, center, first, last)
        mean, std, rows = center + one, np.sqrt(np.maximum(two - one**2, 0.0)), self._wide
        if rows.size:
            mean[rows], std[rows] = rule_moments(self._wide_rule, center[rows])
            if self._winsorized.any():  # The rule has no node at a far bound.
                exact = self._wide_steps.moments(center[rows])
                for moment, values in zip((mean, std), exact, strict=True):
                    moment[rows] = np.where(self._winsorized, values, moment[rows])
        return mean, std

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        draws = self.base._sample(m, rng)
        draws = to_integers(draws) if self.integer else draws
        return np.clip(draws, self.lower[:, np.newaxis], self.upper[:, np.newaxis])

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        finite = self._finite_part()
        if finite is not self:
            return finite._mean_distance(y)
        if not self.integer:
            # The outcome rule ignores atoms with a small probability, but a far bound has a large distance.
            part = self._integrable
            if part._bounded and self.base.has_density and not self.base._light_tails:
                return value_mean_distance(part, y)
            return OutcomeRule(part).expect(lambda outcome: np.abs(outcome - y), y)
        distance, rows = self._sum_integers(y, np.asarray, np.asarray), self._wide
        if rows.size and not self._light_tails:
            expected = self._wide_rule.expect(lambda outcome: np.abs(outcome - y[rows]), y[rows])
            distance[rows] = np.where(self._winsorized, distance[rows], expected)
        return distance

    def _leaves(self) -> list[tuple[Any, Distribution]]:
        leaves = self.base._leaves()
        if self.has_density:
            return leaves
        if len(leaves) == 1:
            return [(1.0, self)]
        return [(weight, Supported(leaf, self.lower, self.upper, self.integer)) for weight, leaf in leaves]

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        return None if self._bounded else self.base._unreachable_level(level, kind)

    @property
    def _light_tails(self) -> bool:
        return self._bounded or self.base._light_tails

    _integrates_values = True

    def _listed_atoms(self) -> Atoms | None:
        atoms = self.base._listed_atoms()
        return None if atoms is None else ((self._map(outcome), mass) for outcome, mass in atoms)

    def _lattice(self) -> Lattice | None:
        whole = all((np.round(bound) == bound).all() for bound in (self.lower, self.upper))
        if self.base._lattice() is INTEGERS and whole:
            return INTEGERS
        return INTEGERS if self.integer and _is_smooth(self.base) else None

    def _clipped_density(self) -> tuple[Any, FloatArray, FloatArray] | None:
        rough = self.base.has_density and self.base._integrates_values
        return (self.base, self.lower, self.upper) if rough and not self.integer else None

    def _landmarks(self) -> FloatArray:
        if not self.integer:
            bounds = self.lower, self.upper
            parts = [landmarks_between(leaf, *bounds) for _, leaf in self.base._leaves()]
            return self._inside(np.concatenate(parts, axis=1).T).T
        points = np.stack([self._map(column) for column in self.base._landmarks().T], axis=1)
        # The quantiles divide the tails, which are outside the window of atoms.
        return np.concatenate([points, with_atoms(points, *self._window)], axis=1)

    def _level_breaks(self) -> FloatArray:
        return self.base._level_breaks()

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        if self.integer or (factor == 0).any():
            return None
        ends = shift + factor * self.lower, shift + factor * self.upper
        return Supported(affine(self.base, shift, factor), np.minimum(*ends), np.maximum(*ends))


def _is_smooth(dist: Any) -> bool:
    """Return whether the cdf is smooth between the landmarks. Rounding to integers keeps it smooth."""
    if dist.has_density:
        return True
    if isinstance(dist, Concatenated):
        return all(map(_is_smooth, dist.parts))
    if hasattr(dist, "base"):
        return _is_smooth(dist.base)
    return dist._listed_atoms() is None and dist._lattice() is None


# The base class cannot import its subclass, so the subclass is assigned here.
Distribution._supported = Supported
