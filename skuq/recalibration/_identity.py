"""A recalibrator without an effect, for comparisons."""

from __future__ import annotations

from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.recalibration._base import BaseRecalibrator


class IdentityRecalibrator(BaseRecalibrator):
    """Return each predictive distribution unchanged.

    Use this class in a grid search as the candidate without recalibration. "passthrough" cannot be used for
    this purpose, because a Pipeline that ends with "passthrough" has no ``predict``.

    See Also
    --------
    StdScalingRecalibrator : One factor for all standard deviations.
    IsotonicRecalibrator : A monotone function of the probability levels.

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
