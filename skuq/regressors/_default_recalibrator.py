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


class DefaultRecalibrator(BaseRecalibrator):
    """Recalibrator that shifts `Quantiles`, and scales the standard deviation of other distributions."""

    # StdScalingRecalibrator fits the factor that gives 90 % intervals their nominal coverage. No such factor
    # exists for wrong point masses, for infinite standard deviations, or for intervals that exclude their
    # mean. IsotonicRecalibrator is then used instead. StdScalingRecalibrator is also used for quantiles with
    # an epistemic part, because a shift would remove the epistemic part.

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
            except ValueError:  # the isotonic map cannot be fitted either
                raise no_factor from None

    def _transform(self, dist: Distribution) -> Distribution:
        recalibrated: Distribution = self.recalibrator_.transform(dist)
        return recalibrated

    def predict(self, dist: Any) -> FloatArray:
        points: FloatArray = self.recalibrator_.predict(dist)
        return points
