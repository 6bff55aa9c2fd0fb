"""Recalibration by the empirical shape of the standardised residuals."""

from __future__ import annotations

import numpy as np

from skuq._typing import FloatArray
from skuq._validation import check_option
from skuq.distributions import Distribution, Normal, Recalibrated, SharedEmpirical
from skuq.recalibration._base import BaseRecalibrator
from skuq.recalibration._isotonic import IsotonicRecalibrator
from skuq.recalibration._residuals import finite_moments, standardised_residuals


class EmpiricalRecalibrator(BaseRecalibrator):
    r"""Replace the shape of every distribution by that of the standardised residuals.

    It estimates how residuals, counted in predicted standard deviations, are really distributed, and
    gives every row that one shape at its own mean and scale. So it corrects bias that grows with the
    standard deviation, a scale that is wrong throughout, skewness and heavy or light tails, and, other
    than `IsotonicRecalibrator`, it does so whatever the shape of the input: for an ensemble whose
    members never reach the truth, and for rows of different shapes. Prefer `IsotonicRecalibrator` where
    each row's own shape is to be kept, `StdScalingRecalibrator` with fewer than about 100 rows, and
    `ConformalRecalibrator` for a guarantee.

    Parameters
    ----------
    smooth : bool, default=True
        True gives a continuous distribution with a density and tails beyond the largest residual. False
        gives the residuals themselves as atoms, as the method was published: exact moments, no density,
        and no value beyond the residuals of the calibration rows.

    Attributes
    ----------
    bias_ : float
        Mean of the standardised residuals, without units; 0 for a model without bias.
    factor_ : float
        Their standard deviation; above 1 the model was overconfident.
    level_map_ : LevelMap or None
        Departure of their shape from the Gaussian one, if ``smooth``.
    members_ : ndarray or None
        The standardised residuals, sorted, if not ``smooth``.
    n_features_in_ : int
        Always 2, the columns of a Distribution as an array.

    See Also
    --------
    IsotonicRecalibrator : A monotone map of the probability levels, which keeps each row's shape.
    ConformalRecalibrator : The same residuals with ranks that guarantee coverage.
    skuq.distributions.SharedEmpirical : What it returns if not ``smooth``.

    Notes
    -----
    With :math:`z_i = (y_i - \mu_i) / \sigma_i` of the calibration rows and :math:`Q_z` their quantile
    function, the recalibrated quantile is :math:`\mu + \sigma \, Q_z(p)` [1]_. Mean and standard
    deviation become :math:`\mu + \sigma \bar z` and :math:`\sigma \, \mathrm{std}(z)`.

    If ``smooth``, :math:`Q_z` is that of the Gaussian of this mean and standard deviation, mapped by
    what `IsotonicRecalibrator` learns from the residuals: linear between ranks spread as there, the
    Gaussian's tails beyond the outermost residuals, and so a mean and a standard deviation that differ
    a little from those above.

    A row that is predicted without uncertainty, and rightly so, has no residual to learn from and is
    left out. The shape is the same for all rows: what is too narrow in one region and too wide in
    another comes out right only on average.

    Cost: O(n log n) time and O(n) memory; the fitted object holds n numbers, or some tens if
    ``smooth``.

    References
    ----------
    .. [1] E. Zelikman, C. Healy, S. Zhou, A. Avati, "CRUDE: Calibrating regression uncertainty
       distributions empirically", 2020. https://doi.org/10.48550/arXiv.2005.12496

    Examples
    --------
    A model that is too low and half as uncertain as it should be, and noise that is skewed:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import EmpiricalRecalibrator
    >>> y = 10 + np.random.default_rng(0).exponential(2.0, size=2000)
    >>> dist = Normal(np.full(2000, 11.0), np.full(2000, 1.0))
    >>> recalibrated = EmpiricalRecalibrator().fit(dist, y).transform(dist[:1])
    >>> recalibrated.mean().round(1), recalibrated.std().round(1)
    (array([12.]), array([2.1]))
    >>> recalibrated.interval(0.9).round(1)  # the truth is 10.1 to 16.0
    array([[10.1, 16.1]])
    """

    def __init__(self, *, smooth: bool = True) -> None:
        self.smooth = smooth

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        check_option(self.smooth, "smooth", (True, False))
        _, std, z = standardised_residuals(dist, y)
        self.bias_, self.factor_, self.level_map_, self.members_, self._weights = 0.0, 1.0, None, None, None
        informative = std > 0
        if not informative.any():  # point masses, all of them exact: there is nothing to correct
            return
        z, weight = z[informative], None if weight is None else weight[informative]
        self.bias_ = float(np.average(z, weights=weight))
        self.factor_ = float(np.sqrt(np.average(np.square(z - self.bias_), weights=weight)))
        if not 1e-12 * np.abs(z).max() < self.factor_ < np.inf:
            raise ValueError(
                f"`y` must be off the predictions by different numbers of standard deviations, got "
                f"{self.bias_:g} in all {len(z)} rows that count, so there is no shape to learn. Fit on "
                "more rows, which the model is not trained on."
            )
        if self.smooth:
            gaussian = Normal(np.full(len(z), self.bias_), self.factor_)
            self.level_map_ = IsotonicRecalibrator().fit(gaussian, z, weight).level_map_
        else:
            shape = SharedEmpirical(0.0, 1.0, z, weight)
            self.members_, self._weights = shape.members, shape.weights

    def _transform(self, dist: Distribution) -> Distribution:
        mean, std = finite_moments(dist)
        if self.level_map_ is not None:
            return Recalibrated(Normal(mean + self.bias_ * std, self.factor_ * std), self.level_map_)
        if self.members_ is not None:
            return SharedEmpirical(mean, std, self.members_, self._weights)
        return dist
