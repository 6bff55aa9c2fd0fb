"""Worst-slab coverage: the lowest coverage between two parallel planes in X."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._numeric import standard_deviation, weighted_mean
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_integer,
    check_random_state,
    check_single_coverage,
)
from skuq.metrics._inputs import check_covered
from skuq.metrics._spec import metric

ROUNDING = 1e-9
"""Tolerance for relative rounding errors in the comparison of weights."""


@dataclass(frozen=True, eq=False)
class Slab:
    """Region in which the projection on a direction lies between two bounds, including the bounds."""

    direction: FloatArray
    lower: float
    upper: float

    def contains(self, X: FloatArray) -> BoolArray:
        position = X @ self.direction
        return np.asarray((self.lower <= position) & (position <= self.upper))


def split_search(
    n: int, weight: FloatArray, size: float, rng: np.random.RandomState
) -> tuple[IntArray, IntArray]:
    """Split the rows at random. The first part has the share ``size`` of the weight."""
    order = rng.permutation(n)
    running = np.cumsum(weight[order])
    k = int(np.searchsorted(running, size * running[-1] * (1 + ROUNDING), side="right"))
    k = min(max(k, 1), n - 1)
    return order[:k], order[k:]


def lowest_segment(
    covered: FloatArray, total: FloatArray, least: float, level: float
) -> tuple[float, int, int] | None:
    """Return coverage, start and stop of the run of rows with the lowest coverage, or None without a run."""
    # A run of rows needs at least the weight `least`. For each stop, this is the last start of such a run.
    last = np.searchsorted(total, total - least, side="right") - 1
    stops = np.flatnonzero(last >= 0)
    last = last[stops]
    best = None
    while True:
        # Dinkelbach's algorithm for the minimum of a ratio, which needs few passes. The running sum `beyond`
        # decreases over a run if and only if the coverage of the run is below the level. Each pass sets the
        # level to the coverage of the run with the largest decrease, until no run has a decrease.
        beyond = covered - level * total
        fall = np.maximum.accumulate(beyond)[last] - beyond[stops]
        k = int(np.argmax(fall))
        start, stop = int(np.argmax(beyond[: last[k] + 1])), int(stops[k])
        found = float((covered[stop] - covered[start]) / (total[stop] - total[start]))
        if not found < level:
            return best
        level, best = found, (found, start, stop)


def worst_slab(
    X: FloatArray, inside: FloatArray, weight: FloatArray, min_share: float, directions: FloatArray
) -> Slab:
    """Return the slab with the lowest coverage that contains at least the given share of the weight."""
    X, index = np.unique(X, axis=0, return_inverse=True)
    total, covered_total = (np.bincount(index.ravel(), each) for each in (weight, weight * inside))
    covered_weight, weight = covered_total.astype(np.float64), total.astype(np.float64)
    least = min_share * float(weight.sum()) * (1 - ROUNDING)
    level = float(covered_weight.sum() / weight.sum())
    slab = Slab(directions[0], -np.inf, np.inf)
    for direction in directions:
        position = X @ direction
        order = np.argsort(position)
        covered = np.r_[0.0, np.cumsum(covered_weight[order])]
        found = lowest_segment(covered, np.r_[0.0, np.cumsum(weight[order])], least, level)
        if found is not None:
            level, start, stop = found
            edges = np.r_[-np.inf, position[order], np.inf]
            lower, upper = (float(edges[i] / 2 + edges[i + 1] / 2) for i in (start, stop))
            slab = Slab(direction, lower, upper)
    return slab


def draw_directions(
    X: FloatArray, weight: FloatArray, n_trials: int, rng: np.random.RandomState
) -> FloatArray:
    """Return random directions, shape (k, d). For standardized columns, their distribution is uniform."""
    if X.shape[1] == 1:
        return np.ones((1, 1))
    scale = np.array([standard_deviation(column, weight) for column in X.T])
    return rng.standard_normal((n_trials, X.shape[1])) / np.where(scale > 0, scale, 1.0)


def check_search(
    coverage: Any,
    min_share: float,
    n_trials: int,
    search_size: float,
    random_state: int | np.random.RandomState | None,
) -> tuple[float, float, int, np.random.RandomState]:
    check_single_coverage(coverage)
    share = check_single_coverage(min_share, "min_share")
    size = check_single_coverage(search_size, "search_size")
    return share, size, check_integer(n_trials, "n_trials"), check_random_state(random_state)


@metric(
    "wsc",
    title="Worst-slab coverage",
    optimum="coverage",
    bounds=(0.0, 1.0),
    needs="interval",
    small_sample=True,
    source="Cauchois et al. 2021; Romano et al. 2020",
    kernel=check_search,
)
def worst_slab_coverage(
    y_true: ArrayLike,
    y_pred: Any,
    X: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    min_share: float = 0.1,
    n_trials: int = 1000,
    search_size: float = 0.25,
    random_state: int | np.random.RandomState | None = None,
) -> float:
    r"""Return the worst-slab coverage (WSC): the lowest coverage between two parallel planes in X.

    Neither larger nor smaller values are better: compare the value with the nominal coverage. A slab contains
    the rows whose projection on a direction in X lies between two bounds. Part of the rows is used to find
    the slab with the lowest coverage. The search uses random directions. The coverage of this slab is
    computed from the other rows, so that the search causes no bias. The metric is not proper, so useless
    intervals may look perfect. For example, suppose that a random 90 % of the intervals are infinite and that
    all other intervals miss their targets. Every slab then has a coverage of about 90 %. Use the scorer of
    this metric for monitoring, and select models by `crps_loss` or `interval_score_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds, which may be infinite.
    X : array-like of shape (n, d)
        Numeric features of each row, without NaN. Their units have no effect, because directions are drawn
        for standardized columns.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. All shares refer to the total weight. The repetitions of a row are
        not split between the search and the evaluation.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Ignored if `y_pred` holds bounds.
    min_share : float, default=0.1
        Smallest share of the search rows that a slab may contain, between 0 and 1.
    n_trials : int, default=1000
        Number of random directions that are searched. With one feature, there is only one direction.
    search_size : float, default=0.25
        Share of the rows used for the search, between 0 and 1.
    random_state : int, RandomState instance or None, default=None
        Controls the split and the directions. Pass an int to get the same split and directions in every call.
        Models are then compared on the same rows.

    Returns
    -------
    share : float
        In [0, 1]. The best value is `coverage`. If the coverage does not depend on X, the standard error is
        about ``sqrt(coverage * (1 - coverage) / m)``, where m is the number of evaluated rows in the slab.
        This number is at least about ``min_share * (1 - search_size) * n``.

    Raises
    ------
    TypeError
        If X is not numeric.
    ValueError
        If there are fewer than two rows, or none of the evaluated rows is in the slab.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    conditional_coverage_error : Coverage error estimated by a classifier. It is less noisy and not limited to
        slabs.
    conditional_coverage : Coverage in given groups or bins.

    Notes
    -----
    .. math::

        \mathrm{WSC} = \min_{v, a < b} \frac{\sum_i Z_i 1\{a \le v^\top x_i \le b\}}
            {\sum_i 1\{a \le v^\top x_i \le b\}}

    The minimum is over all slabs that contain at least the share `min_share` of the rows, and
    :math:`Z_i = 1\{l_i \le y_i \le u_i\}` [1]_. Without a split, the minimum over all rows would be far below
    nominal even for perfect intervals. The split of [2]_ avoids this bias. The search finds the lowest ratio
    along one direction exactly, in O(n log n) time. The region of low coverage may not be a slab. For
    example, the coverage may be low at both ends of a feature. The search then finds only a part of the
    region, or nothing.

    References
    ----------
    .. [1] Cauchois, Gupta and Duchi (2021), Knowing what you know: valid and validated confidence sets in
       multiclass and multilabel prediction. https://jmlr.org/papers/v22/20-753.html
    .. [2] Romano, Sesia and Candes (2020), Classification with valid and adaptive coverage.
       https://doi.org/10.48550/arXiv.2006.02544

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import worst_slab_coverage
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(5000, 2))
    >>> scale = 0.5 + X[:, 0]
    >>> y = scale * rng.normal(size=5000)
    >>> truth, one_width = Normal(np.zeros(5000), scale), Normal(np.zeros(5000), np.full(5000, np.std(y)))
    >>> round(worst_slab_coverage(y, one_width, X, random_state=0), 2)
    0.81
    >>> round(worst_slab_coverage(y, truth, X, random_state=0), 2)
    0.91

    Useless intervals have the same value as the true distribution:

    >>> useless = np.where(rng.random((5000, 1)) < 0.9, [-np.inf, np.inf], 99.0)
    >>> round(worst_slab_coverage(y, useless, X, random_state=0), 2)
    0.91
    """
    share, size, k, rng = check_search(coverage, min_share, n_trials, search_size, random_state)
    inside, features, given = check_covered(y_true, y_pred, X, sample_weight, coverage, allow_nan=False)
    n = inside.size
    if n < 2:
        raise ValueError(
            f"`y_true` must have at least two rows of positive weight, got {n}. The search for the slab and "
            "its evaluation use different rows. Pass more rows."
        )
    # Weights are divided by their maximum, so that rounding cannot decide between two slabs of equal
    # coverage.
    weight = np.ones(n) if given is None else given / given.max()
    search, read = split_search(n, weight, size, rng)
    directions = draw_directions(features[search], weight[search], k, rng)
    slab = worst_slab(features[search], inside[search], weight[search], share, directions)
    rows = read[slab.contains(features[read])]
    if not rows.size:
        raise ValueError(
            f"`y_true` must have more rows. The worst slab was found on {search.size} rows, and none of the "
            f"{read.size} other rows lies in this slab. Pass more rows or a larger `min_share`."
        )
    return weighted_mean(inside[rows], weight[rows])
