"""Conformal recalibration of the probability levels of a forecast, for the score "pit"."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from skuq._ranks import WeightedRanks
from skuq._typing import FloatArray, IntArray
from skuq.distributions._level_map import LevelMap

_MOST_KNOTS = 500
"""Maximum number of knots of each half of the map. The rows between two knots increase the coverage by less
than 0.2 %."""

_DISTINCT = 1e-9
"""Two scores have a common knot if their relative distance is smaller than this value, so that slopes are
finite."""

_ROUNDING = 1e-13
"""Upper limit of the rounding error of a level. A rounding error could select the value next to an atom."""


def conformal_level_map(below: WeightedRanks, above: WeightedRanks, symmetric: bool) -> LevelMap:
    r"""Return the map R such that the central intervals of R(F) have at least their nominal coverage.

    The scores are :math:`-\Phi^{-1}(F(y))` for the lower bound and :math:`\Phi^{-1}(F(y-))` for the upper
    bound, or the maximum of both if ``symmetric``. The bound at level p is the smallest score with a
    cumulative weight of at least :math:`p (W + 1)`. R is interpolated between its knots. Therefore, the level
    of each knot is the smallest level that requires its score, so that no interpolated bound is too narrow.
    """
    upper, upper_levels = _half(above, symmetric)
    lower, lower_levels = _half(below, symmetric)
    # with atoms or few rows, both halves of the map may overlap around the median
    outside = -lower[::-1] < upper[0] if upper.size else np.ones(lower.size, dtype=bool)
    return LevelMap.from_scores(
        np.concatenate([-lower[::-1][outside], upper]),
        np.concatenate([-lower_levels[::-1][outside], upper_levels]),
    )


def outward(score: FloatArray) -> FloatArray:
    size = np.where(np.isfinite(score), np.abs(score), 0.0)
    return np.asarray(score + _ROUNDING * np.maximum(size, 1.0))


def _half(ranks: WeightedRanks, symmetric: bool) -> tuple[FloatArray, FloatArray]:
    share = np.append(0.0, ranks.cumulative[:-1]) / (ranks.total + 1)
    level = (1 + share) / 2 if symmetric else share
    used = (level > 0.5) & np.isfinite(ranks.values)
    if symmetric:
        used &= ranks.values > 0
    scores, level = ranks.values[used], level[used]
    if not scores.size:
        return scores, level
    first, last = _merged(scores)
    return outward(scores[last]), ndtri(level[first])


def _merged(scores: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first and the last score of each knot.

    The knot has the position of its last score, and the level of its first score.
    """
    gap = np.diff(scores) > _DISTINCT * np.maximum(np.abs(scores[1:]), 1)
    number = np.append(0, np.cumsum(gap))
    number = number * _MOST_KNOTS // max(_MOST_KNOTS, int(number[-1]) + 1)
    first = np.flatnonzero(np.append(True, np.diff(number) > 0))
    return first, np.append(first[1:], scores.size) - 1
