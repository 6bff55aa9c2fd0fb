"""Recalibration by one factor for all standard deviations."""

from __future__ import annotations

from typing import Literal

import numpy as np

from skuq._typing import FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_option, check_single_coverage
from skuq.distributions import Distribution
from skuq.recalibration._scale_factors import coverage_factor, crps_factor, median_factor
from skuq.recalibration._scaling import (
    RowsWithUncertainty,
    ScalingRecalibrator,
    overall_factor,
    rows_with_uncertainty,
)

_OBJECTIVES = ("nll", "crps", "coverage")


class StdScalingRecalibrator(ScalingRecalibrator):
    r"""Multiply all standard deviations by one factor that is fitted to the calibration rows.

    The class corrects the overall width of the distributions. The means, the order of the rows by standard
    deviation and the shape of each distribution do not change. A few tens of calibration rows are enough.
    Prefer `BinnedScalingRecalibrator` or `VarianceIsotonicRecalibrator` if narrow and wide predictions need
    different factors and there are a few hundred rows. Prefer `IsotonicRecalibrator` if the model is biased,
    or if its distributions have the wrong shape.

    Parameters
    ----------
    objective : {"nll", "crps", "coverage"}, default="nll"
        Criterion for the factor. With "nll", the mean squared standardized residual becomes 1. For normal
        predictions, this factor maximizes the likelihood. "crps" minimizes the mean CRPS. Outliers then have
        little influence. With "coverage", the central intervals with nominal coverage `coverage` contain this
        share of the calibration targets. Intervals with other coverages have no influence.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Strictly between 0 and 1. Only used with
        ``objective="coverage"``.
    robust : bool, default=False
        Only used with "nll". With True, the factor is computed from the median of the absolute residuals
        instead of the mean squared residual. Up to half of the rows may then be outliers. Must be False with
        other objectives, because outliers already have a limited influence there.

    Attributes
    ----------
    factor_ : float
        The factor, without units. Above 1 if the model was overconfident.
    n_features_in_ : int
        Always 2. A Distribution is treated as an array with two columns: mean and standard deviation.

    See Also
    --------
    BinnedScalingRecalibrator : One factor for each bin of predicted standard deviations.
    VarianceIsotonicRecalibrator : A variance that increases with the predicted variance.
    OperatingPointRecalibrator : Intervals with a given miss rate or with the lowest cost.
    IsotonicRecalibrator : A monotone function of the probability levels.

    Notes
    -----
    Let :math:`z_i = (y_i - \mu_i) / \sigma_i`. The factor of "nll" is :math:`\sqrt{\sum w_i z_i^2 / \sum
    w_i}`. It minimizes the negative log-likelihood of :math:`N(\mu_i, r^2 \sigma_i^2)` over :math:`r` [1]_
    [2]_. For any family, the mean squared standardized residual becomes 1. A single gross outlier may
    dominate the factor if there are few rows. With ``robust=True``, the factor is the median of :math:`|y_i -
    \mu_i| / m_i`, where :math:`m_i` is the median distance from the mean in the predicted distribution. It is
    :math:`0.6745\,\sigma_i` for a normal distribution. Without outliers, the variance of the robust factor is
    2.7 times the variance of the other factor.

    "crps" minimizes :math:`\sum w_i r \, C_i\bigl((y_i - \mu_i) / r\bigr)`, where :math:`C_i(x)` is the CRPS
    of row i at :math:`\mu_i + x`. The sum is a convex function of :math:`r`. The root of its derivative is
    computed to ten digits. The influence of a row is proportional to its scale.

    "coverage" chooses the smallest factor for which the share of covered targets is at least `coverage`. For
    a symmetric family, this factor is the quantile of :math:`|z_i|` divided by the quantile of the family.
    All intervals must contain their means. For new rows, the expected coverage is lower by at most 1 / (n +
    1). `~skuq.conformal.ConformalRecalibrator` corrects this difference.

    If a predicted point mass equals the target of its row, the row contains no information about the factor
    and is ignored. A bias is not corrected, but it makes the distributions wider.

    Cost: O(n) time and memory for "nll". "coverage" and ``robust=True`` need one sort. "crps" needs about a
    dozen evaluations of the CRPS and the distribution function, or about 50 if distributions have atoms.

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
    >>> dist = Normal([0.0, 0.0, 10.0, 10.0] * 5, [1.0, 1.0, 2.0, 2.0] * 5)
    >>> recalibrator = StdScalingRecalibrator().fit(dist, [3.0, -3.0, 16.0, 4.0] * 5)
    >>> recalibrator.factor_
    3.0
    >>> recalibrator.transform(dist[:4]).std()
    array([3., 3., 6., 6.])

    This example shows the effect of a gross outlier:

    >>> y = [0.5, -0.7, 11.0, 8.6] * 5
    >>> y[-1] = 900.0
    >>> StdScalingRecalibrator().fit(dist, y).factor_ > 90
    True
    >>> round(StdScalingRecalibrator(robust=True).fit(dist, y).factor_, 2)
    0.89
    """

    def __init__(
        self,
        *,
        objective: Literal["nll", "crps", "coverage"] = "nll",
        coverage: float = DEFAULT_COVERAGE,
        robust: bool = False,
    ) -> None:
        self.objective = objective
        self.coverage = coverage
        self.robust = robust

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        check_option(self.objective, "objective", _OBJECTIVES)
        check_option(self.robust, "robust", (True, False))
        coverage = check_single_coverage(self.coverage)
        if self.robust and self.objective != "nll":
            raise ValueError(
                f"`robust` must be False with objective={self.objective!r}, got True. With this "
                "objective, outliers already have a limited influence. Leave out `robust`."
            )
        spread = rows_with_uncertainty(dist, y, weight)
        # any factor is right if all rows are exact point masses
        self.factor_ = 1.0 if spread is None else self._best(spread, coverage)

    def _best(self, spread: RowsWithUncertainty, coverage: float) -> float:
        if self.objective == "crps":
            return crps_factor(spread)
        if self.objective == "coverage":
            return coverage_factor(spread, coverage)
        return median_factor(spread) if self.robust else overall_factor(spread.z, spread.weight)

    def _factors(self, dist: Distribution) -> FloatArray:
        return np.asarray(self.factor_)
