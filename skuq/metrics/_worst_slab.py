"""Worst-slab coverage: the coverage between two parallel planes, searched on some rows and read on others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._units import standard_deviation
from skuq._validation import DEFAULT_COVERAGE, check_integer, check_open_unit, check_random_state
from skuq.metrics._inputs import check_covered
from skuq.metrics._kernels import weighted_mean
from skuq.metrics._spec import metric

ROUNDING = 1e-9
"""Relative error of sums of weights: a share is reached where rounding alone is missing."""


@dataclass(frozen=True, eq=False)
class Slab:
    """The rows whose projection on a direction lies between two bounds.

    Parameters
    ----------
    direction : ndarray of shape (d,)
        Normal vector of the two planes.
    lower, upper : float
        Bounds of the projection, both included.
    """

    direction: FloatArray
    lower: float
    upper: float

    def contains(self, X: FloatArray) -> BoolArray:
        """Return which rows are inside."""
        position = X @ self.direction
        return np.asarray((self.lower <= position) & (position <= self.upper))


def split_search(
    n: int, weight: FloatArray, size: float, rng: np.random.RandomState
) -> tuple[IntArray, IntArray]:
    """Return random rows with a share ``size`` of the weight, and the others; at least one on either side."""
    order = rng.permutation(n)
    running = np.cumsum(weight[order])
    k = int(np.searchsorted(running, size * running[-1] * (1 + ROUNDING), side="right"))
    k = min(max(k, 1), n - 1)
    return order[:k], order[k:]


def distinct_rows(
    X: FloatArray, inside: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the distinct rows of X with the weight of their covered repetitions and of all of them.

    A slab cannot divide equal rows, and rounding may give them projections that differ.
    """
    distinct, index = np.unique(X, axis=0, return_inverse=True)
    covered, total = (np.bincount(index.ravel(), each) for each in (weight * inside, weight))
    return distinct, covered.astype(np.float64), total.astype(np.float64)


def lowest_segment(
    covered: FloatArray, total: FloatArray, least: float, level: float
) -> tuple[float, int, int] | None:
    """Return the run of rows of the lowest coverage, if that is below ``level``: coverage, start and stop.

    Parameters
    ----------
    covered, total : ndarray of shape (n + 1,)
        Running sums, from 0, of the covered weight and of the weight.
    least : float
        Weight that the run must have at least.
    level : float
        Coverage that the run must be below.
    """
    # For each stop, the last start that leaves enough weight between.
    last = np.searchsorted(total, total - least, side="right") - 1
    stops = np.flatnonzero(last >= 0)
    last = last[stops]
    best = None
    while True:
        # A run has coverage below the level if and only if the covered weight beyond the level falls over it.
        # Each pass takes the largest fall and lowers the level to the coverage there, until nothing falls:
        # Dinkelbach's algorithm for the minimum of a ratio, which needs few passes.
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
    """Return the slab of the lowest coverage among those that hold a share of the weight.

    Bounds are halfway between neighbouring rows, and infinite beyond the first and the last.
    """
    X, covered_weight, weight = distinct_rows(X, inside, weight)
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
    X: FloatArray, weight: FloatArray, n_directions: int, rng: np.random.RandomState
) -> FloatArray:
    """Return random directions, uniform on the sphere of the standardised columns, shape (k, d).

    One column has a single direction. Directions have any length, as only the order along them matters.
    """
    if X.shape[1] == 1:
        return np.ones((1, 1))
    scale = np.array([standard_deviation(column, weight) for column in X.T])
    return rng.standard_normal((n_directions, X.shape[1])) / np.where(scale > 0, scale, 1.0)


@metric(
    "wsc",
    title="Worst-slab coverage",
    units=0,
    direction=None,
    optimum="coverage",
    bounds=(0.0, 1.0),
    needs="interval",
    proper=False,
    random=True,
    needs_X=True,
    small_sample=True,
    source="Cauchois et al. 2021; Romano et al. 2020",
)
def worst_slab_coverage(
    y_true: ArrayLike,
    y_pred: Any,
    X: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    min_share: float = 0.1,
    n_directions: int = 1000,
    search_size: float = 0.25,
    random_state: int | np.random.RandomState | None = None,
) -> float:
    r"""Coverage in the worst part of the rows between two parallel planes in X (WSC).

    How rarely are the intervals right in the part of X where they are right least often? The part is a slab:
    rows whose projection on a direction lies between two bounds. Of random directions, the slab with the
    lowest coverage is found on a share of the rows, and its coverage is read on the others, so that it is not
    too low by the choice of the minimum. To be compared with the nominal coverage. Neither direction is
    better and it is not proper: intervals over the whole line for nine rows in ten drawn at random, and none
    for the tenth, are nominal in every slab. Its scorer is for monitoring; select by `crps_loss` or
    `interval_score_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds, which may be infinite.
    X : array-like of shape (n, d)
        Numeric features of each row, without NaN. Their units do not matter: directions are drawn for
        standardised columns.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. Shares are those of the weight; a row and its repetitions are
        either searched or read.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Bounds are taken as they are.
    min_share : float, default=0.1
        Share of the searched rows that a slab holds at least, between 0 and 1.
    n_directions : int, default=1000
        Number of random directions; one feature has a single one.
    search_size : float, default=0.25
        Share of the rows on which the slab is searched, between 0 and 1.
    random_state : int, RandomState instance or None, default=None
        Controls the randomness of the split and of the directions. Pass an int to compare models on the same
        ones, and for reproducible output across calls.

    Returns
    -------
    share : float
        In [0, 1]; best at `coverage`. Intervals whose coverage does not depend on X have a standard error of
        about ``sqrt(coverage * (1 - coverage) / m)``, with m the rows read in the slab, at least about
        ``min_share * (1 - search_size) * n``.

    Raises
    ------
    TypeError
        If X is not numeric.
    ValueError
        If there are fewer than two rows, or so few that none of those read is in the slab.

    Warns
    -----
    SmallSampleWarning
        Below 500 rows.

    See Also
    --------
    conditional_coverage_error : Over all of X, by a classifier; less noisy, and for parts of any shape.
    conditional_coverage : Coverage in groups or bins that are given.

    Notes
    -----
    .. math::

        \mathrm{WSC} = \min_{v, a < b} \frac{\sum_i Z_i 1\{a \le v^\top x_i \le b\}}
            {\sum_i 1\{a \le v^\top x_i \le b\}}

    over slabs that hold at least a share `min_share` of the rows, with
    :math:`Z_i = 1\{l_i \le y_i \le u_i\}` [1]_. The minimum over all rows would be far below nominal for
    perfect intervals too, hence the split of [2]_. The lowest ratio along one direction is found exactly, in
    O(n log n) time; a thousand directions take about 0.2 s for 5000 rows. A region that is no slab, such as
    both ends of a feature, is found in part or missed.

    References
    ----------
    .. [1] Cauchois, Gupta and Duchi (2021), Knowing what you know: valid and validated confidence sets in
       multiclass and multilabel prediction. https://jmlr.org/papers/v22/20-753.html
    .. [2] Romano, Sesia and Candes (2020), Classification with valid and adaptive coverage.
       https://doi.org/10.48550/arXiv.2006.02544

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import worst_slab_coverage
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(5000, 2))
    >>> scale = 0.5 + X[:, 0]
    >>> y = scale * rng.normal(size=5000)
    >>> truth, one_width = (np.zeros(5000), scale), (np.zeros(5000), np.full(5000, np.std(y)))
    >>> round(worst_slab_coverage(y, one_width, X, random_state=0), 2)
    0.81
    >>> round(worst_slab_coverage(y, truth, X, random_state=0), 2)
    0.91

    As good as the truth, and of no use:

    >>> useless = np.where(rng.random((5000, 1)) < 0.9, [-np.inf, np.inf], 99.0)
    >>> round(worst_slab_coverage(y, useless, X, random_state=0), 2)
    0.91
    """
    share, size = _check_share(min_share, "min_share"), _check_share(search_size, "search_size")
    k = check_integer(n_directions, "n_directions")
    rng = check_random_state(random_state)
    inside, features, given = check_covered(y_true, y_pred, X, sample_weight, coverage, allow_nan=False)
    n = inside.size
    if n < 2:
        raise ValueError(
            "`y_true` must have at least two rows of positive weight, to search a slab on some and read its "
            f"coverage on others, got {n}."
        )
    # Sums of equal weights are then those of ones, and of two slabs of equal coverage the same one is found.
    weight = np.ones(n) if given is None else given / given.max()
    search, read = split_search(n, weight, size, rng)
    directions = draw_directions(features[search], weight[search], k, rng)
    slab = worst_slab(features[search], inside[search], weight[search], share, directions)
    rows = read[slab.contains(features[read])]
    if not rows.size:
        raise ValueError(
            f"`y_true` must have more rows: the worst slab, found on {search.size}, holds none of the "
            f"{read.size} others. Pass more rows, or search slabs of a larger share."
        )
    return weighted_mean(inside[rows], weight[rows])


def _check_share(value: float, name: str) -> float:
    """Return one share strictly between 0 and 1."""
    share = check_open_unit(value, name)
    if share.ndim:
        raise ValueError(f"`{name}` must be one number, got an array of shape {share.shape}.")
    return float(share)
