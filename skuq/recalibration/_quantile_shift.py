"""Recalibration of quantiles by one shift for each level."""

from __future__ import annotations

import numpy as np

from skuq._numeric import WeightedRanks
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_increasing, check_open_unit, effective_rows
from skuq.distributions import Distribution, Quantiles
from skuq.recalibration._base import BaseRecalibrator

_LEVELS = np.linspace(0.05, 0.95, 19)
"""Default levels for all families except `Quantiles`."""

_TAIL_LEVELS = np.array([0.05, 0.025, 0.01, 0.005, 0.0025, 0.001, 0.0005])
"""Additional levels in the tails. These levels are the bounds of 90 to 99.9 % intervals."""

_SMALLER = 1 - 1e-6
"""A tail level is added only if it is less than this multiple of the outermost given level."""

_ROUNDING = 8
"""Rounding error of a shift, as a number of units in the last place."""


class QuantileShiftRecalibrator(BaseRecalibrator):
    r"""Shift the quantiles so that the share of targets below a quantile equals its level.

    Each level has its own shift. Conformalized quantile regression [1]_ shifts the two bounds of an interval
    in the same way. The class adds levels in the tails, up to the most extreme level that the number of
    calibration rows allows. Use this class after quantile regression, because intervals of quantile
    regression are too short on new rows. Prefer `IsotonicRecalibrator` if you need a smooth density. Prefer
    `StdScalingRecalibrator` if there are fewer than about 50 rows, or if the point prediction must not
    change. Prefer `~skuq.conformal.ConformalRecalibrator` if you need a guarantee.

    Parameters
    ----------
    levels : array-like of shape (k,) or None, default=None
        Levels of the shifted quantiles: at least two increasing numbers in (0, 1). None means the levels of
        the forecasts if the forecasts are `Quantiles`, and otherwise 0.05, 0.1, ..., 0.95. In both cases,
        levels in the tails are added (see Notes).

    Attributes
    ----------
    levels_ : ndarray of shape (m,)
        Levels of the recalibrated quantiles.
    shifts_ : ndarray of shape (m,)
        Shift of the quantiles of each level. In each row, the shift is a multiple of the unit of the row (see
        Notes).
    mean_width_ : float
        Mean width of the 90 % intervals of the calibration rows, in the units of y.
    n_features_in_ : int
        Always 2, because ``np.asarray(dist)`` has two columns.

    See Also
    --------
    skuq.regressors.MultiQuantileRegressor : Quantiles at several levels, from any regressor with a
        quantile loss.
    IsotonicRecalibrator : A monotone function of the probability levels.
    EmpiricalRecalibrator : One shape for all rows.
    skuq.conformal.ConformalRecalibrator : Intervals with guaranteed coverage.

    Notes
    -----
    The unit of a row is :math:`u = (w + \bar w) / 2`. Here, w is the width of the 90 % interval of the row,
    and :math:`\bar w` is the mean width for the calibration rows. The quantile at level p becomes :math:`q_p
    + u \, c_p`, where :math:`c_p` is the order statistic with the rank :math:`p (n + 1)` among :math:`(y_i -
    q_{p,i}) / u_i`. Between whole ranks, the order statistic is interpolated linearly. Shifted quantiles that
    cross are sorted. With w as the unit, narrow intervals that are due to overfitting would stay too narrow.
    With :math:`\bar w` as the unit, as in conformalized quantile regression, the width of the row would have
    no influence. A quantile that equals its target in many rows is not shifted, so that atoms do not move.

    The levels 0.05, 0.025, 0.01, 0.005, 0.0025, 0.001 and 0.0005 and their complements are added if they are
    more extreme than the given levels and the n rows allow them, that is, if :math:`1 \le p (n + 1) \le n`.
    With 199 rows or more, for example, the bounds of a 99 % interval have their own shifts. A given level
    that is too extreme for n rows gets the shift of the most extreme level that n rows allow.

    For quantiles of LightGBM on real data, shifts give a lower CRPS and a lower interval score than one
    factor for all distances from the mean. A map of the probability levels increases both scores
    (:doc:`/development/decisions`).

    Cost: O(m n log n) time and O(m n) memory. The fitted recalibrator stores 2 m numbers.

    References
    ----------
    .. [1] Y. Romano, E. Patterson, E. J. Candès, "Conformalized quantile regression", NeurIPS 2019,
       https://doi.org/10.48550/arXiv.1905.03222, theorem 2.

    Examples
    --------
    The quantiles of this model are too close together and too low:

    >>> import numpy as np
    >>> from skuq.distributions import Normal, Quantiles
    >>> from skuq.recalibration import QuantileShiftRecalibrator
    >>> y = np.random.default_rng(0).normal(10.0, 1.0, size=1000)
    >>> levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    >>> dist = Quantiles(levels, Normal(np.full(1000, 9.0), 0.5).quantile(levels))
    >>> recalibrator = QuantileShiftRecalibrator().fit(dist, y)
    >>> recalibrator.transform(dist[:1]).interval([0.5, 0.9]).round(1)  # true quantiles: 9.3, 10.7, 8.4, 11.6
    array([[[ 9.3,  8.4],
            [10.6, 11.5]]])
    """

    def __init__(self, *, levels: ArrayLike | None = None) -> None:
        self.levels = levels

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        n = effective_rows(weight, len(y))
        levels = self._own_levels(dist)
        tails = _TAIL_LEVELS[_TAIL_LEVELS * (n + 1) >= 1]
        # two levels that differ only by rounding would give a density of 0 / 0
        lower, upper = (tails[tails < outermost * _SMALLER] for outermost in (levels[0], 1 - levels[-1]))
        self.levels_ = np.concatenate([lower[::-1], levels, 1 - upper])
        width = _width(dist)
        self.mean_width_ = float(np.average(width, weights=weight))
        unit = self._unit(width)
        # A level that is too extreme for n rows gets the shift of the most extreme level that n rows allow.
        ranked = np.clip(self.levels_, 1 / (n + 1), n / (n + 1))
        quantiles = _finite_quantiles(dist, ranked)
        with np.errstate(over="ignore"):
            scores = (y[:, np.newaxis] - quantiles) / unit[:, np.newaxis]
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores).all(axis=1)))
            raise ValueError(
                f"`y` must not be too far from its prediction, got {y[row]:g} at row {row}. The predicted "
                f"median of this row is {dist[[row]].median()[0]:g}, and the mean width of the 90 % "
                f"intervals is {self.mean_width_:g}. Check the units of `y`."
            )
        ranks = ranked * (n + 1)
        shifts = np.array([_at_rank(*pair, weight) for pair in zip(scores.T, ranks, strict=True)])
        # Shifts are rounded away from the median, because many equal targets could otherwise lie just beyond
        # their quantile. A shift of 0 needs no rounding.
        size = max(float(np.abs(y).max()), float(np.abs(quantiles).max()))
        rounding = _ROUNDING * np.spacing(size) / unit.min()
        self.shifts_ = shifts + np.where(shifts == 0, 0.0, rounding * np.sign(self.levels_ - 0.5))

    def _transform(self, dist: Distribution) -> Distribution:
        quantiles = _finite_quantiles(dist, self.levels_)
        return Quantiles(self.levels_, quantiles + self._unit(_width(dist))[:, np.newaxis] * self.shifts_)

    def _own_levels(self, dist: Distribution) -> FloatArray:
        if self.levels is None:
            return dist.levels if isinstance(dist, Quantiles) else _LEVELS
        levels = check_increasing(np.atleast_1d(check_open_unit(self.levels, "levels")), "levels")
        if levels.size < 2:
            raise ValueError(f"`levels` must have at least two levels, got {levels.size}.")
        return levels

    def _unit(self, width: FloatArray) -> FloatArray:
        if self.mean_width_ == 0:
            return np.ones_like(width)
        return (width + self.mean_width_) / 2


def _width(dist: Distribution) -> FloatArray:
    bounds = _finite_quantiles(dist, (1 + np.array([-1, 1]) * DEFAULT_COVERAGE) / 2)
    return np.asarray(bounds[:, 1] - bounds[:, 0])


def _finite_quantiles(dist: Distribution, levels: FloatArray) -> FloatArray:
    quantiles = dist.quantile(levels)
    finite = np.isfinite(quantiles)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise ValueError(
            f"`dist` must have finite quantiles at the levels from {levels[0]:g} to {levels[-1]:g}, got "
            f"{quantiles[row, column]:g} at level {levels[column]:g} in row {row}. Use IsotonicRecalibrator."
        )
    return quantiles


def _at_rank(values: FloatArray, rank: float, weight: FloatArray) -> float:
    sample = WeightedRanks(values, weight)
    whole = np.floor(rank)
    low, high = sample.quantile(np.minimum([whole, whole + 1], sample.total))
    return float(low + (rank - whole) * (high - low))
