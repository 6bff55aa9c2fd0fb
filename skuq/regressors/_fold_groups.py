"""Models trained without several folds: the gain by more training rows, and the gain by averaging models.

An out-of-fold error comes from one model trained on a part of the rows. It is larger than the error of a
model trained on all rows, and larger than the error of the average of the folds' models. Models trained
without half of the folds show how fast errors fall with the number of rows. Models trained without two folds
show how far models of different folds differ on rows that none of them is trained on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.prediction._cross_fit import cross_fit
from skuq.prediction._point import point_predict
from skuq.prediction._row_sets import row_mask
from skuq.regressors._fit_inputs import TrainingData

__all__ = [
    "FoldGroups",
    "averaging_factor",
    "fit_fold_groups",
    "halves_of_folds",
    "learning_curve_factor",
    "pairs_of_folds",
    "trained_on_by_all",
]

Folds = list[tuple[IntArray, IntArray]]

_N_PAIRED = 3
"""Number of folds that are left out in pairs; the others would add fits and little accuracy."""


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

    def variances_by_row(
        self, out_of_fold: FloatArray, unit: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return half the mean squared differences, in squared units, where two models leave a row out.

        The first is between the models without several folds, the second between them and the model without
        one fold.
        """
        n = len(unit)
        mean, _ = self.mean_by_row(self.predictions, n)
        count = np.bincount(np.concatenate(self.rows), minlength=n) if self.rows else np.zeros(n)
        halves = []
        for reference in (mean, out_of_fold):
            squares = tuple(
                ((prediction - reference[rows]) / unit[rows]) ** 2
                for rows, prediction in zip(self.rows, self.predictions, strict=True)
            )
            halves.append(self.mean_by_row(squares, n)[0])
        return halves[0] * count / np.maximum(count - 1, 1), halves[1] / 2, count > 1


def trained_on_by_all(folds: Folds, group: Iterable[int], n: int) -> BoolArray:
    """Return which of n rows every fold of a group trains on: groups of rows stay together, time in order."""
    return np.asarray(np.logical_and.reduce([row_mask(folds[k][0], n) for k in group]))


def halves_of_folds(k: int) -> list[tuple[int, ...]]:
    """Return two groups of at least half of k folds, which cover all rows.

    Far fewer training rows show the learning curve with less chance than one fold less does.
    """
    half = (k + 1) // 2
    return [tuple(range(half)), tuple(range(k - half, k))] if half > 1 else []


def pairs_of_folds(k: int) -> list[tuple[int, ...]]:
    """Return the pairs of the first folds: two models leave each of their rows out."""
    return list(combinations(range(min(k, _N_PAIRED)), 2)) if k > 2 else []


def fit_fold_groups(
    estimator: Any, data: TrainingData, folds: Folds, groups: list[tuple[int, ...]], **options: Any
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
    groups : list of tuple of int
        Numbers of the folds that are left out together.
    **options : dict
        ``n_jobs``, ``verbose`` and ``on_fold`` of `cross_fit`.

    Returns
    -------
    groups : FoldGroups
        Groups that leave fewer than two rows to train on are missing.
    """
    n = len(data)
    splits = []
    for group in groups:
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


def averaging_factor(
    pairs: FoldGroups,
    out_of_fold: FloatArray,
    residual: FloatArray,
    scale: FloatArray,
    weight: FloatArray,
    n_folds: int,
) -> float:
    r"""Return the size of errors of the folds' average in units of the size of errors of one fold's model.

    For each row, the mean squared error of K models is the squared error of their average plus their
    variance around it. A row has a single out-of-fold model, so the variance comes from models without two
    folds, which leave the row out as well.

    Parameters
    ----------
    pairs : FoldGroups
        Predictions of models without two folds.
    out_of_fold : ndarray of shape (n,)
        Predictions of models without one fold.
    residual : ndarray of shape (n,)
        Errors of these predictions.
    scale : ndarray of shape (n,)
        Predicted size of errors, by which rows are made comparable; NaN for rows that do not count.
    weight : ndarray of shape (n,)
        Repetitions of each row.
    n_folds : int
        Number K of models in the average.
    """
    weight, scale = np.where(np.isnan(scale), 0.0, weight), np.where(np.isnan(scale), 1.0, scale)
    among, to_single, counted = pairs.variances_by_row(out_of_fold, scale)
    if not (weight * counted).any():
        return 1.0
    error = np.average((residual / scale) ** 2, weights=weight)
    if error == 0:
        return 1.0
    variance = _variance_of_folds(
        *np.average([among, to_single], axis=1, weights=weight * counted).tolist(), n_folds
    )
    return float(np.sqrt(1 - (n_folds - 1) / n_folds * min(variance / error, 1.0)))


def _variance_of_folds(among: float, to_single: float, k: int) -> float:
    """Return the variance between models without one of k folds.

    Half the mean squared difference of two models has two parts. One is in proportion to the rows by which
    their training sets differ, each with its influence. The other is there after any change, as in trees
    whose first split changes. Both follow from ``among``, the value for two models without two folds, and
    ``to_single``, the value for one of them and a model without one fold. In simulations with 3, 5 and 10
    folds, the result was typically within 20 % of the true variance, for linear models, nearest neighbors,
    trees, boosting and forests.
    """
    smooth_to_single = (k - 2) / (2 * (k - 1))
    smooth_of_folds = ((k - 2) / (k - 1)) ** 2
    abrupt = (to_single - smooth_to_single * among) / (1 - smooth_to_single)
    abrupt = min(max(abrupt, 0.0), among)
    return smooth_of_folds * (among - abrupt) + abrupt
