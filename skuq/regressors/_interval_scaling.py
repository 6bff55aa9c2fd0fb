"""The default recalibrator of `UncertaintyRegressor`."""

from __future__ import annotations

from typing import Any

from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.recalibration import BaseRecalibrator, IsotonicRecalibrator, StdScalingRecalibrator

__all__ = ["IntervalScaling"]


class IntervalScaling(BaseRecalibrator):
    """StdScalingRecalibrator for the coverage of 90 % intervals, where there is such a factor.

    There is none for point masses that are wrong, as quantiles that coincide on many equal targets,
    for an infinite standard deviation, or for intervals that do not hold their mean. IsotonicRecalibrator
    then takes its place; where many targets lie beyond all of their distribution, it cannot either, and `fit`
    raises.

    Attributes
    ----------
    recalibrator_ : StdScalingRecalibrator or IsotonicRecalibrator
        The fitted one.
    """

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        try:
            self.recalibrator_: Any = StdScalingRecalibrator(objective="coverage").fit(dist, y, weight)
        except ValueError as no_factor:
            try:
                self.recalibrator_ = IsotonicRecalibrator().fit(dist, y, weight)
            except ValueError:  # no map of levels reaches the targets either
                raise no_factor from None

    def _transform(self, dist: Distribution) -> Distribution:
        recalibrated: Distribution = self.recalibrator_.transform(dist)
        return recalibrated

    def predict(self, dist: Any) -> FloatArray:
        """Return the point prediction, to the last bit that of ``dist`` where only the scale changes."""
        points: FloatArray = self.recalibrator_.predict(dist)
        return points
