"""Distributions of monotone functions of a variable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.polynomial import Polynomial

from skuq._typing import BoolArray, FloatArray
from skuq.distributions._base import Distribution, check_distribution
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._empirical import Empirical
from skuq.distributions._family import Atoms, Lattice, of_base
from skuq.distributions._level_quadrature import (
    LevelKind,
    UnreachableLevel,
    has_infinite_quantile,
    level_mean_distance,
    level_moments,
)

ElementWise: TypeAlias = Callable[[FloatArray], Any]

WINSOR_LEVEL = 1e-6
"""If the mean is infinite, moments and CRPS are computed after winsorizing at this level."""

_ONE_DIRECTION = (
    "`func` must be increasing in all rows or decreasing in all rows, but it decreases in {where} and "
    "increases in other rows."
)

DERIVATIVES: dict[Any, ElementWise] = {
    np.log: lambda y: 1 / y,
    np.log1p: lambda y: 1 / (1 + y),
    np.log2: lambda y: 1 / (y * np.log(2)),
    np.log10: lambda y: 1 / (y * np.log(10)),
    np.exp: np.exp,
    np.expm1: np.exp,
    np.sqrt: lambda y: 0.5 / np.sqrt(y),
    np.cbrt: lambda y: 1 / (3 * np.cbrt(y) ** 2),
    np.square: lambda y: 2 * y,
    np.reciprocal: lambda y: -1 / y**2,
    np.negative: lambda y: np.full_like(y, -1.0),
    np.arcsinh: lambda y: 1 / np.sqrt(1 + y * y),
    np.sinh: np.cosh,
}
"""Derivatives of numpy functions that are common transformations of targets."""


@dataclass(frozen=True, eq=False, repr=False)
class Transformed(Distribution):
    """Distributions of ``func(Y)`` for a strictly monotone function, increasing or decreasing.

    Parameters
    ----------
    base : Distribution
        Distribution of Y, n rows.
    func : callable
        Elementwise function of an array of shape (n,), strictly monotone over the values of Y. For example,
        the function is ``np.exp`` for a model that was fitted to ``log(y)``. To pickle the distribution, pass
        a function that can be pickled.
    inverse_func : callable
        Inverse of ``func``. It may return NaN for values outside the range of ``func``.
    inverse_derivative : callable, default=None
        Derivative of ``inverse_func``, for the density. None means the exact derivative for common numpy
        functions (log, exp, sqrt, ...). For other functions, None means central differences, which are
        accurate to about ten digits.

    Returns
    -------
    dist : Transformed, Empirical or Concatenated
        If ``base`` is an `Empirical`, the result is an `Empirical` of the transformed members. If ``base``
        has rows of several families, each family is transformed alone. Otherwise, the result is a
        `Transformed`.

    Notes
    -----
    The cdf, the quantiles and the density are exact. Mean, standard deviation and CRPS are integrals of the
    quantile function, with about 250 evaluations of ``func`` per row. If the base is a mixture, these values
    are integrals of the cdf instead.

    Some transformed distributions have an infinite mean and CRPS, for example the exponential of a Student t
    variable. The reason is the tail at levels such as 1e-30, which cannot be estimated from data. For such
    rows, mean, standard deviation and CRPS are computed from the winsorized distribution: values are limited
    to the range between the quantiles at the levels 1e-6 and 1 - 1e-6.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal, Transformed
    >>> price = Transformed(Normal([0.0], [0.5]), np.exp, np.log)
    >>> price.median(), price.mean().round(4)
    (array([1.]), array([1.1331]))
    >>> price.interval(0.9).round(4)
    array([[0.4394, 2.276 ]])
    """

    base: Distribution
    func: ElementWise
    inverse_func: ElementWise
    inverse_derivative: ElementWise | None

    _PER_ROW = ("base",)
    _ALIKE = ("has_density",)

    def __new__(  # type: ignore[misc]
        cls,
        base: Distribution,
        func: ElementWise,
        inverse_func: ElementWise,
        inverse_derivative: ElementWise | None = None,
    ) -> Distribution:
        check_distribution(base, "base")
        for name, function in (("func", func), ("inverse_func", inverse_func)):
            if not callable(function):
                raise TypeError(f"`{name}` must be callable, got {type(function).__name__}.")
        if inverse_derivative is not None and not callable(inverse_derivative):
            raise TypeError(
                f"`inverse_derivative` must be callable or None, got {type(inverse_derivative).__name__}."
            )
        if isinstance(base, Empirical):
            members = _apply(func, base.members.ravel(), "func").reshape(base.members.shape)
            return Empirical(members, base.weights)
        if isinstance(base, Concatenated):
            parts: list[Distribution] = [
                Transformed(part, func, inverse_func, inverse_derivative) for part in base.parts
            ]
            if len({part._decreasing for part in parts if isinstance(part, Transformed)}) > 1:
                raise ValueError(_ONE_DIRECTION.format(where="some rows"))
            return Concatenated(parts, base.order)
        return super().__new__(cls)

    def __init__(
        self,
        base: Distribution,
        func: ElementWise,
        inverse_func: ElementWise,
        inverse_derivative: ElementWise | None = None,
    ) -> None:
        low, high = (_apply(func, base._ppf(np.asarray(level)), "func") for level in (0.25, 0.75))
        # For point masses, the function is compared with its value at slightly larger numbers.
        if not (low != high).any():
            low, high = _apply(func, base.median(), "func"), _beside(func, base.median())
        rises, falls = bool((low < high).any()), bool((low > high).any())
        if rises and falls:
            row = int(np.argmax(low > high))
            raise ValueError(_ONE_DIRECTION.format(where=f"row {row}"))
        self._set(
            base=base,
            func=func,
            inverse_func=inverse_func,
            inverse_derivative=inverse_derivative,
            _decreasing=falls,
        )

    _decreasing = False

    def _back(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(all="ignore"):
            x = np.asarray(self.inverse_func(np.array(y)), dtype=float)
        outside = np.isnan(x)
        if not outside.any():
            return x, np.zeros_like(x)
        middle = self._ppf(np.asarray(0.5))
        return np.where(outside, 0.0, x), np.where(outside, np.where(y < middle, -1.0, 1.0), 0.0)

    @cached_property
    def _quartile_size(self) -> FloatArray:
        """Return the sum of the absolute quartiles of the base."""
        return np.abs(self.base._ppf(np.asarray(0.25))) + np.abs(self.base._ppf(np.asarray(0.75)))

    def _closed_side(self, x: FloatArray) -> FloatArray:
        if self.base.has_density:
            return x
        step = 1e-12 * (np.where(np.isfinite(x), np.abs(x), 0.0) + self._quartile_size)
        return x - step if self._decreasing else x + step

    def _normal_score(self, y: FloatArray) -> FloatArray:
        x, side = self._back(y)
        score = self.base._normal_score(self._closed_side(x))
        inside = -score if self._decreasing else score
        return np.where(side == 0, inside, np.where(side < 0, -np.inf, np.inf))

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        return _apply(self.func, self.base._from_normal_score(-score if self._decreasing else score), "func")

    def _cdf(self, y: FloatArray) -> FloatArray:
        x, side = self._back(y)
        x = self._closed_side(x)
        inside = self.base._sf(x) if self._decreasing else self.base._cdf(x)
        return np.where(side == 0, inside, np.where(side < 0, 0.0, 1.0))

    def _sf(self, y: FloatArray) -> FloatArray:
        x, side = self._back(y)
        x = self._closed_side(x)
        inside = self.base._cdf(x) if self._decreasing else self.base._sf(x)
        return np.where(side == 0, inside, np.where(side < 0, 1.0, 0.0))

    def _ppf(self, p: FloatArray) -> FloatArray:
        return _apply(self.func, self.base._isf(p) if self._decreasing else self.base._ppf(p), "func")

    def _isf(self, q: FloatArray) -> FloatArray:
        return _apply(self.func, self.base._ppf(q) if self._decreasing else self.base._isf(q), "func")

    has_density = of_base("has_density")
    has_mass = of_base("has_mass")

    def _logpdf(self, y: FloatArray) -> FloatArray:
        x, side = self._back(y)
        with np.errstate(all="ignore"):
            density = self.base._logpdf(x)
            # Outside the support, the slope may be infinite or NaN.
            outside = (side != 0) | (density == -np.inf)
            return np.where(outside, -np.inf, density + np.log(np.abs(self._inverse_slope(y, x))))

    def _inverse_slope(self, y: FloatArray, x: FloatArray) -> FloatArray:
        inverse_slope = self.inverse_derivative or _known_derivative(self.inverse_func)
        if inverse_slope is not None:
            return np.asarray(inverse_slope(np.array(y)), dtype=float)
        spread = np.abs(self.base._isf(np.asarray(0.25)) - self.base._ppf(np.asarray(0.25)))
        return 1.0 / derivative(lambda z: np.asarray(self.func(z), dtype=float), x, 0.01 * spread)

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        turned = self._decreasing and kind != "coverage"
        return self.base._unreachable_level(1 - level if turned else level, kind)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        if self._winsorized is None:
            return super()._moments()
        return self._winsorized.mean(), self._winsorized.std()

    @cached_property
    def _endless(self) -> BoolArray:
        return rows_to_winsorize(self)

    @cached_property
    def _winsorized(self) -> Distribution | None:
        """Return the distribution whose rows without a mean are winsorized, or None if all rows have one."""
        if self._finite_part() is not self or not self._endless.any():
            return None
        winsorized = self._integrable if self._integrates_values else _Winsorized(self)
        rows = np.arange(len(self))
        return Concatenated([self, winsorized], np.where(self._endless, len(self) + rows, rows))

    @property
    def _integrable(self) -> Any:
        if not self._endless.any():
            return self
        lower = np.where(self._endless, self._ppf(np.asarray(WINSOR_LEVEL)), -np.inf)
        upper = np.where(self._endless, self._isf(np.asarray(WINSOR_LEVEL)), np.inf)
        return self._clip(lower, np.maximum(upper, np.nextafter(lower, np.inf)), False)

    def _weighted_crps(self, y: FloatArray, weight: Polynomial) -> FloatArray:
        if self._winsorized is None:
            return super()._weighted_crps(y, weight)
        return self._winsorized._weighted_crps(y, weight)

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        if self._winsorized is None:
            return super()._mean_distance(y)
        return self._winsorized._mean_distance(y)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        draws = self.base._sample(m, rng)
        return _apply(self.func, draws.ravel(), "func").reshape(draws.shape)

    def _listed_atoms(self) -> Atoms | None:
        atoms = self.base._listed_atoms()
        if atoms is None:
            return None
        ordered = reversed(list(atoms)) if self._decreasing else atoms
        return ((_apply(self.func, outcome, "func"), mass) for outcome, mass in ordered)

    def _lattice(self) -> Lattice | None:
        base = self.base._lattice()
        if base is None:
            return None
        return Lattice(
            lambda index: _apply(self.func, base.atom(index), "func"),
            lambda y: base.index(self._back(y)[0]),
        )

    _integrates_values = of_base("_integrates_values")

    def _landmarks(self) -> FloatArray:
        points = np.sort(self.base._landmarks(), axis=1)
        # The transform bends the cdf, so the panels between the points are halved.
        points = np.concatenate([points, (points[:, 1:] + points[:, :-1]) / 2], axis=1)
        return np.stack([_apply(self.func, column, "func") for column in points.T], axis=1)

    def _level_breaks(self) -> FloatArray:
        breaks = self.base._level_breaks()
        return 1 - breaks[::-1] if self._decreasing else breaks


_NEAR = np.array([1.0, 1.21, 1.5, 2.0]) * WINSOR_LEVEL
"""The quantiles of very heavy tails change by several orders of magnitude between two of these levels."""


@dataclass(frozen=True, eq=False, repr=False)
class _Winsorized(Distribution):
    """Distributions limited to the quantiles at `WINSOR_LEVEL`, for integrals over the levels."""

    base: Distribution

    _PER_ROW = ("base",)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self.base._cdf(y)

    def _sf(self, y: FloatArray) -> FloatArray:
        return self.base._sf(y)

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self.base._ppf(np.clip(p, WINSOR_LEVEL, 1 - WINSOR_LEVEL))

    def _isf(self, q: FloatArray) -> FloatArray:
        return self.base._isf(np.clip(q, WINSOR_LEVEL, 1 - WINSOR_LEVEL))

    def _level_breaks(self) -> FloatArray:
        return np.concatenate([self.base._level_breaks(), _NEAR, 1 - _NEAR])

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        return level_moments(self)

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        return level_mean_distance(self, y)


def rows_to_winsorize(dist: Distribution) -> BoolArray:
    """Return a mask of the rows without a mean whose winsorized values are finite."""
    finite, level = dist._finite_part(), np.asarray(WINSOR_LEVEL)
    is_bounded = np.isfinite([finite._ppf(level), finite._isf(level)]).all(axis=0)
    return np.asarray(is_bounded & has_infinite_quantile(finite))


def _apply(function: ElementWise, values: FloatArray, name: str) -> FloatArray:
    with np.errstate(all="ignore"):
        mapped = np.asarray(function(np.array(values)), dtype=float)
    if mapped.shape != values.shape:
        raise ValueError(
            f"`{name}` must be elementwise and return an array of the shape of its argument, {values.shape}, "
            f"got {mapped.shape}."
        )
    bad = np.isnan(mapped)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"`{name}` must be defined at all values of the base distribution, got NaN at "
            f"{values[row]:g} (row {row}). Clip its argument to its domain, or choose a function that is "
            f"defined for all real numbers."
        )
    return mapped


def _beside(function: ElementWise, x: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.asarray(function(x + 1e-6 * np.maximum(np.abs(x), 1e-6)), dtype=float)


def _known_derivative(function: ElementWise) -> ElementWise | None:
    try:
        return DERIVATIVES.get(function)
    except TypeError:  # An unhashable callable is not a numpy function.
        return None


_STENCIL = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
"""Coefficients of central differences of order eight."""

_SHORTER = (1.0, 1e-2, 1e-4, 1e-6)
"""These factors shorten the step near an end of the domain."""


def derivative(function: Callable[[FloatArray], FloatArray], x: FloatArray, step: FloatArray) -> FloatArray:
    """Return the derivative by central differences. The steps are shorter near an end of the domain."""
    slope = np.full(x.shape, np.nan)
    with np.errstate(all="ignore"):
        for factor in _SHORTER:
            if not np.isnan(slope).any():
                return slope
            exact = (x + factor * step) - x  # This is the step after rounding.
            total = np.zeros_like(x)
            for k, coefficient in enumerate(_STENCIL, start=1):
                total += coefficient * (function(x + k * exact) - function(x - k * exact))
            slope = np.where(np.isfinite(slope), slope, total / exact)
        for side in (exact, -exact):
            slope = np.where(np.isfinite(slope), slope, (function(x + side) - function(x)) / side)
    return slope
