"""Increasing functions (maps) of probability levels that are piecewise linear on the scale of normal scores.

The normal score of a level u is Phi^{-1}(u). Normal scores can represent levels very close to 0 and to 1. For
example, the level exp(-5000) has the score -100. The map from one Gaussian distribution to another is a
straight line on this scale.

The moments and the CRPS have closed forms. Let Z be standard normal, X = h(Z), and g the inverse of h. Then
the cdf of X is Phi(g(x)). On a piece of g with slope s, X = x_j + (Z - g_j) / s, so the moments of X are sums
of moments of truncated normals. In

    CRPS(t) = int_-inf^t Phi(g(x))^2 dx + int_t^inf Phi(-g(x))^2 dx

the integral over each piece is a difference of two values of I(g) / s, where

    I(z) = int_-inf^z Phi(v)^2 dv = z Phi(z)^2 + 2 Phi(z) phi(z) - Phi(sqrt(2) z) / sqrt(pi).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq.distributions._value_quadrature import squared_normal_cdf

Result = TypeVar("Result")
TailFunction: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""Function of R and of 1 - R."""


@dataclass(frozen=True)
class Pieces:
    """Strictly increasing, continuous, piecewise linear function on the real line."""

    knots: FloatArray  # Positions of the knots, increasing, shape (k,).
    values: FloatArray  # Values at the knots, increasing, shape (k,).
    slopes: FloatArray  # Slopes between the knots and beyond the outermost knots, positive, shape (k + 1,).

    def find(self, x: FloatArray) -> tuple[IntArray, IntArray]:
        piece = np.searchsorted(self.knots, x, side="right")
        return piece, np.maximum(piece - 1, 0)

    def __call__(self, x: FloatArray) -> FloatArray:
        piece, knot = self.find(x)
        return np.asarray(self.values[knot] + self.slopes[piece] * (x - self.knots[knot]))

    @cached_property
    def inverse(self) -> Pieces:
        return Pieces(self.values, self.knots, 1 / self.slopes)


@dataclass(frozen=True, eq=False, repr=False)
class LevelMap:
    r"""Strictly increasing function R from [0, 1] onto [0, 1], piecewise linear in normal scores.

    The normal score of a level :math:`u` is :math:`\Phi^{-1}(u)`. On this scale, the function that maps the
    levels of one Gaussian distribution to the levels of another Gaussian distribution is a straight line.

    Parameters
    ----------
    levels : array-like of shape (k,)
        Strictly increasing levels in [0, 1]. The points R(0) = 0 and R(1) = 1 are implied.
    values : array-like of shape (k,)
        Values of R at the levels. They must be strictly increasing, in [0, 1].

    Attributes
    ----------
    levels, values : ndarray of shape (k,)
        Knots of the map, including (0, 0) and (1, 1).
    pieces : Pieces
        The same map on the scale of normal scores.

    See Also
    --------
    Recalibrated : Distributions whose probability levels are recalibrated by a LevelMap.

    Notes
    -----
    :math:`\Phi^{-1}(R(\Phi(x)))` is linear in the normal score :math:`x` between the knots, and continues
    with slope 1 beyond the outermost knots.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions._level_map import LevelMap
    >>> level_map = LevelMap([0.5], [0.8])
    >>> level_map(np.array([0.5, 0.75])).round(4), level_map.inverse(np.array([0.8])).round(4)
    (array([0.8   , 0.9353]), array([0.5]))
    """

    pieces: Pieces

    def __init__(self, levels: ArrayLike, values: ArrayLike) -> None:
        u, r = np.atleast_1d(levels), np.atleast_1d(values)
        if u.size == 0 or u[0] > 0 or r[0] > 0:
            u, r = np.concatenate([[0.0], u]), np.concatenate([[0.0], r])
        if u[-1] < 1 or r[-1] < 1:
            u, r = np.concatenate([u, [1.0]]), np.concatenate([r, [1.0]])
        self._set(ndtri(u[1:-1]), ndtri(r[1:-1]), 1.0, 1.0)

    @classmethod
    def from_scores(
        cls, scores: ArrayLike, values: ArrayLike, lower_slope: float = 1.0, upper_slope: float = 1.0
    ) -> Self:
        r"""Return the map through knots that are given as normal scores, which can represent extreme levels.

        Parameters
        ----------
        scores : array-like of shape (k,)
            Normal scores of the levels, strictly increasing and finite.
        values : array-like of shape (k,)
            Normal scores of R at the levels, strictly increasing and finite.
        lower_slope, upper_slope : float, default=1.0
            Positive slopes of :math:`\Phi^{-1}(R(\Phi(x)))` beyond the outermost knots.

        Returns
        -------
        level_map : LevelMap
            Map through the knots. It is the identity if there are no knots.

        Examples
        --------
        A map for standard deviations that are 50 times too small:

        >>> import numpy as np
        >>> from skuq.distributions import Normal
        >>> from skuq.distributions._level_map import LevelMap
        >>> from skuq.distributions._recalibrated import Recalibrated
        >>> level_map = LevelMap.from_scores([-50.0, 50.0], [-1.0, 1.0])
        >>> Recalibrated(Normal([0.0], [1.0]), level_map).interval(0.6).round(3)
        array([[-42.081,  42.081]])
        """
        level_map = cls.__new__(cls)
        level_map._set(np.array(scores), np.array(values), lower_slope, upper_slope)
        return level_map

    def _set(self, scores: FloatArray, values: FloatArray, lower_slope: float, upper_slope: float) -> None:
        if scores.size == 0:  # The map is the identity.
            scores, values = np.zeros(1), np.zeros(1)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            inner = np.diff(values) / np.diff(scores)
        slopes = np.concatenate([[lower_slope], inner, [upper_slope]])
        if not (np.isfinite(np.concatenate([scores, values, slopes])).all() and slopes.min() > 0):
            raise ValueError(
                "`scores` and `values` must be finite and increase together, with positive and finite "
                f"slopes, got slopes from {slopes.min():g} to {slopes.max():g}."
            )
        pieces = Pieces(scores, values, slopes)
        for array in (pieces.knots, pieces.values, pieces.slopes):
            array.setflags(write=False)
        object.__setattr__(self, "pieces", pieces)

    @cached_property
    def _latest(self) -> dict[Hashable, tuple[Any, Any]]:
        return {}

    def _kept(self, what: Hashable, key: Any, compute: Callable[[], Result]) -> Result:
        entry: tuple[Any, Result] | None = self._latest.get(what)
        if entry is None or entry[0] != key:
            entry = self._latest[what] = (key, compute())
        return entry[1]

    def _integrals(
        self,
        name: Hashable,
        k: TailFunction,
        s: FloatArray,
        *outcomes: FloatArray,
    ) -> list[FloatArray]:
        """Return the integral of k(R, 1 - R) over each outcome, for nodes with the normal scores s.

        All arrays have the shape (n, 2 m + 1). The ``name`` of k is the key of its cached integrals.
        """
        return self._kept(name, None, lambda: LevelIntegrals.of(self.pieces, k)).over(s, *outcomes)

    @property
    def levels(self) -> FloatArray:
        """Levels of the knots, including 0 and 1, shape (k,)."""
        return np.concatenate([[0.0], ndtr(self.pieces.knots), [1.0]])

    @property
    def values(self) -> FloatArray:
        """Values of R at ``levels``, shape (k,)."""
        return np.concatenate([[0.0], ndtr(self.pieces.values), [1.0]])

    def __call__(self, u: FloatArray) -> FloatArray:
        return np.asarray(ndtr(self.pieces(ndtri(u))))

    def inverse(self, p: FloatArray) -> FloatArray:
        """Return the level u with R(u) = p.

        Parameters
        ----------
        p : ndarray
            Probabilities in [0, 1].

        Returns
        -------
        u : ndarray
            Levels in [0, 1], of the same shape as ``p``.
        """
        return np.asarray(ndtr(self.pieces.inverse(ndtri(p))))

    def log_density(self, score: FloatArray) -> FloatArray:
        """Return the logarithm of the slope of R: the ratio of the recalibrated to the original density.

        Parameters
        ----------
        score : ndarray
            Normal scores of the levels, finite.

        Returns
        -------
        log_slope : ndarray
            Logarithms of the slopes, with the same shape as ``score``. At a knot, the slope to the right of
            the knot is returned.
        """
        piece, knot = self.pieces.find(score)
        slope = self.pieces.slopes[piece]
        # The derivative of R is slope phi(mapped) / phi(score), and log phi(x) = -x^2 / 2 + constant.
        mapped = self.pieces.values[knot] + slope * (score - self.pieces.knots[knot])
        return np.asarray(np.log(slope) + (score - mapped) * (score + mapped) / 2)

    def reversed(self) -> LevelMap:
        """Return the map of the upper tail probabilities, u -> 1 - R(1 - u).

        Returns
        -------
        level_map : LevelMap
            Map of the upper tail probabilities. It is precise for small probabilities.
        """
        pieces = self.pieces
        return self._kept(
            "reversed",
            None,
            lambda: LevelMap.from_scores(
                -pieces.knots[::-1], -pieces.values[::-1], pieces.slopes[-1], pieces.slopes[0]
            ),
        )

    def after(self, inner: LevelMap) -> LevelMap:
        """Return the composition u -> R(inner(u)).

        Parameters
        ----------
        inner : LevelMap
            Map that is applied first.

        Returns
        -------
        level_map : LevelMap
            Composition, with the knots of both maps.
        """
        return self._kept("after", inner, lambda: self._composed(inner))

    def _composed(self, inner: LevelMap) -> LevelMap:
        first, second = inner.pieces, self.pieces
        # The composed map has the knots of the inner map. It also has knots at the points that the inner map
        # maps to knots of the outer map.
        knots = np.unique(np.concatenate([first.knots, first.inverse(second.knots)]))
        # Slopes must be positive, so knots with equal values after rounding are dropped.
        values, keep = np.unique(second(first(knots)), return_index=True)
        ends = first.slopes[[0, -1]] * second.slopes[[0, -1]]
        return LevelMap.from_scores(knots[keep], values, *ends)

    def equals(self, other: LevelMap) -> bool:
        """Return whether two maps are identical.

        Parameters
        ----------
        other : LevelMap
            Map to compare with.

        Returns
        -------
        equal : bool
            Whether knots, values and outer slopes are identical.
        """
        mine, others = self.pieces, other.pieces
        return (
            np.array_equal(mine.knots, others.knots)
            and np.array_equal(mine.values, others.values)
            and np.array_equal(mine.slopes, others.slopes)
        )

    def __reduce__(self) -> tuple[object, ...]:
        pieces = self.pieces
        return LevelMap.from_scores, (pieces.knots, pieces.values, pieces.slopes[0], pieces.slopes[-1])

    def __getstate__(self) -> dict[str, Pieces]:
        return {"pieces": self.pieces}

    def __repr__(self) -> str:
        return f"LevelMap({self.pieces.knots.size + 2} knots)"


LAST_SCORE = 8.2
"""Beyond this absolute normal score, a recalibrated level is treated as 0 or 1."""

_CELLS = 2**15
_GAUSS = 0.5 + np.array([-0.5, 0.5]) / math.sqrt(3.0)
"""Nodes of the Gauss rule of a cell."""

_NARROW, _UNEVEN, _WIDE = 4, 1 / 8, 0.35
"""Over at most this number of cells, the mean of k is the value in the middle. If the ratio of the widths of
both halves of a panel is at most the second value, an outcome is a linear function of s in each half. A panel
is wide if s changes by more than the third value in a half."""


@dataclass(frozen=True)
class LevelIntegrals:
    """Integrals of k(R, 1 - R) and of s k up to even normal scores s, from ``start`` in steps of ``step``.

    R may have many knots, so that a quadrature over y would need many nodes. The integrals contain the knots.
    """

    pieces: Pieces
    k: TailFunction
    start: float
    step: float
    sums: FloatArray

    @classmethod
    def of(cls, pieces: Pieces, k: TailFunction) -> LevelIntegrals:
        start, stop = pieces.inverse(np.array([-LAST_SCORE, LAST_SCORE])).tolist()
        grid = np.linspace(start, stop, _CELLS + 1)
        edges = np.union1d(grid, pieces.knots[(start < pieces.knots) & (pieces.knots < stop)])
        width = np.diff(edges)
        s = edges[:-1] + width * _GAUSS[:, np.newaxis]
        mapped = pieces(s)
        values = width / 2 * k(ndtr(mapped), ndtr(-mapped))
        cells = np.stack([values.sum(axis=0), (s * values).sum(axis=0)])
        # The sums begin at the end at which k is small, so that their differences are not rounding errors.
        direction = 1 if cells[0, 0] < cells[0, -1] else -1
        sums = np.column_stack([np.zeros(2), direction * np.cumsum(cells[:, ::direction], axis=1)])
        sums = sums[:, ::direction][:, np.searchsorted(edges, grid)]
        return cls(pieces, k, start, (stop - start) / _CELLS, sums)

    def _k_at(self, s: FloatArray) -> FloatArray:
        mapped = self.pieces(s)
        return self.k(ndtr(mapped), ndtr(-mapped))

    def over(self, s: FloatArray, *outcomes: FloatArray) -> list[FloatArray]:
        """Return the integral of k over each outcome, shape (n,). All arrays have the shape (n, 2 m + 1).

        A panel has two halves, and an outcome is treated as a quadratic function of s in the panel. If the
        halves have very different widths, the outcome is treated as a linear function in each half. In a wide
        panel, such as at an end of the support, k is treated as a quadratic function of the outcome.
        """
        place = np.clip((s - self.start) / self.step, 0, _CELLS)
        cell = np.minimum(place.astype(np.intp), _CELLS - 1)
        offset = (place - cell) * self.step
        share = (self.sums[0][cell + 1] - self.sums[0][cell]) / self.step * offset
        zeroth = np.diff(self.sums[0][cell] + share)
        first = np.diff(self.sums[1][cell] + share * (self.start + self.step * cell + offset / 2))
        width, twice_middle = np.diff(place) * self.step, place[:, 1:] + place[:, :-1]
        narrow = width <= _NARROW * self.step
        safe = np.where(narrow, 1.0, width)
        density = zeroth / safe
        density[narrow] = self._k_at((s[:, 1:][narrow] + s[:, :-1][narrow]) / 2)
        left, right = width[:, ::2], width[:, 1::2]
        least = np.maximum(_UNEVEN * np.maximum(left, right), _NARROW * self.step)
        # Scores beyond the ends are clipped, so they do not change with the outcome.
        inside = (place[:, :-1:2] > 0) & (place[:, 2::2] < _CELLS)
        even = (np.minimum(left, right) > least) & inside
        moment = 2 * first - (2 * self.start + self.step * twice_middle) * zeroth
        bend = np.where(even, moment[:, ::2] + moment[:, 1::2], 0.0) / (safe[:, ::2] + safe[:, 1::2])
        density[:, ::2] -= bend / safe[:, ::2]
        density[:, 1::2] += bend / safe[:, 1::2]
        wide = np.maximum(left, right) > _WIDE
        start, middle, stop = (self._k_at(part[wide]) for part in (s[:, :-1:2], s[:, 1::2], s[:, 2::2]))
        density[:, ::2][wide] = (5 * start + 8 * middle - stop) / 12
        density[:, 1::2][wide] = (5 * stop + 8 * middle - start) / 12
        return [np.einsum("ij,ij->i", density, np.diff(outcome)) for outcome in outcomes]


_SQRT_2PI = math.sqrt(2 * math.pi)


def _density(z: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-0.5 * z * z) / _SQRT_2PI)


def pieces_moments(pieces: Pieces) -> tuple[float, float]:
    """Return the mean and the standard deviation of X. The function g is ``pieces``."""
    g = np.concatenate([[-np.inf], pieces.values, [np.inf]])
    anchor = np.maximum(np.arange(g.size - 1) - 1, 0)
    unit = 1 / float(pieces.slopes.min())  # This unit prevents overflow of the squares.
    spread = 1 / pieces.slopes / unit
    # Deviations from the median keep their precision if the mean is large.
    center = float(pieces.inverse(np.zeros(1))[0])
    start = (pieces.knots[anchor] - center) / unit - spread * pieces.values[anchor]
    density = _density(g)
    weighted = np.where(np.isfinite(g), g, 0.0) * density
    upper = g[:-1] > 0  # Above the median, the difference of two upper tails is more precise.
    inside = np.where(upper, ndtr(-g[:-1]) - ndtr(-g[1:]), ndtr(g[1:]) - ndtr(g[:-1]))
    first = density[:-1] - density[1:]
    second = inside + weighted[:-1] - weighted[1:]
    mean = float((start * inside + spread * first).sum())
    square = float((start**2 * inside + 2 * start * spread * first + spread**2 * second).sum())
    return center + unit * mean, unit * math.sqrt(max(square - mean**2, 0.0))


def pieces_crps(pieces: Pieces, t: FloatArray) -> FloatArray:
    """Return the CRPS of X at finite values t. The function g is ``pieces``."""
    below, above = squared_normal_cdf(pieces.values), squared_normal_cdf(-pieces.values)
    inner = pieces.slopes[1:-1]
    before = np.concatenate([[0.0], np.cumsum(np.diff(below) / inner)]) + below[0] / pieces.slopes[0]
    after = np.concatenate([np.cumsum((-np.diff(above) / inner)[::-1])[::-1], [0.0]])
    after += above[-1] / pieces.slopes[-1]
    piece, knot = pieces.find(t)
    slope = pieces.slopes[piece]
    g = pieces.values[knot] + slope * (t - pieces.knots[knot])
    lower = before[knot] + (squared_normal_cdf(g) - below[knot]) / slope
    upper = after[knot] + (squared_normal_cdf(-g) - above[knot]) / slope
    return np.asarray(np.maximum(lower, 0.0) + np.maximum(upper, 0.0))
