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

    StdScalingRecalibrator fits one factor for the coverage of 90 % intervals. No such factor exists for wrong
    point masses, infinite standard deviations, or intervals that exclude their mean. IsotonicRecalibrator
    then replaces it; `fit` raises if it cannot reach the targets either. Quantiles with an epistemic part
    also get a factor, since a shift would lose this part.
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
        """Return the point prediction, unchanged to the last bit if only the scale changes."""
        points: FloatArray = self.recalibrator_.predict(dist)
        return points
