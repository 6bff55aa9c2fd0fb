"""Distributions of different families, stacked row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, overload

import numpy as np
from numpy.polynomial import Polynomial

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq.distributions._base import Distribution
from skuq.distributions._family import INTEGERS, Lattice, of_all
from skuq.distributions._level_quadrature import LevelKind, UnreachableLevel, most_demanding
from skuq.distributions._row_container import RowContainer, check_univariate

Container = TypeVar("Container", bound=RowContainer[Any])


@overload
def concat(parts: Sequence[Distribution]) -> Distribution: ...
@overload
def concat(parts: Sequence[Container]) -> Container: ...
def concat(parts: Any) -> Any:
    """Stack the rows of several distributions into one.

    Parameters
    ----------
    parts : sequence of Distribution, or sequence of JointDistribution
        At least one distribution. The families may differ. Joint distributions must have the same targets.

    Returns
    -------
    dist : Distribution or JointDistribution
        If all parts have the same family and can be merged, a distribution of this family. Otherwise, a
        `Concatenated` or a `ConcatenatedJoint`.

    Examples
    --------
    >>> from skuq.distributions import Normal, StudentT, concat
    >>> concat([Normal(0.0, 1.0), Normal([1.0, 2.0], 1.0)])
    Normal(n=3)
    >>> concat([Normal(0.0, 1.0), StudentT(0.0, 1.0, df=3)])
    Concatenated(n=2)
    """
    if isinstance(parts, list | tuple):
        for part in parts:
            if isinstance(part, RowContainer) and part._several_targets:
                return type(part)._stack(parts)
    return stack_rows(parts)


def stack_rows(parts: Sequence[Distribution]) -> Distribution:
    parts = read_parts(parts, "parts")
    if len(parts) == 1:
        return parts[0]
    if any(isinstance(part, Concatenated) for part in parts):
        return Concatenated._merge(parts)
    family = type(parts[0])
    merged = family._merge(parts) if all(type(part) is family for part in parts) else None
    return merged if merged is not None else Concatenated(parts, np.arange(sum(map(len, parts))))


def _of_each_part(name: str) -> Callable[..., FloatArray]:
    """Return a method that calls the method of the same name of each part."""

    def method(self: Concatenated, *arrays: FloatArray) -> FloatArray:
        return self._dispatch(lambda part, *rows: getattr(part, name)(*rows), *arrays)

    return method


@dataclass(frozen=True, eq=False, repr=False)
class Concatenated(Distribution):
    """Stacked rows of distributions of different families, as `concat` returns them.

    Parameters
    ----------
    parts : sequence of Distribution
        Distributions whose rows are stacked.
    order : array-like of int, shape (n,)
        Row i of the result is row ``order[i]`` of the stacked parts. ``order`` may contain a row several
        times or not at all.

    Attributes
    ----------
    parts : tuple of Distribution
        The parts, with only the rows that occur in ``order``.
    order : ndarray of shape (n,)
        A permutation of the rows of ``parts``.

    Notes
    -----
    Every method calls the same method of each part. The result is exact. The cost is the sum of the costs of
    the parts.

    Examples
    --------
    >>> from skuq.distributions import Normal, StudentT
    >>> from skuq.distributions._concatenated import Concatenated
    >>> dist = Concatenated([Normal([0.0, 1.0], 1.0), StudentT(5.0, 1.0, df=3)], [2, 0])
    >>> dist.mean()
    array([5., 0.])
    """

    parts: tuple[Distribution, ...]
    order: IntArray

    _PER_ROW = ("order",)

    def __init__(self, parts: Sequence[Distribution], order: ArrayLike) -> None:
        parts, order = _flatten(read_parts(parts, "parts"), np.asarray(order))
        owner, local = locate(parts, order)
        rows, used = [], []
        for index, part in enumerate(parts):
            mine = np.flatnonzero(owner == index)
            if mine.size:
                rows.append(mine)
                used.append(part._take(local[mine]))
        permutation = np.empty(owner.size, dtype=np.intp)
        permutation[np.concatenate(rows)] = np.arange(owner.size)
        self._set(parts=tuple(used), order=permutation)

    @cached_property
    def _part_rows(self) -> list[IntArray]:
        owner = locate(self.parts, self.order)[0]
        return [np.flatnonzero(owner == index) for index in range(len(self.parts))]

    def _take(self, rows: IntArray) -> Distribution:
        selected = Concatenated(self.parts, self.order[rows])
        return selected.parts[0] if len(selected.parts) == 1 else selected

    @classmethod
    def _merge(cls, parts: Sequence[Distribution]) -> Concatenated:
        return cls(parts, np.arange(sum(map(len, parts))))

    def _dispatch(self, method: Callable[..., FloatArray], *arrays: FloatArray) -> FloatArray:
        """Call the method with each part and the rows of this part. Return the results of all rows."""
        out = np.empty(len(self))
        for part, rows in zip(self.parts, self._part_rows, strict=True):
            out[rows] = method(part, *(array[rows] if array.ndim else array for array in arrays))
        return out

    def mean(self) -> FloatArray:
        return self._dispatch(lambda part: part.mean())

    def std(self) -> FloatArray:
        return self._dispatch(lambda part: part.std())

    _cdf, _sf = _of_each_part("_cdf"), _of_each_part("_sf")
    _ppf, _isf = _of_each_part("_ppf"), _of_each_part("_isf")
    _normal_score = _of_each_part("_normal_score")
    _from_normal_score = _of_each_part("_from_normal_score")
    _logpdf, _logpmf = _of_each_part("_logpdf"), _of_each_part("logpmf")
    _crps, _mean_distance = _of_each_part("_crps"), _of_each_part("_mean_distance")

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        return most_demanding(
            part._unreachable_level(level[rows] if kind == "row" else level, kind)
            for part, rows in zip(self.parts, self._part_rows, strict=True)
        )

    _light_tails = of_all("parts", "_light_tails")
    has_density = of_all("parts", "has_density")
    has_mass = of_all("parts", "has_mass")

    def _weighted_crps(self, y: FloatArray, weight: Polynomial) -> FloatArray:
        return self._dispatch(lambda part, rows: part._weighted_crps(rows, weight), y)

    def _clip(self, lower: FloatArray, upper: FloatArray, integer: bool) -> Distribution:
        pairs = zip(self.parts, self._part_rows, strict=True)
        return Concatenated(
            [part._clip(lower[rows], upper[rows], integer) for part, rows in pairs], self.order
        )

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        out = np.empty((len(self), m))
        for part, rows in zip(self.parts, self._part_rows, strict=True):
            out[rows] = part._sample(m, rng)
        return out

    def _level_breaks(self) -> FloatArray:
        return np.unique(np.concatenate([part._level_breaks() for part in self.parts]))

    def _lattice(self) -> Lattice | None:
        parts = [part._lattice() for part in self.parts]
        known = {id(part): lattice for part, lattice in zip(self.parts, parts, strict=True) if lattice}
        if len(known) < len(parts) or all(part is INTEGERS for part in parts):
            return parts[0] if len(known) == len(parts) else None
        return Lattice(
            lambda index: self._dispatch(lambda part, rows: known[id(part)].atom(rows), index),
            lambda y: self._dispatch(lambda part, rows: known[id(part)].index(rows), y),
        )

    def _landmarks(self) -> FloatArray:
        points = [part._landmarks() for part in self.parts]
        out = np.empty((len(self), max(part.shape[1] for part in points)))
        for part, rows in zip(points, self._part_rows, strict=True):
            out[rows] = part[:, [-1]]  # The last point is repeated, which adds panels of width 0.
            out[np.ix_(rows, np.arange(part.shape[1]))] = part
        return out

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        moved = [
            part._affine(shift[rows], factor[rows])
            for part, rows in zip(self.parts, self._part_rows, strict=True)
        ]
        parts = [part for part in moved if part is not None]
        return Concatenated(parts, self.order) if len(parts) == len(moved) else None

    def epistemic(self) -> Distribution:
        return Concatenated([part.epistemic() for part in self.parts], self.order)

    def aleatoric(self) -> Distribution:
        return Concatenated([part.aleatoric() for part in self.parts], self.order)


def read_parts(parts: Any, name: str) -> list[Distribution]:
    check_univariate(parts, name)
    if isinstance(parts, Distribution) or not isinstance(parts, Iterable) or getattr(parts, "ndim", 1) == 0:
        raise TypeError(f"`{name}` must be a sequence of distributions, got {type(parts).__name__}.")
    listed = list(parts)
    if not listed:
        raise ValueError(f"`{name}` must hold at least one distribution, got none.")
    for part in listed:
        check_univariate(part, name)
        if not isinstance(part, Distribution):
            raise TypeError(f"`{name}` must hold distributions, got {type(part).__name__}.")
    return listed


def _flatten(parts: Sequence[Distribution], order: IntArray) -> tuple[list[Distribution], IntArray]:
    if not any(isinstance(part, Concatenated) for part in parts):
        return list(parts), order
    offsets = np.cumsum([0, *(len(part) for part in parts[:-1])])
    inner = [part.order if isinstance(part, Concatenated) else np.arange(len(part)) for part in parts]
    rows = np.concatenate([offset + rows for offset, rows in zip(offsets, inner, strict=True)])
    flat = [piece for part in parts for piece in (part.parts if isinstance(part, Concatenated) else [part])]
    return flat, rows[order]


def locate(parts: Sequence[Sized], order: IntArray) -> tuple[IntArray, IntArray]:
    total = sum(len(part) for part in parts)
    if order.ndim != 1 or order.size == 0 or order.dtype.kind not in "iu":
        raise ValueError(
            f"`order` must be a non-empty 1-D array of row numbers, got shape {order.shape} and dtype "
            f"{order.dtype}."
        )
    if order.min() < 0 or order.max() >= total:
        raise ValueError(
            f"`order` must contain row numbers from 0 to {total - 1}, got {order.min()} to {order.max()}."
        )
    ends = np.cumsum([len(part) for part in parts])
    owner = np.searchsorted(ends, order, side="right")
    starts = np.concatenate([[0], ends[:-1]])
    return owner, order - starts[owner]


Distribution._stack = staticmethod(stack_rows)
