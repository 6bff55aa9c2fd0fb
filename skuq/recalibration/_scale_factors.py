"""The one factor for all standard deviations that fits calibration rows best, in several senses."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from skuq._typing import FloatArray
from skuq._units import power_of_two
from skuq.distributions import Distribution, Normal, affine
from skuq.distributions._members import search_quantile
from skuq.distributions._numerics.ranks import WeightedRanks
from skuq.metrics._kernels import location_scale, weighted_mean
from skuq.metrics._rounding import reaches
from skuq.metrics._ucc.curve import uncertainty_characteristics_curve
from skuq.recalibration._scaling import (
    Spread,
    central_bands,
    check_factor,
    miss_share,
    past_rounding,
)

_REACH = 1e7
"""Beyond so many standard deviations the derivative of the CRPS is at its limit, and rounding is not."""

_DIGITS = 12
"""Decimals of the logarithm of a factor; further ones would depend on the order of the rows."""


def crps_factor(spread: Spread) -> float:
    r"""Return the factor of least mean CRPS.

    With e the residual and C the CRPS of a row as a function of the distance from its mean, the scaled row
    scores :math:`r C(e / r)`. C is convex, hence so is this in r, and its derivative
    :math:`C(x) - x C'(x)` at :math:`x = e / r`, where :math:`C'(x) = 2 F(x) - 1`, has one change of sign.
    """
    spread = spread._replace(dist=_centred(spread.dist))
    size = np.abs(spread.z)
    factor = WeightedRanks(size[size > 0]).median if size.any() else 0.0
    smallest = size[size > 0].min(initial=np.inf) / 1e3

    def slope(log_factor: float) -> float:
        return weighted_mean(_crps_slopes(spread, float(np.exp(log_factor))), spread.weight)

    if not 0 < factor < np.inf:
        return check_factor(factor)
    low = high = float(np.log(factor))
    while slope(low) > 0:
        if low < np.log(smallest):  # so many residuals of 0 that no spread at all scores best
            return check_factor(0.0)
        low -= 1.0
    while slope(high) < 0:
        high += 1.0
    best = low if low == high else float(brentq(slope, low, high, xtol=0.1**_DIGITS))
    return float(np.exp(round(best, _DIGITS)))


def _crps_slopes(spread: Spread, factor: float) -> FloatArray:
    """Return the derivative of each row's CRPS by the common factor, up to a constant one; means are 0."""
    z = np.clip(spread.z / factor, -_REACH, _REACH)
    if isinstance(spread.dist, Normal):
        # sigma [2 phi(z) - 1 / sqrt(pi)], times sqrt(pi)
        return np.asarray(spread.std * (np.sqrt(2.0) * np.exp(-0.5 * z * z) - 1.0))
    x = z * spread.std
    return np.asarray(spread.dist.crps(x) - x * (2.0 * spread.dist.cdf(x) - 1.0))


def coverage_factor(spread: Spread, coverage: float) -> float:
    """Return the least factor with which central intervals, scaled about the mean, hold a share of rows."""
    dist, y, _, _, weight = spread
    mean, bounds = central_bands(dist, coverage)
    widest = np.abs(bounds - mean[:, np.newaxis]).max()
    unit = power_of_two(widest)
    curve = uncertainty_characteristics_curve(
        y / unit, bounds / unit, point=mean / unit, sample_weight=weight
    )
    if not reaches(1 - coverage, curve.miss_rate[-1]):
        raise ValueError(
            f"`coverage` must be reachable, got {coverage:g}, but {curve.miss_rate[-1]:.3g} of the rows have "
            "a central interval that ends at its mean on the side of `y`, so that no factor moves the bound. "
            "Raise `coverage`, or use IsotonicRecalibrator."
        )
    point = curve.operating_point(miss_rate=1 - coverage)

    def missed(factor: float) -> float:
        scaled = affine(dist, mean * (1.0 - factor), factor)
        return miss_share(y, scaled.interval(coverage), weight)

    factor = check_factor(point.parameter)
    return past_rounding(factor, factor, missed, point.miss_rate)


def median_factor(spread: Spread) -> float:
    """Return the factor with which half of the rows lie within their median distance from the mean."""
    distance = _median_distance(spread.dist)
    empty = distance <= 1e-12 * spread.std
    if empty.any():
        raise ValueError(
            f"`robust` must be False for a `dist` with half of its probability on the mean, as at row "
            f"{int(np.argmax(empty))}: the median distance from there is 0 and has no scale."
        )
    with np.errstate(over="ignore"):
        return check_factor(WeightedRanks(np.abs(spread.z) * (spread.std / distance), spread.weight).median)


def _median_distance(dist: Distribution) -> FloatArray:
    """Return the median of |Y - mean| of each row; of a location-scale family by one search for all."""
    form = location_scale(dist)
    if form is None:
        return _search_median_distance(_centred(dist))
    return form[1] * _search_median_distance(_centred(form[2]))


def _search_median_distance(centred: Distribution) -> FloatArray:
    """Return the same for distributions with their means at 0."""

    def within(distance: FloatArray) -> FloatArray:
        return centred.cdf(distance) - centred.cdf(-distance)

    quartiles = np.abs(centred.quantile([0.25, 0.75])).max(axis=1)
    n = len(centred)  # the middle half of the probability lies within the farther quartile
    return search_quantile(within, np.full(n, 0.5), np.zeros(n), quartiles * (1 + 1e-9))


def _centred(dist: Distribution) -> Distribution:
    """Return the distributions with their means at 0, where the digits of a narrow one are."""
    return affine(dist, -dist.mean(), 1.0)
