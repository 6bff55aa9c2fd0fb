"""A distribution whose levels have been mapped: what recalibration of a cdf gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_increasing, check_probabilities
from skuq.distributions._affine import affine
from skuq.distributions._base import Distribution
from skuq.distributions._concatenated import concat
from skuq.distributions._empirical import Empirical
from skuq.distributions._quadrature import level_crps, level_moments
from skuq.distributions._shortage import LevelKind, Shortage


@dataclass(frozen=True, eq=False, repr=False)
class LevelMap:
    """Strictly increasing, piecewise linear map R of [0, 1] onto itself.

    Parameters
    ----------
    levels : array-like of shape (k,)
        Strictly increasing levels in [0, 1]; 0 and 1 are added where they are missing.
    values : array-like of shape (k,)
        R at the levels, strictly increasing in [0, 1]; R(0) = 0 and R(1) = 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import LevelMap
    >>> level_map = LevelMap([0.5], [0.8])
    >>> level_map(np.array([0.25, 0.75])), level_map.inverse(np.array([0.4]))
    (array([0.4, 0.9]), array([0.25]))
    """

    levels: FloatArray
    values: FloatArray

    def __init__(self, levels: ArrayLike, values: ArrayLike) -> None:
        u = check_probabilities(np.atleast_1d(np.asarray(levels)), "levels")
        r = check_probabilities(np.atleast_1d(np.asarray(values)), "values")
        if u.ndim != 1 or u.shape != r.shape:
            raise ValueError(
                f"`levels` and `values` must be 1-D and equally long, got {u.shape} and {r.shape}."
            )
        if u.size == 0 or u[0] > 0 or r[0] > 0:
            u, r = np.concatenate([[0.0], u]), np.concatenate([[0.0], r])
        if u[-1] < 1 or r[-1] < 1:
            u, r = np.concatenate([u, [1.0]]), np.concatenate([r, [1.0]])
        check_increasing(u, "levels")
        check_increasing(r, "values")
        for name, array in (("levels", u), ("values", r)):
            frozen = np.array(array)
            frozen.setflags(write=False)
            object.__setattr__(self, name, frozen)

    def __call__(self, u: FloatArray) -> FloatArray:
        return np.asarray(np.interp(u, self.levels, self.values))

    def inverse(self, p: FloatArray) -> FloatArray:
        """Return the level u with R(u) = p.

        Parameters
        ----------
        p : ndarray
            Probabilities in [0, 1].

        Returns
        -------
        u : ndarray
            Levels in [0, 1], of the same shape.
        """
        return np.asarray(np.interp(p, self.values, self.levels))

    def density(self, u: FloatArray) -> FloatArray:
        """Return the slope of R, which is the density ratio of the recalibrated to the base.

        Parameters
        ----------
        u : ndarray
            Levels in [0, 1].

        Returns
        -------
        slope : ndarray
            Positive, of the same shape; at a knot, of the segment to its right.
        """
        slope = np.diff(self.values) / np.diff(self.levels)
        return slope[np.clip(np.searchsorted(self.levels, u, side="right") - 1, 0, slope.size - 1)]

    def reversed(self) -> LevelMap:
        """Return u -> 1 - R(1 - u), the map of the upper tail probabilities.

        Returns
        -------
        level_map : LevelMap
            Exact near 0, where R near 1 is not.
        """
        return LevelMap((1 - self.levels)[::-1], (1 - self.values)[::-1])

    def after(self, inner: LevelMap) -> LevelMap:
        """Return the composition u -> R(inner(u)).

        Parameters
        ----------
        inner : LevelMap
            The map that is applied first.

        Returns
        -------
        level_map : LevelMap
            With the knots of both.
        """
        knots = np.unique(np.concatenate([inner.levels, inner.inverse(self.levels)]))
        values, keep = np.unique(self(inner(knots)), return_index=True)
        return LevelMap(knots[keep], values)

    def equals(self, other: LevelMap) -> bool:
        """Tell whether two maps are the same function, knot by knot.

        Parameters
        ----------
        other : LevelMap
            The map to compare with.

        Returns
        -------
        equal : bool
            Whether knots and values are identical.
        """
        return np.array_equal(self.levels, other.levels) and np.array_equal(self.values, other.values)

    def __repr__(self) -> str:
        return f"LevelMap({self.levels.size} knots)"


@dataclass(frozen=True, eq=False, repr=False)
class Recalibrated(Distribution):
    """A distribution with cdf G(y) = R(F(y)), F the cdf of ``base`` and R one map for all rows.

    Parameters
    ----------
    base : Distribution
        Distribution to recalibrate, n rows.
    level_map : LevelMap
        R: the share of observations that lie below the base's quantile at each level.

    Returns
    -------
    dist : Recalibrated or Empirical
        An `Empirical` with the mapped weights when ``base`` is one.

    Notes
    -----
    Lazy and exact: quantiles are ``Q(R^-1(p))``, the density is ``r(F(y)) f(y)``. Mean, standard
    deviation and CRPS integrate the quantile function between the knots of R. For a base of one
    shape (`Normal`, `StudentT` with common df) that is done once for all rows, O(k + n log k) for
    k knots; for others it costs O(n k), and a mixture's cdf is integrated instead. Recalibrating
    twice composes the maps.

    References
    ----------
    Kuleshov, Fenner and Ermon (2018), https://arxiv.org/abs/1807.00263, algorithm 1.

    Examples
    --------
    >>> from skuq.distributions import LevelMap, Normal, Recalibrated
    >>> dist = Recalibrated(Normal([0.0], [1.0]), LevelMap([0.2, 0.8], [0.1, 0.9]))
    >>> dist.interval(0.8).round(4)
    array([[-0.8416,  0.8416]])
    >>> dist.std().round(4)
    array([0.7793])
    """

    base: Distribution
    level_map: LevelMap

    def __new__(cls, base: Distribution, level_map: LevelMap) -> Distribution:  # type: ignore[misc]
        """Return the closed-form family where there is one; see Returns."""
        _check_parts(base, level_map)
        if isinstance(base, Empirical):
            edges = level_map(np.column_stack([np.zeros(len(base)), base._cumulative()]))
            return Empirical(base.members, np.diff(edges, axis=1))
        return super().__new__(cls)

    def __init__(self, base: Distribution, level_map: LevelMap) -> None:
        _check_parts(base, level_map)
        if isinstance(base, Recalibrated):
            level_map = level_map.after(base.level_map)
            base = base.base
        self._set(base=base, level_map=level_map)

    @cached_property
    def _upper_map(self) -> LevelMap:
        return self.level_map.reversed()

    def _rows(self) -> int:
        return len(self.base)

    def _take(self, rows: IntArray) -> Distribution:
        return Recalibrated(self.base[rows], self.level_map)

    @classmethod
    def _merge(cls, parts: Sequence[Recalibrated]) -> Distribution | None:
        if not all(part.level_map.equals(parts[0].level_map) for part in parts):
            return None
        return Recalibrated(concat([part.base for part in parts]), parts[0].level_map)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self.level_map(self.base._cdf(y))

    def _sf(self, y: FloatArray) -> FloatArray:
        return self._upper_map(self.base._sf(y))

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self.base._ppf(self.level_map.inverse(p))

    def _isf(self, q: FloatArray) -> FloatArray:
        return self.base._isf(self._upper_map.inverse(q))

    @property
    def has_density(self) -> bool:
        return self.base.has_density

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return np.log(self.level_map.density(self.base._cdf(y))) + self.base._logpdf(y)

    def _known(self) -> Distribution:
        known = self.base._known()
        return self if known is self.base else Recalibrated(known, self.level_map)

    def _shortage(self, level: FloatArray, kind: LevelKind) -> Shortage | None:
        if kind == "coverage":
            level, kind = np.concatenate([1 - level, 1 + level], axis=None) / 2, "level"
        return self.base._shortage(self.level_map.inverse(level), kind)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        form = self.base._standard_form()
        if self._integrates_values or self._known() is not self:
            return super()._moments()
        if form is None:
            return level_moments(self.base, self.level_map)
        loc, scale, standard = form
        mean, std = level_moments(standard, self.level_map)
        if not np.isfinite(standard.std()).all():
            std = standard.std()  # a linear tail of R keeps the base's tail, and with it the infinity
        with np.errstate(invalid="ignore"):
            return loc + scale * mean, np.where(scale == 0, 0.0, scale * std)

    def _crps(self, y: FloatArray) -> FloatArray:
        form = self.base._standard_form()
        if self._integrates_values or self._known() is not self:
            return super()._crps(y)
        if form is None:
            return level_crps(self.base, y, self.level_map)
        loc, scale, standard = form
        score = scale * level_crps(standard, (y - loc) / np.where(scale == 0, 1.0, scale), self.level_map)
        return np.where(scale == 0, np.abs(y - loc), score)

    def _standard_form(self) -> tuple[FloatArray, FloatArray, Distribution] | None:
        form = self.base._standard_form()
        return None if form is None else (*form[:2], Recalibrated(form[2], self.level_map))

    @property
    def _integrates_values(self) -> bool:
        return self.base._integrates_values

    def _landmarks(self) -> FloatArray:
        return np.concatenate([self.base._landmarks(), super()._landmarks()], axis=1)

    def _level_breaks(self) -> FloatArray:
        return self.level_map(np.concatenate([self.level_map.levels, self.base._level_breaks()]))

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        if (factor > 0).all():
            return Recalibrated(affine(self.base, shift, factor), self.level_map)
        if (factor < 0).all():
            return Recalibrated(affine(self.base, shift, factor), self._upper_map)
        return None


def _check_parts(base: Distribution, level_map: LevelMap) -> None:
    if not isinstance(base, Distribution):
        raise TypeError(f"`base` must be a Distribution, got {type(base).__name__}.")
    if not isinstance(level_map, LevelMap):
        raise TypeError(f"`level_map` must be a LevelMap, got {type(level_map).__name__}.")
