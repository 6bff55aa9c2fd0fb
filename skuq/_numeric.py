"""Rounding errors, weights, ranks and units, which all packages share.

Comparisons have a tolerance for rounding errors. Shares are sums of weights divided by their total, and edges
are computed as low + i * step. The rounding errors of shares and edges depend on the units of y. If a value
equals a limit in exact arithmetic, the comparison must treat the value and the limit as equal despite
rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.special import betaincinv, log_ndtr, ndtr

from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray

ROUNDING = 1e-12
"""Relative tolerance for sums. The relative error of a sum of a million terms is about 1e-13."""

EQUAL = 2.0**-45
"""Values are equal if they differ by at most this share of their size, or of the typical size of all values.

The predictions of one model differ by some units in the last place between processors. A million random
numbers differ by more.
"""

LEVEL_ROUNDING = 2.0**-51
"""Rounding error of 1 - p. It is four units in the last place of numbers slightly below 1."""

_TINY = float(np.finfo(np.float64).tiny)
"""Smallest tail probability with a finite normal score."""

LEVEL_SHARE = 1e-6
"""Largest tolerance, as a share of a level, so that very small levels remain different."""


def reaches(value: float | FloatArray, limit: float | FloatArray, *, total: float = 1.0) -> BoolArray:
    return np.asarray(np.asarray(value) >= np.asarray(limit) - ROUNDING * total)


def count_above(falling: FloatArray, limit: float, *, total: float = 1.0, closed: bool = False) -> int:
    """Count the values of a decreasing array above a limit, or at least at the limit if ``closed``."""
    slack = ROUNDING * total
    # searchsorted needs an increasing array.
    if closed:
        return int(np.searchsorted(-falling, slack - limit, side="right"))
    return int(np.searchsorted(-falling, -limit - slack, side="left"))


def rounding_error(values: FloatArray, sample: FloatArray) -> FloatArray:
    """Return the difference from each value that is rounding, among the values of a sample.

    The last axis holds the sample. A few large values do not make smaller values equal.
    """
    own, size = (np.where(np.isfinite(each), np.abs(each), 0.0) for each in (values, sample))
    typical = np.quantile(size, 0.9, axis=-1, keepdims=True, method="lower") if size.size else 0.0
    return np.asarray(EQUAL * np.maximum(own, typical))


def equal_step(rising: FloatArray) -> FloatArray:
    """Return the largest difference of adjacent values that are equal up to rounding."""
    return rounding_error(np.maximum(np.abs(rising[..., 1:]), np.abs(rising[..., :-1])), rising)


def last_of_ties(rising: FloatArray, step: float | FloatArray) -> BoolArray:
    """Return a mask of increasing values that is False if the next value is larger by at most ``step``."""
    last = np.ones(rising.shape, dtype=np.bool_)  # The last value has no successor.
    with np.errstate(invalid="ignore"):  # Infinite values are equal.
        np.greater(np.diff(rising), step, out=last[..., :-1])
    return last


def distinct(values: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the increasing values that differ by more than rounding, and the place of each value in them."""
    order = np.argsort(values)
    rising = values[order]
    last = last_of_ties(rising, equal_step(rising))
    place = np.empty(values.shape, dtype=np.intp)
    place[order] = np.cumsum(last) - last
    return rising[last], place


def level_rounding(p: FloatArray) -> FloatArray:
    return np.asarray(np.minimum(LEVEL_ROUNDING, LEVEL_SHARE * p))


def log_mass(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the logarithm of the standard normal probability between two scores."""
    mirror = low > 0  # Probabilities near 0 are more precise than probabilities near 1.
    below, above = (log_ndtr(np.where(mirror, -a, b)) for a, b in ((high, low), (low, high)))
    with np.errstate(divide="ignore", invalid="ignore"):
        mass = above + np.log(-np.expm1(below - above))
    return np.where(np.isneginf(above), -np.inf, mass)


def row_blocks(n: int, columns: int, most: int) -> Iterator[slice]:
    """Yield blocks of n rows. The matrix of a block with these columns has at most ``most`` entries."""
    size = max(1, most // max(columns, 1))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def smaller_tail(score: FloatArray) -> FloatArray:
    """Return Phi(-|score|). The result is positive for all finite scores."""
    tail = ndtr(-np.abs(score))
    return np.where(np.isinf(score), tail, np.maximum(tail, _TINY))


def to_integers(values: FloatArray) -> FloatArray:
    finite = np.isfinite(values)
    size = np.where(finite, np.abs(values), 0.0)
    slack = np.minimum(8 * np.spacing(size), 0.25)  # numbers beyond 2**52 are integers
    return np.where(finite, np.ceil(values - 0.5 - slack), values)


def weighted_mean(values: FloatArray, weight: FloatArray | None) -> float:
    if weight is None:
        return float(values.mean())
    return weighted_sum(values, weight) / float(weight.sum())


def weighted_means(columns: tuple[FloatArray, ...], weight: FloatArray | None) -> FloatArray:
    return np.array([weighted_mean(column, weight) for column in columns])


def weighted_sum(values: FloatArray, weight: FloatArray | None) -> float:
    if weight is None:
        return float(values.sum())
    with np.errstate(invalid="ignore"):
        total = float(weight @ values)
    return float(weighted(values, weight).sum()) if np.isnan(total) else total


def weighted(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    if weight is None:
        return values
    with np.errstate(invalid="ignore"):
        product = values * weight
    return np.where(weight > 0, product, 0.0) if np.isnan(product).any() else product


def weighted_quantiles(values: FloatArray, levels: ArrayLike, weight: FloatArray | None) -> FloatArray:
    """Return quantiles. With integer weights, `numpy.quantile` of the repeated rows has the same values."""
    order = np.argsort(values)
    counts = np.ones(values.size) if weight is None else weight[order]
    first = np.cumsum(counts) - counts
    # A row has the places `first` to `last` of the ordered sample.
    last = first + np.maximum(counts - 1, 0)
    places, repeated = np.c_[first, last][counts > 0], np.c_[values[order], values[order]][counts > 0]
    return np.asarray(np.interp(np.asarray(levels) * (counts.sum() - 1), places.ravel(), repeated.ravel()))


def binomial_interval(
    hits: float | FloatArray, n: float | FloatArray, error: float
) -> tuple[FloatArray, FloatArray]:
    """Return the exact interval of a share of hits (Clopper and Pearson 1934).

    The probability that the interval does not contain the share is at most `error`.
    """
    hits, misses = np.asarray(hits), np.asarray(n - hits)
    # Without hits or without misses, the beta distribution is not defined, and the interval ends at 0 or 1.
    low = betaincinv(np.where(hits > 0, hits, 1.0), misses + 1, error / 2)
    high = betaincinv(hits + 1, np.where(misses > 0, misses, 1.0), 1 - error / 2)
    return np.where(hits > 0, low, 0.0), np.where(misses > 0, high, 1.0)


def is_sparse(columns: Any) -> bool:
    return bool(sparse.issparse(columns))


def group_sums(columns: Any, group: IntArray, weight: FloatArray | None = None) -> Any:
    """Return the weighted sums of the rows of each group, shape (G, c).

    The sums are sparse if the columns are sparse.
    """
    n = group.size
    ones = np.ones(n) if weight is None else weight
    return sparse.csr_array((ones, group, np.arange(n + 1)), shape=(n, int(group.max()) + 1)).T @ columns


RANK_TOLERANCE = 1e-12
"""Relative rounding error of a rank. With this tolerance, 0.9 * 10 gives rank 9 even if the computed product
is slightly larger than 9."""


def rows_needed(coverage: float) -> int:
    """Return the smallest number n of rows with ceil((n + 1) coverage) <= n."""
    # The condition (n + 1) c <= n is equivalent to n >= c / (1 - c).
    level = coverage * (1 - RANK_TOLERANCE)
    return math.ceil(level / (1 - level))


def has_rank(
    level: FloatArray | float, calibration_weight: FloatArray | float, test_weight: FloatArray | float
) -> BoolArray:
    rank = np.asarray(level) * (np.asarray(calibration_weight) + test_weight)
    return np.asarray(rank * (1 - RANK_TOLERANCE) <= calibration_weight)


def score_level(coverage: FloatArray | float, symmetric: bool) -> FloatArray:
    level = np.asarray(coverage, dtype=np.float64)
    return level if symmetric else (1 + level) / 2


def rank_target(target: FloatArray, total: float) -> FloatArray:
    return np.asarray(target - np.maximum(RANK_TOLERANCE * target, level_rounding(target / total) * total))


class WeightedRanks:
    """Sorted weighted sample with its cumulative weights. Values may be inf but not NaN.

    If all weights are 1, ``weights`` is None, and ranks replace the cumulative weights.
    """

    def __init__(
        self, values: FloatArray, weights: FloatArray | None = None, kind: Literal["stable"] | None = None
    ) -> None:
        self.values: FloatArray
        self.weights: FloatArray | None
        if weights is None or (weights == 1).all():
            self.values, self.weights = np.sort(values, kind=kind), None
            self.cumulative = np.arange(1.0, values.size + 1)
        else:
            # Values of weight 0 are dropped, so that the smallest value has a positive weight.
            values, weights = values[weights > 0], weights[weights > 0]
            order = np.argsort(values, kind="stable")
            self.values, self.weights = values[order], weights[order]
            self.cumulative = np.cumsum(self.weights)
        self.total = float(self.cumulative[-1])

    def __len__(self) -> int:
        return int(self.values.size)

    def followed_by(self, values: FloatArray, weights: FloatArray) -> WeightedRanks:
        """Return the ranks with further values. A stable sort of nearly sorted values takes linear time."""
        own = np.ones(len(self)) if self.weights is None else self.weights
        return WeightedRanks(np.append(self.values, values), np.append(own, weights), kind="stable")

    @cached_property
    def _cumulative_from_top(self) -> FloatArray:
        """Return the cumulative weights, beginning at the largest value."""
        return self.cumulative if self.weights is None else np.cumsum(self.weights[::-1])

    def quantile(self, target: FloatArray | float) -> FloatArray:
        return _value_at(self.values, self.cumulative, target, np.inf)

    def quantile_from_top(self, target: FloatArray | float) -> FloatArray:
        return _value_at(self.values[::-1], self._cumulative_from_top, target, -np.inf)

    @property
    def median(self) -> float:
        return float(self.quantile(self.total / 2) + self.quantile_from_top(self.total / 2)) / 2

    def weight_of(self, count: IntArray) -> FloatArray:
        # A count of 0 must give 0, but cumulative[count - 1] would be the total.
        return np.asarray(np.where(count > 0, self.cumulative[np.maximum(count, 1) - 1], 0.0))


def _value_at(
    values: FloatArray, cumulative: FloatArray, target: FloatArray | float, beyond: float
) -> FloatArray:
    # side="left" returns the first j with cumulative[j] >= target, or k if there is none.
    index = np.searchsorted(cumulative, rank_target(np.asarray(target), cumulative[-1]), side="left")
    found = values[np.minimum(index, values.size - 1)]
    return np.asarray(np.where(index < values.size, found, beyond))


def count_reached(values: FloatArray, loc: FloatArray, scale: FloatArray, y: FloatArray) -> IntArray:
    """Return the number of sorted ``values`` z with ``loc + scale * z <= y`` for each row."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Because of rounding errors, this count may be wrong by one value. With scale 0 and y = loc, the
        # quotient is NaN. searchsorted places NaN at the end, which is correct, because all sums then equal
        # y.
        count = np.searchsorted(values, (y - loc) / scale, side="right")
        # The count is correct if the last counted sum is at most y and the next sum is larger than y.
        last = loc + scale * values[np.maximum(count, 1) - 1]
        following = loc + scale * values[np.minimum(count, values.size - 1)]
        wrong = np.flatnonzero(((last > y) & (count > 0)) | ((following <= y) & (count < values.size)))
        if wrong.size:
            loc, scale, y = loc[wrong], scale[wrong], y[wrong]
            first = np.zeros(wrong.size, dtype=np.intp)
            count[wrong] = bisect(lambda place: loc + scale * values[place] <= y, first, values.size)
    return np.asarray(count)


def bisect(passes: Callable[[IntArray], BoolArray], low: IntArray, high: IntArray | int) -> IntArray:
    """Return the first place of each row that does not pass, or ``high`` if all places pass.

    The places are ``low`` to ``high - 1``. If a place passes, all earlier places of its row pass.
    """
    first, end = low, np.broadcast_to(high, low.shape)
    last = end - 1
    while (is_open := first < end).any():
        middle = np.minimum((first + end) // 2, last)  # The place ``high`` does not exist.
        passed = is_open & passes(middle)
        first, end = np.where(passed, middle + 1, first), np.where(is_open & ~passed, middle, end)
    return first


def power_of_two(size: float) -> float:
    return float(np.ldexp(0.5, np.frexp(size)[1])) if 0 < size < np.inf else 1.0


def unit_of(values: FloatArray) -> float:
    size = max(abs(float(values.max(initial=0.0))), abs(float(values.min(initial=0.0))))
    if size == np.inf:
        size = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    return power_of_two(size)


def standard_deviation(values: FloatArray, weight: FloatArray | None = None) -> float:
    """Return the standard deviation (divisor n) of finite values. It is exactly 0 for equal values."""
    unit = unit_of(values)
    scaled = values / unit
    gap = scaled - scaled[0 if weight is None else np.argmax(weight)]
    return unit * float(np.sqrt(weighted_mean(np.square(gap - weighted_mean(gap, weight)), weight)))


def root_mean_square(values: FloatArray, weight: FloatArray | None = None) -> float:
    unit = unit_of(values)
    return unit * float(np.sqrt(weighted_mean(np.square(values / unit), weight)))
