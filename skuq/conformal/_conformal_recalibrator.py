"""Normalized split conformal prediction in the form of a recalibrator."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from skuq._numeric import WeightedRanks
from skuq._typing import FloatArray
from skuq._validation import check_integer, check_n_bins, check_option, effective_rows
from skuq.conformal._base import WeightedRows
from skuq.conformal._scores import scores_rounded_to_cover
from skuq.conformal._split import GroupedScores, SplitScores, check_groups, read_labels
from skuq.distributions import Distribution
from skuq.recalibration import BaseRecalibrator
from skuq.recalibration._residuals import finite_moments, standardized_residuals

_SAME = 1e-9
"""Two scales count as equal if their relative difference is smaller than this value."""


class ConformalRecalibrator(BaseRecalibrator):
    r"""Intervals with guaranteed coverage around any distribution, for exchangeable rows.

    An interval is the predicted mean plus or minus a multiple of the predicted standard deviation. The
    multiple is computed from the ranks of the calibration residuals. The coverage is nominal even if the
    predicted distribution is wrong. Prefer `~skuq.recalibration.IsotonicRecalibrator` or
    `~skuq.recalibration.EmpiricalRecalibrator` if you need a density, or finite quantiles at all levels.
    Prefer `skuq.conformal.ConformalRegressor` for a model without a predictive distribution.

    Parameters
    ----------
    symmetric : bool, default=True
        With True, absolute residuals are ranked. The intervals are symmetric around the mean, and the mean
        does not change. With False, signed residuals are ranked, and each bound has its own guarantee. The
        intervals then correct a bias and a skewed shape. False needs about twice as many calibration rows: at
        least 19 for a coverage of 90 %.
    group_by : None, callable or int, default=None
        Labels of groups. The coverage is guaranteed within each group (Mondrian conformal prediction). A
        callable gets a Distribution of n rows and returns n labels, such as ``lambda dist: dist.mean() >
        100``. An int is the number of bins of predicted standard deviations, with about equal numbers of
        calibration rows.
    rare_groups : {"raise", "pool"}, default="raise"
        Treatment of groups with fewer than ``min_group_size`` calibration rows. "raise" raises a ValueError.
        "pool" calibrates such a group with the residuals of all groups. Only used with ``group_by``.
    min_group_size : int, default=10
        A group with fewer calibration rows is rare. Only used with ``group_by``.

    Attributes
    ----------
    group_sizes_ : dict of float or None
        Number of calibration rows of each group, with their repetitions. None without ``group_by``.
    edges_ : ndarray or None
        If ``group_by`` is an int, the standard deviations that separate the bins, in the units of y.
        Otherwise None.
    n_features_in_ : int
        Always 2, because ``np.asarray(dist)`` has two columns.

    See Also
    --------
    skuq.recalibration.EmpiricalRecalibrator : A smooth distribution of the same residuals, with finite
        quantiles but without the guarantee.
    skuq.recalibration.IsotonicRecalibrator : A monotone function of the probability levels.
    ConformalPredictive : The distribution that `transform` returns, with its quantiles.

    Notes
    -----
    The symmetric interval with coverage c is :math:`\mu \pm \sigma \, |z|_{(k)}`, where :math:`k = \lceil (n
    + 1) c \rceil` and :math:`z_i = (y_i - \mu_i) / \sigma_i` for n calibration rows [1]_ [2]_. If calibration
    rows and new rows are exchangeable and the model was fitted to neither, a new target is covered with a
    probability of at least c and, without ties, of at most c + 1/(n + 1). The coverage given one calibration
    set varies: it has the distribution Beta(k, n + 1 - k) [3]_. For n = 900 and c = 90 %, the standard
    deviation of the coverage is 1 %. If n is less than c / (1 - c), the bounds are infinite and a
    `SmallSampleWarning` is issued. With ``symmetric=False`` and many equal targets, a target may lie just
    outside its bound due to rounding.

    The guarantee is an average over all rows, or over the rows of a group. The coverage is too low in regions
    where :math:`\sigma` is too small, and too high in regions where :math:`\sigma` is too large. ``group_by``
    corrects the coverage if the groups separate these regions. If ``group_by`` is an int, the edges of the
    bins are estimated from the calibration rows, so the coverage of a bin may differ from the guarantee by
    about the weight of one row.

    `mean`, `std` and `crps` of the returned distribution are computed from the empirical distribution of the
    residuals. With ``symmetric=True``, this distribution also contains the negative of each residual. The
    distribution has no density. In `RecalibratedRegressor`, each residual comes from the model of a fold, so
    the coverage is close to c, but the guarantee is not exact. The guarantee is exact with a
    ``FrozenEstimator`` and held-out rows, and with ``ensemble=True`` and a ``cv`` of one split.

    Cost: O(n log n) time and O(n) memory.

    References
    ----------
    .. [1] H. Papadopoulos, K. Proedrou, V. Vovk, A. Gammerman, "Inductive confidence machines for
       regression", ECML 2002. https://doi.org/10.1007/3-540-36755-1_29
    .. [2] J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani, L. Wasserman, "Distribution-free predictive
       inference for regression", JASA 113, 2018. https://doi.org/10.1080/01621459.2017.1307116,
       theorem 2 and section 5.2.
    .. [3] V. Vovk, "Conditional validity of inductive conformal predictors", Machine Learning 92, 2013.
       https://doi.org/10.1007/s10994-013-5355-6

    Examples
    --------
    The standard deviations of this model are half the true values:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.conformal import ConformalRecalibrator
    >>> rng = np.random.default_rng(0)
    >>> loc, scale = rng.normal(size=2000), rng.uniform(1, 3, size=2000)
    >>> y = rng.normal(loc, scale)
    >>> dist = Normal(loc, scale / 2)
    >>> recalibrated = ConformalRecalibrator().fit(dist[:1000], y[:1000]).transform(dist[1000:])
    >>> lower, upper = recalibrated.interval(0.9).T
    >>> np.mean((lower <= y[1000:]) & (y[1000:] <= upper)).round(2)
    np.float64(0.89)
    """

    _learns_by_rows = False

    def __init__(
        self,
        *,
        symmetric: bool = True,
        group_by: Callable[[Distribution], Any] | int | None = None,
        rare_groups: Literal["raise", "pool"] = "raise",
        min_group_size: int = 10,
    ) -> None:
        self.symmetric = symmetric
        self.group_by = group_by
        self.rare_groups = rare_groups
        self.min_group_size = min_group_size

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        check_option(self.symmetric, "symmetric", (True, False))
        rare_groups, min_group_size = check_groups(self)
        effective_rows(weight, len(y))  # raises for relative weights
        mean, std, z = standardized_residuals(dist, y)
        scores = scores_rounded_to_cover(np.abs(z), mean, mean, std, y) if self.symmetric else z
        self.edges_ = self._edges(std, weight)
        self._symmetric = self.symmetric
        labels, self.group_sizes_ = self._labels(dist, std), None
        if labels is None:
            self._scores: SplitScores | GroupedScores = SplitScores(scores[np.newaxis], weight)
            return
        self._scores = GroupedScores(
            scores[np.newaxis],
            weight,
            labels,
            weight,
            rare_groups=rare_groups,
            min_group_size=min_group_size,
        )
        self.group_sizes_ = dict(self._scores.sizes)

    def _transform(self, dist: Distribution) -> Distribution:
        mean, std = finite_moments(dist)
        rows = WeightedRows(len(dist), np.ones(()), self._labels(dist, std))
        return self._scores.predictive(rows, mean, std, self._symmetric)

    def _edges(self, std: FloatArray, weight: FloatArray) -> FloatArray | None:
        if self.group_by is None or callable(self.group_by):
            return None
        if not isinstance(self.group_by, numbers.Integral):
            raise TypeError(
                f"`group_by` must be an integer number of bins, a callable or None, got {self.group_by!r}. "
                "A callable gets the predicted distributions and returns one label per row."
            )
        n_bins = check_integer(self.group_by, "group_by")
        check_n_bins(n_bins, std.size, "group_by")
        return equal_count_edges(std, n_bins, weight)

    def _labels(self, dist: Distribution, std: FloatArray) -> np.ndarray | None:
        if callable(self.group_by):
            return read_labels(self.group_by(dist), len(dist))
        return None if self.edges_ is None else np.searchsorted(self.edges_, std, side="right")


def equal_count_edges(scale: FloatArray, n_bins: int, weights: FloatArray | None) -> FloatArray:
    # An edge is halfway between two scales, so that rounding cannot move a row to another bin.
    ranks = WeightedRanks(scale, weights)
    # This is the largest scale of each bin.
    last = ranks.quantile(ranks.total * np.arange(1, n_bins) / n_bins)
    # This is the index of the next larger scale.
    after = np.searchsorted(ranks.values, last * (1 + _SAME), side="right")
    inner = after < len(ranks)  # There is no edge above the largest scale.
    low, high = last[inner], ranks.values[after[inner]]
    return np.unique(low + (high - low) / 2)
