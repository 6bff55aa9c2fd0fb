"""Recalibration by the empirical distribution of the standardized residuals."""

from __future__ import annotations

import numpy as np

from skuq._typing import FloatArray
from skuq._validation import check_option
from skuq.distributions import Distribution, Normal, SharedEmpirical
from skuq.distributions._recalibrated import Recalibrated
from skuq.recalibration._base import BaseRecalibrator
from skuq.recalibration._isotonic import IsotonicRecalibrator
from skuq.recalibration._residuals import finite_moments, standardized_residuals


class EmpiricalRecalibrator(BaseRecalibrator):
    r"""Replace the shape of every distribution with the distribution of the standardized residuals.

    The class estimates the distribution of the residuals divided by the predicted standard deviations. Each
    row gets this shape with its own mean and scale. This corrects a bias that is proportional to the standard
    deviation, a common factor of the scale, skewness, and tails that are too heavy or too light. The input
    may have any shape. In contrast to `IsotonicRecalibrator`, the class also corrects an ensemble whose
    members never reach the target. Prefer `IsotonicRecalibrator` to keep the shape of each row. Prefer
    `StdScalingRecalibrator` if there are fewer than about 100 rows, and
    `~skuq.conformal.ConformalRecalibrator` if you need a guarantee.

    Parameters
    ----------
    smooth : bool, default=True
        With True, the shape is a continuous distribution with a density and with tails beyond the largest
        residual. With False, each residual is an atom, as in the published method. Moments are then exact,
        but the distribution has no density and no values beyond the largest residual.

    Attributes
    ----------
    bias_ : float
        Mean of the standardized residuals, without units. It is 0 if the model has no bias.
    factor_ : float
        Standard deviation of the standardized residuals. Above 1 if the model was overconfident.
    level_map_ : LevelMap or None
        Function of the probability levels that converts the normal distribution to the distribution of the
        residuals. None if ``smooth=False``.
    members_ : ndarray or None
        Sorted standardized residuals. None if ``smooth=True``.
    n_features_in_ : int
        Always 2, because ``np.asarray(dist)`` has two columns.

    See Also
    --------
    IsotonicRecalibrator : A monotone function of the probability levels. It keeps the shape of each row.
    skuq.conformal.ConformalRecalibrator : Intervals from the ranks of the same residuals, with guaranteed
        coverage.
    skuq.distributions.SharedEmpirical : The returned distribution with ``smooth=False``.

    Notes
    -----
    Let :math:`Q_z` be the quantile function of :math:`z_i = (y_i - \mu_i) / \sigma_i` over the calibration
    rows. The recalibrated quantile at level p is :math:`\mu + \sigma \, Q_z(p)` [1]_. The mean becomes
    :math:`\mu + \sigma \bar z`, and the standard deviation becomes :math:`\sigma \, \mathrm{std}(z)`.

    With ``smooth=True``, a normal distribution with the mean and the standard deviation of the residuals is
    recalibrated with an `IsotonicRecalibrator` that is fitted to the residuals. :math:`Q_z` is the quantile
    function of the result. The map of the recalibrator is linear between ranks, and the tails beyond the
    outermost residuals are normal. Mean and standard deviation therefore differ slightly from the formulas
    above.

    If a predicted point mass equals the target of its row, the row is ignored. The shape is the same for all
    rows. If distributions are too narrow in one region and too wide in another, only the average width is
    corrected.

    Cost: O(n log n) time and O(n) memory. The fitted recalibrator stores n numbers, or a few tens of numbers
    with ``smooth=True``.

    References
    ----------
    .. [1] E. Zelikman, C. Healy, S. Zhou, A. Avati, "CRUDE: Calibrating regression uncertainty
       distributions empirically", 2020. https://doi.org/10.48550/arXiv.2005.12496

    Examples
    --------
    The noise is skewed. The model has a negative bias, and its standard deviation is half of the true value:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import EmpiricalRecalibrator
    >>> y = 10 + np.random.default_rng(0).exponential(2.0, size=2000)
    >>> dist = Normal(np.full(2000, 11.0), np.full(2000, 1.0))
    >>> recalibrated = EmpiricalRecalibrator().fit(dist, y).transform(dist[:1])
    >>> recalibrated.mean().round(1), recalibrated.std().round(1)
    (array([12.]), array([2.1]))
    >>> recalibrated.interval(0.9).round(1)  # the true interval is 10.1 to 16.0
    array([[10.1, 16.1]])
    """

    def __init__(self, *, smooth: bool = True) -> None:
        self.smooth = smooth

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        check_option(self.smooth, "smooth", (True, False))
        _, std, z = standardized_residuals(dist, y)
        self.bias_, self.factor_, self.level_map_, self.members_, self._weights = 0.0, 1.0, None, None, None
        informative = std > 0
        if not informative.any():  # all rows are exact point masses
            return
        z, weight = z[informative], weight[informative]
        self.bias_ = float(np.average(z, weights=weight))
        self.factor_ = float(np.sqrt(np.average(np.square(z - self.bias_), weights=weight)))
        if not 1e-12 * np.abs(z).max() < self.factor_ < np.inf:
            raise ValueError(
                "`y` must have standardized residuals that differ between rows, got "
                f"{self.bias_:g} in all {len(z)} rows with positive weight. Fit to more rows that the "
                "model was not trained on."
            )
        if self.smooth:
            gaussian = Normal(np.full(len(z), self.bias_), self.factor_)
            self.level_map_ = IsotonicRecalibrator().fit(gaussian, z, weight).level_map_
        else:
            shape = SharedEmpirical(0.0, 1.0, z, weight if (weight != 1).any() else None)
            self.members_, self._weights = shape.members, shape.weights

    def _transform(self, dist: Distribution) -> Distribution:
        mean, std = finite_moments(dist)
        if self.level_map_ is not None:
            return Recalibrated(Normal(mean + self.bias_ * std, self.factor_ * std), self.level_map_)
        if self.members_ is not None:
            return SharedEmpirical(mean, std, self.members_, self._weights)
        return dist
