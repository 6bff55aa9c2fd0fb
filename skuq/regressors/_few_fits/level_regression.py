"""Quantiles at eleven levels, derived from fitted quantiles at a few levels."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, ndtri

from skuq._typing import FloatArray, IntArray
from skuq.distributions import Distribution, Quantiles
from skuq.recalibration import BaseRecalibrator, QuantileShiftRecalibrator
from skuq.regressors._multi_quantile import DEFAULT_LEVELS

_PENALTY = 10.0
"""Penalty of the squared slopes. A penalty of 1 is as large as the loss of one row."""

_BANDWIDTH = 0.05
"""Half-width of the interval in which the pinball loss is smoothed. The targets are scaled to a unit of 1."""

_LEAST_UNIT = 0.25
"""Lower limit of the unit of the targets, as a multiple of the mean width of 90 % intervals. For a normal
distribution, the mean absolute error of the median is about this multiple of the width."""

_MOST_ROWS = 20_000
"""The regression uses at most this number of rows."""


class LevelRegressionRecalibrator(BaseRecalibrator):
    """Recalibrator that derives eleven quantiles from a few fitted quantiles, and then shifts them."""

    # Each of the eleven quantiles is first interpolated between the fitted quantiles, linearly in the normal
    # score of its level. A linear combination of the differences between adjacent fitted quantiles is then
    # added. The coefficients of this combination minimize the penalized pinball loss on the calibration rows.

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        if not isinstance(dist, Quantiles):
            raise TypeError(f"`dist` must be Quantiles, got {type(dist).__name__}. Use another recalibrator.")
        self.knots_, self.slopes_ = _interpolation(dist.levels, np.array(DEFAULT_LEVELS))
        self._regress(dist, y, weight)
        self.recalibrator_ = QuantileShiftRecalibrator().fit(self._combine(dist), y, weight)

    def _regress(self, dist: Quantiles, y: FloatArray, weight: FloatArray | None) -> None:
        """Fit the linear combinations of differences that are added to the interpolated quantiles."""
        rows = slice(None, None, -(-len(y) // _MOST_ROWS))
        total = float(len(y) if weight is None else weight.sum())
        share = np.ones(len(y))[rows] if weight is None else weight[rows]
        share = share / share.sum()
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            errors = y[rows, np.newaxis] - self._combine(dist[rows]).values
            steps = np.diff(dist.values[rows], axis=1)
            error = share @ np.abs(errors[:, DEFAULT_LEVELS.index(0.5)])
            unit = max(error, _LEAST_UNIT * (share @ steps.sum(axis=1)))
            steps, errors = steps / unit, errors / unit
        if not (np.isfinite(steps).all() and np.isfinite(errors).all()):
            return  # overflow, or all errors are 0
        for column, level in enumerate(DEFAULT_LEVELS):
            self.slopes_[:, column] += _regression_slopes(
                steps, errors[:, column], level, share, _PENALTY / total
            )

    def _combine(self, dist: Distribution) -> Quantiles:
        values = dist.values  # type: ignore[attr-defined]
        # sums of differences, so that equal quantiles stay equal
        return Quantiles(DEFAULT_LEVELS, values[:, self.knots_] + np.diff(values, axis=1) @ self.slopes_)

    def _transform(self, dist: Distribution) -> Distribution:
        recalibrated: Distribution = self.recalibrator_.transform(self._combine(dist))
        return recalibrated


def _interpolation(fitted: FloatArray, levels: FloatArray) -> tuple[IntArray, FloatArray]:
    score, target = ndtri(fitted), ndtri(levels)
    knots = np.clip(np.searchsorted(fitted, levels, side="right") - 1, 0, None)
    step = np.minimum(knots, len(fitted) - 2)
    shares = np.zeros((len(fitted) - 1, len(levels)))
    shares[step, np.arange(len(levels))] = (target - score[knots]) / (score[step + 1] - score[step])
    return knots, shares


def _regression_slopes(
    features: FloatArray, target: FloatArray, level: float, share: FloatArray, penalty: float
) -> FloatArray:
    """Return the slopes that minimize the pinball loss.

    The slopes are zero if no slopes decrease the loss.
    """
    design = np.column_stack([np.ones(len(target)), features])

    def cost(x: FloatArray) -> tuple[float, FloatArray]:
        error = (target - design @ x) / _BANDWIDTH
        loss = share @ (level * error + np.logaddexp(0.0, -error)) * _BANDWIDTH
        gradient = -((share * (level - expit(-error))) @ design)
        gradient[1:] += 2 * penalty * x[1:]
        return float(loss + penalty * x[1:] @ x[1:]), gradient

    start = np.zeros(design.shape[1])
    x = minimize(cost, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-13, "gtol": 1e-7}).x
    before, after = (share @ np.maximum(level * e, (level - 1) * e) for e in (target, target - design @ x))
    slopes: FloatArray = x[1:] if after < before else start[1:]
    return slopes
