"""Standardised residuals, from which recalibrators and conformal regressors learn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skuq._typing import FloatArray
from skuq._validation import check_finite_moments
from skuq.distributions import Distribution
from skuq.distributions._pit import FLOAT32_ROUNDING

_NO_SPREAD = 1e-14
"""A standard deviation below this share of |mean|, that of the row or the median, is 0 but for rounding."""

_MOST_OUTSIDE = 0.1
"""Share of rows outside of their distribution above which recalibrated 90 % intervals cannot cover 90 %."""

_ROUNDINGS = 3
"""Number of roundings between y, its score and a bound: a difference, a quotient and their inverse."""


class Residuals(NamedTuple):
    """Standardised residuals of n rows and the moments of their predictions, all of shape (n,).

    ``std`` is 0 where it is rounding alone, and ``z`` is (y - mean) / std, or 0 where a prediction without
    spread is exact.
    """

    mean: FloatArray
    std: FloatArray
    z: FloatArray


def standardised_residuals(dist: Distribution, y: FloatArray, name: str = "dist") -> Residuals:
    """Return the standardised residual of each row.

    Raises where there is none: with an infinite moment, or a standard deviation of 0 and a wrong mean. The
    error names the argument ``name``.
    """
    mean, std = finite_moments(dist)
    with np.errstate(over="ignore"):
        residual = y - mean
    size = np.abs(mean)
    # the rounding errors of a mean near 0 are those of the numbers it was computed from, like other means
    certain = std <= _NO_SPREAD * np.maximum(size, np.median(size))
    # a prediction without spread that differs from y by rounding to single precision is exact
    wrong = certain & (np.abs(residual) > FLOAT32_ROUNDING * np.abs(y).max())
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"`{name}` is certain (standard deviation {std[row]:.2g}) at row {row}, but `y` differs from its "
            f"mean by {residual[row]:g}, which is no number of standard deviations. Members of an ensemble "
            "that agree do not include the noise: use predictions that do, such as those of "
            "skuq.UncertaintyRegressor(..., method='residual')."
        )
    with np.errstate(over="ignore"):
        z = np.where(certain, 0.0, residual / np.where(certain, 1.0, std))
    if not np.isfinite(z).all():
        row = int(np.argmin(np.isfinite(z)))
        raise ValueError(
            f"`y` must be within reach of its prediction, but at row {row} it differs by {residual[row]:g} "
            f"where the standard deviation is {std[row]:g}."
        )
    return Residuals(mean, np.where(certain, 0.0, std), z)


def finite_moments(dist: Distribution) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of each row; raises where there are none."""
    mean, std = check_finite_moments(
        dist, "mean", "std", subject="`dist` must have", remedy="IsotonicRecalibrator needs neither."
    )
    return mean, std


def outside_share(
    lower: FloatArray, upper: FloatArray, weight: FloatArray | None, n: float, method: str
) -> float:
    """Return the share of rows at a level of 0 or 1; raise where it leaves no interval of 90 %.

    Parameters
    ----------
    lower, upper : ndarray of shape (n,)
        Normal scores of the PIT, from `pit_scores`.
    weight : ndarray of shape (n,) or None
        Number of observations that each row stands for.
    n : float
        Their sum.
    method : str
        Name of the recalibrator.
    """
    share = float(np.average(np.isinf(lower) & (lower == upper), weights=weight))
    if share > _MOST_OUTSIDE + 2 * np.sqrt(_MOST_OUTSIDE * (1 - _MOST_OUTSIDE) / n):
        raise ValueError(
            f"`dist` must give some probability to where `y` lies, got {share:.1%} of the rows beyond all of "
            "it, as below the smallest member of an ensemble. A map of levels cannot reach them. Use "
            f"EmpiricalRecalibrator, or widen the distributions first, with "
            f"make_pipeline(StdScalingRecalibrator(), {method}())."
        )
    return share


def reaching_scores(
    score: FloatArray, low: FloatArray, high: FloatArray, scale: FloatArray, y: FloatArray
) -> FloatArray:
    """Return the scores s, raised so far that [low - scale s, high + scale s], as rounded, contains y.

    Without that, rounding may put y outside of the interval of its own score. Where many rows are equal,
    as with counts or prices, the interval of their score would then miss all of them and with them the
    guaranteed coverage.
    """
    # the distance between floating-point numbers next to the largest term of a bound, in units of the score
    terms = np.abs(y), np.abs(low), np.abs(high), np.abs(scale * score)
    grain = np.spacing(np.maximum.reduce(np.broadcast_arrays(*terms)))
    step = np.divide(grain, scale, out=np.zeros_like(score), where=scale > 0)
    for _ in range(_ROUNDINGS):
        outside = (y < low - scale * score) | (y > high + scale * score)
        score = score + np.where(outside, step, 0.0)
    return score
