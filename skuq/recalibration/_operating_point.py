"""Recalibration to one point of the uncertainty characteristics curve."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from skuq._numeric import reaches
from skuq._typing import FloatArray, Frozen
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_finite,
    check_number,
    check_option,
    check_single_coverage,
)
from skuq.distributions import Distribution, Normal, affine, concat
from skuq.distributions._discrete import FLOAT32_ROUNDING
from skuq.metrics._ucc_curve import (
    MISS_AXES,
    VARY,
    WIDTH_AXES,
    OperatingPoint,
    UncertaintyCharacteristicsCurve,
    uncertainty_characteristics_curve,
)
from skuq.recalibration._base import BaseRecalibrator, check_dist
from skuq.recalibration._scaling import central_bands, miss_share, nudge_until_covered


class OperatingPointRecalibrator(BaseRecalibrator):
    r"""Choose the width of the intervals for a given miss rate, or for the lowest cost of width and misses.

    For example, use this class if at most 5 % of the targets may be outside the intervals, or if one miss
    costs a hundred times as much as one unit of width. The class calibrates the central interval with the
    nominal coverage `coverage`, and rescales the rest of each distribution by the same factor. Prefer
    `~skuq.conformal.ConformalRecalibrator` if the miss rate must be guaranteed for new rows. Prefer
    `StdScalingRecalibrator` or `IsotonicRecalibrator` if you need the whole distribution.

    Parameters
    ----------
    miss_rate : float, default=None
        Largest share of the calibration targets that may be outside the intervals, strictly between 0 and 1.
        Exactly one of `miss_rate` and `cost` must be given.
    cost : float or pair of float, default=None
        Costs of width and misses. With a number c in [0, 1], one unit of width costs c, and one unit of
        misses costs 1 - c. Widths and distances are then divided by the standard deviation of y. A pair
        contains the cost of one unit of width and the cost of one unit of misses. Widths and distances are
        then in the units of y.
    x_axis : {"bandwidth", "excess"}, default="bandwidth"
        Definition of the width in the cost. "bandwidth" is the mean half width of the intervals. "excess" is
        the mean distance from a covered target to the nearest bound.
    y_axis : {"miss_rate", "deficit"}, default="miss_rate"
        Definition of the misses in the cost. "miss_rate" is the share of targets outside their intervals.
        "deficit" is the mean distance from a target to its interval.
    vary : {"scale", "bias"}, default="scale"
        Change of the intervals. "scale" multiplies the distances of all bounds from the means by one factor.
        "bias" adds one number, in the units of y, to these distances. The number may be negative. Negative
        distances are replaced by 0.
    coverage : float, default=None
        Nominal coverage of the central interval. ``interval(coverage)`` of the recalibrated distribution
        returns the chosen intervals. None means ``1 - miss_rate``, or 0.9 with `cost`.

    Attributes
    ----------
    operating_point_ : OperatingPoint
        The chosen point. It contains the factor or the added number, and the half width, miss rate, excess
        and deficit of the intervals on the calibration rows.
    coverage_ : float
        Coverage for which ``interval`` returns the chosen intervals.
    n_features_in_ : int
        Always 2, because ``np.asarray(dist)`` has two columns.

    See Also
    --------
    skuq.conformal.ConformalRecalibrator : Intervals with guaranteed coverage.
    StdScalingRecalibrator : One factor for all standard deviations, chosen by likelihood, CRPS or coverage.
    skuq.metrics.uncertainty_characteristics_curve : All points of the curve.

    Notes
    -----
    The central interval of row i has the bounds :math:`\hat y_i - \hat z_i^l` and :math:`\hat y_i + \hat
    z_i^u`, where :math:`\hat y_i` is the mean. These bounds give an uncertainty characteristics curve [1]_.
    With `miss_rate`, the recalibrator chooses the point of the curve with the smallest width whose miss rate
    is at most `miss_rate`. With `cost`, the recalibrator chooses the point with the smallest cost
    :math:`c\,x(k) + (1 - c)\,\rho(k)` (eq. 20). With ``x_axis="bandwidth"``, ``y_axis="deficit"`` and
    :math:`c = \alpha / (1 + \alpha)`, the cost is proportional to the mean interval score for the coverage
    :math:`1 - \alpha`. A calibrated model then does not change. With other costs, a calibrated model changes,
    and its nominal coverages are no longer probabilities.

    ``vary="scale"`` scales the distributions about their means. The means do not change. ``vary="bias"``
    shifts and scales each distribution so that both bounds of its interval have the chosen positions. The
    means of skewed distributions change, but the means of symmetric distributions do not. If both bounds of a
    row equal the mean, the result is a point mass. If the interval of a point mass becomes wider, the result
    is a normal distribution.

    The chosen miss rate is the miss rate on the calibration rows. For new rows, the expected miss rate is
    larger by at most 1 / (n + 1). `~skuq.conformal.ConformalRecalibrator` corrects this difference. The
    recalibrator does not correct a bias of the means. A bias makes the intervals wider.

    Cost: two evaluations of intervals and one sort, O(n log n) time and O(n) memory.

    References
    ----------
    .. [1] J. Navratil et al., "Assessment of prediction intervals using uncertainty characteristics
       curves", 2023, sections 2.2.1 and 6.3. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    Choose intervals that miss at most one of five targets:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import OperatingPointRecalibrator
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> dist = Normal(np.zeros(1000), np.full(1000, 0.5))
    >>> recalibrator = OperatingPointRecalibrator(miss_rate=0.2).fit(dist, y)
    >>> recalibrator.transform(dist[:1]).interval(0.8).round(2)
    array([[-1.25,  1.25]])

    Choose intervals if a miss costs 20 and a unit of half width costs 1:

    >>> recalibrator = OperatingPointRecalibrator(cost=(1.0, 20.0)).fit(dist, y)
    >>> best = recalibrator.operating_point_
    >>> round(best.parameter, 2), round(best.miss_rate, 3)
    (2.47, 0.033)
    """

    def __init__(
        self,
        *,
        miss_rate: float | None = None,
        cost: float | tuple[float, float] | None = None,
        x_axis: Literal["bandwidth", "excess"] = "bandwidth",
        y_axis: Literal["miss_rate", "deficit"] = "miss_rate",
        vary: Literal["scale", "bias"] = "scale",
        coverage: float | None = None,
    ) -> None:
        self.miss_rate = miss_rate
        self.cost = cost
        self.x_axis = x_axis
        self.y_axis = y_axis
        self.vary = vary
        self.coverage = coverage

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        coverage = self._check()
        mean, bounds = central_bands(dist, coverage)
        # a target that differs only by rounding from the forecast of a point mass is inside its interval
        rounding = FLOAT32_ROUNDING * np.abs(y).max()
        certain = (bounds[:, 0] == bounds[:, 1]) & (np.abs(y - mean) <= rounding)
        y = np.where(certain, mean, y)
        curve = uncertainty_characteristics_curve(y, bounds, point=mean, vary=self.vary, sample_weight=weight)
        point = self._cheapest(curve) if self.miss_rate is None else self._narrowest(curve)
        if point.bandwidth == 0:
            raise ValueError(
                f"intervals of width 0 have a miss rate of {point.miss_rate:g}, which is at most "
                f"`miss_rate`. The predictions are almost equal to `y`. Fit on held-out rows."
                if self.miss_rate is not None
                else "the cost is lowest for intervals of width 0. Decrease the cost of width in `cost`."
            )

        def missed(parameter: float) -> float:
            return miss_share(y, self._at(dist, parameter, coverage).interval(coverage), weight)

        unit = point.parameter if self.vary == "scale" else float(np.abs(bounds).max())
        self._parameter = nudge_until_covered(point.parameter, unit, missed, point.miss_rate)
        self.coverage_, self.operating_point_ = coverage, point

    def _check(self) -> float:
        check_option(self.x_axis, "x_axis", WIDTH_AXES)
        check_option(self.y_axis, "y_axis", MISS_AXES)
        check_option(self.vary, "vary", VARY)
        if (self.miss_rate is None) == (self.cost is None):
            raise ValueError(
                "exactly one of `miss_rate` and `cost` must be given, got "
                f"miss_rate={self.miss_rate!r} and cost={self.cost!r}."
            )
        if self.miss_rate is not None:
            miss_rate = check_single_coverage(self.miss_rate, "miss_rate")
            return 1 - miss_rate if self.coverage is None else check_single_coverage(self.coverage)
        return DEFAULT_COVERAGE if self.coverage is None else check_single_coverage(self.coverage)

    def _narrowest(self, curve: UncertaintyCharacteristicsCurve) -> OperatingPoint:
        miss_rate = float(self.miss_rate or 0.0)
        if not reaches(miss_rate, curve.miss_rate[-1]):
            raise ValueError(
                f"`miss_rate` must be at least {curve.miss_rate[-1]:.3g}, got {miss_rate:g}. In this share "
                "of the rows, the interval does not extend from the mean toward `y`, so no factor can widen "
                "it toward `y`. Use vary='bias'."
            )
        return curve.operating_point(miss_rate=miss_rate)

    def _cheapest(self, curve: UncertaintyCharacteristicsCurve) -> OperatingPoint:
        cost: Any = self.cost
        if np.ndim(cost) > 0:
            return curve.optimum(cost=cost, x_axis=self.x_axis, y_axis=self.y_axis)
        share = check_number(cost, "cost")
        if not 0 <= share <= 1:
            raise ValueError(f"`cost` must be a number in [0, 1] or a pair of costs, got {share:g}.")
        unit = curve.target_std
        if unit == 0:
            raise ValueError(
                f"`y` must vary if `cost` is a number, got cost={cost!r} and constant `y`. The unit of width "
                "is the standard deviation of `y`. Instead, pass a pair: the cost of width and the cost of "
                "misses."
            )
        pair = share / unit, (1 - share) / (unit if self.y_axis == "deficit" else 1.0)
        return curve.optimum(cost=pair, x_axis=self.x_axis, y_axis=self.y_axis)

    def _at(self, dist: Distribution, parameter: float, coverage: float) -> Distribution:
        if self.vary == "scale":
            return affine(dist, check_finite(dist.mean(), "mean of dist") * (1 - parameter), parameter)
        mean, bounds = central_bands(dist, coverage)
        bands = np.maximum(np.abs(bounds - mean[:, np.newaxis]) + parameter, 0.0)
        return _with_bands(dist, bounds, mean[:, np.newaxis] + bands * [-1.0, 1.0], coverage)

    def _transform(self, dist: Distribution) -> Distribution:
        return self._at(dist, self._parameter, self.coverage_)

    def predict(self, dist: Distribution | Frozen) -> FloatArray:
        """Return the point prediction. It changes only with ``vary="bias"`` and skewed distributions.

        Parameters
        ----------
        dist : Distribution or frozen scipy distribution of n rows
            Predictions of the model for which the recalibrator was fitted.

        Returns
        -------
        y_pred : ndarray of shape (n,)
            In the units of `dist`.
        """
        check_is_fitted(self)
        return check_dist(dist).mean() if self.vary == "scale" else self.transform(dist).mean()


def _with_bands(dist: Distribution, bounds: FloatArray, target: FloatArray, coverage: float) -> Distribution:
    """Return distributions whose intervals are ``target``. Point masses become normal distributions."""
    before, after = np.diff(bounds, axis=1)[:, 0], np.diff(target, axis=1)[:, 0]
    certain = (before == 0) | (after == 0)
    parts: list[Distribution] = []
    if not certain.all():
        rows = ~certain
        factor = after[rows] / before[rows]
        parts.append(affine(dist[rows], target[rows, 0] - factor * bounds[rows, 0], factor))
    if certain.any():
        reach = ndtri((1 + coverage) / 2)
        parts.append(Normal(target[certain].mean(axis=1), after[certain] / (2 * reach)))
    if len(parts) == 1:
        return parts[0]
    behind = np.argsort(certain, kind="stable")  # the point masses are last in `parts`
    return concat(parts)[np.argsort(behind)]
