"""Step distributions: a table of step cdfs, and cdfs that are interpolated in one shared table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial import Polynomial

from skuq._numeric import bisect, rank_target
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_increasing,
    check_integer,
    check_probabilities,
)
from skuq.distributions._base import Distribution
from skuq.distributions._empirical import Empirical
from skuq.distributions._expectation import Atoms
from skuq.distributions._piecewise_cdf import StepIntegrals
from skuq.distributions._shared_empirical import MOST_LANDMARKS

_SEARCH_COST = 16
"""Time to search a value in the table, relative to the time to expand a value."""


@dataclass(frozen=True, eq=False)
class StepTable:
    """Step cdfs with common thresholds, for `SharedSteps`.

    The table has one row per threshold and one column per cdf. It is read row by row as one long array, and
    each run of equal values is stored once. Neighboring cdfs often have equal values, so the table needs much
    less memory than a dense array.

    Parameters
    ----------
    thresholds : array-like of shape (m,)
        Values of y at which the cdfs have steps, strictly increasing, in the units of y.
    starts : array-like of shape (r,)
        Position in the long array at which each run starts, strictly increasing integers from 0. The value of
        cdf k at threshold t has the position ``t * n_cdfs + k``.
    values : array-like of shape (r,)
        Probability in [0, 1] of each run.
    n_cdfs : int
        Number of cdfs.

    See Also
    --------
    SharedSteps : Distributions whose cdfs are interpolated in this table.

    Notes
    -----
    The constructor checks that every cdf is 1 at the last threshold. It does not check that every cdf is
    increasing, because the check would need the dense array.

    Examples
    --------
    >>> from skuq.distributions._step_table import StepTable
    >>> table = StepTable.from_cdfs([1.0, 2.0], [[0.5, 1.0], [0.5, 1.0], [0.0, 1.0]])
    >>> table.starts, table.values
    (array([0, 2, 3]), array([0.5, 0. , 1. ]))
    """

    thresholds: FloatArray
    starts: IntArray
    values: FloatArray
    n_cdfs: int

    def __init__(self, thresholds: ArrayLike, starts: ArrayLike, values: ArrayLike, n_cdfs: int) -> None:
        steps = check_finite(as_float_array(thresholds, "thresholds"), "thresholds")
        if steps.ndim != 1 or steps.size == 0:
            raise ValueError(f"`thresholds` must be a non-empty 1-D array, got shape {steps.shape}.")
        check_increasing(steps, "thresholds")
        if np.asarray(starts).dtype.kind not in "iu":
            raise TypeError(f"`starts` must hold integers, got {np.asarray(starts).dtype}.")
        first, level = np.array(starts, dtype=np.int64), np.array(check_probabilities(values, "values"))
        if first.ndim != 1 or first.shape != level.shape:
            raise ValueError(
                f"`starts` and `values` must be 1-D arrays of equal length, got {first.shape} and "
                f"{level.shape}."
            )
        count = check_integer(n_cdfs, "n_cdfs")
        if first.size == 0 or first[0] != 0 or not (np.diff(first) > 0).all():
            raise ValueError("`starts` must be strictly increasing and begin with 0.")
        if first[-1] >= steps.size * count:
            raise ValueError(
                f"`starts` must be below {steps.size * count}, the size of the table, got {first[-1]}."
            )
        last = (steps.size - 1) * count
        if not (level[np.searchsorted(first, last, side="right") - 1 :] == 1.0).all():
            raise ValueError("`values` must be 1 for every cdf at the last threshold.")
        self._set(np.array(steps), first, level, count)

    def _set(self, thresholds: FloatArray, starts: IntArray, values: FloatArray, n_cdfs: int) -> None:
        for name, array in (("thresholds", thresholds), ("starts", starts), ("values", values)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "n_cdfs", n_cdfs)

    @classmethod
    def _from_owned(
        cls, thresholds: FloatArray, starts: IntArray, values: FloatArray, n_cdfs: int
    ) -> StepTable:
        """Return the table of new arrays, without checks or copies."""
        table = object.__new__(cls)
        table._set(thresholds, starts, values, n_cdfs)
        return table

    @classmethod
    def from_cdfs(cls, thresholds: ArrayLike, cdfs: ArrayLike) -> StepTable:
        """Return the table of a dense array of cdfs.

        Parameters
        ----------
        thresholds : array-like of shape (m,)
            Values of y at which the cdfs have steps, strictly increasing, in the units of y.
        cdfs : array-like of shape (n_cdfs, m)
            Value of each cdf at each threshold. The values increase in each row, and the last column is 1.

        Returns
        -------
        table : StepTable
            Table with the runs of equal values.
        """
        dense = check_probabilities(cdfs, "cdfs")
        if dense.ndim != 2 or dense.shape[1:] != np.shape(thresholds) or dense.size == 0:
            raise ValueError(
                f"`cdfs` must have shape (n_cdfs, m) for m thresholds, got {dense.shape} and "
                f"{np.size(thresholds)} thresholds."
            )
        falls = (np.diff(dense, axis=1) < 0).any(axis=1)
        if falls.any():
            raise ValueError(
                f"`cdfs` must not decrease in any row, got a decrease in row {np.argmax(falls)}."
            )
        if (dense[:, -1] != 1.0).any():
            row = int(np.argmax(dense[:, -1] != 1.0))
            raise ValueError(
                f"`cdfs` must be 1 in the last column, got {float(dense[row, -1])!r} at row {row}."
            )
        long = dense.T.ravel()
        starts = np.concatenate([[0], np.flatnonzero(np.diff(long)) + 1])
        return cls(thresholds, starts, long[starts], len(dense))

    def __reduce__(self) -> tuple[type[StepTable], tuple[FloatArray, IntArray, FloatArray, int]]:
        return type(self), (self.thresholds, self.starts, self.values, self.n_cdfs)

    def _at(self, step: IntArray, cdf: IntArray) -> FloatArray:
        """Return the value of each cdf at the threshold with the given index. For the index -1, return 0."""
        run = np.searchsorted(self.starts, np.maximum(step, 0) * self.n_cdfs + cdf, side="right") - 1
        return np.where(step < 0, 0.0, self.values[run])

    def _dense(self, steps: slice, cdfs: IntArray) -> FloatArray:
        """Return the values of the given cdfs at a range of thresholds, shape (k, number of cdfs)."""
        if cdfs.size * _SEARCH_COST < self.n_cdfs:
            return self._at(np.arange(steps.start, steps.stop)[:, np.newaxis], cdfs)
        low, high = steps.start * self.n_cdfs, steps.stop * self.n_cdfs
        first, stop = np.searchsorted(self.starts, [low, high])
        first -= first == self.starts.size or self.starts[first] > low
        edges = np.append(np.maximum(self.starts[first:stop], low), high)
        dense = np.repeat(self.values[first:stop], np.diff(edges)).reshape(-1, self.n_cdfs)
        return dense if cdfs.size == self.n_cdfs else dense[:, cdfs]

    def equals(self, other: StepTable) -> bool:
        """Return whether two tables are identical.

        Parameters
        ----------
        other : StepTable
            Table to compare with.

        Returns
        -------
        equal : bool
            Whether thresholds and cdfs are identical.
        """
        return self is other or (
            self.n_cdfs == other.n_cdfs
            and np.array_equal(self.thresholds, other.thresholds)
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.values, other.values)
        )


_BLOCK = 1 << 20
"""Number of cdf values in a block."""


@dataclass(frozen=True, eq=False, repr=False)
class SharedSteps(Distribution):
    """Step distributions with common atoms: each cdf is an average of two neighboring cdfs of one table.

    `skuq.recalibration.IsotonicDistributionalRecalibrator` returns this family. All rows use the same table,
    so each row stores only one number. If each row has its own members, use `Empirical`.

    Parameters
    ----------
    table : StepTable
        Cdfs over common thresholds.
    position : array-like of shape (n,)
        Position of each row between the cdfs of the table, from 0 to ``table.n_cdfs - 1``. The position 2.25
        means 0.75 times cdf 2 plus 0.25 times cdf 3.

    See Also
    --------
    StepTable : The shared table.
    Empirical : Distributions with separate atoms for each row.

    Notes
    -----
    Let m be the number of thresholds. The cdf costs O(log m) per row, and a quantile costs O(log(m)^2). The
    mean, the standard deviation and the CRPS cost O(m) per row, or per cdf of the table if the table has
    fewer cdfs than the distribution has rows. They are computed in blocks, without an array of shape (n, m).
    Every quantile is a threshold. The distribution has no density.

    The CRPS of a `Mixture` with components of this family is integrated numerically. With at most 512
    thresholds, the steps are integrated exactly. With 4000 thresholds, the relative error was 1e-5.

    Examples
    --------
    >>> from skuq.distributions._step_table import SharedSteps
    >>> from skuq.distributions._step_table import StepTable
    >>> table = StepTable.from_cdfs([1.0, 2.0, 4.0], [[0.5, 1.0, 1.0], [0.0, 0.5, 1.0]])
    >>> dist = SharedSteps(table, [0.0, 0.5, 1.0])
    >>> dist.cdf(2.0), dist.mean()
    (array([1.  , 0.75, 0.5 ]), array([1.5 , 2.25, 3.  ]))
    """

    table: StepTable
    position: FloatArray

    _PER_ROW = ("position",)

    def __init__(self, table: StepTable, position: ArrayLike) -> None:
        if not isinstance(table, StepTable):
            raise TypeError(
                f"`table` must be a StepTable, got {type(table).__name__}. Build one with "
                "`StepTable.from_cdfs(thresholds, cdfs)`."
            )
        place = check_finite(as_float_array(position, "position"), "position")
        if place.ndim != 1:
            raise ValueError(f"`position` must have shape (n,), got {place.shape}.")
        outside = (place < 0) | (place > table.n_cdfs - 1)
        if outside.any():
            row = int(np.argmax(outside))
            raise ValueError(
                f"`position` must lie in [0, {table.n_cdfs - 1}], the range of the cdfs in the table, got "
                f"{place[row]:g} at row {row}."
            )
        self._set(table=table, position=np.array(place))

    def _at(self, step: IntArray) -> FloatArray:
        """Return the cdf of each row at the threshold with the given index, shape (n,)."""
        return _interpolate(self.table, self.position, step)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._at(np.searchsorted(self.table.thresholds, y, side="right") - 1)

    def _ppf(self, p: FloatArray) -> FloatArray:
        target = np.broadcast_to(rank_target(p, 1.0), (len(self),))

        def is_below(step: IntArray) -> BoolArray:
            cdf = self._at(step)
            return np.asarray((cdf < target) | (cdf == 0))

        # The last threshold, whose cdf is 1, is not compared.
        first = np.zeros(len(self), dtype=np.intp)
        return np.asarray(self.table.thresholds[bisect(is_below, first, self.table.thresholds.size - 1)])

    @cached_property
    def _integrals(self) -> StepIntegrals:
        return StepIntegrals(self.table, self.position)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        return self._integrals.moments

    def _crps(self, y: FloatArray) -> FloatArray:
        return self._integrals.crps(y)

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        return self._integrals.mean_distance(y)

    def _weighted_crps(self, y: FloatArray, weight: Polynomial) -> FloatArray:
        score = np.empty(len(self))
        for rows, dist in self._blocks():
            score[rows] = dist._weighted_crps(y[rows], weight)
        return score

    def _listed_atoms(self) -> Atoms:
        reached = np.zeros(len(self))
        for step, threshold in enumerate(self.table.thresholds):
            cdf = self._at(np.asarray(step))
            yield np.full(len(self), threshold), np.maximum(cdf - reached, 0.0)
            reached = cdf

    @property
    def _integrates_values(self) -> bool:
        return True

    def _landmarks(self) -> FloatArray:
        steps = self.table.thresholds
        if steps.size > MOST_LANDMARKS:
            steps = steps[np.linspace(0, steps.size - 1, MOST_LANDMARKS).astype(int)]
        return np.broadcast_to(steps, (len(self), steps.size))

    def _blocks(self) -> Iterator[tuple[IntArray, Empirical]]:
        """Yield blocks of rows in the order of their positions, and their distributions."""
        steps = np.arange(self.table.thresholds.size)
        order = np.argsort(self.position, kind="stable")
        size = max(1, _BLOCK // steps.size)
        for start in range(0, len(self), size):
            rows = order[start : start + size]
            # The search in the table is faster if the rows are sorted by their positions.
            cdf = _interpolate(self.table, self.position[rows], steps[:, np.newaxis]).T
            # Rounding errors of the interpolation must not give negative masses.
            mass = np.maximum(np.diff(cdf, axis=1, prepend=0.0), 0.0)
            used = mass.any(axis=0)
            atoms = np.broadcast_to(self.table.thresholds[used], (len(rows), int(used.sum())))
            yield rows, Empirical(atoms, mass[:, used])


def _interpolate(table: StepTable, position: FloatArray, step: IntArray) -> FloatArray:
    lower = np.floor(position).astype(np.int64)
    share = position - lower
    upper = np.minimum(lower + 1, table.n_cdfs - 1)
    return np.asarray((1.0 - share) * table._at(step, lower) + share * table._at(step, upper))
