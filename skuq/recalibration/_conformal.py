"""Normalized split conformal prediction as a recalibrator."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from skuq._conformal.groups import Groups, check_groups, equal_count_edges, grouped_dist, read_labels
from skuq._conformal.residuals import finite_moments, scores_rounded_to_cover, standardized_residuals
from skuq._typing import FloatArray
from skuq._validation import check_integer, check_option, effective_rows
from skuq.distributions import Distribution
from skuq.recalibration._base import BaseRecalibrator


class ConformalRecalibrator(BaseRecalibrator):
    r"""Intervals with guaranteed coverage for exchangeable rows, around any distribution.

    An interval is the predicted mean plus or minus a number of predicted standard deviations. The number
    follows from the ranks of the calibration residuals. Coverage is nominal even if the predicted
    distribution is wrong. Prefer `IsotonicRecalibrator` or `EmpiricalRecalibrator` if a density or finite
    quantiles at every level are needed. Prefer `skuq.regressors.ConformalRegressor` for a model without a
    distribution.

    Parameters
    ----------
    symmetric : bool, default=True
        Whether absolute residuals are ranked. Intervals are then symmetric around the mean, which is
        unchanged. With False, signed residuals are ranked, and each bound has its own guarantee. The
        intervals then correct a bias and a skewed shape. They require about twice as many rows: at least 19
        for a coverage of 90 %.
    group_by : None, callable or int, default=None
        Groups with separate guarantees (Mondrian). A callable takes a Distribution of n rows and returns
        n labels, such as ``lambda dist: dist.mean() > 100``. An int is a number of bins of predicted
        standard deviation with about equal numbers of calibration rows.
    rare_groups : {"raise", "pool"}, default="raise"
        Treatment of labels with fewer than ``min_group_size`` calibration rows. "raise" raises a ValueError;
        "pool" calibrates by the residuals of all groups together. Only with ``group_by``.
    min_group_size : int, default=10
        Number of calibration rows below which a group is rare. Only with ``group_by``.

    Attributes
    ----------
    group_sizes_ : dict or None
        Number of calibration rows of each label; None without ``group_by``.
    edges_ : ndarray or None
        Standard deviations between the bins, in the units of y, if ``group_by`` is an int; otherwise None.
    n_features_in_ : int
        Always 2, the columns of a Distribution as an array.

    See Also
    --------
    EmpiricalRecalibrator : The same residuals without the guarantee, smooth and finite.
    IsotonicRecalibrator : A monotone map of the probability levels.
    skuq.distributions.ConformalPredictive : The returned distribution and its quantiles.

    Notes
    -----
    The symmetric interval of coverage c is :math:`\mu \pm \sigma \, |z|_{(k)}` with
    :math:`k = \lceil (n + 1) c \rceil` and :math:`z_i = (y_i - \mu_i) / \sigma_i` of n calibration rows [1]_
    [2]_. If calibration and new rows are exchangeable and the model was fitted on neither, it covers with a
    probability of at least c and, without ties, at most c + 1/(n + 1). The coverage of one calibration set
    has the distribution Beta(k, n + 1 - k) [3]_: at n = 900 and c = 90 %, the standard deviation of the
    coverage is 1 %. With fewer than c / (1 - c) rows the interval is infinite, with a `SmallSampleWarning`.
    With ``symmetric=False`` and many equal targets, rounding may leave one of these targets just outside its
    bound.

    The guarantee is for the average over rows, or over the rows of a group. If sigma is wrong in some
    regions, intervals cover too much in some regions and too little in others; ``group_by`` corrects this if
    the groups separate the regions. The edges between bins of sigma are estimated from the calibration rows.
    The coverage of a bin may therefore differ from the guarantee by about the weight of one row.

    `mean`, `std` and `crps` change as well: they use the empirical distribution of the residuals, mirrored at
    0 if ``symmetric``. The returned distribution has no density. In `RecalibratedRegressor` each residual
    comes from the model of its fold, so coverage is near c, but the guarantee is not exact. The guarantee is
    exact with a ``FrozenEstimator`` and held-out rows, or with ``cv`` of one split and ``ensemble=True``.

    Cost: O(n log n) time, O(n) memory.

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
    A model whose standard deviation is half the true one:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import ConformalRecalibrator
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

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        check_option(self.symmetric, "symmetric", (True, False))
        rare_groups, min_group_size = check_groups(self)
        effective_rows(weight, len(y))  # ranks count repetitions, so relative weights raise
        mean, std, z = standardized_residuals(dist, y)
        self.edges_ = self._edges(std, weight)
        self._symmetric = self.symmetric
        self._scores = scores_rounded_to_cover(np.abs(z), mean, mean, std, y) if self.symmetric else z
        self._weight = weight
        labels = self._labels(dist, std)
        self._groups, self.group_sizes_ = None, None
        if labels is not None:
            self._groups = Groups(labels, weight, rare_groups=rare_groups, min_group_size=min_group_size)
            self.group_sizes_ = dict(self._groups.sizes)

    def _transform(self, dist: Distribution) -> Distribution:
        mean, std = finite_moments(dist)
        labels = self._labels(dist, std)
        return grouped_dist(
            self._groups, labels, self._scores, self._weight, mean, std, symmetric=self._symmetric
        )

    def _edges(self, std: FloatArray, weight: FloatArray | None) -> FloatArray | None:
        if self.group_by is None or callable(self.group_by):
            return None
        if not isinstance(self.group_by, numbers.Integral):
            raise TypeError(
                f"`group_by` must be an integer number of bins, a callable or None, got {self.group_by!r}. "
                "A callable takes the predicted distributions and returns one label per row."
            )
        return equal_count_edges(std, check_integer(self.group_by, "group_by"), weight)

    def _labels(self, dist: Distribution, std: FloatArray) -> np.ndarray | None:
        if callable(self.group_by):
            return read_labels(self.group_by(dist), len(dist))
        return None if self.edges_ is None else np.searchsorted(self.edges_, std, side="right")
