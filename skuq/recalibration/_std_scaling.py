"""Recalibration by one factor for every standard deviation."""

from __future__ import annotations

from typing import Literal

import numpy as np

from skuq._typing import FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_option, check_single_coverage
from skuq.distributions import Distribution
from skuq.recalibration._scale_factors import coverage_factor, crps_factor, median_factor
from skuq.recalibration._scaling import ScalingRecalibrator, Spread, overall_factor, read_spread

_OBJECTIVES = ("nll", "crps", "coverage")


class StdScalingRecalibrator(ScalingRecalibrator):
    r"""Multiply every standard deviation by the one factor that fits the calibration rows best.

    It estimates how much too wide or too narrow a model's uncertainty is on the whole. Means stay
    exactly where they are, and so does the order of the standard deviations; the shape of each
    distribution is kept. Prefer `BinnedScalingRecalibrator` or `VarianceIsotonicRecalibrator` where narrow
    and wide predictions are wrong in different ways, and `IsotonicRecalibrator` where the model is biased or
    its distributions have the wrong shape, both from a few hundred calibration rows; this one needs
    only a few tens.

    Parameters
    ----------
    objective : {"nll", "crps", "coverage"}, default="nll"
        What the factor is best for. "nll" makes the mean squared standardised residual 1, which is the
        likeliest factor for Gaussian predictions. "crps" has the least mean CRPS for any family, and outliers
        hardly matter. "coverage" makes the central interval at `coverage` hold that share of the
        calibration rows, whatever the shape, and takes no other interval into account.
    coverage : float, default=0.9
        Nominal coverage of the central interval. It is attained with ``objective="coverage"``; strictly
        between 0 and 1.
    robust : bool, default=False
        True takes for "nll" the median of the residuals' sizes instead of their mean square: half of the
        rows may be outliers. It is no option of the other two, which outliers do not dominate.

    Attributes
    ----------
    factor_ : float
        The factor, without units; above 1 the model was overconfident.
    n_features_in_ : int
        Always 2, the columns of a Distribution as an array.

    See Also
    --------
    BinnedScalingRecalibrator : A factor for each bin of predicted standard deviation.
    VarianceIsotonicRecalibrator : A variance that rises with the predicted one.
    OperatingPointRecalibrator : The factor for a given miss rate or for the least cost.
    IsotonicRecalibrator : A monotone map of the probability levels.

    Notes
    -----
    With :math:`z_i = (y_i - \mu_i) / \sigma_i` the factor of "nll" is
    :math:`\sqrt{\sum w_i z_i^2 / \sum w_i}`, which minimises the Gaussian negative log-likelihood of
    :math:`N(\mu_i, r^2 \sigma_i^2)` over :math:`r` [1]_ [2]_. For any other family it makes the mean
    squared standardised residual 1 and scales about the mean. Because it is a mean of squares, one gross
    outlier among few rows dominates it. If ``robust``, it is the median of
    :math:`|y_i - \mu_i| / m_i`, with :math:`m_i` the median distance from the mean in the predicted
    distribution, :math:`0.6745\,\sigma_i` for a Gaussian. Without outliers that costs precision: its variance
    is 2.7 times as large.

    "crps" minimises :math:`\sum w_i r \, C_i\bigl((y_i - \mu_i) / r\bigr)`, in which :math:`C_i(x)` is the
    CRPS of row i at :math:`\mu_i + x`. It is convex in :math:`r`, and the root of its derivative is found to
    ten digits. Wide rows count more, in proportion to their scale.

    "coverage" takes the smallest factor with which the share of the rows inside is at least `coverage`:
    for a symmetric family the quantile of :math:`|z_i|` over that of the family. The mean must lie inside
    every interval. On new rows the expected coverage is a little lower, by at most 1 / (n + 1);
    `ConformalRecalibrator` has the correction for that.

    A row predicted without uncertainty carries no information about the factor where the prediction
    is exact, and is left out. A bias is not corrected: it counts as spread.

    Cost: O(n) time and memory for "nll"; about a dozen evaluations of CRPS and cdf for "crps", and four
    times as many where distributions have atoms; a sort for the other two.

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

    A gross outlier:

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
                f"`robust` must be False with objective={self.objective!r}, got True: that objective is "
                "robust as it is, because an outlier moves its factor no further however far off it lies."
            )
        spread = read_spread(dist, y, weight)
        # point masses, all of them exact: any factor fits, so take none
        self.factor_ = 1.0 if spread is None else self._best(spread, coverage)

    def _best(self, spread: Spread, coverage: float) -> float:
        if self.objective == "crps":
            return crps_factor(spread)
        if self.objective == "coverage":
            return coverage_factor(spread, coverage)
        return median_factor(spread) if self.robust else overall_factor(spread.z, spread.weight)

    def _factors(self, dist: Distribution) -> FloatArray:
        return np.asarray(self.factor_)
