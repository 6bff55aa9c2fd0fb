"""Affine change of all predictions to the location and scale of the targets.

A beta map of the levels has three parameters on the scale of log odds. A beta map corresponds to a factor or
a shift of the values only if the levels are not extreme, because in heavy tails, a change of levels differs
from a change of scale. Therefore, large errors of the scale or location are first corrected by an affine
change of the values. Each family supports an affine change: for example, a `Normal` stays a `Normal`. For a
`Transformed` distribution, the base is changed, so that a positive target stays positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from skuq._ranks import WeightedRanks
from skuq._typing import FloatArray
from skuq.distributions import Distribution, Transformed, affine
from skuq.distributions._concatenated import Concatenated

_TAIL = 0.2
"""Level of the quantiles that define the scale.

The scale is the distance between the quantiles at this level and at 1 minus this level. The location is the
median. The same definitions apply to distributions and to targets. Every family has a location and a scale.
If the rows are calibrated, the scale and the location of the distributions agree with the scale and the
location of the targets, for any shape. With a smaller level, the scale would depend on the tails. If the
targets were normal, a heavy-tailed family would then be too narrow in the center.
"""

_NORMAL = -2 * float(ndtri(_TAIL))
"""Scale of a standard normal distribution. A scale divided by this number is comparable with a standard
deviation."""

_LARGEST_FACTOR = 2.0
"""Largest error of the scale, as a factor, that beta maps correct."""

_LARGEST_SHIFT = 2.0
"""Largest error of the location that beta maps correct, in units of the scale."""

_FEWEST = 5
"""An affine change needs at least this number of targets."""

_FEW = 3
"""The variation of the targets is checked for at least this number of targets. Two targets may be equal by
chance."""

_EDGE = 0.1
"""The comparison of the variation of targets and predictions ignores tails with this probability."""

_LEAST_VARIATION = 0.15
"""Smallest ratio of two ranges: the range of the middle 80 % of the targets, and of the predictions.

If the targets vary less, noise cannot be distinguished from a bias of each prediction. The search is then
slow, and intervals become far too wide.
"""


@dataclass(frozen=True)
class Standardization:
    """Change of Y to loc + shift + (offset + factor (Y - loc) / scale) scale in each row."""

    shift: float = 0.0  # in units of y
    offset: float = 0.0  # in units of the scale
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
    """Return the affine change that fits predictions to targets.

    Return no change if targets and predictions are close.
    """
    target, loc, scale, weight = _coordinates(dist, y, weight)
    if weight.sum() < _FEWEST:
        return Standardization()
    offset, factor = _center_and_spread((target - loc) / scale, weight)
    if abs(offset) <= _LARGEST_SHIFT and 1 / _LARGEST_FACTOR <= factor <= _LARGEST_FACTOR:
        return Standardization()
    # a bias may be proportional to the scales, or a constant such as an offset of the units
    shift = _center_and_spread(target - loc, weight)[0]
    rest, smaller = _center_and_spread((target - loc - shift) / scale, weight)
    if smaller < factor:
        found = Standardization(shift, rest, smaller)
    else:
        found = Standardization(0.0, offset, factor)
    return found if found.factor > 0 else Standardization()


def check_variation(dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
    """Raise an error if the targets hardly vary although the predictions vary."""
    target, loc, _, weight = _coordinates(dist, y, weight)
    if weight.sum() < _FEW:
        return
    targets, predictions = (_range(WeightedRanks(each, weight), _EDGE) for each in (target, loc))
    if targets > _LEAST_VARIATION * predictions or (predictions == 0 and np.ptp(target) > 0):
        return
    raise ValueError(
        f"`y` must vary if the predictions vary, but the range of the middle 80 % of the {len(y)} targets is "
        f"{targets:.2g}, and the range of the middle 80 % of the predicted medians is {predictions:.2g}. "
        "Use StdScalingRecalibrator, or fit to more rows."
    )


def _coordinates(
    dist: Distribution, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
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
    """Return the location and the scale of each row.

    If atoms make the scale 0, return the mean and the std.
    """
    known = dist._finite_part()
    tail = np.asarray(_TAIL)
    loc, scale = known._ppf(np.asarray(0.5)), (known._isf(tail) - known._ppf(tail)) / _NORMAL
    if (scale > 0).all():
        return loc, scale
    return np.where(scale > 0, loc, known.mean()), np.where(scale > 0, scale, known.std())


def _center_and_spread(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    ranks = WeightedRanks(values, weight)
    return ranks.median, _range(ranks, _TAIL) / _NORMAL


def _range(ranks: WeightedRanks, tail: float) -> float:
    low, high = tail * ranks.total, (1 - tail) * ranks.total
    # at a whole rank, use the midpoint of two values, so that mirrored data give mirrored results
    upper = ranks.quantile(high) + ranks.quantile_from_top(low)
    return float(upper - ranks.quantile(low) - ranks.quantile_from_top(high)) / 2
