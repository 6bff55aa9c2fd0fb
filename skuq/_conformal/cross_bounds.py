"""Bounds of CV+, jackknife+ and jackknife+-after-bootstrap from the predictions of all models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from skuq._conformal.order_statistics import FoldScores, SortedScores, smallest_fold_sums
from skuq._typing import BoolArray, FloatArray, IntArray

_CHUNK_FLOATS = 1 << 18
"""Largest number of sums in memory at a time: 2 MB fit into the cache of a processor."""


class CrossBounds(Protocol):
    """Prediction bounds from calibration scores and from the models fitted without each row."""

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
        """Return lower and upper bounds of m rows, shape (m, 2, L), from predictions of shape (M, m).

        ``targets`` of shape (L,) are ranks, or cumulative weights, of the scores; a larger target gives a
        wider interval. A bound is infinite if its target exceeds the weight of the calibration rows.
        """


@dataclass(frozen=True, eq=False)
class FoldBounds:
    """Bounds for many calibration rows per model, from counts of sums within each fold.

    ``low`` and ``high`` are the distances of the rows below and above their predictions.
    """

    low: FoldScores
    high: FoldScores

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
        """Return lower and upper bounds, shape (m, 2, L)."""
        # the k-th largest mu - R equals minus the k-th smallest -mu + R
        lower = -smallest_fold_sums(-predictions, self.low, targets)
        return np.stack([lower, smallest_fold_sums(predictions, self.high, targets)], axis=1)


class Centring(Protocol):
    """Aggregate of the predictions by the models that were fitted without a calibration row."""

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return one prediction per new row and calibration row, shape (r, s).

        ``predictions`` has shape (M, r), and ``rows`` are the indices of s calibration rows. Each result lies
        between the smallest and the largest prediction of the new row.
        """


@dataclass(frozen=True, eq=False)
class ModelOfFold:
    """Prediction by the model of the calibration row's fold; ``model`` (n,) has the number of this model."""

    model: IntArray

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        return predictions[self.model[rows]].T


@dataclass(frozen=True, eq=False)
class LeftOutMean:
    """Mean prediction of the models whose resample leaves the calibration row out.

    ``left_out`` has shape (M, n): whether the resample of each model leaves out each calibration row.
    """

    left_out: BoolArray

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        left_out = self.left_out[:, rows]
        # means over subsets of the models are one matrix product
        return np.asarray(predictions.T @ (left_out / left_out.sum(axis=0)))


@dataclass(frozen=True, eq=False)
class LeftOutMedian:
    """Median prediction of the models whose resample leaves the calibration row out; see `LeftOutMean`."""

    left_out: BoolArray

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return the median predictions, shape (r, s), in O(M r s) time without a sort for each pair.

        For each new row, the models are counted in the order of their predictions, for all calibration rows
        at once. If k models leave a calibration row out, its lower and upper median are the predictions at
        which the count reaches ceil(k / 2) and floor(k / 2) + 1. The number of steps before this one is the
        position among the sorted predictions.
        """
        order = np.argsort(predictions, axis=0)
        ordered = np.take_along_axis(predictions, order, axis=0).T
        n_models = len(predictions)
        # each step reads and writes the counts of all pairs; one byte per count is faster
        small = np.uint8 if n_models < np.iinfo(np.uint8).max else np.uint32
        left_out = self.left_out[:, rows].astype(small)
        size = left_out.sum(axis=0, dtype=small)
        shape = (predictions.shape[1], len(rows))
        count, lower, upper = (np.zeros(shape, dtype=small) for _ in range(3))
        for model in order:  # for each new row, the model with the next larger prediction
            count += left_out[model]
            lower += count < (size + 1) // 2
            upper += count < size // 2 + 1
        first = np.take_along_axis(ordered, lower.astype(np.intp), axis=1)
        return np.asarray((first + np.take_along_axis(ordered, upper.astype(np.intp), axis=1)) / 2)


@dataclass(frozen=True, eq=False)
class PairBounds:
    """Bounds for few calibration rows per model, or several models per row.

    Sums are computed for chunks of new rows and for the calibration rows that can affect the result. ``low``
    and ``high`` are the distances of the calibration rows below and above their predictions.
    """

    centering: Centring
    low: SortedScores
    high: SortedScores

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
        """Return lower and upper bounds, shape (m, 2, L)."""
        n_rows = predictions.shape[1]
        bounds = np.empty((n_rows, 2, targets.size))
        step = max(1, _CHUNK_FLOATS // len(self.low.order))
        for start in range(0, n_rows, step):
            rows = slice(start, start + step)
            part = np.ascontiguousarray(predictions[:, rows])
            least, most = part.min(axis=0), part.max(axis=0)
            bounds[rows, 0] = -self._smallest(part, self.low, targets, -most, -least, -1.0)
            bounds[rows, 1] = self._smallest(part, self.high, targets, least, most, 1.0)
        return bounds

    def _smallest(
        self,
        predictions: FloatArray,
        scores: SortedScores,
        targets: FloatArray,
        least: FloatArray,
        most: FloatArray,
        sign: float,
    ) -> FloatArray:
        """Return the sums of score and sign * prediction with the target ranks, shape (r, L)."""
        window = scores.window(targets, least, most)
        sums = self.centering.centers(predictions, scores.order[window])
        sums = np.add(sign * sums, scores.ranks.values[window], order="C")
        return scores.smallest(sums, window, targets)
