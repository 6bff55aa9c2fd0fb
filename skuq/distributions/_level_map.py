"""Increasing maps of probability levels, piecewise linear on the scale of normal scores.

The normal score of a level u is Phi^{-1}(u). On this scale levels as small as exp(-5000), or as near to 1,
are ordinary numbers (-100 and 100), the two tails are alike, and the map that takes one Gaussian
distribution to another is a straight line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_increasing,
    check_number,
    check_probabilities,
)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Pieces:
    """A strictly increasing, continuous, piecewise linear function on the whole real line.

    Between knot j - 1 and knot j it has the slope ``slopes[j]``; ``slopes[0]`` and ``slopes[-1]`` continue it
    beyond the outermost knots.
    """

    knots: FloatArray  # (k,) increasing
    values: FloatArray  # (k,) at the knots, increasing
    slopes: FloatArray  # (k + 1,) positive

    def find(self, x: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the piece that holds each x, and the knot from which it is evaluated."""
        piece = np.searchsorted(self.knots, x, side="right")
        return piece, np.maximum(piece - 1, 0)

    def __call__(self, x: FloatArray) -> FloatArray:
        piece, knot = self.find(x)
        return np.asarray(self.values[knot] + self.slopes[piece] * (x - self.knots[knot]))

    @cached_property
    def inverse(self) -> Pieces:
        """The inverse function."""
        return Pieces(self.values, self.knots, 1 / self.slopes)


@dataclass(frozen=True, eq=False, repr=False)
class LevelMap:
    r"""Strictly increasing map R of [0, 1] onto itself, piecewise linear on the scale of normal scores.

    The normal score of a level :math:`u` is :math:`\Phi^{-1}(u)`. A map that takes the levels of one Gaussian
    distribution to those of another is a straight line there.

    Parameters
    ----------
    levels : array-like of shape (k,)
        Strictly increasing levels in [0, 1]; R(0) = 0 and R(1) = 1 hold whether or not they are listed.
    values : array-like of shape (k,)
        R at the levels, strictly increasing in [0, 1].

    Attributes
    ----------
    levels, values : ndarray of shape (k,)
        The knots, with (0, 0) and (1, 1) at the ends.
    pieces : Pieces
        The same function on the scale of normal scores.

    See Also
    --------
    Recalibrated : A distribution whose levels are mapped.

    Notes
    -----
    :math:`\Phi^{-1}(R(\Phi(x)))` is linear in the normal score :math:`x` between the knots, and continues
    with slope 1 beyond the outermost ones.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import LevelMap
    >>> level_map = LevelMap([0.5], [0.8])
    >>> level_map(np.array([0.5, 0.75])).round(4), level_map.inverse(np.array([0.8])).round(4)
    (array([0.8   , 0.9353]), array([0.5]))
    """

    pieces: Pieces

    def __init__(self, levels: ArrayLike, values: ArrayLike) -> None:
        u = np.atleast_1d(check_probabilities(levels, "levels"))
        r = np.atleast_1d(check_probabilities(values, "values"))
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
        self._set(ndtri(u[1:-1]), ndtri(r[1:-1]), 1.0, 1.0)

    @classmethod
    def from_scores(
        cls, scores: ArrayLike, values: ArrayLike, lower_slope: float = 1.0, upper_slope: float = 1.0
    ) -> Self:
        r"""Return the map with knots given as normal scores, which no extreme level can saturate.

        Parameters
        ----------
        scores : array-like of shape (k,)
            Normal scores of the levels, strictly increasing and finite.
        values : array-like of shape (k,)
            Normal scores of R there, strictly increasing and finite.
        lower_slope, upper_slope : float, default=1.0
            Positive slopes of :math:`\Phi^{-1}(R(\Phi(x)))` beyond the outermost knots.

        Returns
        -------
        level_map : LevelMap
            The map; the identity without knots.

        Examples
        --------
        Standard deviations 50 times too small:

        >>> import numpy as np
        >>> from skuq.distributions import LevelMap, Normal, Recalibrated
        >>> level_map = LevelMap.from_scores([-50.0, 50.0], [-1.0, 1.0])
        >>> Recalibrated(Normal([0.0], [1.0]), level_map).interval(0.6).round(3)
        array([[-42.081,  42.081]])
        """
        x, g = (
            check_increasing(check_finite(np.atleast_1d(as_float_array(knots, name)), name), name)
            for knots, name in ((scores, "scores"), (values, "values"))
        )
        if x.ndim != 1 or x.shape != g.shape:
            raise ValueError(
                f"`scores` and `values` must be 1-D and equally long, got {x.shape} and {g.shape}."
            )
        lower = check_number(lower_slope, "lower_slope", positive=True)
        upper = check_number(upper_slope, "upper_slope", positive=True)
        level_map = cls.__new__(cls)
        level_map._set(np.array(x), np.array(g), lower, upper)
        return level_map

    def _set(self, scores: FloatArray, values: FloatArray, lower_slope: float, upper_slope: float) -> None:
        if scores.size == 0:  # the identity
            scores, values = np.zeros(1), np.zeros(1)
        with np.errstate(over="ignore"):
            inner = np.diff(values) / np.diff(scores)
        if not (np.isfinite(inner).all() and inner.min(initial=1.0) > 0):
            raise ValueError(
                "`scores` and `values` must be so far apart that all slopes are positive numbers, got "
                f"slopes from {inner.min():g} to {inner.max():g}."
            )
        pieces = Pieces(scores, values, np.concatenate([[lower_slope], inner, [upper_slope]]))
        for array in (pieces.knots, pieces.values, pieces.slopes):
            array.setflags(write=False)
        object.__setattr__(self, "pieces", pieces)

    @cached_property
    def _latest(self) -> dict[str, tuple[Any, Any]]:
        """The latest key and result of each kind; see `_kept`."""
        return {}

    def _kept(self, what: str, key: Any, compute: Callable[[], Result]) -> Result:
        """Return a result that depends on the map and ``key`` alone; the one for the latest key is kept.

        A fitted model has one map for all of its predictions, so that what depends on no row is computed
        once. Threads read and write whole entries; two that come first at the same time both compute the
        result. A pickle leaves the results out.
        """
        entry: tuple[Any, Result] | None = self._latest.get(what)
        if entry is None or entry[0] != key:
            entry = self._latest[what] = (key, compute())
        return entry[1]

    @property
    def levels(self) -> FloatArray:
        """The levels at the knots, 0 and 1 included; shape (k,)."""
        return np.concatenate([[0.0], ndtr(self.pieces.knots), [1.0]])

    @property
    def values(self) -> FloatArray:
        """R at ``levels``; shape (k,)."""
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
            Levels in [0, 1], of the same shape.
        """
        return np.asarray(ndtr(self.pieces.inverse(ndtri(p))))

    def log_density(self, score: FloatArray) -> FloatArray:
        """Return the logarithm of the slope of R: the density ratio of the recalibrated to the base.

        Parameters
        ----------
        score : ndarray
            Normal scores of the levels, finite.

        Returns
        -------
        log_slope : ndarray
            Of the same shape; at a knot, of the piece to its right.
        """
        piece, knot = self.pieces.find(score)
        slope = self.pieces.slopes[piece]
        # dR / du = slope phi(mapped) / phi(score), and log phi is -x^2 / 2 up to a constant
        mapped = self.pieces.values[knot] + slope * (score - self.pieces.knots[knot])
        return np.asarray(np.log(slope) + (score - mapped) * (score + mapped) / 2)

    def reversed(self) -> LevelMap:
        """Return u -> 1 - R(1 - u), the map of the upper tail probabilities.

        Returns
        -------
        level_map : LevelMap
            Exact near 0, where R near 1 is not.
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
            The map that is applied first.

        Returns
        -------
        level_map : LevelMap
            With the knots of both.
        """
        return self._kept("after", inner, lambda: self._composed(inner))

    def _composed(self, inner: LevelMap) -> LevelMap:
        first, second = inner.pieces, self.pieces
        # the composition bends at the knots of the inner map and where it takes on those of the outer one
        knots = np.unique(np.concatenate([first.knots, first.inverse(second.knots)]))
        # knots that rounding makes equal in value are left out: slopes must be positive
        values, keep = np.unique(second(first(knots)), return_index=True)
        ends = first.slopes[[0, -1]] * second.slopes[[0, -1]]
        return LevelMap.from_scores(knots[keep], values, *ends)

    def equals(self, other: LevelMap) -> bool:
        """Return whether two maps are the same function, knot by knot.

        Parameters
        ----------
        other : LevelMap
            The map to compare with.

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
        """Pickle and copy through the constructor, which validates."""
        pieces = self.pieces
        return LevelMap.from_scores, (pieces.knots, pieces.values, pieces.slopes[0], pieces.slopes[-1])

    def __getstate__(self) -> dict[str, Pieces]:
        """Return the state without kept results, for packages that do not use ``__reduce__``, as skops."""
        return {"pieces": self.pieces}

    def __repr__(self) -> str:
        return f"LevelMap({self.pieces.knots.size + 2} knots)"
