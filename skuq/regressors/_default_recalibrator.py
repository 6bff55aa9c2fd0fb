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
    """QuantileShiftRecalibrator for quantiles, StdScalingRecalibrator for other distributions.

    StdScalingRecalibrator fits the factor with which 90 % intervals have nominal coverage. No such factor
    exists for wrong point masses, infinite standard deviations, or intervals that exclude their mean. In
    these cases, IsotonicRecalibrator is used. `fit` raises if neither recalibrator can be fitted. Quantiles
    with an epistemic part also get a factor, because a shift would remove the epistemic part.
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
            except ValueError:  # a map of levels cannot reach the targets either
                raise no_factor from None

    def _transform(self, dist: Distribution) -> Distribution:
        recalibrated: Distribution = self.recalibrator_.transform(dist)
        return recalibrated

    def predict(self, dist: Any) -> FloatArray:
        """Return the point prediction; it is exactly the same if only the scale changes."""
        points: FloatArray = self.recalibrator_.predict(dist)
        return points
