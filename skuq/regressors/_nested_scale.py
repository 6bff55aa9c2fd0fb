"""Predictions of a scale model on rows that neither it nor its mean models are trained on.

A scale model learns from residuals. Even if each residual comes from a mean model that is not
trained on its row, the mean models of the other rows are: where the mean follows single rows, as a fully
grown tree does, a row's own error shows in the residuals of its neighbours, and a scale model trained
on these appears to predict it. So both models leave the rows out: for the tests of one fold, the
residuals come from mean models trained on what two folds have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.prediction._cross_fit import cross_fit
from skuq.prediction._failures import located
from skuq.prediction._point import point_predict
from skuq.prediction._row_sets import row_mask
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["nested_log_scale"]

MOST_GROUPS = 5
"""Folds are taken together to this many groups, so that the fits do not grow with their square."""


def nested_log_scale(
    estimator: Any,
    scale_model: Any,
    data: TrainingData,
    folds: list[tuple[IntArray, IntArray]],
    log_of: Callable[[FloatArray], FloatArray],
    scale_params: dict[str, Any],
    *,
    n_jobs: int | None,
    verbose: int = 0,
    on_fold: Callable[[int], object] | None = None,
) -> tuple[IntArray, FloatArray]:
    """Return the tests for which there is a scale, and the logarithms of the scales.

    Parameters
    ----------
    estimator, scale_model : estimator
        The mean model and the model of the logarithms of its absolute residuals; both are cloned.
    data : TrainingData of n rows
        What the mean model learns from.
    folds : list of (train, test)
        Row numbers; the tests, one after the other, are counted through.
    log_of : callable
        Turns residuals into what the scale model learns.
    scale_params : dict
        Arguments of the scale model's ``fit``, one entry a row where they belong to rows.
    n_jobs, verbose, on_fold : object
        As in `cross_fit`, for the mean models.

    Returns
    -------
    tested : ndarray of int
        Positions among the tests; not those of a group for which no other fold could be used, as the
        first ones in time, and so possibly none.
    predicted : ndarray
        The scale model's prediction for each.
    """
    groups = _group(folds, len(data))
    residuals = _residuals_without(estimator, data, groups, n_jobs=n_jobs, verbose=verbose, on_fold=on_fold)
    tested, predicted = [np.empty(0, dtype=np.intp)], [np.empty(0)]
    start = 0
    for (_, test), (rows, residual) in zip(groups, residuals, strict=True):
        positions = np.arange(start, start + len(test))
        start += len(test)
        if len(rows) < 2:
            continue
        target = np.zeros(len(data))
        target[rows] = log_of(residual)
        with located("the model of the scale"):
            fit = cross_fit(
                scale_model,
                data.X,
                data.target_of(scale_model, target),
                cv=[(rows, test)],
                params=scale_params,
                n_jobs=1,  # a single fit
                predict=point_predict,
            )
        tested.append(positions)
        predicted.append(fit.predictions[0])
    return np.concatenate(tested), np.concatenate(predicted)


def _group(folds: list[tuple[IntArray, IntArray]], n: int) -> list[tuple[BoolArray, IntArray]]:
    """Take neighbouring folds together: a mask of the rows that all train on, and the tests of all."""
    groups = []
    for members in np.array_split(np.arange(len(folds)), min(len(folds), MOST_GROUPS)):
        train = np.logical_and.reduce([row_mask(folds[k][0], n) for k in members])
        groups.append((train, np.concatenate([folds[k][1] for k in members])))
    return groups


def _residuals_without(
    estimator: Any, data: TrainingData, groups: list[tuple[BoolArray, IntArray]], **options: Any
) -> list[tuple[IntArray, FloatArray]]:
    """For each group, rows of the others and their residuals from models trained on neither group."""
    tests = [row_mask(test, len(data)) for _, test in groups]
    splits: dict[bytes, tuple[IntArray, BoolArray]] = {}
    parts_of_groups: list[list[tuple[bytes, BoolArray]]] = []
    for g, (train, _) in enumerate(groups):
        parts = []
        for h, (other_train, _) in enumerate(groups):
            fit_mask, rows = train & other_train, tests[h] & train
            if h == g or np.count_nonzero(fit_mask) < 2 or not rows.any():
                continue
            key = np.packbits(fit_mask).tobytes()  # the same for (g, h) and (h, g) of a partition
            if key in splits:
                splits[key] = splits[key][0], splits[key][1] | rows
            else:
                splits[key] = np.flatnonzero(fit_mask), rows
            parts.append((key, rows))
        parts_of_groups.append(parts)
    if not splits:
        return [(np.empty(0, dtype=np.intp), np.empty(0)) for _ in groups]
    fits = cross_fit(
        estimator,
        data.X,
        data.target,
        cv=[(train, np.flatnonzero(rows)) for train, rows in splits.values()],
        params=data.fit_params,
        predict=point_predict,
        name="pair of folds",
        **options,
    )
    predicted = dict(zip(splits, zip(fits.test_rows, fits.predictions, strict=True), strict=True))
    return [_collect(data.y, parts, predicted) for parts in parts_of_groups]


def _collect(
    y: FloatArray, parts: list[tuple[bytes, BoolArray]], predicted: dict[bytes, tuple[IntArray, FloatArray]]
) -> tuple[IntArray, FloatArray]:
    """Return each row once, in increasing order, with its residual from the first model that predicts it."""
    residual, found = np.empty(len(y)), np.zeros(len(y), dtype=np.bool_)
    for key, rows in parts:
        tested, prediction = predicted[key]
        new = (rows & ~found)[tested]
        residual[tested[new]] = y[tested[new]] - prediction[new]
        found |= rows
    return np.flatnonzero(found), residual[found]
