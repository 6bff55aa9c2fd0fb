"""Ensembles on bootstrap rows: what the members that left a row out say about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.neural._base import fit_together
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._training.batches import MemberRows
from skuq.neural._training.plan import plan_members
from skuq.neural._training.trainer import TrainedFit
from skuq.prediction._row_sets import rows_outside
from skuq.regressors._fit_inputs import TrainingData
from skuq.regressors._progress import NO_PROGRESS
from skuq.regressors._random import MAX_SEED

__all__ = ["bagged_mean_and_spread", "ensemble_moments", "plan_pairs", "unseen_moments"]


def ensemble_moments(
    loc: FloatArray, scale: FloatArray, asked: BoolArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, variance of the noise and epistemic variance of each row, over the members it asks.

    A mean of k members is less certain than that of all M, by a share 1/k - 1/M of the epistemic
    variance.
    """
    count = asked.sum(axis=1)
    share = asked / count[:, np.newaxis]
    mean = loc[:, 0] + (share * (loc - loc[:, :1])).sum(axis=1)
    epistemic = (share * np.square(loc - mean[:, np.newaxis])).sum(axis=1)
    inflation = 1 + 1 / count - 1 / asked.shape[1]
    return mean, (share * np.square(scale)).sum(axis=1), inflation * epistemic


def bagged_mean_and_spread(loc: FloatArray, asked: BoolArray, ci_scale: str) -> tuple[FloatArray, FloatArray]:
    """Return the mean of the members that each row asks, and the epistemic variance.

    Parameters
    ----------
    loc : ndarray of shape (n, M)
        Means of the members.
    asked : ndarray of bool of shape (n, M)
        Which members each row asks, at least one.
    ci_scale : {"member", "mean"}
        The variance of one member; or that of the mean of all, from members that share their rows two by
        two: half the variance within pairs is in the means of pairs as well, and is no variance of data.
    """
    if ci_scale == "member":
        return _mean_and_variance(loc, asked)
    pairs = loc.reshape(len(loc), -1, 2)
    asked = asked[:, ::2]
    mean, between = _mean_and_variance(pairs.mean(axis=2), asked)
    count = asked.sum(axis=1)
    within = (asked * pairs.var(axis=2, ddof=1)).sum(axis=1) / count
    return mean, np.maximum(between - within / 2, 0.0) + between / count


def _mean_and_variance(values: FloatArray, asked: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of each row's asked values; the variance of all where one is asked."""
    count = asked.sum(axis=1)
    start = values[:, :1]
    mean = start[:, 0] + (asked * (values - start)).sum(axis=1) / count
    square = np.square(values - mean[:, np.newaxis])
    variance = (asked * square).sum(axis=1) / np.maximum(count - 1, 1)
    return mean, np.where(count > 1, variance, values.var(axis=1, ddof=1))


def plan_pairs(seeds: Sequence[MemberSeed], rows: IntArray) -> list[MemberRows]:
    """Return bootstrap rows that members 0 and 1, 2 and 3, ... have in common, each in its own order."""
    drawn = [bag.drawn for bag in plan_members(seeds[::2], rows, bootstrap=True)]
    return [MemberRows(drawn[member // 2], seed.order) for member, seed in enumerate(seeds)]


def unseen_moments(
    model: Any, fit: TrainedFit, data: TrainingData
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return what each member predicts for the training rows, and which members each row may ask.

    Parameters
    ----------
    model : BaseNeuralRegressor
        A fitted ensemble on bootstrap rows.
    fit : TrainedFit
        Its training.
    data : TrainingData of n rows
        What it was fitted to.

    Returns
    -------
    loc, scale : ndarray of shape (n, M)
        Means and standard deviations of the members; for rows that hardly any member left out, those of
        other members, trained without them.
    asked : ndarray of bool of shape (n, M)
        Which members have not seen the row.
    """
    asked = fit.plan.unseen()
    loc, scale = model._moments_of(data.X)
    for rows, helper in _second_opinions(model, data, asked, fit.plan.seed):
        loc[rows], scale[rows] = helper._moments_of(data.X[rows])
        asked[rows] = True
    return loc, scale, asked


def _second_opinions(
    model: Any, data: TrainingData, asked: BoolArray, seed: int
) -> Iterator[tuple[IntArray, Any]]:
    """Fit other ensembles without the rows that too few members left out, a tenth of all at a time."""
    needy = np.flatnonzero(asked.sum(axis=1) < min(2, asked.shape[1]))
    n_parts = -(-10 * len(needy) // len(data))
    rng = np.random.RandomState(seed)
    parts = np.array_split(rng.permutation(needy), n_parts) if n_parts else []
    pairs = []
    for rows in parts:
        helper = clone(model).set_params(calibration=None, random_state=int(rng.randint(MAX_SEED)))
        helper.n_features_in_ = model.n_features_in_
        pairs.append((helper, data.take(rows_outside(rows, len(data)))))
    fit_together(pairs, NO_PROGRESS)
    return zip(parts, (helper for helper, _ in pairs), strict=True)
