r"""Regions that contain several targets: one box or one ellipsoid per row, and their calibration.

Each shape of the region has one class of scores. The model predicts the mean :math:`\mu_j`, the standard
deviation :math:`\sigma_j` and, for ellipsoids, the correlation matrix R of the targets. With :math:`z_j =
(y_j - \mu_j) / \sigma_j`, the scores are

.. math:: \max_j |z_j| \text{ (box)}, \quad \sqrt{z^T R^{-1} z} \text{ (ellipsoid)}.

The smallest box around both regions at score s is :math:`\mu_j \pm s \sigma_j`.

The regions are calibrated on held-out rows, or by the models of folds (CV+).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import gammaln
from scipy.stats import qmc

from skuq._fitting.cross_fit import CrossFit
from skuq._fitting.training_data import TrainingData
from skuq._numeric import RANK_TOLERANCE, WeightedRanks, row_blocks
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import as_float_array, check_no_nan
from skuq.conformal._base import FoldModel, check_tested_weight, fold_models
from skuq.conformal._cross import FoldScores, SortedScores
from skuq.conformal._scores import scores_rounded_to_cover
from skuq.distributions import JointDistribution
from skuq.prediction import predict_dist


class PredictionRegion(ABC):
    """Regions in the space of d targets, one per row.

    ``region[rows]`` selects rows, and ``len(region)`` is the number of rows.

    See Also
    --------
    BoxRegion : One interval per target.
    EllipsoidRegion : Ellipsoids. Their axes follow the correlations of the errors.
    skuq.multivariate.ConformalRegionRegressor : Regions with guaranteed coverage.

    Examples
    --------
    >>> from skuq.multivariate._regions import BoxRegion
    >>> region = BoxRegion([[0.0, 0.0], [1.0, 1.0]], [[2.0, 1.0], [2.0, 4.0]])
    >>> region.contains([[1.0, 0.5], [0.0, 2.0]])
    array([ True, False])
    >>> region.volume()
    array([2., 3.])
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number n of rows and number d of targets."""

    @abstractmethod
    def _take(self, rows: Any) -> Self:
        """Return the regions of the given rows."""

    @abstractmethod
    def _contains(self, y: FloatArray) -> BoolArray:
        """Return whether each region contains points of shape (n, d)."""

    @abstractmethod
    def bounds(self) -> FloatArray:
        """Return, for each region, the smallest box that contains this region.

        Returns
        -------
        bounds : ndarray of shape (n, 2, d)
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of the targets.
        """

    @abstractmethod
    def volume(self) -> FloatArray:
        """Return the volume of each region.

        Returns
        -------
        volume : ndarray of shape (n,)
            Volume, in the product of the units of the targets. The smaller the better at equal coverage.
        """

    def contains(self, y: ArrayLike) -> BoolArray:
        """Return whether each region contains the targets of its row.

        Parameters
        ----------
        y : array-like of shape (n, d)
            Targets.

        Returns
        -------
        inside : ndarray of bool of shape (n,)
            True if all targets of the row are in its region.
        """
        values = check_no_nan(as_float_array(y, "y"), "y")
        if values.shape != self.shape:
            raise ValueError(f"`y` must have shape {self.shape}, one row per region, got {values.shape}.")
        return self._contains(values)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Self:
        return self._take(np.atleast_1d(np.arange(len(self))[key]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.shape[0]}, d={self.shape[1]})"


@dataclass(frozen=True, eq=False, repr=False)
class BoxRegion(PredictionRegion):
    """Boxes: one interval per target.

    Parameters
    ----------
    lower, upper : array-like of shape (n, d)
        Bounds of each target, in the units of the target. They may be infinite. The box includes its bounds.

    See Also
    --------
    EllipsoidRegion : Ellipsoids.

    Examples
    --------
    >>> from skuq.multivariate._regions import BoxRegion
    >>> BoxRegion([[0.0, 0.0]], [[2.0, 1.0]]).bounds()
    array([[[0., 0.],
            [2., 1.]]])
    """

    lower: FloatArray
    upper: FloatArray

    def __post_init__(self) -> None:
        lower, upper = (_as_rows(getattr(self, name), name, 2) for name in ("lower", "upper"))
        if lower.shape != upper.shape:
            raise ValueError(f"`upper` must have the shape of `lower`, {lower.shape}, got {upper.shape}.")
        if (lower > upper).any():
            row, column = np.argwhere(lower > upper)[0]
            raise ValueError(
                f"`lower` must be at most `upper`, got {lower[row, column]:g} and {upper[row, column]:g} at "
                f"row {row}, column {column}."
            )
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def shape(self) -> tuple[int, int]:
        """Number n of rows and number d of targets."""
        return self.lower.shape

    def _take(self, rows: Any) -> Self:
        return type(self)(self.lower[rows], self.upper[rows])

    def _contains(self, y: FloatArray) -> BoolArray:
        return np.asarray(((y >= self.lower) & (y <= self.upper)).all(axis=1))

    def bounds(self) -> FloatArray:
        """Return the bounds of each box.

        Returns
        -------
        bounds : ndarray of shape (n, 2, d)
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of the targets.
        """
        return np.stack([self.lower, self.upper], axis=1)

    def volume(self) -> FloatArray:
        """Return the volume of each box.

        Returns
        -------
        volume : ndarray of shape (n,)
            Product of the widths, in the product of the units of the targets.
        """
        return np.asarray((self.upper - self.lower).prod(axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class EllipsoidRegion(PredictionRegion):
    r"""Ellipsoids :math:`\{y: (y - \mu)^T \Sigma^{-1} (y - \mu) \le r^2\}`.

    Parameters
    ----------
    center : array-like of shape (n, d)
        Centers, in the units of the targets.
    covariance : array-like of shape (n, d, d)
        Positive definite matrices, in products of the units of the targets.
    radius : array-like of shape (n,)
        Radius of each row. It has no units. It must be non-negative and may be infinite.

    See Also
    --------
    BoxRegion : One interval per target.

    Examples
    --------
    >>> from skuq.multivariate._regions import EllipsoidRegion
    >>> region = EllipsoidRegion([[0.0, 0.0]], [[[1.0, 0.0], [0.0, 4.0]]], [2.0])
    >>> region.volume().round(2), region.bounds()  # pi * 2 * 4
    (array([25.13]), array([[[-2., -4.],
            [ 2.,  4.]]]))
    """

    center: FloatArray
    covariance: FloatArray
    radius: FloatArray

    def __post_init__(self) -> None:
        center, covariance, radius = (
            _as_rows(getattr(self, name), name, ndim)
            for name, ndim in (("center", 2), ("covariance", 3), ("radius", 1))
        )
        n, d = center.shape
        if covariance.shape != (n, d, d) or radius.shape != (n,):
            raise ValueError(
                f"`covariance` must have shape {(n, d, d)}, and `radius` must have shape {(n,)}, got "
                f"{covariance.shape} and {radius.shape}. The shape of `center` is {(n, d)}."
            )
        if (radius < 0).any():
            raise ValueError(f"`radius` must be non-negative, got {radius.min():g}.")
        root = _cholesky(covariance)
        for name, value in (("center", center), ("covariance", covariance), ("radius", radius)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_root", root)

    @property
    def shape(self) -> tuple[int, int]:
        """Number n of rows and number d of targets."""
        return self.center.shape

    def _take(self, rows: Any) -> Self:
        return type(self)(self.center[rows], self.covariance[rows], self.radius[rows])

    def _contains(self, y: FloatArray) -> BoolArray:
        return np.asarray(self.distance(y) <= self.radius)

    def distance(self, y: ArrayLike) -> FloatArray:
        """Return the Mahalanobis distance from the center. Inside the ellipsoid, it is at most the radius.

        Parameters
        ----------
        y : array-like of shape (n, d) or (n, m, d)
            Targets, or m points per row.

        Returns
        -------
        distance : ndarray of shape (n,) or (n, m)
            Distance without units.
        """
        points = as_float_array(y, "y")
        n, d = self.shape
        if points.ndim not in (2, 3) or (points.shape[0], points.shape[-1]) != (n, d):
            raise ValueError(f"`y` must have shape {(n, d)} or ({n}, m, {d}), got {points.shape}.")
        root: FloatArray = self._root  # type: ignore[attr-defined]
        difference = points.reshape(n, -1, d) - self.center[:, np.newaxis]
        solved = np.linalg.solve(root, difference.transpose(0, 2, 1))
        return np.asarray(np.sqrt(np.sum(solved**2, axis=1)).reshape(points.shape[:-1]))

    def bounds(self) -> FloatArray:
        """Return, for each ellipsoid, the smallest box that contains this ellipsoid.

        Returns
        -------
        bounds : ndarray of shape (n, 2, d)
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of the targets.
        """
        half = self.radius[:, np.newaxis] * np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))
        return np.stack([self.center - half, self.center + half], axis=1)

    def volume(self) -> FloatArray:
        r"""Return the volume of each ellipsoid.

        Returns
        -------
        volume : ndarray of shape (n,)
            :math:`r^d \sqrt{\det \Sigma} \, \pi^{d/2} / \Gamma(d/2 + 1)`, in the product of the units of the
            targets.
        """
        d = self.shape[1]
        root: FloatArray = self._root  # type: ignore[attr-defined]
        log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        ball = d / 2 * np.log(np.pi) - gammaln(d / 2 + 1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(ball + log_root + d * np.log(self.radius)))


def _cholesky(covariance: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError as error:
        row = int(np.argmin(np.linalg.eigvalsh(covariance)[:, 0]))
        raise ValueError(
            f"`covariance` must be positive definite, got {covariance[row].tolist()} at row {row}."
        ) from error


def _as_rows(values: ArrayLike, name: str, ndim: int) -> FloatArray:
    array = check_no_nan(as_float_array(values, name), name).copy()
    if array.ndim != ndim or not all(array.shape):
        raise ValueError(f"`{name}` must have {ndim} dimensions and at least one row, got {array.shape}.")
    array.flags.writeable = False
    return array


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
    weight: FloatArray

    @property
    def n_calibration(self) -> float:
        return float(self.weight.sum())

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
        folds = [self.fold == k for k in range(len(self.members))]
        scores = FoldScores(*([each[inside] for inside in folds] for each in (self.scores, self.weight)))
        return CrossEllipsoidRegion(box, ellipsoids, scores, target)

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
        for rows in row_blocks(n, len(self.scores), _BLOCK_FLOATS):
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


def cross_regions(folds: CrossFit, data: TrainingData, score: RegionScore) -> CrossRegions:
    """Return the CV+ regions. A row that is tested t times has the weight 1/t in each test."""
    rows, predicted = folds.tested()
    fold = np.repeat(np.arange(len(folds.test_rows)), [len(part) for part in folds.test_rows])
    weight = check_tested_weight(data.repetitions_of(rows))
    counted = weight > 0
    rows, predicted, fold, weight = rows[counted], predicted[counted], fold[counted], weight[counted]
    scores = score.score(predicted, data.y[rows])
    return CrossRegions(fold_models(folds), score, fold, scores, weight)
