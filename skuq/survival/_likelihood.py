"""Likelihood of a normal distribution with known bounds of each target."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from skuq._censoring import Bounds, log_mass
from skuq._typing import FloatArray

_LOG_NORMAL_PEAK = -0.5 * np.log(2 * np.pi)
_LEAST_LOC_CURVATURE, _LEAST_SCALE_CURVATURE = 0.01, 0.02


def scores_of(bounds: Bounds, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the standardized bounds for the columns location and log-scale of ``theta``."""
    scale = np.exp(theta[:, 1])
    return (bounds.lower - theta[:, 0]) / scale, (bounds.upper - theta[:, 0]) / scale


def loss(bounds: Bounds, theta: FloatArray) -> FloatArray:
    """Return the negative log-likelihood of each row, shape (n,)."""
    low, high = scores_of(bounds, theta)
    observed = bounds.observed
    density = _LOG_NORMAL_PEAK - 0.5 * np.square(np.where(observed, low, 0.0)) - theta[:, 1]
    return -np.where(observed, density, log_mass(low, high))


def derivatives(bounds: Bounds, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the gradient and a positive curvature of the loss, each of shape (n, 2)."""
    low, high = scores_of(bounds, theta)
    observed = bounds.observed
    mass = np.where(observed, 0.0, log_mass(low, high))
    # Density at each bound, divided by the probability between the bounds. It is 0 at infinite bounds.
    at_low, at_high = (
        np.where(np.isfinite(z), np.exp(_LOG_NORMAL_PEAK - 0.5 * np.square(z) - mass), 0.0)
        for z in (low, high)
    )
    z_low, z_high = (np.where(np.isfinite(z), z, 0.0) for z in (low, high))
    first = at_high - at_low
    second = z_high * at_high - z_low * at_low
    third = z_high * (1 - z_high**2) * at_high - z_low * (1 - z_low**2) * at_low
    scale = np.exp(theta[:, 1])
    gradient = np.column_stack(
        [np.where(observed, -z_low, first) / scale, np.where(observed, 1 - z_low**2, second)]
    )
    loc_curvature = np.clip(first**2 + second, _LEAST_LOC_CURVATURE, 1.0)
    scale_curvature = np.clip(second**2 - third, _LEAST_SCALE_CURVATURE, 2.0)
    curvature = np.column_stack(
        [np.where(observed, 1.0, loc_curvature) / scale**2, np.where(observed, 2.0, scale_curvature)]
    )
    return gradient, curvature


def constant_fit(bounds: Bounds, weight: FloatArray) -> FloatArray:
    """Return the location and the log-scale of the best distribution without features, shape (2,)."""
    ends = np.concatenate([bounds.lower, bounds.upper])
    finite = np.unique(ends[np.isfinite(ends)])
    center, spread = float(np.median(finite)), float(np.ptp(finite)) / 4 or 1.0
    standard = Bounds((bounds.lower - center) / spread, (bounds.upper - center) / spread)
    total = weight.sum()

    def value_and_slope(theta: FloatArray) -> tuple[float, FloatArray]:
        rows = np.tile(theta, (weight.size, 1))
        return float(weight @ loss(standard, rows)) / total, weight @ derivatives(standard, rows)[0] / total

    found = minimize(value_and_slope, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-20, 20), (-15, 15)])
    return np.array([center + spread * found.x[0], np.log(spread) + found.x[1]])
