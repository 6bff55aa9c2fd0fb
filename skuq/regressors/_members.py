"""Members of an ensemble.

The members are clones fitted to bootstrap samples, or the members of a fitted ensemble.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq._compat import ForestRegressor, run_parallel, safe_indexing
from skuq._fitting.cross_fit import point_predict, predict_member, rows_outside
from skuq._fitting.fit_wrapped import fit_wrapped, in_target_units
from skuq._fitting.seeds import MAX_SEED, seed_everything
from skuq._fitting.training_data import TrainingData
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import effective_rows
from skuq.prediction._register import note_fold, place_of


@dataclass(frozen=True, eq=False)
class MemberPredictions:
    """Predictions of each member for all rows."""

    values: FloatArray  # shape (n, M); only defined where `used` is True
    # shape (n, M); for a training row, True for its out-of-bag members; for a new row, always True
    used: BoolArray

    @property
    def count(self) -> IntArray:
        count: IntArray = self.used.sum(axis=1)
        return count

    def mean_and_std(self) -> tuple[FloatArray, FloatArray]:
        count = self.count
        mean = np.where(self.used, self.values, 0.0).sum(axis=1) / np.maximum(count, 1)
        deviation = np.where(self.used, self.values - mean[:, np.newaxis], 0.0)
        variance = np.einsum("ij,ij->i", deviation, deviation) / np.maximum(count - 1, 1)
        return mean, np.sqrt(variance)

    def take(self, rows: IntArray | BoolArray) -> MemberPredictions:
        return MemberPredictions(self.values[rows], self.used[rows])


# ------------------------------------------------------------------------------ bootstrap members


def fit_members(
    estimator: Any,
    data: TrainingData,
    seeds: Sequence[int],
    *,
    n_jobs: int | None,
    verbose: int,
    on_member: Callable[..., object] | None,
) -> tuple[list[Any], MemberPredictions]:
    """Fit one clone per seed to a bootstrap sample. Predict the rows that are not in this sample."""
    n_draws = round(effective_rows(data.sample_weight, len(data)))
    estimator = in_target_units(estimator, data.y)
    tasks = (
        partial(
            _fit_member, clone(estimator), data, int(seed), n_draws, place_of("member", member, len(seeds))
        )
        for member, seed in enumerate(seeds)
    )
    results = run_parallel(tasks, n_jobs=n_jobs, one_by_one=on_member is not None, verbose=verbose)
    values = np.zeros((len(data), len(seeds)))
    used = np.zeros(values.shape, dtype=bool)
    members = []
    for column, (member, rows, prediction) in enumerate(results):
        members.append(member)
        values[rows, column] = prediction
        used[rows, column] = True
        if on_member is not None:
            on_member()
    return members, MemberPredictions(values, used)


def _fit_member(
    estimator: Any, data: TrainingData, seed: int, n_draws: int, place: str
) -> tuple[Any, IntArray, FloatArray]:
    rng = np.random.RandomState(seed)
    n = len(data)
    if data.sample_weight is None:
        rows = rng.randint(0, n, n_draws)
    else:
        rows = rng.choice(n, n_draws, p=data.sample_weight / data.sample_weight.sum())
    drawn = data.take(rows)
    seed_everything(estimator, int(rng.randint(MAX_SEED)))
    unseen = rows_outside(rows, n)
    with note_fold(place):
        estimator = fit_wrapped(estimator, drawn.X, drawn.target, **drawn.params)
        if not len(unseen):
            return estimator, unseen, np.zeros(0)
        return estimator, unseen, point_predict(estimator, safe_indexing(data.X, unseen))


def predict_members(members: Sequence[Any], X: Any, n_jobs: int | None) -> FloatArray:
    return _each_prediction(members, [X] * len(members), n_jobs)


def _each_prediction(members: Sequence[Any], inputs: Sequence[Any], n_jobs: int | None) -> FloatArray:
    tasks = (
        partial(predict_member, member, X, place_of("member", number, len(members)))
        for number, (member, X) in enumerate(zip(members, inputs, strict=True))
    )
    return np.column_stack(list(run_parallel(tasks, n_jobs=n_jobs, prefer="threads")))


# ----------------------------------------------------------------- members of a fitted ensemble


def has_own_members(estimator: Any) -> bool:
    if isinstance(estimator, FrozenEstimator):
        inner = estimator.estimator
        return has_own_members(inner.steps[-1][1] if isinstance(inner, Pipeline) else inner)
    return isinstance(estimator, ForestRegressor | BaggingRegressor)


def own_member_predictions(ensemble: Any, X: Any, n_jobs: int | None) -> FloatArray:
    if isinstance(ensemble, FrozenEstimator):
        return own_member_predictions(ensemble.estimator, X, n_jobs)
    if isinstance(ensemble, Pipeline):
        return own_member_predictions(ensemble.steps[-1][1], ensemble[:-1].transform(X), n_jobs)
    check_is_fitted(ensemble)
    # The members are fitted to an array without column names.
    forest = isinstance(ensemble, ForestRegressor)
    array = validate_data(
        ensemble,
        X,
        accept_sparse=["csr"] if forest else ["csr", "csc"],
        dtype=np.float32 if forest else None,
        ensure_all_finite=False,
        reset=False,
    )
    if forest:
        return predict_members(ensemble.estimators_, array, n_jobs)
    inputs = [array[:, features] for features in ensemble.estimators_features_]
    return _each_prediction(ensemble.estimators_, inputs, n_jobs)
