"""Levels at which quantiles and central intervals cover their targets.

A quantile covers a target if it is not below the target. Quantiles of all levels p >= PIT cover the target,
and so do central intervals of all coverages c >= |2 PIT - 1|. Location-scale families need no cdf, because
standardized targets are compared with standard quantiles. A target on an atom is covered gradually: its PIT
is uniform on [F(y-), F(y)].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from skuq._rounding import ROUNDING, reaches
from skuq._typing import FloatArray
from skuq._validation import check_option
from skuq.distributions import Distribution, Quantiles
from skuq.distributions._pit import pit_scores
from skuq.metrics._binning import Bins
from skuq.metrics._kernels import BinIndex, central_bounds, count_below, location_scale, standardized

KINDS = ("quantile", "interval")


class Entry(NamedTuple):
    """Share of each row that becomes covered linearly between levels ``start`` and ``stop``; shapes (n,)."""

    start: FloatArray
    stop: FloatArray
    share: FloatArray

    def reached(self, level: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            passed = np.clip((level - self.start) / (self.stop - self.start), 0.0, 1.0)
        return self.share * np.where(self.start < self.stop, passed, reaches(level, self.start))


def entries(y: FloatArray, dist: Distribution, kind: str) -> list[Entry]:
    """Return the levels at which each target is covered, in two parts if an atom contains the median."""
    check_option(kind, "kind", KINDS)
    lower, upper = pit_scores(dist, y)
    start, stop, whole = ndtr(lower), ndtr(upper), np.ones(len(y))
    if kind == "quantile":
        return [Entry(start, stop, whole)]
    near, far = np.abs(2 * start - 1), np.abs(2 * stop - 1)
    folded = (start < 0.5) & (stop > 0.5)  # |2u - 1| falls to 0 and rises again
    if not folded.any():
        return [Entry(np.minimum(near, far), np.maximum(near, far), whole)]
    below = np.where(folded, (0.5 - start) / np.where(folded, stop - start, 1.0), 0.0)
    innermost = np.where(folded, 0.0, np.minimum(near, far))
    return [
        Entry(innermost, np.where(folded, far, np.maximum(near, far)), whole - below),
        Entry(np.zeros(len(y)), np.where(folded, near, 0.0), below),
    ]


def first_covering_level(y: FloatArray, dist: Distribution, levels: FloatArray, kind: str) -> BinIndex:
    """Return the index of the first increasing level that covers the target, or the number of levels.

    ``kind="quantile"`` covers y <= Q(p), ``kind="interval"`` covers Q((1-p)/2) <= y <= Q((1+p)/2). If a level
    covers a target, all higher levels cover it. The distribution must have a density.
    """
    check_option(kind, "kind", KINDS)
    form = location_scale(dist)
    if kind == "quantile":
        if form is None:
            return count_below(levels, _pit_between(y, dist, levels), "left")
        loc, scale, standard = form
        return count_below(standard._ppf(levels), standardized(y, loc, scale), "left")
    # Both bounds are compared with the target on the scale of probabilities or of standard quantiles.
    if form is None:
        lower, upper = (1 - levels) / 2, (1 + levels) / 2
        place = _pit_between(y, dist, np.concatenate([lower, upper]))
    else:
        place = standardized(y, form[0], form[1])
        lower, upper = central_bounds(form[2], levels)
        if np.array_equal(lower, -upper):  # a symmetric interval needs one comparison with |z|
            return count_below(upper, np.abs(place, out=place), "left")
    # Lower bounds fall as the level rises, so they are counted in reverse. The interval covers the target
    # from the larger of the two levels on.
    below = count_below(lower[::-1], place, "right")
    return np.asarray(np.maximum(count_below(upper, place, "left"), levels.size - below))


def _pit_between(y: FloatArray, dist: Distribution, levels: FloatArray) -> FloatArray:
    """Return the PIT of each row, or a cheaper number that lies between the same levels."""
    place = dist._cdf_between(y, levels) if isinstance(dist, Quantiles) else None
    return dist.cdf(y) if place is None else place


def covered_weight(
    y: FloatArray, dist: Distribution, levels: FloatArray, kind: str
) -> Callable[[Bins], FloatArray]:
    """Return a function that computes the covered weight per bin and increasing level, shape (bins, k)."""
    if dist.has_density:
        first = first_covering_level(y, dist, levels, kind)
        return lambda bins: np.cumsum(bins.histogram(first, levels.size + 1), axis=1)[:, :-1]
    rows = level_rows(y, dist, levels, kind)
    return lambda bins: np.cumsum((bins.matrix(y.size) @ rows).toarray(), axis=1)[:, :-1]


def level_rows(y: FloatArray, dist: Distribution, levels: FloatArray, kind: str) -> Any:
    """Return the part of each row that each increasing level is the first to cover, sparse, shape (n, k + 1).

    Rows sum to 1, and the last column is the part that no level covers. Calibration curve metrics are
    functions of the column means, so that new weights need one product and no new curve.
    """
    if dist.has_density:
        first = first_covering_level(y, dist, levels, kind).astype(np.int32)
        return sparse.csr_array(
            (np.ones(y.size), first, np.arange(y.size + 1)), shape=(y.size, levels.size + 1)
        )
    return sum(_entry_rows(part, levels) for part in entries(y, dist, kind))


def _entry_rows(part: Entry, levels: FloatArray) -> Any:
    """Return the part of each entry that each level is the first to cover, shape (n, k + 1)."""
    # Only the levels from start to stop are stored, because other levels cover no additional part.
    n, bounds = part.start.size, np.concatenate([[-np.inf], levels, [np.inf]])
    first = np.searchsorted(levels, part.start - ROUNDING)
    count = np.maximum(np.searchsorted(levels, part.stop), first) - first + 1
    row = np.repeat(np.arange(n), count)
    # The level indices of a row are first, first + 1, and so on. The subtraction lets the running index start
    # at `first` in each row.
    level = np.arange(row.size) - np.repeat(np.cumsum(count) - count - first, count)
    each = Entry(*(numbers[row] for numbers in part))
    gain = each.reached(bounds[level + 1]) - each.reached(bounds[level])
    starts = np.concatenate([[0], np.cumsum(count)])
    return sparse.csr_array((gain, level, starts), shape=(n, levels.size + 1))


def proportions_of_means(means: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the share that each level covers, in any order of levels, from the means of `level_rows`."""
    place = np.unique(levels, return_inverse=True)[1].ravel()
    return np.asarray(np.cumsum(means, axis=-1)[..., place])


def observed_proportions(
    y: FloatArray, dist: Distribution, levels: FloatArray, kind: str, weight: FloatArray | None
) -> FloatArray:
    ordered, place = np.unique(levels, return_inverse=True)
    bins = one_bin(y.size, weight)
    share = covered_weight(y, dist, ordered, kind)(bins)[0] / bins.totals()[0]
    return np.asarray(share[place.ravel()], dtype=np.float64)


def observed_uniform(entry: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the calibration curve at the levels, for sorted uniform entry levels."""
    return np.searchsorted(entry, levels, side="right") / entry.size


def one_bin(n: int, weight: Any) -> Bins:
    return Bins(1, np.empty(0, dtype=np.uint8), [(slice(0, n), 0, 1.0)], np.zeros(2), weight)
