"""Models trained without several folds: what fewer training rows cost, and what averaging models gains.

Out-of-fold errors are those of models trained on a part of the rows, and larger than those of the model
trained on all. Models trained without several folds show how fast errors fall with the number of rows. If
every fold is left out together with others, the average of the models that leave it out shows what the
average of the folds' models gains over a single one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.prediction._cross_fit import cross_fit
from skuq.prediction._point import point_predict
from skuq.prediction._row_sets import row_mask
from skuq.regressors._fit_inputs import TrainingData

__all__ = [
    "FoldGroups",
    "averaging_weight",
    "fit_fold_groups",
    "is_partition",
    "learning_curve_factor",
    "trained_on_by_all",
]

Folds = list[tuple[IntArray, IntArray]]

_NEIGHBOURS = 2
"""Each fold is left out with so many folds on either side: fits grow in proportion to the folds."""


@dataclass(frozen=True, eq=False)
class FoldGroups:
    """Predictions of models that are trained without groups of folds.

    Attributes
    ----------
    rows : tuple of ndarray of int
        Rows of the folds of each group.
    predictions : tuple of ndarray
        What the model without these folds predicts for them.
    sizes : ndarray of shape (n_groups,)
        Number of training rows of each model, in weights.
    """

    rows: tuple[IntArray, ...]
    predictions: tuple[FloatArray, ...]
    sizes: FloatArray

    def mean_by_row(self, values: tuple[FloatArray, ...], n: int) -> tuple[FloatArray, BoolArray]:
        """Return the mean over the models that leave a row out, shape (n,), and which rows any leaves out."""
        total, count = np.zeros(n), np.zeros(n)
        for rows, value in zip(self.rows, values, strict=True):
            total[rows] += value
            count[rows] += 1
        return total / np.maximum(count, 1), count > 0


def is_partition(folds: Folds, n: int) -> bool:
    """Return whether each of n rows is tested exactly once."""
    tested = np.concatenate([test for _, test in folds])
    return len(tested) == n and bool(row_mask(tested, n).all())


def trained_on_by_all(folds: Folds, group: Iterable[int], n: int) -> BoolArray:
    """Return which of n rows every fold of a group trains on: groups of rows stay together, time in order."""
    return np.asarray(np.logical_and.reduce([row_mask(folds[k][0], n) for k in group]))


def _groups(k: int, *, pairs: bool) -> list[tuple[int, ...]]:
    """Return the groups of k folds that are left out together.

    Two groups of at least half of the folds cover all rows: far fewer training rows show the learning curve
    with less chance than one fold less does.
    """
    if pairs:
        near = {frozenset((g, (g + d) % k)) for g in range(k) for d in range(1, 1 + _NEIGHBOURS)}
        return sorted(tuple(sorted(pair)) for pair in near if len(pair) == 2)
    half = (k + 1) // 2
    return [tuple(range(half)), tuple(range(k - half, k))] if half > 1 else []


def fit_fold_groups(
    estimator: Any, data: TrainingData, folds: Folds, *, pairs: bool, **options: Any
) -> FoldGroups:
    """Fit clones of the estimator without groups of folds.

    Parameters
    ----------
    estimator : estimator
        The mean model.
    data : TrainingData of n rows
        Training rows.
    folds : list of (train, test)
        A partition of the rows.
    pairs : bool
        Whether every fold is left out with its neighbours, in pairs, or half of the folds twice.
    **options : dict
        ``n_jobs``, ``verbose`` and ``on_fold`` of `cross_fit`.

    Returns
    -------
    groups : FoldGroups
        Without those that leave no two rows to train on, and so possibly empty.
    """
    n = len(data)
    splits = []
    for group in _groups(len(folds), pairs=pairs):
        test = np.concatenate([folds[g][1] for g in group])
        train = np.flatnonzero(trained_on_by_all(folds, group, n))
        if len(train) >= 2:
            splits.append((train, test))
    if not splits:
        return FoldGroups((), (), np.empty(0))
    fit = cross_fit(
        estimator,
        data.X,
        data.target,
        cv=splits,
        params=data.fit_params,
        predict=point_predict,
        name="group of folds",
        **options,
    )
    sizes = np.array([data.repetitions[train].sum() for train, _ in splits])
    return FoldGroups(fit.test_rows, fit.predictions, sizes)


def learning_curve_factor(
    groups: FoldGroups, out_of_fold: FloatArray, data: TrainingData, folds: Folds, least: float
) -> float:
    """Return the size of errors of the model trained on all rows in units of that of the out-of-fold errors.

    Absolute errors are taken to fall as a power of the number of training rows, from the models without
    several folds to those without one and on to the final one. The decrease of their mean logarithm is
    shrunk by the positive-part rule of James and Stein as far as it may be chance, so that pure noise gives
    1.

    Parameters
    ----------
    groups : FoldGroups
        Predictions of models without several folds.
    out_of_fold : ndarray of shape (n,)
        Predictions of models without one fold.
    data : TrainingData of n rows
        Observed targets and weights.
    folds : list of (train, test)
        A partition of the rows.
    least : float
        Smallest error that counts, in the units of y, since a single one may be small by chance.
    """
    n = len(data)
    sizes = np.array([data.repetitions[train].sum() for train, _ in folds])
    if not len(groups.sizes) or min(sizes.min(), groups.sizes.min()) == 0:
        return 1.0
    one_fold, several_folds = np.log(sizes).mean(), np.log(groups.sizes).mean()
    errors = tuple(
        np.log(np.maximum(np.abs(data.y[rows] - prediction), least))
        for rows, prediction in zip(groups.rows, groups.predictions, strict=True)
    )
    larger, tested = groups.mean_by_row(errors, n)
    difference = larger - np.log(np.maximum(np.abs(data.y - out_of_fold), least))
    weight = tested * data.repetitions
    if not weight.sum() or not one_fold > several_folds:
        return 1.0
    decrease = float(np.average(difference, weights=weight))
    if decrease <= 0:
        return 1.0
    noise = np.average((difference - decrease) ** 2, weights=weight) / weight.sum()
    shrunk = decrease * max(0.0, 1 - noise / decrease**2)
    return float(np.exp(-shrunk * (np.log(data.repetitions.sum()) - one_fold) / (one_fold - several_folds)))


def averaging_weight(
    pairs: FoldGroups, out_of_fold: FloatArray, data: TrainingData
) -> tuple[float, FloatArray]:
    """Return the weight in [0, 1] of averaged beside single predictions, and their weighted mean.

    The least-squares weight out of fold. The models of an average are trained on fewer rows than the single
    ones, which favours the latter.
    """
    if not len(pairs.sizes):
        return 0.0, out_of_fold
    mean, _ = pairs.mean_by_row(pairs.predictions, len(data))
    difference = mean - out_of_fold
    scale = np.abs(difference).max()
    if scale == 0:
        return 0.0, out_of_fold
    unit = difference / scale
    residual = data.y - out_of_fold
    slope = np.average(unit * residual, weights=data.sample_weight) / scale
    weight = float(np.clip(slope / np.average(unit**2, weights=data.sample_weight), 0, 1))
    return weight, out_of_fold + weight * difference
