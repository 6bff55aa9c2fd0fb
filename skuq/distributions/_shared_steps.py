"""Step distributions whose cdfs are interpolated in one shared table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial import Polynomial

from skuq._ranks import rank_target
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_finite
from skuq.distributions._base import Distribution
from skuq.distributions._empirical import Empirical
from skuq.distributions._expectation.integer_sums import Atoms
from skuq.distributions._numerics.step_integrals import StepIntegrals
from skuq.distributions._shared_empirical import MOST_LANDMARKS
from skuq.distributions._step_table import StepTable

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
    >>> from skuq.distributions._shared_steps import SharedSteps
    >>> from skuq.distributions._step_table import StepTable
    >>> table = StepTable.from_cdfs([1.0, 2.0, 4.0], [[0.5, 1.0, 1.0], [0.0, 0.5, 1.0]])
    >>> dist = SharedSteps(table, [0.0, 0.5, 1.0])
    >>> dist.cdf(2.0), dist.mean()
    (array([1.  , 0.75, 0.5 ]), array([1.5 , 2.25, 3.  ]))
    """

    table: StepTable
    position: FloatArray

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

    def _rows(self) -> int:
        return len(self.position)

    def _take(self, rows: IntArray) -> SharedSteps:
        return SharedSteps(self.table, self.position[rows])

    @classmethod
    def _merge(cls, parts: Sequence[SharedSteps]) -> SharedSteps | None:
        first = parts[0]
        if not all(first.table._equals(part.table) for part in parts[1:]):
            return None
        return cls(first.table, np.concatenate([part.position for part in parts]))

    def _at(self, step: IntArray) -> FloatArray:
        """Return the cdf of each row at the threshold with the given index, shape (n,)."""
        return _interpolate(self.table, self.position, step)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._at(np.searchsorted(self.table.thresholds, y, side="right") - 1)

    def _ppf(self, p: FloatArray) -> FloatArray:
        target = np.broadcast_to(rank_target(p, 1.0), (len(self),))
        low = np.zeros(len(self), dtype=np.int64)
        high = np.full(len(self), self.table.thresholds.size - 1)
        while (low < high).any():
            middle = (low + high) // 2
            cdf = self._at(middle)
            reached = (cdf >= target) & (cdf > 0)
            low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
        return np.asarray(self.table.thresholds[high])

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
