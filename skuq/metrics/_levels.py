"""Levels at which quantiles and central intervals cover their targets.

A quantile covers a target if the quantile is not below the target. The quantiles of all levels p >= PIT cover
the target, and the central intervals of all coverages c >= |2 PIT - 1| contain the target. Location-scale
families need no cdf, because standardized targets are compared with standard quantiles. If a target equals an
atom, its PIT is uniform on [F(y-), F(y)]. The covered share of such a target increases linearly with the
level.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from skuq._censoring import Bounds
from skuq._numeric import ROUNDING, reaches
from skuq._typing import FloatArray
from skuq._validation import check_option
from skuq.distributions import Distribution, Quantiles
from skuq.distributions._pit import censored_pit_scores, pit_scores
from skuq.metrics._binning import Bins
from skuq.metrics._kernels import BinIndex, count_below, location_scale, standardized
from skuq.metrics._spec import Binned

KINDS = ("quantile", "interval")


class Entry(NamedTuple):
    """Levels at which rows become covered.

    The covered share of a row rises linearly from 0 at level ``start`` to ``share`` at level ``stop``.
    """

    start: FloatArray
    stop: FloatArray
    share: FloatArray

    def reached(self, level: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            passed = np.clip((level - self.start) / (self.stop - self.start), 0.0, 1.0)
        return self.share * np.where(self.start < self.stop, passed, reaches(level, self.start))


def entries(y: FloatArray, dist: Distribution, kind: str) -> list[Entry]:
    """Return the levels at which each target becomes covered.

    If a target equals an atom, its covered share grows between two levels.
    """
    check_option(kind, "kind", KINDS)
    lower, upper = pit_scores(dist, y)
    return _entries_between(ndtr(lower), ndtr(upper), kind)


def _entries_between(start: FloatArray, stop: FloatArray, kind: str) -> list[Entry]:
    """Return the levels at which a target becomes covered if its PIT is uniform on [start, stop]."""
    whole = np.ones(start.size)
    if kind == "quantile":
        return [Entry(start, stop, whole)]
    near, far = np.abs(2 * start - 1), np.abs(2 * stop - 1)
    # If u passes 0.5, then |2u - 1| first decreases to 0 and then increases.
    folded = (start < 0.5) & (stop > 0.5)
    if not folded.any():
        return [Entry(np.minimum(near, far), np.maximum(near, far), whole)]
    below = np.where(folded, (0.5 - start) / np.where(folded, stop - start, 1.0), 0.0)
    innermost = np.where(folded, 0.0, np.minimum(near, far))
    return [
        Entry(innermost, np.where(folded, far, np.maximum(near, far)), whole - below),
        Entry(np.zeros(start.size), np.where(folded, near, 0.0), below),
    ]


def first_covering_level(y: FloatArray, dist: Distribution, levels: FloatArray, kind: str) -> BinIndex:
    """Return the index of the lowest level that covers each target, or k if no level covers the target."""
    check_option(kind, "kind", KINDS)
    form = location_scale(dist)
    if kind == "quantile":
        if form is None:
            return count_below(levels, _pit_between(y, dist, levels), "left")
        loc, scale, standard = form
        return count_below(standard._ppf(levels), standardized(y, loc, scale), "left")
    # The targets and the bounds are either probabilities or standardized values.
    if form is None:
        lower, upper = (1 - levels) / 2, (1 + levels) / 2
        place = _pit_between(y, dist, np.concatenate([lower, upper]))
    else:
        place = standardized(y, form[0], form[1])
        bounds = np.empty((2, levels.size))
        form[2]._interval((1 - levels) / 2, bounds)
        lower, upper = bounds
        if np.array_equal(lower, -upper):  # For symmetric intervals, one comparison with |z| is enough.
            return count_below(upper, np.abs(place, out=place), "left")
    # Lower bounds decrease with the level, so they are reversed. An interval covers the target if the level
    # is high enough for both bounds.
    below = count_below(lower[::-1], place, "right")
    return np.asarray(np.maximum(count_below(upper, place, "left"), levels.size - below))


def _pit_between(y: FloatArray, dist: Distribution, levels: FloatArray) -> FloatArray:
    place = dist._cdf_between(y, levels) if isinstance(dist, Quantiles) else None
    return dist.cdf(y) if place is None else place


def counts_in_bins(
    y: FloatArray, dist: Distribution, levels: FloatArray, kind: str
) -> Callable[[Bins], FloatArray]:
    """Return a function that computes the weight of each bin that is first covered at each level.

    The shape is (bins, k + 1).
    """
    if dist.has_density:
        first = first_covering_level(y, dist, levels, kind)
        return partial(Bins.histogram, place=first, k=levels.size + 1)
    rows = level_rows(y, dist, levels, kind)
    return lambda bins: (bins.matrix() @ rows).toarray()


def level_rows(y: FloatArray, dist: Distribution, levels: FloatArray, kind: str) -> Any:
    """Return the share of each row that is first covered at each level: k + 1 columns, binned or sparse."""
    if dist.has_density:
        return Binned(first_covering_level(y, dist, levels, kind), levels.size + 1)
    return sum(_entry_rows(part, levels) for part in entries(y, dist, kind))


def _entry_rows(part: Entry, levels: FloatArray) -> Any:
    # Only the levels from `start` to `stop` are stored, because the parts of all other levels are 0.
    n, bounds = part.start.size, np.concatenate([[-np.inf], levels, [np.inf]])
    first = np.searchsorted(levels, part.start - ROUNDING)
    count = np.maximum(np.searchsorted(levels, part.stop), first) - first + 1
    row = np.repeat(np.arange(n), count)
    # The level indices of a row are first, first + 1, and so on. They are computed for all rows at once.
    level = np.arange(row.size) - np.repeat(np.cumsum(count) - count - first, count)
    each = Entry(*(numbers[row] for numbers in part))
    gain = each.reached(bounds[level + 1]) - each.reached(bounds[level])
    starts = np.concatenate([[0], np.cumsum(count)])
    return sparse.csr_array((gain, level, starts), shape=(n, levels.size + 1))


def censored_proportions(
    dist: Distribution, bounds: Bounds, levels: FloatArray, kind: str
) -> Callable[[FloatArray | None], FloatArray]:
    """Return a function of the weights that computes the observed proportions of censored targets.

    Mass above the largest known PIT value is spread evenly up to a PIT value of 1.
    """
    check_option(kind, "kind", KINDS)
    low, high, masses_of = censored_pit_scores(dist, bounds)
    start, stop = ndtr(low), ndtr(high)
    ordered, place = np.unique(levels, return_inverse=True)
    gains = sum(_entry_rows(part, ordered) for part in _entries_between(start, stop, kind))

    def of_weights(weight: FloatArray | None) -> FloatArray:
        weight = np.ones(len(dist)) if weight is None else weight
        total, masses = float(weight.sum()), masses_of(weight)
        reached = np.cumsum(masses @ gains)[:-1]
        last = stop[masses > 0].max(keepdims=True)
        for part in _entries_between(last, np.ones(1), kind):
            reached = reached + max(total - float(masses.sum()), 0.0) * part.reached(ordered)
        return np.asarray(reached[place.ravel()] / total, dtype=np.float64)

    return of_weights
