"""Bounds of CV+, jackknife+ and jackknife+-after-bootstrap from what all models predict for new rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.regressors._conformal.order_statistics import FoldScores, SortedScores, smallest_fold_sums

__all__ = [
    "BoundsOfRows",
    "Centres",
    "FoldBounds",
    "MeanOfUnseen",
    "MedianOfUnseen",
    "OwnModel",
    "PairBounds",
]

_CHUNK_FLOATS = 1 << 18
"""Sums held at a time, so that they stay in the cache."""


class BoundsOfRows(Protocol):
    """The calibration rows: their scores, and which models predict them."""

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
        """Return lower and upper bounds.

        Parameters
        ----------
        predictions : ndarray of shape (M, m)
            What each model predicts for each new row.
        targets : ndarray of shape (L,)
            Rank, or weight, of the bounds, counted from the centre outwards.

        Returns
        -------
        bounds : ndarray of shape (m, 2, L)
            Infinite where the target exceeds the weight of the calibration rows.
        """


@dataclass(frozen=True, eq=False)
class FoldBounds:
    """Many rows a model: sums are counted fold by fold.

    Attributes
    ----------
    low, high : FoldScores
        How far the rows of each fold lie below and above their predictions.
    """

    low: FoldScores
    high: FoldScores

    def bounds(self, predictions: FloatArray, targets: FloatArray) -> FloatArray:
        """Return lower and upper bounds, shape (m, 2, L)."""
        lower = -smallest_fold_sums(-predictions, self.low, targets)
        return np.stack([lower, smallest_fold_sums(predictions, self.high, targets)], axis=1)


class Centres(Protocol):
    """What the models that have not seen a calibration row predict for new rows."""

    def centres(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return one prediction for each new row and calibration row.

        Parameters
        ----------
        predictions : ndarray of shape (M, r)
            What each model predicts for each new row.
        rows : ndarray of shape (s,)
            Calibration rows.

        Returns
        -------
        centres : ndarray of shape (r, s)
            Between the smallest and the largest prediction of the new row.
        """


@dataclass(frozen=True, eq=False)
class OwnModel:
    """Each calibration row has one model, that of its fold: ``model`` (n,)."""

    model: IntArray

    def centres(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return the predictions of each row's model, shape (r, s)."""
        return predictions[self.model[rows]].T


@dataclass(frozen=True, eq=False)
class MeanOfUnseen:
    """The mean over the models that have not seen a row: ``unseen`` (M, n)."""

    unseen: BoolArray

    def centres(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return the mean predictions, shape (r, s)."""
        unseen = self.unseen[:, rows]
        return np.asarray(predictions.T @ (unseen / unseen.sum(axis=0)))


@dataclass(frozen=True, eq=False)
class MedianOfUnseen:
    """The median over the models that have not seen a row: ``unseen`` (M, n)."""

    unseen: BoolArray

    def centres(self, predictions: FloatArray, rows: IntArray) -> FloatArray:
        """Return the median predictions, shape (r, s).

        The models of each new row are gone through in the order of their predictions, for all
        calibration rows at once; how many steps a calibration row's count stays too small is the
        place of its median.
        """
        order = np.argsort(predictions, axis=0)
        ordered = np.take_along_axis(predictions, order, axis=0).T
        n_models = len(predictions)
        small = np.uint8 if n_models < np.iinfo(np.uint8).max else np.uint32
        unseen = self.unseen[:, rows].astype(small)
        size = unseen.sum(axis=0, dtype=small)
        shape = (predictions.shape[1], len(rows))
        count, lower, upper = (np.zeros(shape, dtype=small) for _ in range(3))
        for model in order:
            count += unseen[model]
            lower += count < (size + 1) // 2
            upper += count < size // 2 + 1
        first = np.take_along_axis(ordered, lower.astype(np.intp), axis=1)
        return np.asarray((first + np.take_along_axis(ordered, upper.astype(np.intp), axis=1)) / 2)


@dataclass(frozen=True, eq=False)
class PairBounds:
    """Few rows a model, or several models a row: sums are formed in chunks, where they may matter.

    Attributes
    ----------
    center_of : Centres
        Which models predict which rows.
    low, high : SortedScores
        How far each row lies below and above its prediction.
    """

    center_of: Centres
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
        window = scores.window(targets, least, most)
        sums = self.center_of.centres(predictions, scores.order[window])
        sums = np.add(sign * sums, scores.ranks.values[window], order="C")
        return scores.smallest(sums, window, targets)
