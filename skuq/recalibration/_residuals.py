"""Standardised residuals, from which the shape of a distribution is learnt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.distributions._pit import FLOAT32_ROUNDING

_NO_SPREAD = 1e-14
"""A standard deviation below this share of |mean|, its own or the usual one, is rounding of none at all."""

_MOST_OUTSIDE = 0.1
"""Share of the rows out of reach above which no interval of 90 % can be had."""

_ROUNDINGS = 3
"""Roundings on the way from y to a score and back."""


class Residuals(NamedTuple):
    """How far off predictions are, and the moments that say so, all of shape (n,).

    ``std`` is 0 where it is rounding alone, and ``z`` is (y - mean) / std, or 0 where a certain
    prediction is exact.
    """

    mean: FloatArray
    std: FloatArray
    z: FloatArray


def standardised_residuals(dist: Distribution, y: FloatArray) -> Residuals:
    """Return the standardised residual of each row.

    Raises where a row has no such number: an infinite moment, or certainty that proved wrong.
    """
    mean, std = finite_moments(dist)
    with np.errstate(over="ignore"):
        residual = y - mean
    size = np.abs(mean)
    certain = std <= _NO_SPREAD * np.maximum(size, np.median(size))  # of a mean near 0 the model's rounding
    # rounding around a prediction without spread makes that prediction exact
    wrong = certain & (np.abs(residual) > FLOAT32_ROUNDING * np.abs(y).max())
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"`dist` is certain (standard deviation {std[row]:.2g}) at row {row}, but `y` differs from its "
            f"mean by {residual[row]:g}, which is no number of standard deviations. Members of an ensemble "
            "that agree know nothing of noise: use predictions that hold it, such as those of "
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
    needed = "`dist` must have a finite mean and standard deviation in every row"
    instead = "IsotonicRecalibrator needs neither."
    try:
        mean, std = dist.mean(), dist.std()
    except ValueError as error:  # a Cauchy distribution has none
        raise ValueError(f"{needed}. {instead} Here {error}") from error
    finite = np.isfinite(mean) & np.isfinite(std)
    if not finite.all():
        row = int(np.argmin(finite))
        moment = f"std {std[row]}" if np.isfinite(mean[row]) else f"mean {mean[row]}"
        raise ValueError(f"{needed}, got {moment} at row {row}. {instead}")
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
        How many observations each row stands for.
    n : float
        How many they are.
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
    """Return scores, raised by what rounding takes, so that [low - scale s, high + scale s] holds y.

    Otherwise equal rows, as there are among counts or prices, could all fall short of their own score,
    and the intervals of the guarantee.
    """
    grain = np.spacing(np.maximum(np.abs(y), np.maximum(np.abs(low), np.abs(high))))
    step = np.divide(grain, scale, out=np.zeros_like(score), where=scale > 0)
    for _ in range(_ROUNDINGS):
        outside = (y < low - scale * score) | (y > high + scale * score)
        score = score + np.where(outside, step, 0.0)
    return score
