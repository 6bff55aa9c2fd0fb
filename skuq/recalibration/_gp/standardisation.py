"""Predictions brought to the location and scale of the targets by one affine change for all rows.

A beta map of the levels has three parameters on the scale of log odds. It follows a factor of the standard
deviation or a shift only as far as the levels that it maps are not extreme, and in heavy tails a change of
levels is no change of scale. So defects of orders of magnitude are removed in the values of y, where they are
affine whatever the family: `Normal` stays `Normal`. A `Transformed` distribution is changed in the values of
its base, so that a positive target stays positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from skuq._typing import FloatArray
from skuq.distributions import Concatenated, Distribution, Transformed, affine
from skuq.distributions._numerics.ranks import WeightedRanks

_TAIL = 0.2
"""Locations are medians and scales are ranges between this level and its complement, of distributions as of
targets: they exist in every family, and agree for calibrated rows whatever the shape. Farther out, a Gaussian
target would shrink the middle of a family with power tails, and beta maps then make the tails heavier."""

_NORMAL = -2 * float(ndtri(_TAIL))
"""That range of a standard normal distribution, so that scales are standard deviations for `Normal`."""

_LARGEST_FACTOR = 2.0
"""Scales that differ by less are left to the beta maps, ..."""

_LARGEST_SHIFT = 2.0
"""... and so are shifts of fewer scales: fitted jointly with the scale, they come out more precisely."""

_FEWEST = 5
"""Fewer targets may lie close to each other, or far off, by chance."""

_FEW = 3
"""Fewer targets may be equal by chance."""

_EDGE = 0.1
"""Tail beyond which it does not count how far targets and predictions vary."""

_LEAST_VARIATION = 0.15
"""Where the middle 80 % of the targets cover a smaller share of the range of those of the predictions, noise
looks like a bias for each prediction: the search is slow, and intervals come out far too wide."""


@dataclass(frozen=True)
class Standardisation:
    """The change from Y to loc + shift + (offset + factor (Y - loc) / scale) scale.

    ``loc`` and ``scale`` are those of each row; ``shift`` is in units of y, ``offset`` in scales.
    """

    shift: float = 0.0
    offset: float = 0.0
    factor: float = 1.0

    @property
    def changes(self) -> bool:
        """Whether anything is changed."""
        return (self.shift, self.offset, self.factor) != (0.0, 0.0, 1.0)

    def __call__(self, dist: Distribution) -> Distribution:
        """Return the changed distribution; a row predicted without uncertainty stays as it is."""
        if not self.changes:
            return dist
        if isinstance(dist, Concatenated):
            return Concatenated([self(part) for part in dist.parts], dist.order)
        if isinstance(dist, Transformed):
            return Transformed(self(dist.base), dist.func, dist.inverse_func, dist.inverse_derivative)
        loc, scale = _loc_and_scale(dist)
        uncertain = scale > 0
        factor = np.where(uncertain, self.factor, 1.0)
        moved = np.where(uncertain, self.shift, 0.0) + self.offset * scale
        return affine(dist, moved + (1.0 - factor) * loc, factor)


def standardisation(dist: Distribution, y: FloatArray, weight: FloatArray) -> Standardisation:
    """Return the change that brings predictions to the targets, or none where they are near.

    Parameters
    ----------
    dist : Distribution of n rows
        Predictions with positive standard deviations.
    y : ndarray of shape (n,)
        Targets.
    weight : ndarray of shape (n,)
        How many observations each row stands for.
    """
    target, loc, scale, weight = _coordinates(dist, y, weight)
    if weight.sum() < _FEWEST:
        return Standardisation()
    offset, factor = _centre_and_spread((target - loc) / scale, weight)
    if abs(offset) <= _LARGEST_SHIFT and 1 / _LARGEST_FACTOR <= factor <= _LARGEST_FACTOR:
        return Standardisation()
    # a bias may be a number of scales or, like a wrong offset of the units, the same in all rows
    shift = _centre_and_spread(target - loc, weight)[0]
    rest, smaller = _centre_and_spread((target - loc - shift) / scale, weight)
    if smaller < factor:
        found = Standardisation(shift, rest, smaller)
    else:
        found = Standardisation(0.0, offset, factor)
    return found if found.factor > 0 else Standardisation()


def check_variation(dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
    """Raise where the targets hardly vary although the predictions do; parameters as above."""
    target, loc, _, weight = _coordinates(dist, y, weight)
    if weight.sum() < _FEW:
        return
    targets, predictions = (_range(WeightedRanks(each, weight), _EDGE) for each in (target, loc))
    if targets > _LEAST_VARIATION * predictions or (predictions == 0 and np.ptp(target) > 0):
        return
    raise ValueError(
        f"`y` must vary where the predictions do, got 80 % of {len(y)} targets within {targets:.2g} of each "
        f"other, and of the predicted medians within {predictions:.2g}: every prediction would have a bias "
        "of its own and no noise. Use StdScalingRecalibrator, or fit on more rows."
    )


def _coordinates(
    dist: Distribution, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return targets, locations, scales and weights of the rows whose target is in reach."""
    target, loc, scale = _untransformed(dist, y)
    rows = np.isfinite(target) & np.isfinite(loc) & (scale > 0)
    return target[rows], loc[rows], scale[rows], weight[rows]


def _untransformed(dist: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return targets, locations and scales before any transformation of the target."""
    if isinstance(dist, Concatenated):
        stacked, table, start = np.empty(len(y)), np.empty((3, len(y))), 0
        stacked[dist.order] = y
        for part in dist.parts:
            rows = slice(start, start + len(part))
            table[:, rows] = _untransformed(part, stacked[rows])
            start = rows.stop
        target, loc, scale = table[:, dist.order]
        return target, loc, scale
    if isinstance(dist, Transformed):
        with np.errstate(all="ignore"):  # NaN outside of the support
            return _untransformed(dist.base, np.asarray(dist.inverse_func(np.array(y)), dtype=float))
    return y, *_loc_and_scale(dist)


def _loc_and_scale(dist: Distribution) -> tuple[FloatArray, FloatArray]:
    """Return median and range of each row, or mean and standard deviation where atoms leave no range."""
    known = dist._finite_part()
    tail = np.asarray(_TAIL)
    loc, scale = known._ppf(np.asarray(0.5)), (known._isf(tail) - known._ppf(tail)) / _NORMAL
    if (scale > 0).all():
        return loc, scale
    return np.where(scale > 0, loc, known.mean()), np.where(scale > 0, scale, known.std())


def _centre_and_spread(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the weighted median, and the range between the tails in normal standard deviations."""
    ranks = WeightedRanks(values, weight)
    return ranks.median, _range(ranks, _TAIL) / _NORMAL


def _range(ranks: WeightedRanks, tail: float) -> float:
    """Return the distance between the quantiles at a level and at its complement."""
    low, high = tail * ranks.total, (1 - tail) * ranks.total
    # each halfway between two values at a rank that is a whole number, so that mirrored data are alike
    upper = ranks.quantile(high) + ranks.quantile_from_top(low)
    return float(upper - ranks.quantile(low) - ranks.quantile_from_top(high)) / 2
