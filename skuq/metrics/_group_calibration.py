"""Group calibration: errors and predicted standard deviations in groups of similar uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_integer, check_option
from skuq.distributions import Distribution
from skuq.metrics._binning import STRATEGIES, Binning, bin_means
from skuq.metrics._inputs import check_forecast, finite_moment
from skuq.metrics._spec import Computation, WeightFunction, metric, one_by_one, value_of

ON = ("std", "variance")


def bins_variance(strategy: str, on: str) -> bool:
    return on == "variance" and strategy == "uniform"


def normalized_error(n_bins: int, strategy: str) -> Computation:
    check_integer(n_bins, "n_bins")
    check_option(strategy, "strategy", STRATEGIES)

    def computation(y: FloatArray, dist: Distribution) -> WeightFunction:
        squares = np.atleast_2d(np.square(y - finite_moment(dist, "mean")))
        std = finite_moment(dist, "std")
        binning, variance = Binning(std, n_bins, strategy), np.square(std)

        def of_weight(weight: FloatArray) -> FloatArray:
            rmv, *rmse = np.sqrt(bin_means(binning.bins(weight), variance, *squares)[1])
            gap = np.abs(rmse - rmv)
            relative = np.where(gap == 0, 0.0, np.inf)
            np.divide(gap, rmv, out=relative, where=rmv > 0)
            return np.asarray(relative.mean(axis=-1)).reshape(y.shape[:-1])

        return one_by_one(of_weight)

    return computation


def calibrated_ence(n: float, *, n_bins: int = 10, strategy: str = "quantile") -> float:
    return float(np.sqrt(n_bins / (np.pi * n))) if strategy == "quantile" else np.nan


@metric(
    "ence",
    title="ENCE",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="moments",
    small_sample=True,
    source="Levi et al. 2022; Wibbeke et al. 2025, eq. 14-16",
    meaning="errors are {percent} larger or smaller than predicted on average",
    calibrated=calibrated_ence,
    kernel=normalized_error,
    of_many_targets=True,
    blocks="std",
)
def expected_normalized_calibration_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 10,
    strategy: str = "quantile",
) -> float:
    r"""Return the expected normalized calibration error (ENCE).

    The smaller the better, minimum is zero. Rows are binned by their predicted standard deviation. The error
    of a bin is the difference between the root mean squared error and the root mean predicted variance,
    divided by the root mean predicted variance. ENCE is the mean over the bins. The metric is defined for
    every distribution with a finite mean and standard deviation. The metric is not proper: a forecast that
    ignores X can have a better value than a useful, slightly miscalibrated model (see the example). Use the
    metric as a constraint (`skuq.model_selection.refit_best`), and select models by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. Mean and standard deviation must be finite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    n_bins : int, default=10
        Number of bins. About 100 rows per bin are enough [2]_.
    strategy : {"quantile", "uniform"}, default="quantile"
        Division of the rows by their predicted standard deviation (sigma). "quantile" makes bins of equal
        total weight, as in [1]_. If several rows on the edge of two such bins have the same sigma, each of
        these rows counts partly in both bins. The result therefore does not depend on the order of the rows.
        "uniform" makes bins of equal width from the smallest to the largest sigma, and ignores empty bins, as
        in the package netcal. Sigmas that agree to nine digits count as equal. If sigma is constant, there is
        one bin. The default of `uncertainty_calibration_error` is "uniform", because its paper uses bins of
        equal width.

    Returns
    -------
    error : float
        Non-negative. For a calibrated Gaussian forecast, the expected error is about ``sqrt(n_bins / (pi *
        n))``. The expected error is larger if sigmas differ widely inside a bin, or if bins of equal width
        hold few rows. The error is infinite if all sigmas in a bin are 0 and some errors in the bin are not
        0.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    mean_absolute_calibration_error : Calibration of the probabilities over all rows.

    Notes
    -----
    .. math:: \mathrm{ENCE} = \frac1B \sum_{b} \frac{|\mathrm{RMV}(b) - \mathrm{RMSE}(b)|}{\mathrm{RMV}(b)}

    where :math:`\mathrm{RMV}(b)^2` is the mean of :math:`\sigma_i^2` in bin b, and :math:`\mathrm{RMSE}(b)^2`
    is the mean of :math:`(y_i - \mu_i)^2` in bin b. The cost is one sort, O(n log n).

    References
    ----------
    .. [1] Levi et al. (2022), Evaluating and calibrating uncertainty prediction in regression tasks.
       https://doi.org/10.3390/s22155540
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 14-16 and
       section 5. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_loss, expected_normalized_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = Normal(x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = Normal(np.zeros(2000), np.full(2000, np.sqrt(1.09)))  # the same for every row
    >>> [round(expected_normalized_calibration_error(y, dist), 2) for dist in (useful, climatology)]
    [0.25, 0.0]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    given = check_forecast(y_true, y_pred, sample_weight)
    return value_of(normalized_error(n_bins, strategy), *given)


def squared_error_gap(n_bins: int, strategy: str, on: str) -> Computation:
    check_integer(n_bins, "n_bins")
    check_option(strategy, "strategy", STRATEGIES)
    check_option(on, "on", ON)

    def computation(y: FloatArray, dist: Distribution) -> WeightFunction:
        squares = np.atleast_2d(np.square(y - finite_moment(dist, "mean")))
        std = finite_moment(dist, "std")
        variance = np.square(std)
        binning = Binning(variance if bins_variance(strategy, on) else std, n_bins, strategy)

        def of_weight(weight: FloatArray) -> FloatArray:
            total, (predicted, *observed) = bin_means(binning.bins(weight), variance, *squares)
            gap = np.abs(np.array(observed) - predicted) @ total / total.sum()
            return np.asarray(gap).reshape(y.shape[:-1])

        return one_by_one(of_weight)

    return computation


@metric(
    "uce",
    title="UCE",
    units=2,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="moments",
    small_sample=True,
    source="Laves et al. 2020; Wibbeke et al. 2025, eq. 18-20",
    meaning="mean squared errors differ from predicted variances by {value} on average",
    kernel=squared_error_gap,
    of_many_targets=True,
    blocks="std",
)
def uncertainty_calibration_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 10,
    strategy: str = "uniform",
    on: str = "variance",
) -> float:
    r"""Return the uncertainty calibration error (UCE): the gap between variance and squared error.

    The smaller the better, minimum is zero. Rows are binned by their predicted variance. The gap of a bin is
    the difference between the mean squared error and the mean predicted variance. UCE is the mean gap over
    the bins, weighted by the number of rows. The gaps are in squared units of y, so the metric is dominated
    by bins with a large variance and by single large errors. In contrast,
    `expected_normalized_calibration_error` is the unweighted mean of relative gaps. The metric is not proper:
    a forecast that ignores X can have a better value than a useful, slightly miscalibrated model (see the
    example). Use the metric as a constraint, and select models by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. Mean and standard deviation must be finite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    n_bins : int, default=10
        Number of bins. About 100 rows per bin are enough [2]_.
    strategy : {"uniform", "quantile"}, default="uniform"
        "uniform" makes bins of equal width over the range of the predicted uncertainty, as in [1]_ and in the
        package netcal. "quantile" makes bins of equal total weight, as in
        `expected_normalized_calibration_error`. If sigma is constant, there is one bin.
        `expected_normalized_calibration_error` has a different default, because its paper uses different
        bins.
    on : {"variance", "std"}, default="variance"
        Quantity whose range is divided into bins of equal width. The option has no effect on bins of equal
        weight. The default is "variance" as in netcal, because UCE compares variances with squared errors.

    Returns
    -------
    error : float
        Non-negative, in squared units of y.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    expected_normalized_calibration_error : Mean of the gaps divided by the predicted standard deviations.
    reliability_table : Table of the bins.

    Notes
    -----
    .. math:: \mathrm{UCE} = \sum_b \frac{n_b}{n}
        \Bigl|\frac1{n_b} \sum_{i \in b} (y_i - \mu_i)^2 - \frac1{n_b} \sum_{i \in b} \sigma_i^2\Bigr|

    The cost is O(n) for bins of equal width, and one sort for bins of equal weight.

    References
    ----------
    .. [1] Laves et al. (2020), Well-calibrated regression uncertainty in medical imaging with deep learning.
       https://proceedings.mlr.press/v121/laves20a.html
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 18-20 and section 5. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_loss, uncertainty_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = Normal(x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = Normal(np.zeros(2000), np.full(2000, np.std(y)))  # the same for every row
    >>> [round(uncertainty_calibration_error(y, dist), 2) for dist in (useful, climatology)]
    [0.07, 0.0]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    given = check_forecast(y_true, y_pred, sample_weight)
    return value_of(squared_error_gap(n_bins, strategy, on), *given)
