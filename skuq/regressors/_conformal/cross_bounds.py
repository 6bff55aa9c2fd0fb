"""Bounds of CV+, jackknife+ and jackknife+-after-bootstrap from the predictions of all models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.regressors._conformal.order_statistics import FoldScores, SortedScores, smallest_fold_sums

__all__ = [
    "Centring",
    "CrossBounds",
    "FoldBounds",
    "FoldModel",
    "LeftOutMean",
    "LeftOutMedian",
    "PairBounds",
]

_CHUNK_FLOATS = 1 << 18
"""Number of sums held at a time: 2 MB, so that they stay in the cache."""


class CrossBounds(Protocol):
    """Scores of the calibration rows, and which models were fitted without each row."""

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
        """Return lower and upper bounds.

        Parameters
        ----------
        predictions : ndarray of shape (M, m)
            Prediction of each new row by each model.
        targets : ndarray of shape (L,)
            Ranks, or weights, of the bounds, counted from the centre outwards.

        Returns
        -------
        bounds : ndarray of shape (m, 2, L)
            Infinite where the target exceeds the weight of the calibration rows.
        """


@dataclass(frozen=True, eq=False)
class FoldBounds:
    """Bounds for many calibration rows per model: the sums are counted fold by fold.

    Attributes
    ----------
    low, high : FoldScores
        Distances of the rows of each fold below and above their predictions.
    """

    low: FoldScores
    high: FoldScores

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
        """Return lower and upper bounds, shape (m, 2, L)."""
        # the k-th largest mu - R is minus the k-th smallest -mu + R
        lower = -smallest_fold_sums(-predictions, self.low, targets)
        return np.stack([lower, smallest_fold_sums(predictions, self.high, targets)], axis=1)


class Centring(Protocol):
    """Aggregation of the predictions of the models that were fitted without a calibration row."""

    def centres(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return one prediction for each new row and calibration row.

        Parameters
        ----------
        predictions : ndarray of shape (M, r)
            Prediction of each new row by each model.
        rows : ndarray of shape (s,)
            Positions of the calibration rows.

        Returns
        -------
        centres : ndarray of shape (r, s)
            Between the smallest and the largest prediction of the new row.
        """


@dataclass(frozen=True, eq=False)
class FoldModel:
    """The prediction of one model, that of the calibration row's fold.

    Attributes
    ----------
    model : ndarray of shape (n,)
        Number of the model of each calibration row.
    """

    model: IntArray

    def centres(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return the predictions of each row's model, shape (r, s)."""
        return predictions[self.model[rows]].T


@dataclass(frozen=True, eq=False)
class LeftOutMean:
    """The mean prediction of the models whose resample leaves the calibration row out.

    Attributes
    ----------
    left_out : ndarray of shape (M, n)
        Whether the resample of each model leaves out each calibration row.
    """

    left_out: BoolArray

    def centres(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return the mean predictions, shape (r, s)."""
        left_out = self.left_out[:, rows]
        # a mean over a subset of the models is linear in their predictions: one matrix product
        return np.asarray(predictions.T @ (left_out / left_out.sum(axis=0)))


@dataclass(frozen=True, eq=False)
class LeftOutMedian:
    """The median prediction of the models whose resample leaves the calibration row out.

    Attributes
    ----------
    left_out : ndarray of shape (M, n)
        Whether the resample of each model leaves out each calibration row.
    """

    left_out: BoolArray

    def centres(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return the median predictions, shape (r, s).

        For each new row the models are counted in the order of their predictions, for all calibration rows
        at once. With s models that leave a calibration row out, its lower and upper median are the
        predictions at which their count first is ceil(s / 2) and floor(s / 2) + 1; the number of steps before
        that is the position among the sorted predictions. O(M r s) time, without a sort for each pair.
        """
        order = np.argsort(predictions, axis=0)
        ordered = np.take_along_axis(predictions, order, axis=0).T
        n_models = len(predictions)
        # the counts of all pairs are read and written at every step: with one byte each, less memory moves
        small = np.uint8 if n_models < np.iinfo(np.uint8).max else np.uint32
        left_out = self.left_out[:, rows].astype(small)
        size = left_out.sum(axis=0, dtype=small)
        shape = (predictions.shape[1], len(rows))
        count, lower, upper = (np.zeros(shape, dtype=small) for _ in range(3))
        for model in order:  # the model of each new row whose prediction comes next
            count += left_out[model]
            lower += count < (size + 1) // 2
            upper += count < size // 2 + 1
        first = np.take_along_axis(ordered, lower.astype(np.intp), axis=1)
        return np.asarray((first + np.take_along_axis(ordered, upper.astype(np.intp), axis=1)) / 2)


@dataclass(frozen=True, eq=False)
class PairBounds:
    """Bounds for few calibration rows per model, or several models per row.

    The sums of the pairs of a new row and a calibration row are formed in chunks of new rows, of the
    calibration rows that may matter.

    Attributes
    ----------
    centring : Centring
        Predictions of the models that were fitted without each calibration row.
    low, high : SortedScores
        Distances of each calibration row below and above its prediction.
    """

    centring: Centring
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
        """Return the smallest sums of sign * prediction, between least and most, and score, shape (r, L)."""
        window = scores.window(targets, least, most)
        sums = self.centring.centres(predictions, scores.order[window])
        sums = np.add(sign * sums, scores.ranks.values[window], order="C")
        return scores.smallest(sums, window, targets)
