"""Shape of the standardized residuals at each x, compared with the common shape of all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.utils import check_random_state

from skuq._typing import FloatArray, IntArray
from skuq.distributions import Distribution, Quantiles
from skuq.regressors._shape.bins import Bins
from skuq.regressors._shape.trees import THRESHOLDS, ShareTrees, grow_trees

_LEVELS = np.array([0.0025, 0.005, 0.01, 0.025, *np.arange(1, 20) / 20, 0.975, 0.99, 0.995, 0.9975])
"""Levels of the predictive quantiles. They include 0.025, 0.05, 0.5, 0.95 and 0.975."""

_TABLE_LEVELS = ndtr(np.linspace(-4.5, 4.5, 361))
"""The quantiles of the common shape are stored at these levels."""

_LEAF_FACTORS = (0.2, 1.0)
"""Factors of the leaf size. There are two kinds of trees: with small leaves and with large leaves."""

_N_TREES = 25
"""Number of trees of each kind."""

_FEWEST_ROWS = 40.0

_GUARD = 2.33
"""The standardized covariance must exceed this threshold. If the shape does not depend on x, the probability
of a larger value is 0.01."""

_MOST_COMPARED = 20_000
"""At most this number of rows is used to compare the conditional shape with the common shape."""

_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class ConditionalShape:
    """Distribution of levels for given x.

    A level is the distribution function of the common shape, evaluated at a residual.
    """

    bins: Bins
    trees: tuple[ShareTrees, ...]
    shares: FloatArray  # weights of the two kinds of trees; the common shape has the weight 1 - sum
    standard: FloatArray  # quantiles of the common shape at `_TABLE_LEVELS`, in units of the scale

    @property
    def share(self) -> float:
        """Return the total weight of both kinds of trees."""
        return float(self.shares.sum())

    def __call__(self, table: FloatArray) -> FloatArray:
        """Return, for new rows, the probability that the level is at most each threshold, shape (n, k)."""
        codes = self.bins(table)
        return _mixed(np.stack([trees(codes) for trees in self.trees]), self.shares)

    def distribution(self, shares: FloatArray, loc: FloatArray, scale: FloatArray) -> Quantiles:
        z = np.empty((len(shares), len(_LEVELS)))
        step = max(1, _BLOCK // (len(_LEVELS) * (len(THRESHOLDS) + 2)))
        for start in range(0, len(shares), step):
            rows = slice(start, start + step)
            z[rows] = np.interp(_common_levels(shares[rows]), _TABLE_LEVELS, self.standard)
        return Quantiles(_LEVELS, loc[:, np.newaxis] + scale[:, np.newaxis] * z)


def fit_conditional_shape(
    table: FloatArray,
    level: FloatArray,
    weight: FloatArray | None,
    folds: list[tuple[IntArray, IntArray]],
    common: Distribution,
    seed: int,
    *,
    clusters: Any = None,
    guard: bool,
) -> tuple[ConditionalShape, FloatArray] | None:
    """Return the conditional shape and its out-of-fold probabilities, or None if the shape has no skill."""
    counted = np.ones(len(level)) if weight is None else weight
    folds = [fold for fold in folds if np.count_nonzero(counted[fold[0]]) >= 2]
    if counted.sum() < _FEWEST_ROWS or not folds:
        return None
    rng = check_random_state(seed)
    bins = Bins.of_table(table[counted > 0])
    codes = bins(table)
    halves = np.tile(THRESHOLDS, (2, len(_LEAF_FACTORS), len(level), 1))
    n_trees = -(-_N_TREES // (2 * len(folds)))
    grown: list[list[ShareTrees]] = [[] for _ in _LEAF_FACTORS]
    for train, test in folds:
        own = None if weight is None else weight[train]
        for kind, factor in enumerate(_LEAF_FACTORS):
            for half in halves[:, kind]:
                trees = grow_trees(codes[train], level[train], own, factor, n_trees, rng)
                half[test] = trees(codes[test])
                grown[kind].append(trees)
    tested = np.concatenate([test for _, test in folds])
    compared = tested[counted[tested] > 0]
    if len(compared) > _MOST_COMPARED:
        compared = compared[rng.choice(len(compared), _MOST_COMPARED, replace=False)]
    labels = np.arange(len(level)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    merit = _Merit.of_halves(
        halves[:, :, compared], level[compared], counted[compared], labels[compared], n_folds=len(folds)
    )
    if not merit.shares.any() or (guard and merit.moment <= _GUARD * merit.error):
        return None
    if len(np.unique(tested)) < len(level):
        grown = [[grow_trees(codes, level, weight, factor, _N_TREES, rng)] for factor in _LEAF_FACTORS]
    shape = ConditionalShape(
        bins,
        tuple(ShareTrees.joined(parts) for parts in grown),
        merit.shares,
        common.quantile(_TABLE_LEVELS)[0],
    )
    return shape, _mixed(halves.mean(axis=0), merit.out_of_fold_shares)


@dataclass(frozen=True, eq=False)
class _Merit:
    """Comparison of the trees with the common shape on out-of-fold rows."""

    out_of_fold_shares: FloatArray
    shares: FloatArray
    moment: float
    error: float

    @classmethod
    def of_halves(
        cls, halves: FloatArray, level: FloatArray, weight: FloatArray, cluster: IntArray, *, n_folds: int
    ) -> _Merit:
        """Return the comparison.

        The array ``halves`` (2, 2, n, k) contains the forecasts by two halves of the trees of each kind.
        """
        first, second = halves - THRESHOLDS
        mean = (first + second) / 2
        target = (level[:, np.newaxis] <= THRESHOLDS) - THRESHOLDS
        share = weight / weight.sum()
        products = np.einsum("ink,nk->in", mean, target)
        moments = products @ share
        squares = np.einsum("ink,jnk,n->ij", mean, mean, share)
        # the two halves are independent, so they differ only by noise
        common = np.einsum("ink,ink,n->i", first, second, share)
        noise = np.maximum(np.diag(squares) - common, 0.0)
        quiet = squares - np.diag(noise) * (1 - 1 / n_folds)
        shares = _best_shares(moments, squares)
        combined = shares @ products
        moment = float(combined @ share)
        error = float(np.linalg.norm(np.bincount(cluster, share * (combined - moment))))
        return cls(shares, _best_shares(moments, quiet), moment, error)


def _best_shares(moments: FloatArray, squares: FloatArray) -> FloatArray:
    """Return the two weights that minimize the squared error.

    The weights are non-negative and their sum is at most 1.
    """
    (a, c), (_, b) = squares
    candidates = [np.zeros(2)]
    if a > 0:
        candidates.append(np.array([moments[0] / a, 0.0]).clip(0, 1))
    if b > 0:
        candidates.append(np.array([0.0, moments[1] / b]).clip(0, 1))
    if a * b - c * c > 0:
        inside = np.array([b * moments[0] - c * moments[1], a * moments[1] - c * moments[0]]) / (
            a * b - c * c
        )
        if inside.min() >= 0 and inside.sum() <= 1:
            candidates.append(inside)
    if a + b - 2 * c > 0:
        first = np.clip((moments[0] - moments[1] - c + b) / (a + b - 2 * c), 0, 1)
        candidates.append(np.array([first, 1 - first]))
    losses = [one @ squares @ one - 2 * one @ moments for one in candidates]
    return candidates[int(np.argmin(losses))]


def _mixed(estimates: FloatArray, shares: FloatArray) -> FloatArray:
    # In a matrix product, the rounding errors of a row depend on its position.
    parts = (share * (estimate - THRESHOLDS) for share, estimate in zip(shares, estimates, strict=True))
    return np.asarray(THRESHOLDS + sum(parts))


def _common_levels(shares: FloatArray) -> FloatArray:
    """Return the level of each predictive quantile under the common shape, shape (n, n_levels)."""
    n = len(shares)
    knots = np.concatenate([[0.0], THRESHOLDS, [1.0]])
    # corrects decreases of the probabilities due to rounding
    reached = np.maximum.accumulate(np.column_stack([np.zeros(n), shares, np.ones(n)]), axis=1)
    upper = (reached[:, np.newaxis, :] < _LEVELS[:, np.newaxis]).sum(axis=2)
    row = np.arange(n)[:, np.newaxis]
    start, stop = reached[row, upper - 1], reached[row, upper]
    return np.asarray(
        knots[upper - 1] + (knots[upper] - knots[upper - 1]) * (_LEVELS - start) / (stop - start)
    )
