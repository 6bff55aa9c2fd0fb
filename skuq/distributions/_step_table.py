"""Table of step cdfs over common thresholds. Equal neighboring values are stored once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_increasing,
    check_integer,
    check_probabilities,
)

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

    def _equals(self, other: StepTable) -> bool:
        return self is other or (
            self.n_cdfs == other.n_cdfs
            and np.array_equal(self.thresholds, other.thresholds)
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.values, other.values)
        )
