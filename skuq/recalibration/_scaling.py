"""Base class and common steps of the recalibrators that scale each distribution about its mean."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_finite_moments
from skuq.distributions import Distribution, affine
from skuq.metrics._binning import Bins, make_bins
from skuq.metrics._rounding import reaches
from skuq.recalibration._base import BaseRecalibrator, check_dist
from skuq.recalibration._residuals import standardised_residuals

_ATTEMPTS = 16
"""How often a step against rounding is made four times longer: in all to a few millionths."""


class ScalingRecalibrator(BaseRecalibrator):
    """Base class: every distribution is scaled about its mean, so that point predictions stay."""

    @abstractmethod
    def _factors(self, dist: Distribution) -> FloatArray:
        """Return the positive factor of each row, shape (n,) or (), without units."""

    def _transform(self, dist: Distribution) -> Distribution:
        factor = self._factors(dist)
        if (factor == 1).all():
            return dist
        return affine(dist, dist.mean() * (1.0 - factor), factor)

    def predict(self, dist: Distribution | ArrayLike) -> FloatArray:
        """Return the point prediction, which is that of the input, to the last bit.

        Parameters
        ----------
        dist : Distribution of n rows, or array-like of shape (n, 2)
            Predictions of the model that the recalibrator was fitted for.

        Returns
        -------
        y_pred : ndarray of shape (n,)
            In the units of `dist`.
        """
        check_is_fitted(self)
        return check_dist(dist).mean()


class Spread(NamedTuple):
    """The rows that are informative about scale: those predicted with uncertainty."""

    dist: Distribution
    y: FloatArray
    z: FloatArray
    std: FloatArray
    weight: FloatArray | None

    @property
    def rows(self) -> float:
        """How many rows these stand for."""
        return float(len(self.y) if self.weight is None else self.weight.sum())


def read_spread(dist: Distribution, y: FloatArray, weight: FloatArray | None) -> Spread | None:
    """Return the rows with spread, or None where all are point masses, which are then exact.

    Any factor fits a point mass on its target; none corrects one elsewhere, which raises.
    """
    _, std, z = standardised_residuals(dist, y)
    spread = std > 0
    if spread.all():
        return Spread(dist, y, z, std, weight)
    if not spread.any():
        return None
    rows = np.flatnonzero(spread)
    return Spread(dist[rows], y[rows], z[rows], std[rows], None if weight is None else weight[rows])


def finite_std(dist: Distribution) -> FloatArray:
    """Return the standard deviation of each row; raises where there is none."""
    (std,) = check_finite_moments(
        dist, "std", subject="`dist` must have", remedy="IsotonicRecalibrator needs none."
    )
    return std


def check_factor(factor: float) -> float:
    """Raise unless distributions remain after scaling."""
    if 0 < factor < np.inf:
        return factor
    if factor == 0:
        raise ValueError(
            "`y` gives a scaling factor of 0, so no distribution is left to scale: it equals the predicted "
            "mean in every row, or in so many that no spread at all fits best. Fit on rows that the model "
            "is not trained on."
        )
    raise ValueError(
        f"`y` gives a scaling factor of {factor:g}, so no distribution is left to scale: it is too many "
        "standard deviations away from the predictions."
    )


def overall_factor(z: FloatArray, weight: FloatArray | None) -> float:
    """Return the root mean square of the standardised residuals."""
    with np.errstate(over="ignore"):  # an infinite factor is reported
        return check_factor(float(np.sqrt(np.average(z * z, weights=weight))))


class BinSquares(NamedTuple):
    """Rows in bins of equal count by standard deviation, and what their factors are made of."""

    bins: Bins
    rows: FloatArray
    squares: FloatArray
    """Sum of the squared standardised residuals of each bin, shape (b,), as `rows`."""
    overall: float
    """Mean of them all, positive."""


def bin_squares(spread: Spread, n_bins: int) -> BinSquares:
    """Return the sums of squared standardised residuals in bins by standard deviation."""
    overall = overall_factor(spread.z, spread.weight) ** 2
    bins = make_bins(spread.std, n_bins, "quantile", spread.weight)
    squares = bins.sums(lambda rows: (np.square(spread.z[rows]),))[0]
    return BinSquares(bins, bins.totals(), squares, overall)


def central_bands(dist: Distribution, coverage: float) -> tuple[FloatArray, FloatArray]:
    """Return mean and central interval of each row, (n,) and (n, 2); the mean lies inside."""
    mean, bounds = dist.mean(), dist.interval(coverage)
    finite = np.isfinite(mean) & np.isfinite(bounds).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"`dist` must have a finite mean and a finite interval at coverage {coverage:g} in every row, "
            f"got mean {mean[row]:g} and [{bounds[row, 0]:g}, {bounds[row, 1]:g}] at row {row}."
        )
    rounding = 8 * np.spacing(np.abs(bounds).max(axis=1))
    outside = (mean < bounds[:, 0] - rounding) | (mean > bounds[:, 1] + rounding)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(
            f"`coverage` must be so large that every central interval holds its mean, got {coverage:g}, with "
            f"mean {mean[row]:g} outside [{bounds[row, 0]:g}, {bounds[row, 1]:g}] at row {row}: such an "
            "interval cannot be scaled about the mean. Raise `coverage`, or use IsotonicRecalibrator."
        )
    return mean, np.column_stack([np.minimum(bounds[:, 0], mean), np.maximum(bounds[:, 1], mean)])


def past_rounding(parameter: float, unit: float, missed: Callable[[float], float], allowed: float) -> float:
    """Return a parameter of bands, larger by so little that none of the rows it reaches is lost to rounding.

    The row whose target a bound just touches lies outside as often as inside once bounds are computed.
    """
    step, candidate = 4 * float(np.spacing(unit)), parameter
    for _ in range(_ATTEMPTS):
        if reaches(allowed, missed(candidate)):
            return candidate
        candidate, step = parameter + step, 4 * step
    return parameter


def miss_share(y: FloatArray, bounds: FloatArray, weight: FloatArray | None) -> float:
    """Return the share of targets outside their bounds."""
    return float(np.average((y < bounds[:, 0]) | (y > bounds[:, 1]), weights=weight))
