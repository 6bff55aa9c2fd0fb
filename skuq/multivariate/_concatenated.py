"""Joint distributions of different families, stacked row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq.distributions import Distribution, JointDistribution
from skuq.distributions._concatenated import locate, stack_rows
from skuq.distributions._joint_points import Block


def stack_joints(parts: Sequence[JointDistribution]) -> JointDistribution:
    _check_parts(parts)
    if len(parts) == 1:
        return parts[0]
    family = type(parts[0])
    merged = family._merge(parts) if all(type(part) is family for part in parts) else None
    return merged if merged is not None else ConcatenatedJoint(parts, np.arange(sum(map(len, parts))))


@dataclass(frozen=True, eq=False, repr=False)
class ConcatenatedJoint(JointDistribution):
    """Stacked rows of joint distributions of different families, returned by `~skuq.distributions.concat`.

    Parameters
    ----------
    parts : sequence of JointDistribution
        Distributions whose rows are stacked. All parts must have the same targets.
    order : array-like of int, shape (n,)
        Row i of the result is row ``order[i]`` of the stacked parts. ``order`` may contain a row several
        times or not at all.

    Attributes
    ----------
    parts : tuple of JointDistribution
        The parts, with only the rows that occur in ``order``.
    order : ndarray of shape (n,)
        A permutation of the rows of ``parts``.

    Notes
    -----
    Every method calls the same method of each part. For example, out-of-fold forecasts are a
    ConcatenatedJoint, because the folds have different templates.

    Examples
    --------
    >>> from skuq.distributions import concat
    >>> from skuq.multivariate import EmpiricalJoint, NormalJoint
    >>> concat([NormalJoint([[0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]), EmpiricalJoint([[2.0, 3.0]])]).mean()
    array([[0., 1.],
           [2., 3.]])
    """

    parts: tuple[JointDistribution, ...]
    order: IntArray

    _PER_ROW = ("order",)

    def __init__(self, parts: Sequence[JointDistribution], order: ArrayLike) -> None:
        _check_parts(parts)
        owner, local = locate(parts, np.asarray(order))
        rows, used = [], []
        for index, part in enumerate(parts):
            mine = np.flatnonzero(owner == index)
            if mine.size:
                rows.append(mine)
                used.append(part._take(local[mine]))
        permutation = np.empty(owner.size, dtype=np.intp)
        permutation[np.concatenate(rows)] = np.arange(owner.size)
        self._set(parts=tuple(used), order=permutation, names=used[0].names)

    def _target_count(self) -> int:
        return self.parts[0].shape[1]

    def _take(self, rows: IntArray) -> JointDistribution:
        selected = ConcatenatedJoint(self.parts, self.order[rows])
        return selected.parts[0] if len(selected.parts) == 1 else selected

    @classmethod
    def _merge(cls, parts: Sequence[ConcatenatedJoint]) -> ConcatenatedJoint:
        return cls(parts, np.arange(sum(map(len, parts))))

    @cached_property
    def _part_rows(self) -> list[IntArray]:
        """Return the row numbers of each part in this distribution, in the order of the rows of the part."""
        owner, local = locate(self.parts, self.order)
        rows = [np.flatnonzero(owner == index) for index in range(len(self.parts))]
        return [each[np.argsort(local[each])] for each in rows]

    def _dispatch(self, method: Callable[..., FloatArray], *arrays: FloatArray) -> FloatArray:
        results = [
            method(part, *(array[rows] for array in arrays))
            for part, rows in zip(self.parts, self._part_rows, strict=True)
        ]
        return np.asarray(np.concatenate(results)[self.order])

    def _stacked(self, dists: Sequence[Distribution]) -> Distribution:
        return stack_rows(dists)[self.order]

    def marginals(self) -> tuple[Distribution, ...]:
        columns = zip(*(part.marginals() for part in self.parts), strict=True)
        return tuple(self._stacked(column) for column in columns)

    def _corr(self) -> FloatArray:
        return self._dispatch(lambda part: part._corr())

    def cov(self) -> FloatArray:
        return self._dispatch(lambda part: part.cov())

    def _linear(self, w: FloatArray) -> Distribution:
        return self._stacked([part._linear(w) for part in self.parts])

    def _apply(self, func: Callable[[FloatArray], Any]) -> Distribution:
        return self._stacked([part._apply(func) for part in self.parts])

    def _box(self, coverage: float) -> FloatArray:
        return self._dispatch(lambda part: part._box(coverage))

    @property
    def has_density(self) -> bool:
        return all(part.has_density for part in self.parts)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return self._dispatch(lambda part, rows: part._logpdf(rows), y)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._dispatch(lambda part, rows: part._cdf(rows), y)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        return self._dispatch(lambda part: part._sample(m, rng))

    def _condition(self, y: FloatArray, observed: IntArray, unknown: IntArray) -> JointDistribution:
        parts = [
            part._condition(y[rows], observed, unknown)
            for part, rows in zip(self.parts, self._part_rows, strict=True)
        ]
        return stack_joints(parts)[self.order]

    def _blocks(self) -> Iterator[Block]:
        for part, mine in zip(self.parts, self._part_rows, strict=True):
            for rows, points, weights in part._blocks():
                yield mine[rows], points, weights

    def _point_count(self) -> int:
        return max(part._point_count() for part in self.parts)

    def _points(self, rows: slice) -> tuple[FloatArray, FloatArray | None]:
        raise NotImplementedError("the parts have different numbers of points. Use `_blocks`")

    def _levels(self, rows: slice) -> FloatArray:
        raise NotImplementedError("the parts have different numbers of points. Use `_box`")


def _check_parts(parts: Sequence[Any]) -> None:
    for part in parts:
        if not isinstance(part, JointDistribution):
            raise TypeError(
                "`parts` must hold only joint distributions, or only univariate distributions, got "
                f"{type(part).__name__} and {type(parts[0]).__name__}. Select one target with `marginal`, or "
                "a sum of the targets with `linear`."
            )
        if part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"`parts` must have the same number of targets, got {parts[0].shape[1]} and {part.shape[1]}."
            )
        if part.names != parts[0].names:
            raise ValueError(f"`parts` must have the same names, got {parts[0].names} and {part.names}.")


JointDistribution._stack = staticmethod(stack_joints)
