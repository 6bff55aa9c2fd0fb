"""Residuals of the out-of-bag rows around each row.

A residual of row j that is used for row i must not depend on the target of row i. The residual is therefore
computed from trees that have drawn neither i nor j.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.regressors._forest.leaf_weights import LeafWeights, leaf_quantiles, row_blocks

_FLOOR = 0.1
"""This share of the mean absolute residual of all rows is added to local means, which may be too small."""

_DENSE = 64
"""A matrix product takes as long for this number of pairs as a loop takes for one pair."""


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """Training rows with the predictions of their out-of-bag trees."""

    leaves: IntArray  # leaf of each row in each tree, shape (n, B)
    predictions: FloatArray  # prediction for each row by each tree, shape (n, B)
    oob: BoolArray  # shape (n, B); True if the tree has not drawn the row
    y: FloatArray
    weight: FloatArray  # repetitions of each row; 0 for rows that all trees have drawn
    local: LeafWeights

    @cached_property
    def mean(self) -> FloatArray:
        total = np.where(self.oob, self.predictions, 0.0).sum(axis=1)
        mean: FloatArray = total / np.maximum(self.oob.sum(axis=1), 1)
        return mean

    @cached_property
    def residual(self) -> FloatArray:
        return np.where(self.weight > 0, self.y - self.mean, 0.0)

    @cached_property
    def order(self) -> IntArray:
        return np.argsort(self.y, kind="stable")

    @cached_property
    def _oob_count(self) -> FloatArray:
        return self.oob.astype(np.float32)

    @cached_property
    def _oob_predictions(self) -> FloatArray:
        return np.where(self.oob, self.predictions, 0.0)

    def corrected_residual(self, slope: float) -> FloatArray:
        around = self.local.oob_average(self.residual, self.leaves, self.oob, self.weight)
        return np.where(self.weight > 0, self.residual - slope * around, 0.0)

    def floor(self, residual: FloatArray) -> float:
        return _FLOOR * float(np.average(np.abs(residual), weights=self.weight))

    def around(self, rows: IntArray, slope: float | None = None) -> tuple[FloatArray, FloatArray]:
        used = 0.0 if slope is None else slope
        corrected = self.corrected_residual(used)
        shift = self.residual - corrected
        mean, scale = np.empty(len(rows)), np.empty(len(rows))
        for block, weights, residual in self._pairs(rows):
            columns = weights.indices
            starts = weights.indptr[:-1]
            mean[block] = np.add.reduceat(weights.data * residual, starts)
            scale[block] = np.add.reduceat(weights.data * np.abs(residual - shift[columns]), starts)
        return mean, scale + self.floor(corrected)

    def quantiles(self, rows: IntArray, levels: FloatArray) -> FloatArray:
        values = np.empty((len(rows), len(levels)))
        for block in row_blocks(len(rows), len(self.y)):
            values[block] = leaf_quantiles(self._weights(rows[block]), self.order, self.y, levels)
        return values

    def _weights(self, rows: IntArray) -> Any:
        return self.local.of_training(self.leaves[rows], self.oob[rows], rows, self.weight[rows])

    def _pairs(self, rows: IntArray) -> Iterator[tuple[slice, Any, FloatArray]]:
        for block in row_blocks(len(rows), len(self.y)):
            weights = self._weights(rows[block])
            count, total = self._by_neither(rows[block], weights)
            mean = np.where(count > 0, total / np.maximum(count, 1.0), self.mean[weights.indices])
            yield block, weights, self.y[weights.indices] - mean

    def _by_neither(self, rows: IntArray, weights: Any) -> tuple[FloatArray, FloatArray]:
        """Return the number of predictions and their sum for each entry of the weight matrix.

        An entry belongs to a pair of rows. Only trees that have drawn neither row are used.
        """
        sizes, columns = np.diff(weights.indptr), weights.indices
        count, predictions = self._oob_count, self._oob_predictions
        if _DENSE * len(columns) > len(rows) * len(self.y):
            pair = np.repeat(np.arange(len(rows)), sizes), columns
            of_rows = count[rows]
            return (of_rows @ count.T)[pair], (of_rows.astype(np.float64) @ predictions.T)[pair]
        both, total = np.empty(len(columns)), np.empty(len(columns))
        first = np.repeat(rows, sizes)
        for block in row_blocks(len(columns), count.shape[1]):
            of_rows, of_columns = count[first[block]], columns[block]
            both[block] = np.einsum("ij,ij->i", of_rows, count[of_columns])
            total[block] = np.einsum("ij,ij->i", of_rows, predictions[of_columns])
        return both, total


def residual_slope(residual: FloatArray, around: FloatArray, scale: FloatArray, weight: FloatArray) -> float:
    # The regression goes through the origin. The slope b is multiplied by 1 - s^2 / b^2, where s is the
    # heteroscedasticity-consistent standard error of b.
    share = weight / scale
    curvature = float((share * around) @ around)
    if curvature == 0:
        return 0.0
    slope = float((share * residual) @ around) / curvature
    error = residual - slope * around
    variance = float(weight @ np.square(around * error / scale)) / curvature**2
    return 0.0 if slope <= 0 else min(slope * max(1 - variance / slope**2, 0.0), 1.0)
