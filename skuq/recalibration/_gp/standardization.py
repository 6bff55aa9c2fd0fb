"""Affine change of all predictions to the location and scale of the targets.

A beta map of the levels has three parameters on the scale of log odds. It can follow a factor or a shift only
if the mapped levels are not extreme, and in heavy tails a change of levels differs from a change of scale.
Defects of orders of magnitude are therefore removed in the values of y by an affine change, which exists in
any family: `Normal` stays `Normal`. A `Transformed` distribution is changed in the values of its base, so
that a positive target stays positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from skuq._ranks import WeightedRanks
from skuq._typing import FloatArray
from skuq.distributions import Concatenated, Distribution, Transformed, affine

_TAIL = 0.2
"""Scales are ranges between this level and its complement, and locations are medians, of distributions and of
targets. They exist in every family and agree for calibrated rows of any shape. With a smaller level, a
Gaussian target would shrink the middle of a family with power tails."""

_NORMAL = -2 * float(ndtri(_TAIL))
"""Range of a standard normal distribution, so that scales are standard deviations for `Normal`."""

_LARGEST_FACTOR = 2.0
"""Factor up to which beta maps correct the scale."""

_LARGEST_SHIFT = 2.0
"""Shift, in scales, up to which beta maps correct the location, with more precision."""

_FEWEST = 5
"""Smallest number of targets for an affine change."""

_FEW = 3
"""Smallest number of equal targets that do not occur by chance."""

_EDGE = 0.1
"""Tail that is excluded from the variation of targets and predictions."""

_LEAST_VARIATION = 0.15
"""Smallest ratio of the ranges of the middle 80 % of targets and predictions. With less variation of y, noise
looks like a bias of each prediction: the search is slow, and intervals become far too wide."""


@dataclass(frozen=True)
class Standardization:
    """Change from Y to loc + shift + (offset + factor (Y - loc) / scale) scale of each row."""

    shift: float = 0.0  # in units of y
    offset: float = 0.0  # in scales
    factor: float = 1.0

    @property
    def changes(self) -> bool:
        return (self.shift, self.offset, self.factor) != (0.0, 0.0, 1.0)

    def __call__(self, dist: Distribution) -> Distribution:
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


def standardization(dist: Distribution, y: FloatArray, weight: FloatArray) -> Standardization:
    """Return the change from predictions to targets, or the identity if they are close."""
    target, loc, scale, weight = _coordinates(dist, y, weight)
    if weight.sum() < _FEWEST:
        return Standardization()
    offset, factor = _center_and_spread((target - loc) / scale, weight)
    if abs(offset) <= _LARGEST_SHIFT and 1 / _LARGEST_FACTOR <= factor <= _LARGEST_FACTOR:
        return Standardization()
    # a bias may be a number of scales, or a constant such as a wrong offset of the units
    shift = _center_and_spread(target - loc, weight)[0]
    rest, smaller = _center_and_spread((target - loc - shift) / scale, weight)
    if smaller < factor:
        found = Standardization(shift, rest, smaller)
    else:
        found = Standardization(0.0, offset, factor)
    return found if found.factor > 0 else Standardization()


def check_variation(dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
    """Raise if the targets hardly vary but the predictions do."""
    target, loc, _, weight = _coordinates(dist, y, weight)
    if weight.sum() < _FEW:
        return
    targets, predictions = (_range(WeightedRanks(each, weight), _EDGE) for each in (target, loc))
    if targets > _LEAST_VARIATION * predictions or (predictions == 0 and np.ptp(target) > 0):
        return
    raise ValueError(
        f"`y` must vary if the predictions vary, but 80 % of {len(y)} targets are within {targets:.2g} of "
        f"each other, and 80 % of the predicted medians are within {predictions:.2g}. Each prediction would "
        "have its own bias and no noise. Use StdScalingRecalibrator, or fit on more rows."
    )


def _coordinates(
    dist: Distribution, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return targets, locations, scales and weights of the rows whose target is within the support."""
    target, loc, scale = _untransformed(dist, y)
    rows = np.isfinite(target) & np.isfinite(loc) & (scale > 0)
    return target[rows], loc[rows], scale[rows], weight[rows]


def _untransformed(dist: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
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
        with np.errstate(all="ignore"):  # NaN outside the support
            return _untransformed(dist.base, np.asarray(dist.inverse_func(np.array(y)), dtype=float))
    return y, *_loc_and_scale(dist)


def _loc_and_scale(dist: Distribution) -> tuple[FloatArray, FloatArray]:
    """Return median and range of each row, or mean and standard deviation if atoms give a range of 0."""
    known = dist._finite_part()
    tail = np.asarray(_TAIL)
    loc, scale = known._ppf(np.asarray(0.5)), (known._isf(tail) - known._ppf(tail)) / _NORMAL
    if (scale > 0).all():
        return loc, scale
    return np.where(scale > 0, loc, known.mean()), np.where(scale > 0, scale, known.std())


def _center_and_spread(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the weighted median, and the range between the tails in normal standard deviations."""
    ranks = WeightedRanks(values, weight)
    return ranks.median, _range(ranks, _TAIL) / _NORMAL


def _range(ranks: WeightedRanks, tail: float) -> float:
    """Return the distance between the quantiles at a level and at its complement."""
    low, high = tail * ranks.total, (1 - tail) * ranks.total
    # whole ranks are halfway between two values, so that mirrored data give mirrored results
    upper = ranks.quantile(high) + ranks.quantile_from_top(low)
    return float(upper - ranks.quantile(low) - ranks.quantile_from_top(high)) / 2
