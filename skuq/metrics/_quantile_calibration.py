"""Coverage of central intervals among rows of like predicted uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_integer, check_option
from skuq.distributions import Distribution
from skuq.metrics._binning import STRATEGIES, Binning
from skuq.metrics._inputs import check_forecast, finite_std
from skuq.metrics._kernels import level_grid
from skuq.metrics._levels import covered_weight
from skuq.metrics._spec import WeightFunction, metric


def qce_of_weights(
    y: FloatArray,
    dist: Distribution,
    *,
    levels: int | ArrayLike = 9,
    n_bins: int = 10,
    strategy: str = "quantile",
    marginal: bool = False,
) -> WeightFunction:
    """Return the QCE as a function of weights."""
    check_integer(n_bins, "n_bins")
    check_option(strategy, "strategy", STRATEGIES)
    check_option(marginal, "marginal", (False, True))
    grid = np.sort(level_grid(levels, closed=True))
    binning = Binning(finite_std(dist), 1 if marginal else n_bins, strategy)
    covered = covered_weight(y, dist, grid, "interval")

    def of_weights(weight: FloatArray | None) -> float:
        bins = binning.bins(weight)
        return binned_coverage_error(covered(bins), bins.totals(), grid)

    return of_weights


def binned_coverage_error(inside: FloatArray, total: FloatArray, levels: FloatArray) -> float:
    """Return the mean over levels and rows of |coverage in the row's bin - level| (eq. 24).

    ``inside`` is the weight in each bin that the interval of each level covers, ``total`` that of the bin.
    """
    gap = np.abs(inside - total[:, np.newaxis] * levels).sum(axis=0) / total.sum()
    return float(gap.mean())


@metric(
    "qce",
    title="QCE",
    units=0,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="moments",
    proper=False,
    small_sample=True,
    source="Kueppers et al. 2023; Wibbeke et al. 2025, eq. 21-24",
    of_weights=qce_of_weights,
    meaning="among rows of like uncertainty the coverage is off by {value} on average",
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
    r"""Gap between nominal and observed coverage, bin by bin of the predicted uncertainty (QCE).

    Do the intervals have their nominal coverage in rows of small and of large uncertainty? The quantile
    calibration error compares the coverage of central intervals with their level in each bin of rows of like
    predicted standard deviation, where `expected_coverage_probability_error` compares over all rows. It is
    not proper: a forecast that ignores X is calibrated and beats a useful model that is a little off (see the
    example). Use it as a constraint, and select by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecast of every target. The standard deviation must be finite.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    levels : int, float or array-like of shape (k,), default=9
        Coverages of the central intervals, averaged with equal weights. An integer m stands for 1/(m+1), ...,
        m/(m+1); the default is 0.1, ..., 0.9.
    n_bins : int, default=10
        Number of bins; about 100 rows a bin suffice [2]_.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal total weight, or of equal width from the smallest to the largest sigma as in the package
        netcal. A constant sigma is one bin either way.
    marginal : bool, default=False
        Compare over all rows, without bins: netcal's default, and by what [2]_ computed. Then the same as
        `expected_coverage_probability_error` at these levels.

    Returns
    -------
    error : float
        In [0, 1]; lower is better, at best 0. A calibrated forecast has an expected value of about
        ``sqrt(2 * p * (1 - p) * n_bins / (pi * n))`` at level p.

    Warns
    -----
    SmallSampleWarning
        Below 500 rows.

    See Also
    --------
    expected_coverage_probability_error : The same over all rows.
    reliability_table : The bins themselves.

    Notes
    -----
    .. math:: \mathrm{QCE} = \frac1k \sum_p \sum_b \frac{n_b}{n} \bigl|\mathrm{freq}_b(p) - p\bigr|

    with :math:`\mathrm{freq}_b(p)` the share of targets of bin b inside the central interval of coverage p:
    for a normal distribution those with :math:`(y - \mu)^2 / \sigma^2 \le F^{-1}_{\chi^2_1}(p)`, as in eq.
    21-22 of [2]_. A target on an atom of its forecast is inside little by little, as its PIT is spread
    evenly over :math:`[F(y-), F(y)]`. One histogram of bin and level: O(n) for equal widths, else one sort.

    References
    ----------
    .. [1] Kueppers et al. (2023), Parametric and multivariate uncertainty calibration for regression and
       object detection. https://doi.org/10.48550/arXiv.2207.01242
    .. [2] Wibbeke et al. (2025), Evaluating the quality of the quantified uncertainty for (re)calibration of
       data-driven regression models, eq. 21-24 and section 5. https://doi.org/10.48550/arXiv.2508.17761

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import crps_loss, quantile_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = (x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = (np.zeros(2000), np.full(2000, np.std(y)))  # the same for every row
    >>> [round(quantile_calibration_error(y, dist), 2) for dist in (useful, climatology)]
    [0.1, 0.0]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    options: Any = {"levels": levels, "n_bins": n_bins, "strategy": strategy, "marginal": marginal}
    return qce_of_weights(y, dist, **options)(weight)
