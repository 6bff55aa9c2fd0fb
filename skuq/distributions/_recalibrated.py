"""Distributions with recalibrated probability levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._numeric import level_rounding
from skuq._typing import FloatArray, IntArray
from skuq.distributions._affine import affine
from skuq.distributions._base import NO_MEAN, Distribution
from skuq.distributions._binned import Binned
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._empirical import Empirical
from skuq.distributions._expectation import cdf_steps
from skuq.distributions._family import Atoms, Lattice, of_base
from skuq.distributions._level_map import (
    LAST_SCORE,
    LevelMap,
    TailFunction,
    pieces_crps,
    pieces_moments,
)
from skuq.distributions._level_quadrature import LevelKind, UnreachableLevel, level_crps, level_mean_distance
from skuq.distributions._normal import Normal
from skuq.distributions._shapes import Shape, tabulated_shape
from skuq.distributions._shared_empirical import SharedEmpirical
from skuq.distributions._student_t import StudentT
from skuq.distributions._tables import CrpsTable
from skuq.distributions._value_quadrature import (
    LANDMARK_TAIL,
    UNIFORM,
    Terms,
    ValueRule,
    divide_tails,
    panel_nodes,
    quantile_landmarks,
)

_ROUNDING = 1e-14
"""Relative rounding error of a normal score after the map and its inverse."""

_ENDS = ndtri(LANDMARK_TAIL[0]) * np.array([1.0, -1.0])
"""Normal scores of the outermost landmarks."""

_LEAST_NODES = 300
"""Integrals of a recalibrated base have at least this number of nodes. Moments need twice as many."""

_REACH = 6.0
"""If the map moves the outermost landmarks to smaller scores, the probability beyond them counts."""

_FARTHEST = 1e300
"""Largest absolute value of a node."""

_TIE, _SHARE = 1e-10, 3e-4
"""The limit of the cdf at a jump is determined at a distance, because a cdf may count nearly equal values as
equal. The first number is relative to the size of the value and of the row. The distance is at most the
second number times the width of the middle half of the edges."""

_NO_INTEGRAL = (
    "the distribution must have finite quantiles at the levels 1e-13 and 1 - 1e-13 for its moments and its "
    "CRPS, got an infinite quantile. The tails are too heavy: use quantiles, or clip the distribution."
)

_SCORE_LIMIT = 38.0
"""Infinite scores are replaced by this finite score."""


@dataclass(frozen=True, eq=False, repr=False)
class Recalibrated(Distribution):
    """Distributions with recalibrated probability levels: the cdf is G(y) = R(F(y)).

    Parameters
    ----------
    base : Distribution
        Distribution with cdf F to recalibrate, n rows.
    level_map : LevelMap
        The increasing function R from [0, 1] to [0, 1]. R(p) is the share of observations below the quantile
        of ``base`` at level p. All rows have the same R.

    Returns
    -------
    dist : Recalibrated, Empirical, SharedEmpirical, Binned or Concatenated
        If ``base`` is an `Empirical` or a `SharedEmpirical`, the result has new weights. If ``base`` is a
        `Binned` with more than 512 bins, the result is a `Binned` with new weights, whose cdf is R(F(y)) at
        the edges of the bins. If ``base`` has rows of several families, each family is recalibrated alone.
        Otherwise, the result is a `Recalibrated`.

    Notes
    -----
    A `Recalibrated` is exact. The quantile at level p is ``Q(R^-1(p))``, and the density is ``r(F(y))
    f(y)``. Levels are stored as normal scores, which do not underflow. Therefore, the map can make the
    distribution wider or narrower by any factor if the tails of the base have a closed form (`Normal`,
    `NormalMixture`, `Quantiles`, and distributions based on these families).

    For a `Normal` base, mean, standard deviation and CRPS have closed forms, which cost O(n log k) for k
    knots. For a `StudentT` base with the same df in all rows, the CRPS is tabulated once for all rows, at the
    same cost. If all rows of another base have a common shape, the quantile function is integrated once for
    all rows. For other bases, the quantile function is integrated at a cost of O(n k). If quantiles require a
    search, for example for mixtures, the cdf of the base is evaluated at 300 to 1000 points of each row,
    and the cached integrals of the map are evaluated at the normal scores of these points. In our tests, the
    CRPS, the mean and the standard deviation had relative errors of at most 7e-5. If a tail is heavier than
    the tail of a Student t distribution with df = 3, the errors are larger: 2e-4 for the CRPS of a lognormal
    member with scale 3. The probability beyond the quantiles at the levels 1e-13 and 1 - 1e-13 is ignored.
    If a mean or a standard deviation of the base is infinite, it stays infinite, unless the map moves these
    quantiles to levels below 1e-16. If the map makes a tail longer, the result may be a finite number instead
    of infinity.

    The level map caches its integrals, and the integrals of its latest `Normal` or `StudentT` base. All
    predictions of a fitted model use the cached integrals. If a distribution is recalibrated twice, the two
    maps are composed.

    References
    ----------
    Kuleshov, Fenner and Ermon (2018), https://arxiv.org/abs/1807.00263, algorithm 1.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.distributions._level_map import LevelMap
    >>> from skuq.distributions._recalibrated import Recalibrated
    >>> dist = Recalibrated(Normal([0.0], [1.0]), LevelMap([0.2, 0.8], [0.1, 0.9]))
    >>> dist.interval(0.8).round(4)
    array([[-0.8416,  0.8416]])
    >>> dist.std().round(4)
    array([0.7285])
    """

    base: Distribution
    level_map: LevelMap

    _PER_ROW = ("base",)
    _rows_at_once = 256  # The arrays for the map fit into the cache.

    def __new__(cls, base: Distribution, level_map: LevelMap) -> Distribution:  # type: ignore[misc]
        if isinstance(base, Empirical):
            edges = level_map(np.column_stack([np.zeros(len(base)), base._cumulative()]))
            return Empirical(base.members, np.diff(edges, axis=1))
        if isinstance(base, SharedEmpirical):
            levels = level_map(np.append(0.0, base._ranks.cumulative / base._ranks.total))
            return SharedEmpirical(base.loc, base.scale, base.members, np.diff(levels))
        if isinstance(base, Binned) and base._has_many_bins:
            return base._with_levels(level_map.pieces)
        if isinstance(base, Concatenated):
            return Concatenated([Recalibrated(part, level_map) for part in base.parts], base.order)
        return super().__new__(cls)

    def __init__(self, base: Distribution, level_map: LevelMap) -> None:
        if isinstance(base, Recalibrated):
            level_map = level_map.after(base.level_map)
            base = base.base
        self._set(base=base, level_map=level_map)

    def _take(self, rows: IntArray) -> Any:
        taken = super()._take(rows)
        if self._standard is not None:
            taken._set(_standard=self._standard)  # The common shape does not depend on the selected rows.
        return taken

    def _normal_score(self, y: FloatArray) -> FloatArray:
        return self.level_map.pieces(self.base._normal_score(y))

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        to_base = self.level_map.pieces.inverse
        if self.base.has_density:
            return self.base._from_normal_score(to_base(score))
        # Rounding must not make a level larger than the cdf at an atom.
        return self.base._from_normal_score(_less_rounding(to_base(_less_rounding(score))))

    def _cdf(self, y: FloatArray) -> FloatArray:
        return np.asarray(ndtr(self._normal_score(y)))

    def _sf(self, y: FloatArray) -> FloatArray:
        return np.asarray(ndtr(-self._normal_score(y)))

    def _ppf(self, p: FloatArray) -> FloatArray:
        if not self.base.has_density:
            p = np.where(p < 1, p - level_rounding(p), p)
        return self._from_normal_score(ndtri(p))

    def _isf(self, q: FloatArray) -> FloatArray:
        if not self.base.has_density:
            q = np.where(q > 0, q + level_rounding(q), q)
        return self._from_normal_score(-ndtri(q))

    _light_tails = of_base("_light_tails")
    has_density = of_base("has_density")
    has_mass = of_base("has_mass")

    def _logpdf(self, y: FloatArray) -> FloatArray:
        score = self.base._normal_score(y)
        score = np.where(np.isinf(score), np.sign(score) * _SCORE_LIMIT, score)
        return self.level_map.log_density(score) + self.base._logpdf(y)

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        if kind == "coverage":
            level, kind = np.concatenate([1 - level, 1 + level], axis=None) / 2, "level"
        return self.base._unreachable_level(self.level_map.inverse(level), kind)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        form = self._standard_form()
        if form is None:
            mean, std = super()._moments()
            # Levels beyond the last score are treated as 0 or 1, so a map may remove a tail.
            removed = np.abs(self.level_map.pieces(_ENDS)) > LAST_SCORE
            if self._light_tails or removed.all():
                return mean, std
            base = self.base
            if removed.any():
                middle = base._ppf(np.asarray(0.5))
                lower, upper = np.where(removed[:, np.newaxis], middle, [[-np.inf], [np.inf]])
                base = base._clip(lower, upper, False)
            means, stds = base.mean(), base.std()  # This is an error if there is no mean.
            return np.where(np.isinf(means), means, mean), np.where(np.isinf(stds), np.inf, std)
        loc, scale, standard = form
        mean, std = standard._one_row_moments
        with np.errstate(invalid="ignore"):
            return loc + scale * mean, np.where(scale == 0, 0.0, scale * std)

    def _crps(self, y: FloatArray) -> FloatArray:
        form = self._standard_form()
        if form is None:
            return self._weighted_crps(y, UNIFORM)
        loc, scale, standard = form
        z = (y - loc) / np.where(scale == 0, 1.0, scale)
        return np.where(scale == 0, np.abs(y - loc), scale * standard._one_row_crps(z))

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        form = self._standard_form()
        if form is None:
            return super()._mean_distance(y)
        loc, scale, standard = form
        z = (y - loc) / np.where(scale == 0, 1.0, scale)
        return np.where(scale == 0, np.abs(y - loc), scale * level_mean_distance(standard, z))

    def _value_rule(self, *points: FloatArray) -> ValueRule:
        # The quantiles of a Binned are cheap, so panels end at all kinks of its cdf and of the map.
        if self.has_mass or isinstance(self.base, Binned):
            return super()._value_rule(*points)
        # The map may move the ends far beyond the landmarks of the base.
        is_heavy = bool(np.abs(self.level_map.pieces(_ENDS)).min() < _REACH)
        ends = [end(np.asarray(LANDMARK_TAIL[0])) for end in (self._ppf, self._isf) if is_heavy]
        ends = [np.clip(end, -_FARTHEST, _FARTHEST) for end in ends]  # The quantile may overflow.
        is_heavy = is_heavy or not self._light_tails
        least = _LEAST_NODES if points else 2 * _LEAST_NODES
        return _MappedRule(self.base, self.level_map, is_heavy, least, *points, *ends)

    def _standard_form(self) -> tuple[FloatArray, FloatArray, Recalibrated] | None:
        form = self.base._standard_form()
        return None if form is None or self._standard is None else (*form[:2], self._standard)

    @cached_property
    def _standard(self) -> Recalibrated | None:
        """Return the one-row distribution of the common shape, or None.

        Its moments are computed only once.
        """
        form = self.base._standard_form()
        if form is None:
            return None
        standard = form[2]

        def recalibrated() -> Recalibrated:
            return Recalibrated(standard, self.level_map)

        if not isinstance(standard, Normal | StudentT):
            return recalibrated()
        df = np.inf if isinstance(standard, Normal) else float(standard.df[0])
        return self.level_map._kept("standard", (type(standard), df), recalibrated)

    @cached_property
    def _one_row_moments(self) -> tuple[FloatArray, FloatArray]:
        if isinstance(self.base, Normal):
            closed = pieces_moments(self.level_map.pieces)
            return np.array(closed[:1]), np.array(closed[1:])
        slopes = self.level_map.pieces.slopes[[0, -1]]
        if isinstance(self.base, StudentT):
            # The normal score of y is about sqrt(2 df log y), so the mapped tails are about y^-(df slope^2).
            lower, upper = self.base.df[0] * slopes**2
            if max(lower, upper) <= 1:
                raise ValueError(NO_MEAN.format(row=0))
            if min(lower, upper) <= 1:
                return np.array([np.inf if upper <= 1 else -np.inf]), np.array([np.inf])
            endless = min(lower, upper) <= 2
        else:  # With an outer slope of 1, an infinite standard deviation stays infinite.
            endless = bool(np.isinf(self.base.std()[0])) and slopes.min() <= 1
        mean, std = super()._moments()
        return mean, np.where(endless, np.inf, std)

    @cached_property
    def _one_row_crps(self) -> Callable[[FloatArray], FloatArray]:
        pieces = self.level_map.pieces
        if isinstance(self.base, Normal):
            return partial(pieces_crps, pieces)
        if isinstance(self.base, StudentT):
            return self._one_row_table
        return partial(level_crps, self)

    @cached_property
    def _one_row_table(self) -> CrpsTable:
        return CrpsTable(self, self.base._from_normal_score(self.level_map.pieces.knots))

    @cached_property
    def _one_row_shape(self) -> Shape | None:
        """Return tables for Cramér distances of a one-row distribution with a normal or Student t base."""
        pieces = self.level_map.pieces
        kinks = self.base._from_normal_score(pieces.knots)
        # This is the density to the right of each knot. The product of this density and the factor is the
        # jump of the density at the knot.
        density = np.exp(self.level_map.log_density(pieces.knots) + self.base._logpdf(kinks))
        jumps = density * (1 - pieces.slopes[:-1] / pieces.slopes[1:])
        return tabulated_shape(self, lambda: self._one_row_table, pieces.values, kinks, jumps)

    @property
    def _integrable(self) -> Distribution:
        return self  # The base is not winsorized.

    def _listed_atoms(self) -> Atoms | None:
        atoms = self.base._listed_atoms()
        return None if atoms is None else cdf_steps(self, atoms)

    def _lattice(self) -> Lattice | None:
        return self.base._lattice()

    _integrates_values = of_base("_integrates_values")

    def _landmarks(self) -> FloatArray:
        return np.concatenate([self.base._landmarks(), super()._landmarks()], axis=1)

    def _level_breaks(self) -> FloatArray:
        return np.concatenate([self.level_map.values, self.level_map(self.base._level_breaks())])

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        if isinstance(self.base, Binned):
            return None  # An affine function of its integrals is more precise than new integrals.
        if (factor > 0).all():
            return Recalibrated(affine(self.base, shift, factor), self.level_map)
        if (factor < 0).all():
            return Recalibrated(affine(self.base, shift, factor), self.level_map.reversed())
        return None


class _MappedRule(ValueRule):
    """Rule for a recalibrated base. The integrals of the map between the nodes are cached.

    The nodes are the ends and the middles of panels, which divide the intervals between the edges. A jump of
    the cdf has a panel.
    """

    def __init__(
        self, base: Distribution, level_map: LevelMap, is_heavy: bool, least: int, *points: FloatArray
    ) -> None:
        landmarks = base._landmarks()
        ends = base._cdf(landmarks.min(axis=1)), base._sf(landmarks.max(axis=1))
        if base.has_density and not np.all(ends):
            # From a bound of the support to the next landmark, infinitely many scores need several panels.
            landmarks = np.column_stack([landmarks, quantile_landmarks(base, np.empty(0))])
        edges = np.sort(np.column_stack([landmarks, *points]), axis=1)
        if not np.isfinite(edges).all():
            raise ValueError(_NO_INTEGRAL)
        if is_heavy:
            edges = divide_tails(edges)
        # Many panels of a row have no width if another row has farther tails.
        used = np.count_nonzero(np.diff(edges)) / len(edges)
        parts = 2 * math.ceil(least / (2 * max(used, edges.shape[1] / 4)))
        inner = panel_nodes(edges, 2 * np.arange(parts) / parts - 1, np.ones(parts))[0]
        at = x = np.column_stack([inner, edges[:, -1]])
        if not base.has_density:
            # An edge may be a jump, so a panel ends there with the limit of the score from below. It is
            # extrapolated from two points.
            # The median is that of the values other than 0, because half of the edges may be a bound at 0.
            size = np.sort(np.abs(edges))
            middle = (np.count_nonzero(size == 0, axis=1, keepdims=True) + size.shape[1] - 1) // 2
            size = np.abs(edges) + np.take_along_axis(size, middle, axis=1)
            places = np.repeat(np.arange(0, x.shape[1], parts), 2)
            k = edges.shape[1]
            spread = edges[:, [-1 - k // 4]] - edges[:, [k // 4]]
            far = np.minimum(_TIE * size, np.where(spread > 0, _SHARE * spread, np.inf))
            before = np.stack([edges - 2 * far, edges - far], axis=2).reshape(len(edges), -1)
            at = np.insert(x, places, before, axis=1)
            at = np.maximum.accumulate(at, axis=1)  # Two edges may be nearer than the points before them.
            x = np.insert(x, places, np.repeat(edges, 2, axis=1), axis=1)
        scores = ndtri(base._tail_table(at))
        scores[:, x.shape[1] // 2 :] *= -1
        if not base.has_density:
            first = np.arange(edges.shape[1]) * (parts + 2)
            far, near = scores[:, first], scores[:, first + 1]
            with np.errstate(invalid="ignore"):
                limit = np.where(np.isfinite(far), 2 * near - far, near)
            scores[:, first] = scores[:, first + 1] = limit
        self.edges, self.x, self._scores, self._map = edges, x, scores, level_map

    def sides(
        self, name: Hashable, terms: Terms, center: FloatArray, unit: FloatArray, *powers: int
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        below, above = terms
        z = (self.x - center) / unit
        # Panels in which z has one sign in all rows have an integral on one side only.
        stop = 2 * math.ceil(np.count_nonzero(z.min(axis=0) < 0) / 2) + 1
        start = 2 * (max(int(np.count_nonzero(z.max(axis=0) <= 0)) - 1, 0) // 2)

        def integrals(side: str, k: TailFunction, end: np.ufunc, columns: slice) -> list[FloatArray]:
            outcomes = [end(z[:, columns], 0.0) ** power for power in powers]
            return self._map._integrals((side, name), k, self._scores[:, columns], *outcomes)

        lower = integrals("below", lambda cdf, sf: below(cdf), np.minimum, slice(stop))
        upper = integrals("above", lambda cdf, sf: above(sf), np.maximum, slice(start, None))
        return zip(lower, upper, strict=True)


def _less_rounding(score: FloatArray) -> FloatArray:
    size = np.where(np.isinf(score), 0.0, np.abs(score))  # The ends of the support are exact.
    return np.asarray(score - _ROUNDING * np.maximum(size, 1.0))
