"""The shape of standardized residuals at each x, relative to the shape that all rows have in common."""

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

__all__ = ["ConditionalShape", "fit_conditional_shape"]

_LEVELS = np.array([0.0025, 0.005, 0.01, 0.025, *np.arange(1, 20) / 20, 0.975, 0.99, 0.995, 0.9975])
"""Levels of the quantiles; 0.025, 0.05, 0.5, 0.95 and 0.975 are among them."""

_TABLE_LEVELS = ndtr(np.linspace(-4.5, 4.5, 361))
"""Levels at which the quantiles of the common shape are tabulated."""

_LEAF_FACTORS = (0.2, 1.0)
"""Of two kinds of trees: with many small leaves, and with few rows' accidents averaged out."""

_N_TREES = 25
"""Number of trees of each kind."""

_FEWEST_ROWS = 40.0

_GUARD = 2.33
"""Standard errors above 0 that a covariance exceeds by chance once in a hundred samples."""

_MOST_COMPARED = 20_000
"""Rows that are enough to compare both shapes."""

_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class ConditionalShape:
    """A distribution of the probability levels under the common shape that depends on x.

    Attributes
    ----------
    bins : Bins
        Of the columns that the trees were grown on.
    trees : tuple of ShareTrees
        Two estimates of the distribution of the levels at each x, by small and by large leaves.
    shares : ndarray of shape (2,)
        Weights of the estimates, which sum to at most 1; the rest is the weight of the common shape.
    standard : ndarray
        Quantiles of the common shape, in units of the scale, at a fine grid of levels.
    """

    bins: Bins
    trees: tuple[ShareTrees, ...]
    shares: FloatArray
    standard: FloatArray

    @property
    def share(self) -> float:
        """Weight of the trees in all."""
        return float(self.shares.sum())

    def __call__(self, table: FloatArray) -> FloatArray:
        """Return the probability at or below each threshold for new rows, shape (n, k)."""
        codes = self.bins(table)
        return _mixed(np.stack([trees(codes) for trees in self.trees]), self.shares)

    def distribution(self, shares: FloatArray, loc: FloatArray, scale: FloatArray) -> Quantiles:
        """Return the distributions with these probabilities below the thresholds."""
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
    """Return the conditional shape and the out-of-fold probabilities of each row, or None.

    Parameters
    ----------
    table : ndarray of shape (n, d)
        Columns on which the shape may depend; may be NaN.
    level : ndarray of shape (n,)
        Probability level of each target under the common shape.
    weight : ndarray of shape (n,) or None
        Repetitions of each row.
    folds : list of (train, test)
        Row numbers. Rows that no fold tests have the common shape out of fold.
    common : Distribution of one row
        The common shape, in units of the scale.
    seed : int
        Seed of the trees.
    clusters : array-like of shape (n,), default=None
        Labels of rows whose targets may depend on each other; None if no two rows do.
    guard : bool
        Return None unless the shape is better out of fold by more than chance explains.
    """
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
    """Comparison of trees with the common shape out of fold.

    Attributes
    ----------
    out_of_fold_shares, shares : ndarray of shape (2,)
        Weights of both kinds of trees with the least squared error: of the trees of one fold, and of the
        trees of all folds, whose mean is less noisy.
    moment, error : float
        Covariance of the weighted forecasts with the targets, and its standard error. It is positive where
        the trees decrease the squared error.
    """

    out_of_fold_shares: FloatArray
    shares: FloatArray
    moment: float
    error: float

    @classmethod
    def of_halves(
        cls, halves: FloatArray, level: FloatArray, weight: FloatArray, cluster: IntArray, *, n_folds: int
    ) -> _Merit:
        """Return the comparison for two sets of trees of each kind per fold, shape (2, 2, n, k)."""
        first, second = halves - THRESHOLDS
        mean = (first + second) / 2
        target = (level[:, np.newaxis] <= THRESHOLDS) - THRESHOLDS
        share = weight / weight.sum()
        products = np.einsum("ink,nk->in", mean, target)
        moments = products @ share
        squares = np.einsum("ink,jnk,n->ij", mean, mean, share)
        # what two independent sets of trees do not have in common is noise of the trees
        common = np.einsum("ink,ink,n->i", first, second, share)
        noise = np.maximum(np.diag(squares) - common, 0.0)
        quiet = squares - np.diag(noise) * (1 - 1 / n_folds)
        shares = _best_shares(moments, squares)
        combined = shares @ products
        moment = float(combined @ share)
        error = float(np.linalg.norm(np.bincount(cluster, share * (combined - moment))))
        return cls(shares, _best_shares(moments, quiet), moment, error)


def _best_shares(moments: FloatArray, squares: FloatArray) -> FloatArray:
    """Return the two weights, at least 0 and with a sum of at most 1, of the least squared error.

    Parameters
    ----------
    moments : ndarray of shape (2,)
        Mean products of both forecasts with the target.
    squares : ndarray of shape (2, 2)
        Mean products of the forecasts with each other.
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
    """Return the mixture of estimated probabilities, shape (2, n, k), and those of the common shape."""
    # no matrix product, which rounds a row by its place
    parts = (share * (estimate - THRESHOLDS) for share, estimate in zip(shares, estimates, strict=True))
    return np.asarray(THRESHOLDS + sum(parts))


def _common_levels(shares: FloatArray) -> FloatArray:
    """Return the level under the common shape of each quantile, shape (n, n_levels).

    Between two thresholds, the distribution is that of the common shape.
    """
    n = len(shares)
    knots = np.concatenate([[0.0], THRESHOLDS, [1.0]])
    # rounding in the mixture may reverse two probabilities that are equal
    reached = np.maximum.accumulate(np.column_stack([np.zeros(n), shares, np.ones(n)]), axis=1)
    upper = (reached[:, np.newaxis, :] < _LEVELS[:, np.newaxis]).sum(axis=2)
    row = np.arange(n)[:, np.newaxis]
    start, stop = reached[row, upper - 1], reached[row, upper]
    return np.asarray(
        knots[upper - 1] + (knots[upper] - knots[upper - 1]) * (_LEVELS - start) / (stop - start)
    )
