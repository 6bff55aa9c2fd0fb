"""Coverage of central intervals in groups of rows with similar predicted uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_integer, check_option
from skuq.distributions import Distribution
from skuq.metrics._average_calibration import calibration_error, curve_of_levels
from skuq.metrics._binning import STRATEGIES, Binning
from skuq.metrics._inputs import check_forecast, finite_moment
from skuq.metrics._kernels import level_grid
from skuq.metrics._levels import counts_in_bins
from skuq.metrics._spec import Computation, WeightFunction, metric, one_by_one, value_of


def binned_coverage_gap(levels: int | ArrayLike, n_bins: int, strategy: str, marginal: bool) -> Computation:
    check_integer(n_bins, "n_bins")
    check_option(strategy, "strategy", STRATEGIES)
    grid = np.sort(level_grid(levels, closed=True))
    if check_option(marginal, "marginal", (False, True)):
        return curve_of_levels(grid, "interval", calibration_error)

    def computation(y: FloatArray, dist: Distribution) -> WeightFunction:
        binning = Binning(finite_moment(dist, "std"), n_bins, strategy)
        counts_of = [counts_in_bins(each, dist, grid, "interval") for each in np.atleast_2d(y)]

        def of_weight(weight: FloatArray) -> FloatArray:
            bins = binning.bins(weight)
            inside = np.cumsum([counts(bins) for counts in counts_of], axis=-1)
            inside, total = inside[..., :-1], inside[..., -1:]
            # The gap between level and coverage is averaged over levels and rows (equation 24).
            gap = np.abs(inside - total * grid).sum(axis=-2) / total.sum(axis=-2)
            return np.asarray(gap.mean(axis=-1)).reshape(y.shape[:-1])

        return one_by_one(of_weight)

    return computation


@metric(
    "qce",
    title="QCE",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="moments",
    small_sample=True,
    source="Kueppers et al. 2023; Wibbeke et al. 2025, eq. 21-24",
    meaning="the coverage of rows with similar uncertainty is off by {value} on average",
    kernel=binned_coverage_gap,
    of_many_targets=True,
    blocks="std_levels",
)
def quantile_calibration_error(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    levels: int | ArrayLike = 9,
    n_bins: int = 10,
    strategy: str = "quantile",
    marginal: bool = False,
) -> float:
    r"""Return the quantile calibration error (QCE): the coverage gap in bins of the predicted uncertainty.

    The smaller the better, minimum is zero. Rows are binned by their predicted standard deviation. In each
    bin, the error is the difference between the coverage of central intervals and the nominal coverage.
    `expected_coverage_probability_error` is the same difference over all rows. The metric is not proper: a
    forecast that ignores X can have a better value than a useful, slightly miscalibrated model (see the
    example). Use the metric as a constraint, and select models by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. The standard deviation must be finite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int, float or array-like of shape (k,), default=9
        Coverages of the central intervals. The errors at these coverages are averaged with equal weights. An
        integer m means the levels 1/(m+1), ..., m/(m+1). The default is 0.1, ..., 0.9.
    n_bins : int, default=10
        Number of bins. About 100 rows per bin are enough [2]_.
    strategy : {"quantile", "uniform"}, default="quantile"
        "quantile" makes bins of equal total weight. "uniform" makes bins of equal width from the smallest to
        the largest sigma, as in the package netcal. If sigma is constant, there is one bin.
    marginal : bool, default=False
        Whether to compute the coverage over all rows instead of in bins. The result then equals
        `expected_coverage_probability_error` at these levels. [2]_ uses all rows, which is also the default
        of netcal.

    Returns
    -------
    error : float
        In [0, 1]. For a calibrated forecast, the expected error is about
        ``sqrt(2 * p * (1 - p) * n_bins / (pi * n))`` at level p.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    expected_coverage_probability_error : The error over all rows.
    reliability_table : Table of the bins.

    Notes
    -----
    .. math:: \mathrm{QCE} = \frac1k \sum_p \sum_b \frac{n_b}{n} \bigl|\mathrm{freq}_b(p) - p\bigr|

    where :math:`\mathrm{freq}_b(p)` is the share of targets of bin b inside the central interval of coverage
    p. For a normal distribution, a target is inside if :math:`(y - \mu)^2 / \sigma^2 \le
    F^{-1}_{\chi^2_1}(p)`, as in eq. 21-22 of [2]_. If a target equals an atom, its PIT is treated as uniform
    on :math:`[F(y-), F(y)]`. The target may therefore count partly as inside. The cost is O(n) for bins of
    equal width, and one sort for bins of equal weight.

    References
    ----------
    .. [1] Kueppers et al. (2023), Parametric and multivariate uncertainty calibration for regression and
       object detection. https://doi.org/10.48550/arXiv.2207.01242
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 21-24 and section 5. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_loss, quantile_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = Normal(x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = Normal(np.zeros(2000), np.full(2000, np.std(y)))  # the same for every row
    >>> [round(quantile_calibration_error(y, dist), 2) for dist in (useful, climatology)]
    [0.1, 0.0]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    kernel = binned_coverage_gap(levels, n_bins, strategy, marginal)
    return value_of(kernel, *check_forecast(y_true, y_pred, sample_weight))
