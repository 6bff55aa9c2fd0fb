"""The shape of standardized residuals at each x, relative to the shape that all rows have in common."""

from __future__ import annotations

from dataclasses import dataclass

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

_TABLE_LEVELS = ndtr(np.linspace(-4.5, 4.5, 181))
"""Levels at which the quantiles of the common shape are tabulated."""

_N_TREES = 50

_FEWEST_ROWS = 40.0

_GUARD = 2.33
"""Standard errors above 0 that a covariance exceeds by chance once in a hundred samples."""

_MOST_JUDGED = 20_000
"""Rows that are enough to compare both shapes."""

_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class ConditionalShape:
    """A distribution of the probability levels under the common shape that depends on x.

    Attributes
    ----------
    bins : Bins
        Of the columns that the trees were grown on.
    trees : ShareTrees
        The distribution of the levels at each x.
    share : float
        Weight in [0, 1] of the trees; the rest is that of the common shape.
    standard : ndarray
        Quantiles of the common shape, in units of the scale, at a fine grid of levels.
    """

    bins: Bins
    trees: ShareTrees
    share: float
    standard: FloatArray

    def __call__(self, table: FloatArray) -> FloatArray:
        """Return the probability at or below each threshold for new rows, shape (n, k)."""
        return _mixed(self.trees(self.bins(table)), self.share)

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
    guard : bool
        Return None unless the shape is better out of fold by more than chance explains.
    """
    counted = np.ones(len(level)) if weight is None else weight
    if counted.sum() < _FEWEST_ROWS:
        return None
    rng = check_random_state(seed)
    bins = Bins.of_table(table[counted > 0])
    codes = bins(table)
    halves = np.repeat(THRESHOLDS[np.newaxis, np.newaxis], 2, axis=0).repeat(len(level), axis=1)
    n_trees = -(-_N_TREES // (2 * len(folds)))
    grown = []
    for train, test in folds:
        for half in halves:
            own = None if weight is None else weight[train]
            grown.append(grow_trees(codes[train], level[train], own, n_trees, rng))
            half[test] = grown[-1](codes[test])
    tested = np.concatenate([test for _, test in folds])
    judged = tested[counted[tested] > 0]
    if len(judged) > _MOST_JUDGED:
        judged = judged[rng.choice(len(judged), _MOST_JUDGED, replace=False)]
    merit = _Merit.of_halves(halves[:, judged], level[judged], counted[judged], len(folds))
    if merit.share == 0 or (guard and merit.moment <= _GUARD * merit.error):
        return None
    if len(np.unique(tested)) == len(level):
        trees = ShareTrees.joined(grown)
    else:
        trees = grow_trees(codes, level, weight, _N_TREES, rng)
    shape = ConditionalShape(bins, trees, merit.share, common.quantile(_TABLE_LEVELS)[0])
    return shape, _mixed(halves.mean(axis=0), merit.out_of_fold_share)


@dataclass(frozen=True)
class _Merit:
    """Comparison of trees with the common shape out of fold.

    Attributes
    ----------
    out_of_fold_share, share : float
        Weight in [0, 1] with the least squared error: of the trees of one fold, and of the trees of all
        folds, whose mean is less noisy.
    moment, error : float
        Covariance of the trees' forecasts with the targets, and its standard error. It is positive exactly
        where the trees decrease the squared error with some share.
    """

    out_of_fold_share: float
    share: float
    moment: float
    error: float

    @classmethod
    def of_halves(cls, halves: FloatArray, level: FloatArray, weight: FloatArray, n_folds: int) -> _Merit:
        """Return the comparison for two sets of trees per fold, of probabilities of shape (2, n, k)."""
        first, second = halves - THRESHOLDS
        mean = (first + second) / 2
        target = (level[:, np.newaxis] <= THRESHOLDS) - THRESHOLDS
        products = (mean * target).sum(axis=1)
        moment = float(np.average(products, weights=weight))
        error = float(np.sqrt(weight @ np.square(products - moment)) / weight.sum())
        square = float(np.average((mean * mean).sum(axis=1), weights=weight))
        # what two independent sets of trees do not have in common is noise of the trees
        noise = max(square - float(np.average((first * second).sum(axis=1), weights=weight)), 0.0)
        quiet = square - noise * (1 - 1 / n_folds)
        return cls(_share(moment, square), _share(moment, quiet), moment, error)


def _share(moment: float, square: float) -> float:
    """Return the factor in [0, 1] with the least squared error."""
    return min(max(moment / square, 0.0), 1.0) if square > 0 else 0.0


def _mixed(shares: FloatArray, share: float) -> FloatArray:
    """Return the mixture of the trees' probabilities with those of the common shape."""
    return np.asarray(THRESHOLDS + share * (shares - THRESHOLDS))


def _common_levels(shares: FloatArray) -> FloatArray:
    """Return the level under the common shape of each quantile, shape (n, n_levels).

    Between two thresholds, the distribution is that of the common shape.
    """
    n = len(shares)
    knots = np.concatenate([[0.0], THRESHOLDS, [1.0]])
    reached = np.column_stack([np.zeros(n), shares, np.ones(n)])
    upper = (reached[:, np.newaxis, :] < _LEVELS[:, np.newaxis]).sum(axis=2)
    row = np.arange(n)[:, np.newaxis]
    start, stop = reached[row, upper - 1], reached[row, upper]
    return np.asarray(
        knots[upper - 1] + (knots[upper] - knots[upper - 1]) * (_LEVELS - start) / (stop - start)
    )
