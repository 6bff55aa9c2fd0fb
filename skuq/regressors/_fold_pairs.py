"""Models trained without two folds: what fewer training rows cost, and what averaging models gains.

Out-of-fold errors are those of models trained on a part of the rows, and larger than those of the model
trained on all. A model trained without two folds shows how fast errors fall with the number of rows. If
every fold is left out together with several others, the average of the models that leave it out shows what
the average of the folds' models gains over a single one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._typing import FloatArray, IntArray
from skuq.prediction._cross_fit import cross_fit
from skuq.prediction._point import point_predict
from skuq.prediction._row_sets import row_mask
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["FoldPairs", "averaging_weight", "fit_fold_pairs", "is_partition", "learning_curve_factor"]

Folds = list[tuple[IntArray, IntArray]]

_NEIGHBOURS = 2
"""Each fold is left out with so many folds on either side: fits grow in proportion to the folds."""


@dataclass(frozen=True, eq=False)
class FoldPairs:
    """Predictions of models that are trained without two folds.

    Attributes
    ----------
    rows : tuple of ndarray of int
        Rows of both folds, one entry a pair.
    predictions : tuple of ndarray
        What the model without both folds predicts for them.
    sizes : ndarray of shape (n_pairs,)
        Number of training rows of each model, in weights.
    """

    rows: tuple[IntArray, ...]
    predictions: tuple[FloatArray, ...]
    sizes: FloatArray

    def mean_prediction(self, n: int) -> FloatArray:
        """Return the mean prediction of the models that leave a row out, shape (n,)."""
        total, count = np.zeros(n), np.zeros(n)
        for rows, prediction in zip(self.rows, self.predictions, strict=True):
            total[rows] += prediction
            count[rows] += 1
        return total / count


def is_partition(folds: Folds, n: int) -> bool:
    """Return whether each of n rows is tested exactly once."""
    tested = np.concatenate([test for _, test in folds])
    return len(tested) == n and bool(row_mask(tested, n).all())


def fit_fold_pairs(
    estimator: Any, data: TrainingData, folds: Folds, *, every: bool, **options: Any
) -> FoldPairs:
    """Fit clones of the estimator without two folds each.

    Parameters
    ----------
    estimator : estimator
        The mean model.
    data : TrainingData of n rows
        What it learns from.
    folds : list of (train, test)
        A partition of the rows.
    every : bool
        Whether every fold is left out in pairs, or the first two folds alone.
    **options : dict
        ``n_jobs``, ``verbose`` and ``on_fold`` of `cross_fit`.

    Returns
    -------
    pairs : FoldPairs
        Without those that leave no two rows to train on, and so possibly empty.
    """
    n, k = len(data), len(folds)
    apart = range(1, 1 + _NEIGHBOURS)
    pairs = {frozenset((g, (g + d) % k)) for g in range(k) for d in apart} if every else {frozenset((0, 1))}
    splits = []
    for g, h in sorted(sorted(pair) for pair in pairs if len(pair) == 2):
        train = np.flatnonzero(row_mask(folds[g][0], n) & row_mask(folds[h][0], n))
        if len(train) >= 2:
            splits.append((train, np.concatenate([folds[g][1], folds[h][1]])))
    if not splits:
        return FoldPairs((), (), np.empty(0))
    fit = cross_fit(
        estimator,
        data.X,
        data.target,
        cv=splits,
        params=data.fit_params,
        predict=point_predict,
        name="pair of folds",
        **options,
    )
    sizes = np.array([_size(data, train) for train, _ in splits])
    return FoldPairs(fit.test_rows, fit.predictions, sizes)


def learning_curve_factor(
    pairs: FoldPairs, out_of_fold: FloatArray, data: TrainingData, folds: Folds, least: float
) -> float:
    """Return the size of errors of the model trained on all rows in units of that of the out-of-fold errors.

    The mean logarithm of absolute errors is taken to fall in proportion to 1/n for n training rows, from the
    models without two folds to those without one and on to the final one. Its decrease is shrunk by the
    positive-part rule of James and Stein as far as it may be chance, so that pure noise gives 1.

    Parameters
    ----------
    pairs : FoldPairs
        Predictions of models without two folds.
    out_of_fold : ndarray of shape (n,)
        Predictions of models without one fold.
    data : TrainingData of n rows
        Observed targets and weights.
    folds : list of (train, test)
        A partition of the rows.
    least : float
        Smallest error that counts, in the units of y, since a single one may be small by chance.
    """
    if not len(pairs.sizes):
        return 1.0
    rows = np.concatenate(pairs.rows)
    weight = np.ones(len(rows)) if data.sample_weight is None else data.sample_weight[rows]
    if not weight.sum():
        return 1.0
    larger, smaller = (
        np.log(np.maximum(np.abs(data.y[rows] - prediction), least))
        for prediction in (np.concatenate(pairs.predictions), out_of_fold[rows])
    )
    decrease = float(np.average(larger - smaller, weights=weight))
    if decrease <= 0:
        return 1.0
    noise = np.average((larger - smaller - decrease) ** 2, weights=weight) / weight.sum()
    shrunk = decrease * max(0.0, 1 - noise / decrease**2)
    one_fold = np.mean([1 / _size(data, train) for train, _ in folds])
    two_folds = np.mean(1 / pairs.sizes)
    return float(np.exp(-shrunk * (one_fold - 1 / _size(data, None)) / (two_folds - one_fold)))


def averaging_weight(
    pairs: FoldPairs, out_of_fold: FloatArray, data: TrainingData
) -> tuple[float, FloatArray]:
    """Return the weight in [0, 1] of averaged beside single predictions, and their weighted mean.

    The least-squares weight out of fold. The models of an average are trained on fewer rows than the single
    ones, which favours the latter.
    """
    if not len(pairs.sizes):
        return 0.0, out_of_fold
    difference = pairs.mean_prediction(len(data)) - out_of_fold
    scale = np.abs(difference).max()
    if scale == 0:
        return 0.0, out_of_fold
    unit = difference / scale
    residual = data.y - out_of_fold
    slope = np.average(unit * residual, weights=data.sample_weight) / scale
    weight = float(np.clip(slope / np.average(unit**2, weights=data.sample_weight), 0, 1))
    return weight, out_of_fold + weight * difference


def _size(data: TrainingData, rows: IntArray | None) -> float:
    """Return the number of observations that the given rows stand for, or all rows."""
    if data.sample_weight is None:
        return float(len(data) if rows is None else len(rows))
    return float((data.sample_weight if rows is None else data.sample_weight[rows]).sum())
