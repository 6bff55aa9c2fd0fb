"""Computation of the best factor for all standard deviations, by several criteria."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from skuq._ranks import WeightedRanks
from skuq._rounding import reaches
from skuq._typing import FloatArray
from skuq._units import power_of_two
from skuq._weights import weighted_mean
from skuq.distributions import Distribution, Normal, affine
from skuq.distributions._members import search_quantile
from skuq.metrics._ucc.curve import uncertainty_characteristics_curve
from skuq.recalibration._scaling import (
    RowsWithUncertainty,
    central_bands,
    check_factor,
    miss_share,
    nudge_until_covered,
)

_REACH = 1e7
"""Beyond this number of standard deviations, the derivative of the CRPS equals its limit."""

_DIGITS = 12
"""Log factors are rounded to this number of decimals. Further decimals would depend on the order of the
rows."""


def crps_factor(spread: RowsWithUncertainty) -> float:
    """Return the factor that minimizes the mean CRPS, a convex function of the factor."""
    # Let e be the residual of a row, and C(x) the CRPS of its distribution at the distance x from the mean.
    # For the factor r, the CRPS is r C(e / r). Its derivative is C(x) - x (2 F(x) - 1) at x = e / r.
    spread = spread._replace(dist=_centered(spread.dist))
    size = np.abs(spread.z)
    factor = WeightedRanks(size[size > 0]).median if size.any() else 0.0
    smallest = size[size > 0].min(initial=np.inf) / 1e3

    def slope(log_factor: float) -> float:
        return weighted_mean(_crps_slopes(spread, float(np.exp(log_factor))), spread.weight)

    if not 0 < factor < np.inf:
        return check_factor(factor)
    low = high = float(np.log(factor))
    while slope(low) > 0:
        if low < np.log(smallest):  # many residuals are 0, so the best factor is 0
            return check_factor(0.0)
        low -= 1.0
    while slope(high) < 0:
        high += 1.0
    best = low if low == high else float(brentq(slope, low, high, xtol=0.1**_DIGITS))
    return float(np.exp(round(best, _DIGITS)))


def _crps_slopes(spread: RowsWithUncertainty, factor: float) -> FloatArray:
    """Return the slope of the CRPS of each row in the factor, up to a constant. The means must be 0."""
    z = np.clip(spread.z / factor, -_REACH, _REACH)
    if isinstance(spread.dist, Normal):
        # sqrt(pi) times sigma [2 phi(z) - 1 / sqrt(pi)]
        return np.asarray(spread.std * (np.sqrt(2.0) * np.exp(-0.5 * z * z) - 1.0))
    x = z * spread.std
    return np.asarray(spread.dist.crps(x) - x * (2.0 * spread.dist.cdf(x) - 1.0))


def coverage_factor(spread: RowsWithUncertainty, coverage: float) -> float:
    """Return the smallest factor for which central intervals contain a share ``coverage`` of the targets."""
    dist, y, _, _, weight = spread
    mean, bounds = central_bands(dist, coverage)
    widest = np.abs(bounds - mean[:, np.newaxis]).max()
    unit = power_of_two(widest)
    curve = uncertainty_characteristics_curve(
        y / unit, bounds / unit, point=mean / unit, sample_weight=weight
    )
    if not reaches(1 - coverage, curve.miss_rate[-1]):
        raise ValueError(
            f"`coverage` must be attainable with one factor, got {coverage:g}. In {curve.miss_rate[-1]:.1%} "
            "of the rows, the central interval has no width on the side of the mean where `y` is. No factor "
            "makes such an interval contain `y`. Increase `coverage`, or use IsotonicRecalibrator."
        )
    point = curve.operating_point(miss_rate=1 - coverage)

    def missed(factor: float) -> float:
        scaled = affine(dist, mean * (1.0 - factor), factor)
        return miss_share(y, scaled.interval(coverage), weight)

    factor = check_factor(point.parameter)
    return nudge_until_covered(factor, factor, missed, point.miss_rate)


def median_factor(spread: RowsWithUncertainty) -> float:
    distance = _median_distance(spread.dist)
    empty = distance <= 1e-12 * spread.std
    if empty.any():
        raise ValueError(
            "`robust` must be False if a distribution has half of its probability at its mean, got such a "
            f"distribution at row {int(np.argmax(empty))}. Its median distance from the mean is 0."
        )
    with np.errstate(over="ignore"):
        return check_factor(WeightedRanks(np.abs(spread.z) * (spread.std / distance), spread.weight).median)


def _median_distance(dist: Distribution) -> FloatArray:
    form = dist._standard_form()
    if form is None:
        return _search_median_distance(_centered(dist))
    return form[1] * _search_median_distance(_centered(form[2]))


def _search_median_distance(centered: Distribution) -> FloatArray:

    def within(distance: FloatArray) -> FloatArray:
        return centered.cdf(distance) - centered.cdf(-distance)

    # the distance of the farther quartile is an upper bound
    quartiles = np.abs(centered.quantile([0.25, 0.75])).max(axis=1)
    n = len(centered)
    return search_quantile(within, np.full(n, 0.5), np.zeros(n), quartiles * (1 + 1e-9))


def _centered(dist: Distribution) -> Distribution:
    return affine(dist, -dist.mean(), 1.0)
