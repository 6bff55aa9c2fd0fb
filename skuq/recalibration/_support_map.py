"""Restriction of forecasts to the possible values of the target."""

from __future__ import annotations

from skuq._fitting.support import read_support
from skuq._typing import FloatArray, SupportLike
from skuq.distributions import Distribution
from skuq.recalibration._base import BaseRecalibrator


class SupportMap(BaseRecalibrator):
    """Restrict forecasts to the possible values of the target, such as counts.

    The step clips each forecast to the bounds: the probability beyond a bound becomes an atom at this bound.
    If the possible values are integers, the step also rounds the forecast. Use the step as the last step of a
    Pipeline, after other recalibrators. Most regressors of skuq have the parameter ``support`` with the same
    effect. To give a value inside the bounds a positive probability, use `~skuq.regressors.HurdleRegressor`.

    Parameters
    ----------
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. None means all real numbers, so the
        step changes nothing. Use None as the baseline of a grid search.

    See Also
    --------
    Supported : The distribution that the step returns.
    skuq.regressors.UncertaintyRegressor : A regressor with the parameter ``support``.

    Notes
    -----
    Clipping never increases the CRPS of a row. Rounding may increase the CRPS of individual rows. In
    ``benchmarks/kinds_of_target.py``, "count" decreases the mean CRPS of simulated counts by 1 to 3 % for
    means below 5. It has no effect for a mean of 200. Intervals of rounded forecasts cover at least as often
    as intervals of the original forecasts.

    `fit` does not estimate anything. It raises a ValueError if a target is outside the support.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import SupportMap
    >>> dist = Normal([0.5, 6.0], [1.0, 2.0])
    >>> SupportMap("count").fit(dist, [0, 7]).transform(dist).interval(0.9)
    array([[0., 2.],
           [3., 9.]])
    """

    _learns_by_rows = False

    def __init__(
        self,
        support: SupportLike = None,
    ) -> None:
        self.support = support

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        support = read_support(self.support)
        if support is not None:
            support.check(y, self.support)

    def _transform(self, dist: Distribution) -> Distribution:
        support = read_support(self.support)
        return dist if support is None else support.apply(dist)
