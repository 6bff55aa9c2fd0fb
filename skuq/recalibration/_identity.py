"""Recalibrator without effect, as a reference."""

from __future__ import annotations

from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.recalibration._base import BaseRecalibrator


class IdentityRecalibrator(BaseRecalibrator):
    """Return every predictive distribution unchanged.

    Use it in a grid of recalibrators as the reference without recalibration. (A Pipeline that ends in
    "passthrough" has no ``predict``.)

    See Also
    --------
    StdScalingRecalibrator : One factor for every standard deviation.
    IsotonicRecalibrator : A monotone map of the probability levels.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import IdentityRecalibrator
    >>> dist = Normal([0.0, 1.0], [1.0, 2.0])
    >>> IdentityRecalibrator().fit(dist, [0.5, 1.5]).transform(dist) is dist
    True
    """

    _learns_by_rows = False

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        pass

    def _transform(self, dist: Distribution) -> Distribution:
        return dist
