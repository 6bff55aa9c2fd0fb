r"""Conformity scores of intervals.

Each method has one class. For an interval, the model predicts a band :math:`[l(x), u(x)]` and a scale
:math:`s(x)`. The scores of y are its distances below and above the band in units of the scale:

.. math:: E_l = (l(x) - y) / s(x), \quad E_u = (y - u(x)) / s(x).

The interval is :math:`[l - s q_l, u + s q_u]` with quantiles :math:`q_l, q_u` of the calibration scores. A
symmetric score is :math:`E = \max(E_l, E_u)`, with one quantile for both bounds (Romano et al. 2019, eq. 6).
Otherwise, each bound has its own quantile (theorem 2).

To add a score, write a subclass of `ConformalScore` with `check_estimator`, `read` and `band`, and add it to
`SCORES`. No other file changes. The score must be linear in y outside the band, as in the formula above,
because `predict_dist` and `partial_fit` compute bounds from the band and the scale. A score of point
predictions also defines `predict` and `predict_with_point`, as `AbsoluteScore` does. Scores with folds are
the residuals of `CrossConformalRegressor`, which uses no class of this file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtri

from skuq._fitting.cross_fit import point_and_dist, point_predict
from skuq._numeric import WeightedRanks
from skuq._typing import FloatArray, IntArray
from skuq._validation import check_finite_moments
from skuq.distributions import Distribution, Normal, Quantiles
from skuq.distributions._level_map import LevelMap
from skuq.distributions._pit import pit_scores
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist
from skuq.prediction._quantile_estimators import find_quantile_loss
from skuq.recalibration._residuals import standardized_residuals

_FEWEST_LEVELS = 12
"""Smallest number of levels of predicted quantiles for the method "pit"."""

_ROUNDINGS = 3
"""Maximum number of rounding errors in a bound that is computed from the score of y."""

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
    """Whether the band and the scores depend on the coverage. If not, both bounds of the band are equal."""

    maps_levels: ClassVar[bool] = False
    """Whether the scores are levels of the predicted distribution instead of distances from a band."""

    def __init_subclass__(cls) -> None:
        own = [name for name in ("score", "invert") if name in vars(cls)]
        if own and not cls.maps_levels:
            raise TypeError(
                f"{cls.__name__} must define `band`, and not `{own[0]}`: a score is linear in y, because "
                "distributions and updates are computed from the band. Transform the band or the scale."
            )

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


def scores_rounded_to_cover(
    score: FloatArray, low: FloatArray, high: FloatArray, scale: FloatArray, y: FloatArray
) -> FloatArray:
    """Increase the scores s until the rounded interval [low - scale s, high + scale s] contains y."""
    # Without this increase, rounding may leave y outside the interval in all rows whose score equals the
    # quantile. The coverage would then be too low if many rows have the same target, such as counts or
    # prices. The increase is the floating-point spacing at the largest term of a bound.
    edge = np.maximum(np.maximum(np.abs(low), np.abs(high)), np.abs(y))
    grain = np.spacing(np.maximum(edge, np.abs(scale * score)))
    step = np.divide(grain, scale, out=np.zeros_like(score), where=scale > 0)
    for _ in range(_ROUNDINGS):
        reach = scale * score
        outside = (y < low - reach) | (y > high + reach)
        if not outside.any():
            break
        score = score + np.where(outside, step, 0.0)
    return score


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


_MOST_KNOTS = 500
"""Maximum number of knots of each half of the map. The rows between two knots increase the coverage by less
than 0.2 %."""

_DISTINCT = 1e-9
"""Two scores have a common knot if their relative distance is smaller than this value, so that slopes are
finite."""

_ROUNDING = 1e-13
"""Upper limit of the rounding error of a level. A rounding error could select the value next to an atom."""


def conformal_level_map(below: WeightedRanks, above: WeightedRanks, symmetric: bool) -> LevelMap:
    r"""Return the map R such that the central intervals of R(F) have at least their nominal coverage.

    The scores are :math:`-\Phi^{-1}(F(y))` for the lower bound and :math:`\Phi^{-1}(F(y-))` for the upper
    bound, or the maximum of both if ``symmetric``. The bound at level p is the smallest score with a
    cumulative weight of at least :math:`p (W + 1)`. R is interpolated between its knots. Therefore, the level
    of each knot is the smallest level that requires its score, so that no interpolated bound is too narrow.
    """
    upper, upper_levels = _half(above, symmetric)
    lower, lower_levels = _half(below, symmetric)
    # with atoms or few rows, both halves of the map may overlap around the median
    outside = -lower[::-1] < upper[0] if upper.size else np.ones(lower.size, dtype=bool)
    return LevelMap.from_scores(
        np.concatenate([-lower[::-1][outside], upper]),
        np.concatenate([-lower_levels[::-1][outside], upper_levels]),
    )


def outward(score: FloatArray) -> FloatArray:
    size = np.where(np.isfinite(score), np.abs(score), 0.0)
    return np.asarray(score + _ROUNDING * np.maximum(size, 1.0))


def _half(ranks: WeightedRanks, symmetric: bool) -> tuple[FloatArray, FloatArray]:
    share = np.append(0.0, ranks.cumulative[:-1]) / (ranks.total + 1)
    level = (1 + share) / 2 if symmetric else share
    used = (level > 0.5) & np.isfinite(ranks.values)
    if symmetric:
        used &= ranks.values > 0
    scores, level = ranks.values[used], level[used]
    if not scores.size:
        return scores, level
    first, last = _merged(scores)
    return outward(scores[last]), ndtri(level[first])


def _merged(scores: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first and the last score of each knot.

    The knot has the position of its last score, and the level of its first score.
    """
    gap = np.diff(scores) > _DISTINCT * np.maximum(np.abs(scores[1:]), 1)
    number = np.append(0, np.cumsum(gap))
    number = number * _MOST_KNOTS // max(_MOST_KNOTS, int(number[-1]) + 1)
    first = np.flatnonzero(np.append(True, np.diff(number) > 0))
    return first, np.append(first[1:], scores.size) - 1
