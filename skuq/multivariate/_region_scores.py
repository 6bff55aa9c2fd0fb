r"""Nonconformity scores of several targets, one class per shape of the region.

The model predicts the mean :math:`\mu_j`, the standard deviation :math:`\sigma_j` and, for ellipsoids, the
correlation matrix R of the targets. With :math:`z_j = (y_j - \mu_j) / \sigma_j`, the scores are

.. math:: \max_j |z_j| \text{ (box)}, \quad \sqrt{z^T R^{-1} z} \text{ (ellipsoid)}.

The smallest box around both regions at score s is :math:`\mu_j \pm s \sigma_j`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from skuq._typing import FloatArray
from skuq.distributions import JointDistribution
from skuq.multivariate._regions import BoxRegion, EllipsoidRegion, PredictionRegion
from skuq.recalibration._residuals import scores_rounded_to_cover

_RIDGE = 1e-6
"""Share of the identity that is added to a correlation matrix, so that the matrix is invertible."""


class RegionScore(ABC):
    """Nonconformity score of several targets.

    A prediction has the shape (n, p, d). It contains the mean, the std, and possibly more.
    """

    def read(self, dist: JointDistribution) -> FloatArray:
        """Return the prediction of n rows. Raise an error if a moment is not finite or a std is 0."""
        mean, std = dist.mean(), dist.std()
        bad = ~(np.isfinite(mean) & np.isfinite(std) & (std > 0))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(
                "`estimator` must predict finite means and finite, positive standard deviations, got "
                f"{mean[row, column]:g} and {std[row, column]:g} at row {row}, target {column}."
            )
        return np.stack([mean, std], axis=1)

    @abstractmethod
    def score(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """Return the scores, shape (n,), of targets y of shape (n, d)."""

    @abstractmethod
    def region(self, prediction: FloatArray, radius: FloatArray) -> PredictionRegion:
        """Return the regions. A region contains all y whose score is at most the radius of the row.

        The radii have the shape (n,).
        """


class BoxScore(RegionScore):
    """The score is the largest absolute residual of the targets, in standard deviations."""

    def score(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        mean, std = prediction[:, 0], prediction[:, 1]
        scores = scores_rounded_to_cover(np.abs(y - mean) / std, mean, mean, std, y)
        return np.asarray(scores.max(axis=1))

    def region(self, prediction: FloatArray, radius: FloatArray) -> BoxRegion:
        mean = prediction[:, 0]
        half = radius[:, np.newaxis] * prediction[:, 1]
        return BoxRegion(mean - half, mean + half)


class EllipsoidScore(RegionScore):
    """The score is the Mahalanobis distance for the predicted covariance."""

    def read(self, dist: JointDistribution) -> FloatArray:
        moments = super().read(dist)
        correlation = (1 - _RIDGE) * dist.corr() + _RIDGE * np.eye(moments.shape[2])
        return np.concatenate([moments, correlation], axis=1)

    def score(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        return self.region(prediction, np.zeros(len(y))).distance(y)

    def region(self, prediction: FloatArray, radius: FloatArray) -> EllipsoidRegion:
        mean, std, correlation = prediction[:, 0], prediction[:, 1], prediction[:, 2:]
        return EllipsoidRegion(mean, std[:, :, np.newaxis] * correlation * std[:, np.newaxis], radius)


REGION_SCORES: dict[str, RegionScore] = {"box": BoxScore(), "ellipsoid": EllipsoidScore()}
