"""Bounds of CV+, jackknife+ and jackknife+-after-bootstrap from the predictions of all models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.conformal._order_statistics import FoldScores, SortedScores, smallest_fold_sums

_CHUNK_FLOATS = 1 << 18
"""Maximum number of sums in memory at the same time (2 MB). The sums fit into the cache."""


class CrossBounds(Protocol):
    """Prediction bounds from calibration scores, and from the models that are fitted without each row."""

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
        """Return the bounds of m rows, shape (m, 2, L), at L ranks or cumulative weights of the scores."""


@dataclass(frozen=True, eq=False)
class FoldBounds:
    """Bounds for many calibration rows per model.

    The scores of the lower and upper bounds are ``low`` and ``high``.
    """

    low: FoldScores
    high: FoldScores

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
        # The k-th largest mu - R is minus the k-th smallest -mu + R.
        lower = -smallest_fold_sums(-predictions, self.low, targets)
        return np.stack([lower, smallest_fold_sums(predictions, self.high, targets)], axis=1)


class Centring(Protocol):
    """Combined prediction of the models that are fitted without a calibration row."""

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return the combined predictions of r new rows for s calibration rows, shape (r, s)."""


@dataclass(frozen=True, eq=False)
class ModelOfFold:
    """Prediction by the model of one fold. The array ``model`` contains the fold of each calibration row."""

    model: IntArray

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        return predictions[self.model[rows]].T


@dataclass(frozen=True, eq=False)
class LeftOutMean:
    """Mean prediction of the models that are fitted without a calibration row.

    The mask ``left_out`` has the shape (M, n).
    """

    left_out: BoolArray

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        left_out = self.left_out[:, rows]
        # All means over subsets of the models are one matrix product.
        return np.asarray(predictions.T @ (left_out / left_out.sum(axis=0)))


@dataclass(frozen=True, eq=False)
class LeftOutMedian:
    """Median prediction of the models that are fitted without a calibration row.

    The mask ``left_out`` has the shape (M, n).
    """

    left_out: BoolArray

    def centers(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        order = np.argsort(predictions, axis=0)
        ordered = np.take_along_axis(predictions, order, axis=0).T
        n_models = len(predictions)
        # Each step reads and writes the counts of all pairs, so small integer types are faster.
        small = np.uint8 if n_models < np.iinfo(np.uint8).max else np.uint32
        left_out = self.left_out[:, rows].astype(small)
        size = left_out.sum(axis=0, dtype=small)
        shape = (predictions.shape[1], len(rows))
        count, lower, upper = (np.zeros(shape, dtype=small) for _ in range(3))
        for model in order:  # `model` contains, for each new row, the model with the next larger prediction.
            count += left_out[model]
            lower += count < (size + 1) // 2
            upper += count < size // 2 + 1
        first = np.take_along_axis(ordered, lower.astype(np.intp), axis=1)
        return np.asarray((first + np.take_along_axis(ordered, upper.astype(np.intp), axis=1)) / 2)


@dataclass(frozen=True, eq=False)
class PairBounds:
    """Bounds for few calibration rows per model, from all pairs of a new row and a calibration row."""

    centering: Centring
    low: SortedScores
    high: SortedScores

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
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
        window = scores.window(targets, least, most)
        sums = self.centering.centers(predictions, scores.order[window])
        sums = np.add(sign * sums, scores.ranks.values[window], order="C")
        return scores.smallest(sums, window, targets)
