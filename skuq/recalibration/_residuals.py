"""Standardized residuals for recalibrators and conformal regressors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skuq._typing import FloatArray
from skuq._validation import check_finite_moments
from skuq.distributions import Distribution
from skuq.distributions._discrete import FLOAT32_ROUNDING

_NO_SPREAD = 1e-14
"""A standard deviation is treated as a rounding error if it is below this share of the absolute mean."""

_MOST_OUTSIDE = 0.1
"""If a larger share of the rows has y outside the support, recalibrated 90 % intervals cannot contain 90 % of
the targets."""


class Residuals(NamedTuple):
    """Moments and standardized residuals of n rows. If the std is only a rounding error, std and z are 0."""

    mean: FloatArray
    std: FloatArray
    z: FloatArray


def standardized_residuals(dist: Distribution, y: FloatArray, name: str = "dist") -> Residuals:
    """Return the standardized residuals. Raise an error for infinite moments or a std of 0."""
    mean, std = finite_moments(dist)
    with np.errstate(over="ignore"):
        residual = y - mean
    size = np.abs(mean)
    # The rounding errors of a mean near 0 are relative to the size of the other means.
    certain = std <= _NO_SPREAD * np.maximum(size, np.median(size))
    # A prediction with a std of 0 may differ from y by a rounding error of single precision.
    wrong = certain & (np.abs(residual) > FLOAT32_ROUNDING * np.abs(y).max())
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"`{name}` must have positive standard deviations unless the mean equals `y`, got {std[row]:.2g} "
            f"at row {row}. In this row, `y` differs from the mean by {residual[row]:g}. If the members of "
            "an ensemble predict only the mean, its standard deviations may be 0. Use predictions that "
            "include the noise, such as skuq.UncertaintyRegressor(..., method='residual')."
        )
    with np.errstate(over="ignore"):
        z = np.where(certain, 0.0, residual / np.where(certain, 1.0, std))
    if not np.isfinite(z).all():
        row = int(np.argmin(np.isfinite(z)))
        raise ValueError(
            f"`y` must differ from its prediction by a finite number of standard deviations. At row {row}, "
            f"the difference is {residual[row]:g} and the standard deviation is {std[row]:g}."
        )
    return Residuals(mean, np.where(certain, 0.0, std), z)


def finite_moments(dist: Distribution) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation of each row. Raise an error if one of them is not finite."""
    mean, std = check_finite_moments(
        dist,
        "mean",
        "std",
        subject="`dist` must have",
        remedy="IsotonicRecalibrator needs neither means nor standard deviations.",
    )
    return mean, std


def outside_share(lower: FloatArray, upper: FloatArray, weight: FloatArray, n: float, method: str) -> float:
    """Return the share of rows with a PIT of 0 or 1.

    Raise an error if 90 % intervals cannot contain 90 % of the targets.
    """
    share = float(np.average(np.isinf(lower) & (lower == upper), weights=weight))
    if share > _MOST_OUTSIDE + 2 * np.sqrt(_MOST_OUTSIDE * (1 - _MOST_OUTSIDE) / n):
        raise ValueError(
            f"the support of `dist` must contain `y`, but in {share:.1%} of the rows, `y` is outside the "
            f"support, for example below the smallest member of an ensemble. {method} cannot extend the "
            f"support. Use "
            "EmpiricalRecalibrator, or widen the distributions first with "
            f"make_pipeline(StdScalingRecalibrator(), {method}())."
        )
    return share
