"""Step distributions: a table of step cdfs, and cdfs that are interpolated in one shared table.

For the cdf F, its integral L up to y, and any number c,

    E Y               = c + int_c^inf (1 - F) - int_-inf^c F,
    Var Y             = 2 int L (1 - F),
    E |Y - y|         = E Y - y + 2 L(y),
    E |Y - Y'| / 2    = int F (1 - F),
    CRPS(y)           = E |Y - y| - E |Y - Y'| / 2.

The integrals are computed for the cdfs of the table. A row between two cdfs needs their integrals and the
integral of their squared difference. The thresholds are visited in blocks, so no array of rows by thresholds
is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial import Polynomial

from skuq._numeric import bisect, rank_target
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.distributions._base import Distribution
from skuq.distributions._empirical import Empirical
from skuq.distributions._family import Atoms
from skuq.distributions._shared_empirical import MOST_LANDMARKS

_BLOCK = 1 << 18
"""Number of cdf values in a block."""

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
    thresholds : ndarray of shape (m,)
        Values of y at which the cdfs have steps, strictly increasing, in the units of y.
    starts : ndarray of shape (r,)
        Position in the long array at which each run starts, strictly increasing integers from 0. The value of
        cdf k at threshold t has the position ``t * n_cdfs + k``.
    values : ndarray of shape (r,)
        Probability in [0, 1] of each run.
    n_cdfs : int
        Number of cdfs.

    See Also
    --------
    SharedSteps : Distributions whose cdfs are interpolated in this table.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions._step_table import StepTable
    >>> table = StepTable.from_cdfs(np.array([1.0, 2.0]), [[0.5, 1.0], [0.5, 1.0], [0.0, 1.0]])
    >>> table.starts, table.values
    (array([0, 2, 3]), array([0.5, 0. , 1. ]))
    """

    thresholds: FloatArray
    starts: IntArray
    values: FloatArray
    n_cdfs: int

    def __post_init__(self) -> None:
        for array in (self.thresholds, self.starts, self.values):
            array.setflags(write=False)

    @classmethod
    def from_cdfs(cls, thresholds: FloatArray, cdfs: FloatArray) -> StepTable:
        """Return the table of a dense array of cdfs.

        Parameters
        ----------
        thresholds : ndarray of shape (m,)
            Values of y at which the cdfs have steps, strictly increasing, in the units of y.
        cdfs : ndarray of shape (n_cdfs, m)
            Value of each cdf at each threshold. The values increase in each row, and the last column is 1.

        Returns
        -------
        table : StepTable
            Table with the runs of equal values.
        """
        long = np.ravel(cdfs, order="F")
        starts = np.concatenate([[0], np.flatnonzero(np.diff(long)) + 1])
        return cls(thresholds, starts, long[starts], len(cdfs))

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


@dataclass(frozen=True, eq=False, repr=False)
class SharedSteps(Distribution):
    """Step distributions with common atoms: each cdf is an average of two neighboring cdfs of one table.

    `skuq.recalibration.IsotonicDistributionalRecalibrator` returns this family. All rows use the same table,
    so each row stores only one number. If each row has its own members, use `Empirical`.

    Parameters
    ----------
    table : StepTable
        Cdfs over common thresholds.
    position : ndarray of shape (n,)
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
    >>> import numpy as np
    >>> from skuq.distributions._step_table import SharedSteps, StepTable
    >>> table = StepTable.from_cdfs(np.array([1.0, 2.0, 4.0]), [[0.5, 1.0, 1.0], [0.0, 0.5, 1.0]])
    >>> dist = SharedSteps(table, [0.0, 0.5, 1.0])
    >>> dist.cdf(2.0), dist.mean()
    (array([1.  , 0.75, 0.5 ]), array([1.5 , 2.25, 3.  ]))
    """

    table: StepTable
    position: FloatArray

    _PER_ROW = ("position",)

    def __post_init__(self) -> None:
        self._set(position=np.array(self.position))

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

    _integrates_values = True

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


@dataclass(frozen=True)
class _Block:
    """Cdfs at some thresholds, and their integrals up to the next threshold and from the first threshold."""

    steps: slice
    gap: FloatArray
    cdf: FloatArray
    area: FloatArray
    below: FloatArray


class StepIntegrals:
    """Integrals of all rows. Row i is between two neighboring cdfs, at ``position[i]``."""

    def __init__(self, table: StepTable, position: FloatArray) -> None:
        lower = np.floor(position).astype(np.int64)
        self._table, self._share = table, position - lower
        self._cdfs = np.unique(np.append(lower, np.minimum(lower + 1, table.n_cdfs - 1)))
        self._low = np.searchsorted(self._cdfs, lower)
        self._high = np.minimum(self._low + 1, self._cdfs.size - 1)

    def _blocks(self) -> Iterator[_Block]:
        thresholds, size = self._table.thresholds, max(1, _BLOCK // self._cdfs.size)
        gaps, reached = np.diff(thresholds, append=thresholds[-1]), np.zeros(self._cdfs.size)
        for start in range(0, thresholds.size, size):
            steps = slice(start, min(start + size, thresholds.size))
            gap, cdf = gaps[steps], self._table._dense(steps, self._cdfs)
            area = gap[:, np.newaxis] * cdf
            total = reached + np.cumsum(area, axis=0)
            yield _Block(steps, gap, cdf, area, total - area)
            reached = total[-1]

    def _mix(self, values: FloatArray) -> FloatArray:
        return (1.0 - self._share) * values[self._low] + self._share * values[self._high]

    @cached_property
    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return E Y - c, the integrals of F (1 - F) and 2 L (1 - F), and the distance to the next cdf.

        The number c is the threshold in the middle, so that an outlier does not round the mean.
        """
        first, spread, variance, distance = np.zeros((4, self._cdfs.size))
        middle = self._table.thresholds.size // 2
        for block in self._blocks():
            above = block.gap[:, np.newaxis] - block.area
            below_middle = max(middle - block.steps.start, 0)
            first += above[below_middle:].sum(axis=0) - block.area[:below_middle].sum(axis=0)
            spread += np.einsum("ij,ij->j", block.cdf, above)
            variance += 2.0 * np.einsum("ij,ij->j", above, block.below + block.area / 2)
            distance[:-1] += np.einsum("ij,ij->j", np.diff(block.area), np.diff(block.cdf))
        return first, spread, variance, distance

    @cached_property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the standard deviation, both of shape (n,)."""
        first, _, variance, _ = self._sums
        gap, thresholds = first[self._high] - first[self._low], self._table.thresholds
        return (
            thresholds[thresholds.size // 2] + self._mix(first),
            np.sqrt(self._mix(variance) + self._share * (1.0 - self._share) * gap**2),
        )

    def crps(self, y: FloatArray) -> FloatArray:
        _, spread, _, distance = self._sums
        half = self._mix(spread) + self._share * (1.0 - self._share) * distance[self._low]
        return np.maximum(self.mean_distance(y) - half, 0.0)

    def mean_distance(self, y: FloatArray) -> FloatArray:
        """Return E|Y - y|, shape (n,)."""
        return self.moments[0] - y + 2.0 * self._integral_below(y)

    def _integral_below(self, y: FloatArray) -> FloatArray:
        step = np.searchsorted(self._table.thresholds, y, side="right") - 1
        rest, integral = y - self._table.thresholds[step], np.zeros(len(y))
        order = np.argsort(step, kind="stable")
        for block in self._blocks():
            edges = np.searchsorted(step, [block.steps.start, block.steps.stop], sorter=order)
            rows = order[slice(*edges)]
            at = step[rows] - block.steps.start
            low, high = (
                block.below[at, column[rows]] + rest[rows] * block.cdf[at, column[rows]]
                for column in (self._low, self._high)
            )
            integral[rows] = low + self._share[rows] * (high - low)
        return integral
