"""Shifted and rescaled distributions, in closed form if the family has one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_finite, per_row
from skuq.distributions._base import Distribution, check_distribution
from skuq.distributions._family import Atoms, Lattice, of_base
from skuq.distributions._level_quadrature import LevelKind, UnreachableLevel
from skuq.distributions._normal import Normal


def affine(dist: Distribution, shift: ArrayLike, factor: ArrayLike) -> Distribution:
    """Return the distribution of ``shift + factor * Y``.

    Parameters
    ----------
    dist : Distribution
        Distribution of Y, n rows.
    shift : float or array-like of shape (n,)
        Constant to add, in the new units.
    factor : float or array-like of shape (n,)
        Factor of Y. A negative factor reverses the distribution. The factor 0 gives point masses at
        ``shift``.

    Returns
    -------
    dist : Distribution
        If the family is closed under shifts and factors, the result is a distribution of the same family.
        Otherwise, it is an `Affine`. `Normal` and `StudentT` keep the decomposition into epistemic and
        aleatoric parts.

    Examples
    --------
    >>> from skuq.distributions import Normal, affine
    >>> affine(Normal([20.0], [5.0]), shift=32.0, factor=1.8).interval(0.9).round(2)
    array([[53.2, 82.8]])
    """
    check_distribution(dist, "dist")
    n = len(dist)
    a, b = (
        per_row(check_finite(as_float_array(values, name), name), name, n)
        for name, values in (("shift", shift), ("factor", factor))
    )
    zero = b == 0
    if zero.all():
        return Normal(a, 0.0)
    closed = dist._affine(a, b)
    if closed is not None:
        return closed
    if zero.any():
        raise ValueError(
            f"`factor` must be nonzero in every row, or zero in every row, for a {type(dist).__name__}, "
            f"got 0 at row {int(np.argmax(zero))}."
        )
    return Affine(dist, a, b)


@dataclass(frozen=True, eq=False, repr=False)
class Affine(Distribution):
    """Distribution of ``shift + factor * Y`` for a family without a closed form (see `affine`)."""

    base: Distribution
    shift: FloatArray
    factor: FloatArray

    _PER_ROW = ("base", "shift", "factor")
    _ALIKE = ("has_density",)

    def __post_init__(self) -> None:
        self._set(shift=np.array(self.shift), factor=np.array(self.factor))

    def _back(self, y: FloatArray) -> FloatArray:
        return (y - self.shift) / self.factor

    def _closed_side(self, y: FloatArray) -> FloatArray:
        x = self._back(y)
        if self.base.has_density:
            return x
        size = np.where(np.isfinite(x), np.abs(x), 0.0) + np.abs(self.shift / self.factor)
        return np.asarray(x + np.sign(self.factor) * 1e-12 * size)

    def mean(self) -> FloatArray:
        return self.shift + self.factor * self.base.mean()

    def std(self) -> FloatArray:
        return np.abs(self.factor) * self.base.std()

    def _cdf(self, y: FloatArray) -> FloatArray:
        x = self._closed_side(y)  # If the factor is negative, the event Y <= y is the event X >= x.
        return np.where(self.factor > 0, self.base._cdf(x), self.base._sf(x))

    def _sf(self, y: FloatArray) -> FloatArray:
        x = self._closed_side(y)
        return np.where(self.factor > 0, self.base._sf(x), self.base._cdf(x))

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self.shift + self.factor * np.where(self.factor > 0, self.base._ppf(p), self.base._isf(p))

    def _isf(self, q: FloatArray) -> FloatArray:
        return self.shift + self.factor * np.where(self.factor > 0, self.base._isf(q), self.base._ppf(q))

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        return self.base._unreachable_level(level, kind)

    def _listed_atoms(self) -> Atoms | None:
        atoms = self.base._listed_atoms()
        if atoms is None:
            return None
        if (self.factor > 0).all():
            return ((self.shift + self.factor * outcome, mass) for outcome, mass in atoms)
        # A negative factor reverses the order of the atoms.
        listed, falls = list(atoms), self.factor < 0
        pairs = (zip(*pair, strict=True) for pair in zip(listed[::-1], listed, strict=True))
        turned = ([np.where(falls, *either) for either in pair] for pair in pairs)
        return ((self.shift + self.factor * outcome, mass) for outcome, mass in turned)

    def _lattice(self) -> Lattice | None:
        base = self.base._lattice()
        if base is None:
            return None
        return Lattice(
            lambda index: self.shift + self.factor * base.atom(index), lambda y: base.index(self._back(y))
        )

    _integrates_values = of_base("_integrates_values")

    def _landmarks(self) -> FloatArray:
        return self.shift[:, np.newaxis] + self.factor[:, np.newaxis] * self.base._landmarks()

    has_density = of_base("has_density")
    has_mass = of_base("has_mass")

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return self.base._logpdf(self._back(y)) - np.log(np.abs(self.factor))

    def _crps(self, y: FloatArray) -> FloatArray:
        return np.abs(self.factor) * self.base._crps(self._back(y))

    def _weighted_crps(self, y: FloatArray, weight: Polynomial) -> FloatArray:
        size, x = np.abs(self.factor), self._back(y)
        mirrored = weight(Polynomial([1.0, -1.0]))
        rises, falls = (size * self.base._weighted_crps(x, each) for each in (weight, mirrored))
        return np.where(self.factor > 0, rises, falls)

    def _squared_integrals(self, y: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        parts = self.base._squared_integrals(self._back(y))
        if parts is None:
            return None
        below, above = (np.abs(self.factor) * part for part in parts)
        return np.where(self.factor > 0, below, above), np.where(self.factor > 0, above, below)

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        return np.abs(self.factor) * self.base._mean_distance(self._back(y))

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        return (
            None
            if (factor == 0).any()
            else Affine(self.base, shift + factor * self.shift, factor * self.factor)
        )
