"""The default recalibrator of `UncertaintyRegressor`."""

from __future__ import annotations

from typing import Any

from skuq._typing import FloatArray
from skuq.distributions import Distribution, Quantiles
from skuq.recalibration import (
    BaseRecalibrator,
    IsotonicRecalibrator,
    QuantileShiftRecalibrator,
    StdScalingRecalibrator,
)

__all__ = ["DefaultRecalibrator"]


class DefaultRecalibrator(BaseRecalibrator):
    """QuantileShiftRecalibrator for quantiles, one factor for other distributions.

    The factor is that of StdScalingRecalibrator for the coverage of 90 % intervals. There is none for point
    masses that are wrong, for an infinite standard deviation, or for intervals that do not hold their mean.
    IsotonicRecalibrator then takes its place; where many targets lie beyond all of their distribution, it
    cannot either, and `fit` raises. Quantiles with an epistemic part, which a shift would lose, have a factor
    too.

    Attributes
    ----------
    recalibrator_ : QuantileShiftRecalibrator, StdScalingRecalibrator or IsotonicRecalibrator
        The fitted one.
    """

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        self.recalibrator_: Any
        if isinstance(dist, Quantiles) and dist.epistemic_scale is None:
            self.recalibrator_ = QuantileShiftRecalibrator().fit(dist, y, weight)
            return
        try:
            self.recalibrator_ = StdScalingRecalibrator(objective="coverage").fit(dist, y, weight)
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
