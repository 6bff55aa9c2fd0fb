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
from skuq.distributions._ranks import WeightedRanks

_TAIL = 0.1
"""Locations are medians and scales are ranges between this level and its complement, of distributions as of
targets: they exist in every family, and agree for calibrated rows whatever the shape."""

_NORMAL_RANGE = -2 * float(ndtri(_TAIL))
"""That range of a standard normal distribution, so that scales are standard deviations for `Normal`."""

_LARGEST_FACTOR = 2.0
"""Scales that differ by less are left to the beta maps, ..."""

_LARGEST_SHIFT = 2.0
"""... and so are shifts of fewer scales: fitted jointly with the scale, they come out more precisely."""

_FEWEST = 5
"""Fewer targets may lie close to each other, or far off, by chance."""

_FEW = 3
"""Fewer targets may be equal by chance."""

_LEAST_VARIATION = 0.05
"""Where targets spread over a smaller share of the range of the predictions, noise cannot be told from a bias
for each prediction: the search for one is slow, and its intervals are far too wide."""


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
    distance, scale = _distances(dist, y)
    inside = np.isfinite(distance) & (scale > 0)
    distance, scale, weight = distance[inside], scale[inside], weight[inside]
    if weight.sum() < _FEWEST:
        return Standardisation()
    offset, factor = _centre_and_spread(distance / scale, weight)
    if abs(offset) <= _LARGEST_SHIFT and 1 / _LARGEST_FACTOR <= factor <= _LARGEST_FACTOR:
        return Standardisation()
    # a bias may be a number of scales or, like a wrong offset of the units, the same in all rows
    shift = _centre_and_spread(distance, weight)[0]
    rest, smaller = _centre_and_spread((distance - shift) / scale, weight)
    found = (
        Standardisation(shift, rest, smaller) if smaller < factor else Standardisation(0.0, offset, factor)
    )
    return found if found.factor > 0 else Standardisation()


def check_variation(dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
    """Raise where the targets hardly vary although the predictions do; parameters as above."""
    if len(y) < _FEW:
        return
    targets, predictions = (_NORMAL_RANGE * _centre_and_spread(v, weight)[1] for v in (y, dist.mean()))
    if targets > _LEAST_VARIATION * predictions:
        return
    raise ValueError(
        f"`y` must vary where the predictions do, got 80 % of {len(y)} targets within {targets:.2g} of each "
        f"other, but predicted means over {predictions:.2g}: every prediction would have a bias of its own and "
        "no noise. Use StdScalingRecalibrator, or fit on more rows."
    )


def _distances(dist: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distance of the targets from the locations, NaN outside of the support, and the scales."""
    if isinstance(dist, Concatenated):
        distance, scale, targets, start = np.empty(len(y)), np.empty(len(y)), np.empty(len(y)), 0
        targets[dist.order] = y
        for part in dist.parts:
            rows = slice(start, start + len(part))
            distance[rows], scale[rows] = _distances(part, targets[rows])
            start += len(part)
        return distance[dist.order], scale[dist.order]
    if isinstance(dist, Transformed):
        with np.errstate(all="ignore"):
            return _distances(dist.base, np.asarray(dist.inverse_func(np.array(y)), dtype=float))
    loc, scale = _loc_and_scale(dist)
    return y - loc, scale


def _loc_and_scale(dist: Distribution) -> tuple[FloatArray, FloatArray]:
    """Return median and range of each row, or mean and standard deviation where atoms leave no range."""
    known = dist._known()
    tail = np.asarray(_TAIL)
    loc, scale = known._ppf(np.asarray(0.5)), (known._isf(tail) - known._ppf(tail)) / _NORMAL_RANGE
    if (scale > 0).all():
        return loc, scale
    return np.where(scale > 0, loc, known.mean()), np.where(scale > 0, scale, known.std())


def _centre_and_spread(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the weighted median, and the range between the tails in normal standard deviations."""
    ranks = WeightedRanks(values, weight)
    tail, rest = _TAIL * ranks.total, (1 - _TAIL) * ranks.total
    # halfway between the two values at a rank that is a whole number, so that mirrored data are treated alike
    low = float(ranks.reach(tail) + ranks.reach_down(rest)) / 2
    high = float(ranks.reach(rest) + ranks.reach_down(tail)) / 2
    return ranks.median, (high - low) / _NORMAL_RANGE
