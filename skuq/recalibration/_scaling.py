"""Base class and shared functions of the recalibrators that scale distributions about their means."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skuq._rounding import reaches
from skuq._typing import FloatArray
from skuq._validation import check_finite_moments
from skuq.distributions import Distribution, affine
from skuq.metrics._binning import Bins, make_bins
from skuq.recalibration._base import BaseRecalibrator, check_dist
from skuq.recalibration._residuals import standardized_residuals

_ATTEMPTS = 16
"""Maximum number of changes of a parameter until the intervals contain enough targets in spite of rounding
errors. Each step is four times the previous step."""


class ScalingRecalibrator(BaseRecalibrator):
    """Base class of the recalibrators that scale distributions about their means."""

    @abstractmethod
    def _factors(self, dist: Distribution) -> FloatArray:
        """Return the positive factor of each row, shape (n,) or (). The factor has no unit."""

    def _transform(self, dist: Distribution) -> Distribution:
        factor = self._factors(dist)
        if (factor == 1).all():
            return dist
        return affine(dist, dist.mean() * (1.0 - factor), factor)

    def predict(self, dist: Any) -> FloatArray:
        """Return the point prediction of each row: the mean of the input.

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
        return check_dist(dist).mean()


class RowsWithUncertainty(NamedTuple):
    """Rows with a positive predicted standard deviation. Other rows contain no information on the scale."""

    dist: Distribution
    y: FloatArray
    z: FloatArray
    std: FloatArray
    weight: FloatArray | None

    @property
    def rows(self) -> float:
        return float(len(self.y) if self.weight is None else self.weight.sum())


def rows_with_uncertainty(
    dist: Distribution, y: FloatArray, weight: FloatArray | None
) -> RowsWithUncertainty | None:
    """Return the rows with a positive std, or None if there are none.

    Raise an error if a point mass is not at its target.
    """
    _, std, z = standardized_residuals(dist, y)
    spread = std > 0
    if spread.all():
        return RowsWithUncertainty(dist, y, z, std, weight)
    if not spread.any():
        return None
    rows = np.flatnonzero(spread)
    return RowsWithUncertainty(
        dist[rows], y[rows], z[rows], std[rows], None if weight is None else weight[rows]
    )


def finite_std(dist: Distribution) -> FloatArray:
    (std,) = check_finite_moments(dist, "std", subject="`dist` must have", remedy="Use IsotonicRecalibrator.")
    return std


def check_factor(factor: float) -> float:
    if 0 < factor < np.inf:
        return factor
    if factor == 0:
        raise ValueError(
            "the scaling factor must be positive, got 0. In all or most rows, `y` equals the predicted "
            "mean. Fit to rows that the model was not trained on."
        )
    raise ValueError(
        f"the scaling factor must be finite, got {factor:g}. Some values of `y` are too many standard "
        f"deviations away from the predictions. Check the units of `y`."
    )


def overall_factor(z: FloatArray, weight: FloatArray | None) -> float:
    with np.errstate(over="ignore"):  # `check_factor` raises for infinity
        return check_factor(float(np.sqrt(np.average(z * z, weights=weight))))


class BinSquares(NamedTuple):
    """Bins of predicted standard deviations with about equal counts.

    The factors of the bins are computed from sums over rows.
    """

    bins: Bins
    rows: FloatArray
    squares: FloatArray  # sum of squared standardized residuals in each bin
    overall: float  # mean squared standardized residual over all rows


def bin_squares(spread: RowsWithUncertainty, n_bins: int) -> BinSquares:
    overall = overall_factor(spread.z, spread.weight) ** 2
    bins = make_bins(spread.std, n_bins, "quantile", spread.weight)
    squares = bins.sums(lambda rows: (np.square(spread.z[rows]),))[0]
    return BinSquares(bins, bins.totals(), squares, overall)


def central_bands(dist: Distribution, coverage: float) -> tuple[FloatArray, FloatArray]:
    """Return the means (n,) and the central intervals (n, 2).

    Raise an error if an interval does not contain its mean.
    """
    mean, bounds = dist.mean(), dist.interval(coverage)
    finite = np.isfinite(mean) & np.isfinite(bounds).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"`dist` must have finite means and finite intervals with coverage {coverage:g}, got the mean "
            f"{mean[row]:g} and the interval [{bounds[row, 0]:g}, {bounds[row, 1]:g}] at row {row}. Use "
            "IsotonicRecalibrator."
        )
    rounding = 8 * np.spacing(np.abs(bounds).max(axis=1))
    outside = (mean < bounds[:, 0] - rounding) | (mean > bounds[:, 1] + rounding)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(
            f"`coverage` is too small: at {coverage:g}, the central interval "
            f"[{bounds[row, 0]:g}, {bounds[row, 1]:g}] of row {row} does not contain the mean {mean[row]:g}. "
            "Increase `coverage`, or use IsotonicRecalibrator."
        )
    return mean, np.column_stack([np.minimum(bounds[:, 0], mean), np.maximum(bounds[:, 1], mean)])


def nudge_until_covered(
    parameter: float, unit: float, missed: Callable[[float], float], allowed: float
) -> float:
    step, candidate = 4 * float(np.spacing(unit)), parameter
    for _ in range(_ATTEMPTS):
        if reaches(allowed, missed(candidate)):
            return candidate
        candidate, step = parameter + step, 4 * step
    return parameter


def miss_share(y: FloatArray, bounds: FloatArray, weight: FloatArray | None) -> float:
    return float(np.average((y < bounds[:, 0]) | (y > bounds[:, 1]), weights=weight))
