"""Tasks of a study, with independent random streams for the data and the training.

Each simulation has its own child of a seed, and each child has separate streams for features, targets and
training. Data and training are therefore independent, even if the process and the study have the same seed.
The first simulations do not depend on the number of simulations.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.seeds import MAX_SEED, seed_everything
from skuq._typing import FloatArray
from skuq._validation import check_random_state
from skuq.distributions import Distribution
from skuq.exceptions import NoDecompositionError
from skuq.prediction import predict_dist
from skuq.prediction._register import note_fold

_FEATURES, _TARGETS, _TRAINING = range(3)


def draw_seed(random_state: Any) -> int:
    """Draw an integer from a ``random_state``. With None, each call gives a different integer."""
    return int(check_random_state(random_state).randint(MAX_SEED))


def feature_rng(seed: int, index: int) -> np.random.Generator:
    return np.random.default_rng(_stream(seed, index, _FEATURES))


def target_rng(seed: int, index: int) -> np.random.RandomState:
    return np.random.RandomState(np.random.MT19937(_stream(seed, index, _TARGETS)))


def training_seed(seed: int, index: int) -> int:
    return int(_stream(seed, index, _TRAINING).generate_state(1)[0]) % MAX_SEED


def _stream(seed: int, index: int, purpose: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(index, purpose))


TrainingSet = tuple[Any, FloatArray]
Caught = tuple[type[Warning], str]

_MOST_SIMULATIONS = 20
"""At most this number of simulations is trained together. About 100 networks are trained at a time."""

_MOST_BYTES = 64e6
"""The training data of simulations that are trained together has at most this number of bytes."""


@dataclass(frozen=True)
class Task:
    """Indices and random states of simulations that are fitted in one call."""

    # `levels` are the nominal coverages, shape (k,), and `confidence_intervals` is an option of
    # `simulate_coverage`.

    numbers: range
    seeds: tuple[int, ...]
    levels: FloatArray
    confidence_intervals: str | bool


@dataclass(frozen=True)
class Forecast:
    """Forecast of a fitted estimator for the test rows."""

    prediction: FloatArray  # bounds of the prediction intervals, shape (n, 2, k)
    mean: FloatArray  # shape (n,); NaN if the distribution has no mean
    confidence: FloatArray | None = None  # bounds of the confidence intervals, shape (n, 2, k)
    epistemic_std: FloatArray | None = None  # predicted standard deviation of the mean, shape (n,)


def simulations_per_task(estimator: Any, X: Any) -> int:
    # The number does not depend on `n_jobs`. The number is 1 for estimators without `_fit_many`.
    if not hasattr(type(estimator), "_fit_many"):
        return 1
    n, n_features = np.shape(X)
    return int(np.clip(_MOST_BYTES // (8 * n * (n_features + 1)), 1, _MOST_SIMULATIONS))


def training_sets(process: Any, task: Task) -> list[TrainingSet]:
    with note_fold(_place(task)):
        return [process.training_set(number) for number in task.numbers]


def fit_and_forecast(
    estimator: Any, task: Task, sets: Sequence[TrainingSet], X_test: Any
) -> tuple[list[Forecast], list[Caught]]:
    with warnings.catch_warnings(record=True) as caught, note_fold(_place(task)):
        fitted = _fit(estimator, task, sets)
        forecasts = [_forecast(one, X_test, task) for one in fitted]
    return forecasts, [(warning.category, str(warning.message)) for warning in caught]


def _place(task: Task) -> str:
    if len(task.numbers) == 1:
        return f"simulation {task.numbers[0]}, counted from 0, with random_state={task.seeds[0]}"
    return (
        f"one of the simulations {task.numbers[0]} to {task.numbers[-1]}, counted from 0 and trained "
        f"together; the first has random_state={task.seeds[0]}"
    )


def _fit(estimator: Any, task: Task, sets: Sequence[TrainingSet]) -> Sequence[Any]:
    one = clone(estimator)
    if hasattr(one, "set_callbacks"):
        one.set_callbacks()  # callbacks report the study, not single fits
    if not hasattr(type(one), "_fit_many"):
        ((X, y),) = sets
        return [fit_wrapped(seed_everything(one, task.seeds[0]), X, y)]
    ends = np.cumsum([len(y) for _, y in sets])
    rows = [np.arange(end - len(y), end) for end, (_, y) in zip(ends, sets, strict=True)]
    X = _stack([X for X, _ in sets])
    y = np.concatenate([y for _, y in sets])
    fitted: list[Any] = one._fit_many(X, y, rows, random_states=task.seeds)
    return fitted


def _stack(parts: Sequence[Any]) -> Any:
    if all(isinstance(part, pd.DataFrame) for part in parts):
        return pd.concat(parts, ignore_index=True)
    return np.concatenate([np.asarray(part) for part in parts])


def _forecast(fitted: Any, X_test: Any, task: Task) -> Forecast:
    dist = predict_dist(fitted, X_test)
    interval, mean = dist.interval(task.levels), _mean(dist)
    if task.confidence_intervals is False:
        return Forecast(interval, mean)
    try:
        epistemic = dist.epistemic()
    except NoDecompositionError as error:
        if task.confidence_intervals == "auto":
            return Forecast(interval, mean)
        error.add_note(
            f"With confidence_intervals=True, {type(fitted).__name__} must separate these uncertainties. See "
            "the parameter `confidence_intervals`."
        )
        raise
    return Forecast(interval, mean, epistemic.interval(task.levels), epistemic.std())


def _mean(dist: Distribution) -> FloatArray:
    try:
        return dist.mean()
    except ValueError:  # the mean does not exist, for example for a Cauchy distribution
        return np.full(len(dist), np.nan)
