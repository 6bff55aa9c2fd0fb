"""Recalibration by one factor for every standard deviation, in closed form."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skuq._typing import ArrayLike, FloatArray
from skuq.distributions import Distribution, affine
from skuq.recalibration._base import BaseRecalibrator, check_dist

_ROUNDING = 1e-12
"""A residual below this share of the largest |y| is rounding, and the prediction exact."""


class StdScalingRecalibrator(BaseRecalibrator):
    r"""Multiply every standard deviation by the one factor that fits the calibration rows best.

    It answers how much too wide or too narrow a model's uncertainty is on the whole. Means stay
    exactly where they are, and so does the order of the standard deviations; the shape of each
    distribution is kept. Prefer `IsotonicRecalibrator` where the model is biased or its
    distributions have the wrong shape and there are a few hundred calibration rows; this one needs
    only a few tens.

    Attributes
    ----------
    factor_ : float
        The factor, without units; above 1 the model was overconfident.
    n_features_in_ : int
        Always 2, the columns of a Distribution seen as an array.

    See Also
    --------
    IsotonicRecalibrator : A monotone map of the probability levels.
    IdentityRecalibrator : The recalibrator that changes nothing.

    Notes
    -----
    With :math:`z_i = (y_i - \mu_i) / \sigma_i` the factor is :math:`\sqrt{\sum w_i z_i^2 / \sum w_i}`,
    which minimises the Gaussian negative log-likelihood of :math:`N(\mu_i, r^2 \sigma_i^2)` over
    :math:`r` [1]_ [2]_. For any other family it makes the mean squared standardised residual 1 and
    scales about the mean. A row predicted without uncertainty carries no information about the
    factor where the prediction is exact, and is left out.

    Because the factor is a mean of squares, one gross outlier among few rows dominates it.

    Cost: O(n) time and memory.

    References
    ----------
    .. [1] M.-H. Laves, S. Ihler, J. F. Fast, L. A. Kahrs, T. Ortmaier, "Well-calibrated regression
       uncertainty in medical imaging with deep learning", MIDL 2020, PMLR 121, eq. 9.
    .. [2] D. Levi, L. Gispan, N. Giladi, E. Fetaya, "Evaluating and calibrating uncertainty
       prediction in regression tasks", Sensors 22, 5540, 2022. https://doi.org/10.3390/s22155540

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import StdScalingRecalibrator
    >>> dist = Normal([0.0, 0.0, 10.0, 10.0], [1.0, 1.0, 2.0, 2.0])
    >>> recalibrator = StdScalingRecalibrator().fit(dist, [3.0, -3.0, 16.0, 4.0])
    >>> recalibrator.factor_
    3.0
    >>> recalibrator.transform(dist).std()
    array([3., 3., 6., 6.])
    """

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        residual, std = y - dist.mean(), dist.std()
        _check_moments(residual, std, _ROUNDING * np.abs(y).max())
        informative = std > 0
        if not informative.any():  # point masses, all of them exact: any factor fits, so take none
            self.factor_ = 1.0
            return
        row_weight = None if weight is None else weight[informative]
        with np.errstate(over="ignore"):  # an infinite factor is reported below
            z = residual[informative] / std[informative]
            factor = float(np.sqrt(np.average(z * z, weights=row_weight)))
        if not 0 < factor < np.inf:
            raise ValueError(
                f"`y` gives a scaling factor of {factor:g}, so no distribution is left to scale: "
                + (
                    "it equals the predicted mean in every row. Fit on rows that the model has not seen."
                    if factor == 0
                    else "it is too many standard deviations away from the predictions."
                )
            )
        self.factor_ = factor

    def _transform(self, dist: Distribution) -> Distribution:
        if self.factor_ == 1:
            return dist
        return affine(dist, dist.mean() * (1.0 - self.factor_), self.factor_)

    def predict(self, dist: Distribution | ArrayLike) -> FloatArray:
        """Return the point prediction, which is that of the input, to the last bit.

        Parameters
        ----------
        dist : Distribution of n rows, or array-like of shape (n, 2)
            Predictions of the model that the recalibrator was fitted for.

        Returns
        -------
        y_pred : ndarray of shape (n,)
            In the units of `dist`.
        """
        check_is_fitted(self)
        return check_dist(dist).mean()


def _check_moments(residual: FloatArray, std: FloatArray, rounding: float) -> None:
    """Raise where a row has no finite standardised residual; within `rounding` a prediction is exact."""
    finite = np.isfinite(std) & np.isfinite(residual)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"`dist` must have a finite mean and standard deviation in every row, got std {std[row]} at row "
            f"{row}. IsotonicRecalibrator needs neither."
        )
    impossible = (std == 0) & (np.abs(residual) > rounding)
    if impossible.any():
        row = int(np.argmax(impossible))
        raise ValueError(
            f"`dist` is certain (standard deviation 0) at row {row}, but `y` differs from its mean by "
            f"{residual[row]:g}; no factor can mend that. Use a method whose predictions have spread."
        )
