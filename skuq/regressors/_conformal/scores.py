r"""Conformity scores of the methods that calibrate one model, one class for each method.

The model predicts a band :math:`[l(x), u(x)]` and a scale :math:`s(x)`. The scores of y are its distances
below and above the band in units of the scale,

.. math:: E_l = (l(x) - y) / s(x), \quad E_u = (y - u(x)) / s(x),

and an interval is their inverse: with quantiles :math:`q_l, q_u` of the scores of the calibration rows it is
:math:`[l - s q_l, u + s q_u]`. A symmetric score is :math:`E = \max(E_l, E_u)` with one quantile for both
bounds (Romano et al. 2019, eq. 6); otherwise each bound has its own (theorem 2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skuq._typing import FloatArray
from skuq._validation import check_finite_moments
from skuq.distributions import Distribution, Normal
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist
from skuq.prediction._point import point_and_dist, point_predict
from skuq.prediction._rules.quantile_estimators import find_quantile_loss
from skuq.recalibration._residuals import reaching_scores, standardised_residuals

__all__ = [
    "SCORES",
    "AbsoluteScore",
    "Band",
    "CQRScore",
    "ConformalScore",
    "NormalizedScore",
]


class Band(NamedTuple):
    """Predicted band of each row and the unit of its scores, all of shape (n,) and in the units of y.

    The bounds are equal where the prediction is a point.
    """

    low: FloatArray
    high: FloatArray
    scale: FloatArray


@dataclass(frozen=True)
class ConformalScore(ABC):
    """A conformity score: scores of observed rows, and intervals from quantiles of the scores.

    Parameters
    ----------
    symmetric : bool
        Whether one score serves both bounds, or each bound has its own.
    """

    symmetric: bool

    depends_on_coverage: ClassVar[bool] = False
    """Whether the band, and with it the score of a row, is another one for each coverage."""

    @abstractmethod
    def check_estimator(self, estimator: Any) -> None:
        """Raise if the score cannot be computed from predictions of this estimator."""

    def predict(self, estimator: Any, X: Any) -> Any:
        """Return the prediction of each row of X from which `band` is computed; it has n entries."""
        return self.read(predict_dist(estimator, X))

    def predict_with_point(self, estimator: Any, X: Any) -> tuple[Any, FloatArray]:
        """Return the prediction of `predict` and the estimator's own point predictions."""
        points, dist = point_and_dist(estimator, X)
        return self.read(dist), points

    @abstractmethod
    def read(self, dist: Distribution) -> Any:
        """Return the prediction, given the distributions that the estimator predicts."""

    @abstractmethod
    def band(self, prediction: Any, coverage: float) -> Band:
        """Return the band of each row at a nominal coverage."""

    def score(self, prediction: Any, y: FloatArray, coverage: float) -> FloatArray:
        """Return the scores of observed rows, shape (1, n) if symmetric, else (2, n) for below and above.

        The interval of a symmetric score, as rounded, contains its y.
        """
        distances = self._distances(prediction, y, coverage)
        if not self.symmetric:
            return distances
        return reaching_scores(distances.max(axis=0, keepdims=True), *self.band(prediction, coverage), y)

    def invert(self, prediction: Any, quantile: FloatArray, coverage: float) -> tuple[FloatArray, FloatArray]:
        """Return the interval of the y whose scores are at most the quantiles.

        Parameters
        ----------
        prediction : object
            Of n rows, from `predict`.
        quantile : ndarray of shape (1, n) or (2, n)
            Score quantiles of each row, in the order of `score`; +inf gives an infinite bound.
        coverage : float
            Nominal coverage.

        Returns
        -------
        lower, upper : ndarray of shape (n,)
            Bounds in the units of y. They cross where the interval is empty.
        """
        low, high, scale = self.band(prediction, coverage)
        return -_shift(-low, scale, quantile[0]), _shift(high, scale, quantile[-1])

    def _distances(self, prediction: Any, y: FloatArray, coverage: float) -> FloatArray:
        """Return the signed distances of y below and above the band, in units of the scale, shape (2, n)."""
        low, high, _ = self.band(prediction, coverage)
        return np.stack([low - y, y - high])


def _shift(edge: FloatArray, scale: FloatArray, quantile: FloatArray) -> FloatArray:
    """Return edge + scale * quantile; an infinite quantile is infinite even in units of a scale of 0."""
    infinite = np.isinf(quantile)
    if not infinite.any():
        return edge + scale * quantile
    return np.where(infinite, quantile, edge + scale * np.where(infinite, 0.0, quantile))


class AbsoluteScore(ConformalScore):
    r"""Method "split": the residual :math:`|y - \hat\mu(x)|`, in the units of y.

    The band is the point prediction, the scale 1.
    """

    def check_estimator(self, estimator: Any) -> None:
        """Accept any regressor."""

    def predict(self, estimator: Any, X: Any) -> FloatArray:
        """Return the point predictions, shape (n,)."""
        return point_predict(estimator, X)

    def predict_with_point(self, estimator: Any, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return the point predictions twice."""
        points = self.predict(estimator, X)
        return points, points

    def read(self, dist: Distribution) -> FloatArray:
        """Return the mean."""
        return dist.mean()

    def band(self, prediction: FloatArray, coverage: float) -> Band:
        """Return the point prediction, whatever the coverage."""
        return Band(prediction, prediction, np.broadcast_to(1.0, prediction.shape))


class NormalizedScore(ConformalScore):
    r"""Method "normalized": the residual in standard deviations, :math:`|y - \mu(x)| / \sigma(x)`.

    The band is the predicted mean, the scale the predicted standard deviation.
    """

    def check_estimator(self, estimator: Any) -> None:
        """Raise if the estimator predicts no distribution."""
        _check_predicts_dist(estimator, "normalized", "UncertaintyRegressor")

    def read(self, dist: Distribution) -> Normal:
        """Return the mean and standard deviation of the predicted distributions, which must be finite."""
        mean, std = check_finite_moments(
            dist,
            "mean",
            "std",
            subject="with method 'normalized', `estimator` must predict",
            remedy="Method 'cqr' needs neither.",
        )
        return Normal(mean, std)

    def band(self, prediction: Normal, coverage: float) -> Band:
        """Return the mean, whatever the coverage."""
        return Band(prediction.loc, prediction.loc, prediction.scale)

    def _distances(self, prediction: Normal, y: FloatArray, coverage: float) -> FloatArray:
        z = standardised_residuals(prediction, y, name="estimator").z
        return np.stack([-z, z])


class CQRScore(ConformalScore):
    """Method "cqr": the distance to the predicted interval (conformalized quantile regression).

    The band is the predicted interval of the nominal coverage, the scale 1; a y inside has a negative score.
    """

    depends_on_coverage = True

    def check_estimator(self, estimator: Any) -> None:
        """Raise if the estimator predicts no distribution."""
        is_quantile_model = find_quantile_loss(estimator) is not None
        wrapper = "MultiQuantileRegressor" if is_quantile_model else "UncertaintyRegressor"
        _check_predicts_dist(estimator, "cqr", wrapper)

    def read(self, dist: Distribution) -> Distribution:
        """Return the predicted distributions."""
        return dist

    def band(self, prediction: Distribution, coverage: float) -> Band:
        """Return the predicted interval, at coverage 0 the median."""
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


def _check_predicts_dist(estimator: Any, method: str, wrapper: str) -> None:
    """Raise if the estimator predicts no distribution, and name the regressor that adds one."""
    if supports_dist(estimator):
        return
    name = type(estimator).__name__
    raise NotProbabilisticError(
        f"`method` {method!r} needs an estimator that gives a predictive distribution, and {name} gives "
        f"none. Wrap it: ConformalRegressor({wrapper}({name}(...)), {method!r}), or use method 'split'."
    )


SCORES: dict[str, type[ConformalScore]] = {
    "split": AbsoluteScore,
    "normalized": NormalizedScore,
    "cqr": CQRScore,
}
"""The score of each method that calibrates one model."""
