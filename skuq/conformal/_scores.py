r"""Conformity scores of intervals and of class probabilities.

Each method has one class. For an interval, the model predicts a band :math:`[l(x), u(x)]` and a scale
:math:`s(x)`. The scores of y are its distances below and above the band in units of the scale:

.. math:: E_l = (l(x) - y) / s(x), \quad E_u = (y - u(x)) / s(x).

The interval is :math:`[l - s q_l, u + s q_u]` with quantiles :math:`q_l, q_u` of the calibration scores. A
symmetric score is :math:`E = \max(E_l, E_u)`, with one quantile for both bounds (Romano et al. 2019, eq. 6).
Otherwise, each bound has its own quantile (theorem 2).

To add a score, write a subclass of `ConformalScore` with `check_estimator`, `read` and `band`, and add it to
`SCORES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from sklearn.frozen import FrozenEstimator

from skuq._compat import warn_user
from skuq._fitting.cross_fit import point_and_dist, point_predict
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import check_finite_moments, check_integer, check_number, check_option
from skuq.conformal._conformal_recalibrator import outward
from skuq.distributions import Distribution, Normal, Quantiles
from skuq.distributions._pit import pit_scores
from skuq.exceptions import NotProbabilisticError, SmallSampleWarning
from skuq.prediction import predict_dist, supports_dist
from skuq.prediction._quantile_estimators import find_quantile_loss
from skuq.prediction._register import name_of
from skuq.recalibration._residuals import scores_rounded_to_cover, standardized_residuals

_FEWEST_LEVELS = 12
"""Smallest number of levels of predicted quantiles for the method "pit"."""

_OUTERMOST = 0.025
"""Largest allowed value of the lowest level of predicted quantiles for the method "pit"."""


class Band(NamedTuple):
    """Lower bounds, upper bounds and units of the scores, each of shape (n,).

    Both bounds of a point prediction are equal. Units are positive. Only `NormalizedScore` allows units of 0.
    """

    low: FloatArray
    high: FloatArray
    scale: FloatArray


@dataclass(frozen=True)
class ConformalScore(ABC):
    """Nonconformity score of intervals. If the score is symmetric, both bounds have the same score."""

    symmetric: bool

    depends_on_coverage: ClassVar[bool] = False
    """Whether the band and the scores depend on the coverage."""

    maps_levels: ClassVar[bool] = False
    """Whether the scores are levels of the predicted distribution instead of distances from a band."""

    @abstractmethod
    def check_estimator(self, estimator: Any) -> None:
        """Raise an error if the estimator has no prediction of the required kind."""

    def predict(self, estimator: Any, X: Any) -> Any:
        return self.read(predict_dist(estimator, X))

    def predict_with_point(self, estimator: Any, X: Any) -> tuple[Any, FloatArray]:
        """Return the argument ``prediction`` of `band`, and the point predictions."""
        points, dist = point_and_dist(estimator, X)
        return self.read(dist), points

    def read(self, dist: Distribution) -> Any:
        """Convert predicted distributions to the argument ``prediction`` of `band`."""
        return dist

    @abstractmethod
    def band(self, prediction: Any, coverage: float) -> Band:
        """Return the band of each row at a nominal coverage."""

    def score(self, prediction: Any, y: FloatArray, coverage: float) -> FloatArray:
        """Return the scores of observed rows.

        The shape is (1, n) for symmetric scores and (2, n) for scores below and above.
        """
        band = self.band(prediction, coverage)
        distances = self._distances(prediction, band, y)
        if not self.symmetric:
            return distances
        return scores_rounded_to_cover(np.maximum(*distances), *band, y)[np.newaxis]

    def invert(self, prediction: Any, quantile: FloatArray, coverage: float) -> tuple[FloatArray, FloatArray]:
        low, high, scale = self.band(prediction, coverage)
        return -_shift(-low, scale, quantile[0]), _shift(high, scale, quantile[-1])

    def _distances(self, prediction: Any, band: Band, y: FloatArray) -> FloatArray:
        return np.array([band.low - y, y - band.high]) / band.scale


def _shift(edge: FloatArray, scale: FloatArray, quantile: FloatArray) -> FloatArray:
    """Return edge + scale * quantile.

    For an infinite quantile, the result is infinite even if the scale is 0.
    """
    infinite = np.isinf(quantile)
    if not infinite.any():
        return edge + scale * quantile
    return np.where(infinite, quantile, edge + scale * np.where(infinite, 0.0, quantile))


class AbsoluteScore(ConformalScore):
    r"""Method "split": the score is the residual :math:`|y - \hat\mu(x)|`.

    The band is the predicted point.
    """

    def check_estimator(self, estimator: Any) -> None:
        """Accept any regressor."""

    def predict(self, estimator: Any, X: Any) -> FloatArray:
        return point_predict(estimator, X)

    def predict_with_point(self, estimator: Any, X: Any) -> tuple[FloatArray, FloatArray]:
        points = self.predict(estimator, X)
        return points, points

    def band(self, prediction: FloatArray, coverage: float) -> Band:
        return Band(prediction, prediction, np.ones(prediction.shape))


class NormalizedScore(ConformalScore):
    r"""Method "normalized": the score is :math:`|y - \mu(x)| / \sigma(x)`, in standard deviations."""

    def check_estimator(self, estimator: Any) -> None:
        _check_predicts_dist(estimator, "normalized", "UncertaintyRegressor")

    def read(self, dist: Distribution) -> Normal:
        """Return the mean and the standard deviation. Raise an error if one of them is not finite."""
        mean, std = check_finite_moments(
            dist,
            "mean",
            "std",
            subject="with method 'normalized', `estimator` must predict",
            remedy="Method 'cqr' needs neither means nor standard deviations.",
        )
        return Normal(mean, std)

    def band(self, prediction: Normal, coverage: float) -> Band:
        return Band(prediction.loc, prediction.loc, prediction.scale)

    def _distances(self, prediction: Normal, band: Band, y: FloatArray) -> FloatArray:
        z = standardized_residuals(prediction, y, name="estimator").z
        return np.stack([-z, z])


class CQRScore(ConformalScore):
    """Method "cqr": the score is the distance of y from the predicted interval, which is negative inside."""

    depends_on_coverage = True

    def check_estimator(self, estimator: Any) -> None:
        is_quantile_model = find_quantile_loss(estimator) is not None
        wrapper = "MultiQuantileRegressor" if is_quantile_model else "UncertaintyRegressor"
        _check_predicts_dist(estimator, "cqr", wrapper)

    def band(self, prediction: Distribution, coverage: float) -> Band:
        """Return the predicted interval, or the median for coverage 0."""
        if coverage > 0:
            low, high = prediction.interval(coverage).T
        else:
            low = high = prediction.median()
        finite = np.isfinite(low) & np.isfinite(high)
        if not finite.all():
            row = int(np.argmin(finite))
            raise ValueError(
                f"`estimator` must predict finite quantiles, got the interval [{low[row]}, {high[row]}] "
                f"for the coverage {coverage:g} at row {row}."
            )
        return Band(low, high, np.broadcast_to(1.0, low.shape))


class PITScore(ConformalScore):
    """Method "pit": the score is the distance of the level F(y) from 1/2, as a normal score.

    On an atom, the level for the lower bound is F(y), and the level for the upper bound is F(y-).
    """

    maps_levels = True

    def check_estimator(self, estimator: Any) -> None:
        _check_predicts_dist(estimator, "pit", "UncertaintyRegressor")

    def read(self, dist: Distribution) -> Distribution:
        """Return the distributions. Raise an error if their quantiles have too few levels."""
        if not isinstance(dist, Quantiles):
            return dist
        levels = dist.levels
        if levels.size < _FEWEST_LEVELS or max(levels[0], 1 - levels[-1]) > _OUTERMOST + 1e-9:
            raise ValueError(
                "with method 'pit', `estimator` must predict a distribution, or quantiles at "
                f"{_FEWEST_LEVELS} or more levels from {_OUTERMOST} to {1 - _OUTERMOST}, got {levels.size} "
                f"levels from {levels[0]:g} to {levels[-1]:g}. Between few levels, the distribution "
                "is only interpolated. Predict more levels, or use method 'cqr'."
            )
        return dist

    def band(self, prediction: Distribution, coverage: float) -> Band:
        """Return the median as a band without a scale."""
        median = prediction.median()
        return Band(median, median, np.broadcast_to(1.0, median.shape))

    def score(self, prediction: Distribution, y: FloatArray, coverage: float) -> FloatArray:
        low, high = pit_scores(prediction, y)
        distances = np.stack([-high, low])
        return distances.max(axis=0, keepdims=True) if self.symmetric else distances

    def invert(
        self, prediction: Distribution, quantile: FloatArray, coverage: float
    ) -> tuple[FloatArray, FloatArray]:
        lower, upper = outward(quantile[0]), outward(quantile[-1])
        return prediction._from_normal_score(-lower), prediction._from_normal_score(upper)


def _check_predicts_dist(estimator: Any, method: str, wrapper: str) -> None:
    """Raise an error that recommends ``wrapper`` if the estimator predicts no distribution."""
    if supports_dist(estimator):
        return
    name = type(estimator).__name__
    raise NotProbabilisticError(
        f"`method` {method!r} needs an estimator with a predictive distribution, but {name} has none. Wrap "
        f"it: ConformalRegressor({wrapper}({name}(...)), {method!r}), or use method 'split'."
    )


SCORES: dict[str, type[ConformalScore]] = {
    "split": AbsoluteScore,
    "normalized": NormalizedScore,
    "cqr": CQRScore,
    "pit": PITScore,
}
"""Class of the score of each method."""


def classes_of(estimator: Any, proba: np.ndarray | None = None) -> np.ndarray:
    """Return the classes of a fitted classifier, one per column of its probabilities."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise TypeError(
            "`estimator` must have the attribute `classes_` after `fit`, with the class of each column of "
            f"the probabilities, but {name_of(estimator)} does not have it."
        )
    if proba is not None and len(classes) != proba.shape[1]:
        raise ValueError(
            f"`estimator` must predict one probability for each of its `classes_`, but {name_of(estimator)} "
            f"has {len(classes)} classes and {proba.shape[1]} columns of probabilities."
        )
    return np.asarray(classes)


def check_known_labels(is_known: BoolArray, labels: np.ndarray, classes: np.ndarray, estimator: Any) -> None:
    """Raise an error if no calibration row has a label that also occurs in the training rows."""
    if not is_known.size or is_known.any():
        return
    label = labels[:1].tolist()[0]
    if isinstance(estimator, FrozenEstimator):
        raise ValueError(
            f"`y` must contain classes of the frozen classifier, such as {classes[:10].tolist()}. Got only "
            f"other labels, such as {label!r} at row 0."
        )
    raise ValueError(
        "`cv` must hold out rows with labels that also occur in training rows. Got only other labels, such "
        f"as {label!r}. Pass another `cv`, or more rows of each class."
    )


def warn_of_unknown_labels(coverage: float, unknown: float, n: float) -> None:
    """Warn that sets contain all classes.

    The reason is that some calibration labels do not occur in the training rows.
    """
    warn_user(
        f"at the coverage {100 * coverage:g} %, the sets contain all classes. {unknown:g} of {n:g} "
        f"calibration rows have a label that does not occur in the training rows. Use a lower coverage, or "
        f"train on rows of "
        "more classes.",
        SmallSampleWarning,
    )


def fill_empty(sets: BoolArray, proba: Callable[[], np.ndarray]) -> BoolArray:
    """Add the most probable class to empty sets.

    The function ``proba`` is called only if there are empty sets.
    """
    empty = ~sets.any(axis=1)
    if empty.any():
        row, level = np.nonzero(empty)
        sets[row, proba().argmax(axis=1)[row], level] = True
    return sets


class ClassScore(Protocol):
    """Nonconformity score of classes. Prediction sets contain the classes with small scores."""

    @property
    def randomized(self) -> bool:
        """Whether the score uses one random number per row."""

    def score(self, proba: np.ndarray, uniform: FloatArray | None) -> FloatArray:
        """Return the scores (n, K). The uniform random numbers (n,) are only used by a randomized score."""


@dataclass(frozen=True)
class LACScore:
    """The score is 1 minus the probability of the class (Sadinle, Lei and Wasserman 2019)."""

    randomized: bool = False

    def score(self, proba: np.ndarray, uniform: FloatArray | None) -> FloatArray:
        return np.asarray(1 - proba.astype(np.float64, copy=False))


@dataclass(frozen=True)
class APSScore:
    """Sum of the probabilities of all more probable classes (Romano, Sesia and Candès 2020).

    If randomized, the sum also includes a random share of the probability of the class. The share is
    uniformly distributed on [0, 1]. For each rank beyond ``k_reg``, the penalty of RAPS is added
    (Angelopoulos, Bates, Jordan and Malik 2021).
    """

    randomized: bool
    penalty: float
    k_reg: int

    def score(self, proba: np.ndarray, uniform: FloatArray | None) -> FloatArray:
        # A stable sort ranks equally probable classes in the order of the columns.
        order = np.argsort(-proba, axis=1, kind="stable")
        descending = np.take_along_axis(proba, order, axis=1)
        by_rank = np.zeros(proba.shape)
        np.cumsum(descending[:, :-1], axis=1, dtype=np.float64, out=by_rank[:, 1:])
        if uniform is not None:
            by_rank += uniform[:, np.newaxis] * descending
        if self.penalty:
            by_rank += self.penalty * np.maximum(np.arange(1, proba.shape[1] + 1) - self.k_reg, 0)
        scores = np.empty(proba.shape)
        np.put_along_axis(scores, order, by_rank, axis=1)
        return scores


def select_score(method: Any, randomized: Any, penalty: Any, k_reg: Any) -> ClassScore:
    """Check the parameters of a `ConformalClassifier` and return its score."""
    check_option(method, "method", ("lac", "aps"))
    check_option(randomized, "randomized", (True, False))
    number, ranks = check_number(penalty, "penalty"), check_integer(k_reg, "k_reg", minimum=0)
    if number < 0:
        raise ValueError(f"`penalty` must be non-negative, got {number:g}.")
    if method == "aps":
        return APSScore(bool(randomized), number, ranks)
    for name, value in (("randomized", randomized), ("penalty", number), ("k_reg", ranks)):
        if value:
            raise ValueError(
                f"`{name}` must be {type(value)(0)!r} with method 'lac', got {value!r}. Use method 'aps'."
            )
    return LACScore()


def scores_of_labels(scores: FloatArray, codes: IntArray) -> FloatArray:
    """Return the score of the label of each row, shape (n,).

    An unknown label has the code -1 and an infinite score.
    """
    of_label = scores[np.arange(len(scores)), codes]
    return np.where(codes < 0, np.inf, of_label)
