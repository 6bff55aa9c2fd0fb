"""Recalibration by one factor for each bin of rows with similar predicted standard deviations."""

from __future__ import annotations

from typing import Literal

import numpy as np

from skuq._typing import FloatArray
from skuq._validation import check_integer, effective_rows
from skuq.distributions import Distribution
from skuq.metrics._binning import SAME, Bins
from skuq.recalibration._scaling import ScalingRecalibrator, bin_squares, finite_std, rows_with_uncertainty

_ROWS_A_BIN = 25
"""Smallest number of rows per bin with "auto"."""


class BinnedScalingRecalibrator(ScalingRecalibrator):
    r"""Multiply the standard deviations by one factor for each bin of predicted standard deviations.

    The class corrects a model that is overconfident for small predicted standard deviations and
    underconfident for large ones, or the reverse. Means and the shape of each distribution do not change.
    Prefer `StdScalingRecalibrator` if there are fewer than about 100 calibration rows. The factors may change
    the order of the rows by standard deviation. If this order must not change, prefer
    `VarianceIsotonicRecalibrator`.

    Parameters
    ----------
    n_bins : "auto" or int, default="auto"
        Number of bins with equal numbers of calibration rows. "auto" means the cube root of n, but at most
        one bin per 25 rows.

    Attributes
    ----------
    bin_edges_ : ndarray of shape (b + 1,)
        Edges of the bins: predicted standard deviations, in the units of y.
    factors_ : ndarray of shape (b,)
        Factor of each bin, without units. A factor is above 1 if the model was overconfident. There is a
        single bin if all predicted standard deviations are equal.
    n_features_in_ : int
        Always 2. A Distribution is treated as an array with two columns: mean and standard deviation.

    See Also
    --------
    StdScalingRecalibrator : One factor for all standard deviations.
    VarianceIsotonicRecalibrator : A variance that increases with the predicted variance.

    Notes
    -----
    Let :math:`z_i = (y_i - \mu_i) / \sigma_i`. The factor of bin b is

    .. math:: r_b = \sqrt{\frac{\sum_{i \in b} w_i z_i^2 + r^2}{\sum_{i \in b} w_i + 1}},

    where :math:`r` is the factor of `StdScalingRecalibrator`. The factor :math:`r_b` is the root mean square
    of the :math:`z_i` in the bin and of one additional value :math:`r`. Without this value, a bin of two or
    three rows would sometimes have a factor near 0, and a bin whose errors are all 0 would have the factor 0.
    `skuq.metrics.expected_normalized_calibration_error` uses the same bins [1]_. If the standard deviations
    of several rows equal the edge of two bins, these rows belong to both bins. Their squared factor is the
    mean of the two squared factors. Standard deviations outside all bins get the factor of the nearest bin.

    The table shows the negative log-likelihood on new rows. The first two columns of results are for a
    calibrated model. They show how much recalibration increases the negative log-likelihood. In the last
    column, the true standard deviations are the squares of the predicted standard deviations. The column
    shows how much lower the negative log-likelihood is with bins than with a single factor.

    ================  ==========================  ===============================  ======================
    calibration rows  calibrated, bins            calibrated, a single factor      squared stds, decrease
    ================  ==========================  ===============================  ======================
    20                0.031                       0.031                            0.00
    100               0.020                       0.004                            0.11
    500               0.008                       0.001                            0.13
    10 000            0.001                       0.000                            0.13
    ================  ==========================  ===============================  ======================

    If a predicted point mass equals the target of its row, the row contains no information about the factor
    and is ignored. A bias is not corrected, but it makes the distributions wider.

    Cost: one sort, O(n log n) time and O(n) memory.

    References
    ----------
    .. [1] D. Levi, L. Gispan, N. Giladi, E. Fetaya, "Evaluating and calibrating uncertainty
       prediction in regression tasks", Sensors 22, 5540, 2022. https://doi.org/10.3390/s22155540

    Examples
    --------
    The small standard deviations of this model are four times too small:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import BinnedScalingRecalibrator
    >>> rng = np.random.default_rng(0)
    >>> std = np.repeat([1.0, 4.0], 1000)
    >>> dist = Normal(np.zeros(2000), std)
    >>> recalibrator = BinnedScalingRecalibrator(n_bins=2).fit(dist, 4.0 * rng.normal(size=2000))
    >>> recalibrator.factors_.round(1)
    array([3.9, 1. ])
    >>> recalibrator.transform(dist).std()[[0, -1]].round(1)
    array([3.9, 4.1])
    """

    def __init__(self, *, n_bins: Literal["auto"] | int = "auto") -> None:
        self.n_bins = n_bins

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        n_bins = None if self.n_bins == "auto" else check_integer(self.n_bins, "n_bins")
        effective_rows(weight, len(y))  # raises for relative weights
        spread = rows_with_uncertainty(dist, y, weight)
        if spread is None:  # all rows are exact point masses
            self.bin_edges_, self.factors_ = np.zeros(2), np.ones(1)
            self._breaks, self._steps = np.empty(0), np.ones(1)
            return
        few = max(1, min(int(spread.rows / _ROWS_A_BIN), round(spread.rows ** (1 / 3)), spread.std.size))
        binned = bin_squares(spread, n_bins or few)
        self.factors_ = np.sqrt((binned.squares + binned.overall) / (binned.rows + 1.0))
        self.bin_edges_ = binned.bins.edges
        self._breaks, self._steps = _step_function(binned.bins, spread.std, self.factors_)

    def _factors(self, dist: Distribution) -> FloatArray:
        place = np.searchsorted(self._breaks, finite_std(dist), side="right")
        return np.asarray(self._steps[place])


def _step_function(bins: Bins, std: FloatArray, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
    edges = bins.edges[1:-1]
    values = np.unique(edges)
    after = np.square(factors[np.searchsorted(edges, values, side="right")])
    on = after.copy()
    shared = np.array([np.searchsorted(values, std[rows][0]) for rows, _, _ in bins.shared], dtype=np.intp)
    on[shared] = 0.0
    for position, (_, place, fraction) in zip(shared, bins.shared, strict=True):
        on[position] += fraction * factors[place] ** 2
    steps = np.concatenate([[factors[0] ** 2], np.column_stack([on, after]).ravel()])
    return np.outer(values, [1 - SAME, 1 + SAME]).ravel(), np.sqrt(steps)
