"""Conformal regions of several targets.

The regions are calibrated on held-out rows, or by the models of folds (CV+).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import qmc

from skuq._fitting.cross_fit import CrossFit
from skuq._fitting.training_data import TrainingData
from skuq._ranks import RANK_TOLERANCE, WeightedRanks
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.conformal._fold_models import FoldModel, check_tested_weight, fold_models, warn_of_few_rows
from skuq.conformal._order_statistics import FoldScores, SortedScores
from skuq.distributions import JointDistribution
from skuq.multivariate._region_scores import EllipsoidScore, RegionScore
from skuq.multivariate._regions import BoxRegion, EllipsoidRegion, PredictionRegion
from skuq.prediction import predict_dist

_BLOCK_FLOATS = 1 << 21
"""Maximum number of sums in memory at the same time."""

_LOG2_POINTS = 12
"""Binary logarithm of the number of points by which the volume of a region without a closed form is
estimated."""


def predict_region_moments(estimator: Any, X: Any, score: RegionScore) -> FloatArray:
    dist: Any = predict_dist(estimator, X)
    if not isinstance(dist, JointDistribution):
        raise TypeError(
            f"`estimator` must predict a joint distribution of several targets, got {type(dist).__name__}. "
            "Wrap it in MultiOutputUncertaintyRegressor, or use ConformalRegressor for one target."
        )
    return score.read(dist)


@dataclass(frozen=True, eq=False)
class SplitRegions:
    """Fitted model, and the ranks of the scores of its calibration rows."""

    model: FoldModel
    score: RegionScore
    ranks: WeightedRanks

    @property
    def n_calibration(self) -> float:
        return self.ranks.total

    def region(self, X: Any, coverage: float) -> PredictionRegion:
        prediction = predict_region_moments(self.model.estimator, self.model.model_input(X), self.score)
        radius = self.ranks.quantile(coverage * (self.ranks.total + 1))
        return self.score.region(prediction, np.full(len(prediction), float(radius)))


@dataclass(frozen=True, eq=False)
class CrossRegions:
    """Models of all folds. The score of a row is computed by the model of the fold of this row."""

    members: tuple[FoldModel, ...]
    score: RegionScore
    fold: IntArray  # fold of each calibration row
    scores: FloatArray
    weight: FloatArray | None

    @property
    def n_calibration(self) -> float:
        return float(len(self.scores) if self.weight is None else self.weight.sum())

    def region(self, X: Any, coverage: float) -> PredictionRegion:
        target = coverage * (self.n_calibration + 1)
        predictions = np.stack(
            [
                predict_region_moments(member.estimator, member.model_input(X), self.score)
                for member in self.members
            ]
        )
        box = self._box(predictions, target)
        if not isinstance(self.score, EllipsoidScore):
            return box
        radius = np.zeros(predictions.shape[1])
        ellipsoids = tuple(self.score.region(prediction, radius) for prediction in predictions)
        return CrossEllipsoidRegion(box, ellipsoids, self._fold_scores(), target)

    def _fold_scores(self) -> FoldScores:
        folds = [self.fold == k for k in range(len(self.members))]
        weights = None if self.weight is None else [self.weight[inside] for inside in folds]
        return FoldScores([self.scores[inside] for inside in folds], weights)

    def _box(self, predictions: FloatArray, target: float) -> BoxRegion:
        r"""Return the boxes of the CV+ bounds of each target.

        The bounds are order statistics of :math:`\mu_{kj}(x) \pm R_i \sigma_{kj}(x)` over the rows i, where k
        is the fold of row i. Such a bound excludes only points that are outside the region.
        """
        ordered = SortedScores(self.scores, self.weight)
        fold, targets = self.fold[ordered.order], np.array([target])
        _, n, _, d = predictions.shape
        everything = slice(0, len(self.scores))
        bounds = np.empty((2, n, d))
        step = max(1, _BLOCK_FLOATS // len(self.scores))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            for j in range(d):
                mean = predictions[fold, rows, 0, j].T
                half = predictions[fold, rows, 1, j].T * ordered.ranks.values
                for bound, sign in zip(bounds, (-1.0, 1.0), strict=True):
                    sums = np.ascontiguousarray(sign * mean + half)
                    bound[rows, j] = sign * ordered.smallest(sums, everything, targets)[:, 0]
        low, high = bounds
        # if the folds have different predictions, bounds may cross at a low coverage
        return BoxRegion(np.minimum(low, high), np.maximum(low, high))


@dataclass(frozen=True, eq=False, repr=False)
class CrossEllipsoidRegion(PredictionRegion):
    """CV+ region of the Mahalanobis distance.

    It contains the points that are in enough ellipsoids of the models of the folds.
    """

    box: BoxRegion
    ellipsoids: tuple[EllipsoidRegion, ...]  # of the model of each fold, with any radius
    scores: FoldScores
    target: float

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number n of rows and the number d of targets."""
        return self.box.shape

    def _take(self, rows: Any) -> Self:
        ellipsoids = tuple(one[rows] for one in self.ellipsoids)
        return type(self)(self.box[rows], ellipsoids, self.scores, self.target)

    def _contains(self, y: FloatArray) -> BoolArray:
        return self._accepts(np.stack([one.distance(y) for one in self.ellipsoids]))

    def _accepts(self, distance: FloatArray) -> BoolArray:
        """Return whether the weight of the rows with smaller scores is less than the target.

        The distances have the shape (K, m).
        """
        below = self.scores.weight_of(self.scores.count_below(distance))
        return np.asarray(below < self.target * (1 - RANK_TOLERANCE))

    def bounds(self) -> FloatArray:
        """Return a box that contains each region.

        Returns
        -------
        bounds : ndarray of shape (n, 2, d)
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of the targets.
        """
        return self.box.bounds()

    def volume(self) -> FloatArray:
        """Return the volume of each region, estimated from 4096 points of a Sobol sequence in its box.

        Returns
        -------
        volume : ndarray of shape (n,)
            Volume, in the product of the units of the targets. The error is about 2 %. Infinite if the box is
            infinite.
        """
        volume = self.box.volume()
        points = qmc.Sobol(self.shape[1], scramble=False).random_base2(_LOG2_POINTS)
        points += 0.5 / len(points)
        for row in np.flatnonzero(np.isfinite(volume)):
            lower, upper = self.box.lower[row], self.box.upper[row]
            within = (lower + points * (upper - lower))[np.newaxis]
            distance = np.concatenate([one[[row]].distance(within) for one in self.ellipsoids])
            volume[row] *= self._accepts(distance).mean()
        return volume


def warn_of_few_region_rows(coverage: float, n_calibration: float) -> None:
    level = np.array([coverage])
    warn_of_few_rows("coverage", level, level, n_calibration)


def cross_regions(folds: CrossFit, data: TrainingData, score: RegionScore) -> CrossRegions:
    """Return the CV+ regions. A row that is tested t times has the weight 1/t in each test."""
    rows, predicted = folds.tested()
    fold = np.repeat(np.arange(len(folds.test_rows)), [len(part) for part in folds.test_rows])
    weight = data.repetitions_of(rows)
    if data.sample_weight is not None:
        check_tested_weight(weight)
    counted = weight > 0
    rows, predicted, fold, weight = rows[counted], predicted[counted], fold[counted], weight[counted]
    scores = score.score(predicted, data.y[rows])
    return CrossRegions(fold_models(folds), score, fold, scores, None if (weight == 1).all() else weight)
