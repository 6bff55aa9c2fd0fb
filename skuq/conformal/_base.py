"""Rows, models of the folds, and the base class of the conformal regressors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ShuffleSplit
from sklearn.utils.validation import check_is_fitted

from skuq._compat import is_pairwise
from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import (
    CrossFit,
    Split,
    check_disjoint,
    check_held_out_size,
    columns_of_rows,
    cross_fit,
    n_held_out,
    resolve_cv,
    split_rows,
)
from skuq._fitting.seeds import MAX_SEED
from skuq._fitting.training_data import TrainingData
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE, check_coverage, check_option, check_random_state, check_unused
from skuq.distributions import Distribution
from skuq.distributions._level_quadrature import LevelKind, unreachable_level, warn_of_unreachable_level


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows of X: their number and, if there are any, their weights, groups and functions."""

    n: int
    test_weight: FloatArray  # Density ratios of shape (n,), or the number 1 without covariate shift.
    labels: np.ndarray | None = None  # Groups of shape (n,).
    functions: pd.DataFrame | None = None  # Functions of ``basis``, n rows.

    def __getitem__(self, rows: Any) -> WeightedRows:
        test_weight = self.test_weight[rows] if self.test_weight.ndim else self.test_weight
        labels = None if self.labels is None else self.labels[rows]
        return replace(self, n=len(np.arange(self.n)[rows]), test_weight=test_weight, labels=labels)


def concat_rows(parts: Sequence[WeightedRows]) -> WeightedRows:
    first = parts[0]
    test_weight, labels = first.test_weight, first.labels
    if test_weight.ndim:
        test_weight = np.concatenate([part.test_weight for part in parts])
    if labels is not None:
        labels = np.concatenate([part.labels for part in parts if part.labels is not None])
    return replace(first, n=sum(part.n for part in parts), test_weight=test_weight, labels=labels)


def check_weight(weight: FloatArray) -> FloatArray:
    """Return the weights of calibration rows. Raise an error if all weights are 0."""
    if not weight.any():
        raise ValueError(
            "`sample_weight` times `density_ratio` must be positive for at least one calibration row, got 0 "
            "for all calibration rows. Pass positive weights."
        )
    return weight


@dataclass(frozen=True, eq=False)
class FoldModel:
    """Fitted model. For a precomputed kernel, the row numbers of its training rows are also stored."""

    estimator: Any
    columns: IntArray | None = None

    def model_input(self, X: Any) -> Any:
        return columns_of_rows(X, self.columns)


class HeldOut(NamedTuple):
    """Fitted model, with the ascending indices of its calibration rows and the predictions for these rows."""

    model: FoldModel
    rows: IntArray
    prediction: Any


def check_groups_need_cv(cv: Any, fit_params: dict[str, Any]) -> None:
    if fit_params.get("groups") is not None and cv is None:
        raise ValueError(
            "`groups` is given, but the held-out rows are drawn without regard to groups if `cv` is None. "
            "Pass cv=GroupShuffleSplit(1), or omit `groups`."
        )


def held_out_splits(
    owner: Any, cv: Any, data: TrainingData, draw: Callable[[int], Split]
) -> list[Split] | None:
    """Return the splits of ``cv``.

    Without ``cv``, return one split from ``draw``, or None for a FrozenEstimator.
    """
    if isinstance(owner.estimator, FrozenEstimator):
        remedy = "The frozen model is not refitted, so all rows are calibration rows."
        check_unused(owner, ("cv", "held_out_size"), "with a FrozenEstimator", remedy)
        return None
    if cv is None or isinstance(cv, str):
        n_last = n_held_out(check_held_out_size(owner.held_out_size), len(data))
        if cv is None:
            return [draw(n_last)]
        check_option(cv, "cv", ("last",))
        rows = np.arange(len(data))
        return [(rows[:-n_last], rows[-n_last:])]
    check_unused(owner, ("held_out_size",), "with `cv`", "The splits of `cv` have their own sizes.")
    return splits_of(resolve_cv(cv), data)


def single_split(owner: Any, data: TrainingData, seed: int, *, for_several: str) -> Split | None:
    """Return training and calibration rows, or None if all rows are calibration rows."""

    def draw(n_held_out: int) -> Split:
        splitter = ShuffleSplit(1, test_size=n_held_out, random_state=seed)
        train, test = next(splitter.split(np.empty(len(data))))
        return np.sort(train), test  # the order of the training rows changes some models

    splits = held_out_splits(owner, owner.cv, data, draw)
    if splits is not None and len(splits) != 1:
        raise ValueError(
            f"`cv` must give one split into training and calibration rows, got {len(splits)}. For example, "
            f"pass GroupShuffleSplit(1), or 'last' for rows in chronological order. {for_several}"
        )
    return None if splits is None else splits[0]


def splits_of(splitter: Any, data: TrainingData) -> list[Split]:
    """Return the training and test rows of each fold. Raise an error if they overlap."""
    splits = split_rows(splitter, data.X, data.y, data.groups)
    check_disjoint(splits, len(data))
    return splits


def fit_held_out(
    estimator: Any,
    data: TrainingData,
    split: Split | None,
    predict: Callable[[Any, Any], Any],
    **options: Any,
) -> HeldOut:
    """Fit a model to the training rows and predict the test rows. Without a split, predict all rows."""
    if split is None:
        return HeldOut(FoldModel(estimator), np.arange(len(data)), predict(estimator, data.X))
    train, test = split
    folds = fit_folds(estimator, data, [(train, np.sort(test))], predict=predict, **options)
    return HeldOut(fold_models(folds)[0], folds.test_rows[0], folds.predictions[0])


def fit_folds(estimator: Any, data: TrainingData, splits: Any, **options: Any) -> CrossFit:
    """Fit a clone for each fold and predict its test rows. The options are passed to `cross_fit`."""
    return cross_fit(estimator, data.X, data.target, cv=splits, params=data.fit_params, **options)


def fold_models(folds: CrossFit) -> tuple[FoldModel, ...]:
    pairwise = is_pairwise(folds.estimators[0])
    pairs = zip(folds.estimators, folds.train_rows, strict=True)
    return tuple(FoldModel(model, train if pairwise else None) for model, train in pairs)


def check_tested_weight(weight: FloatArray) -> FloatArray:
    """Return the weights of tested rows. Raise an error if all weights are 0."""
    if not weight.any():
        raise ValueError(
            "`sample_weight` must be positive for at least one test row of `cv`, got 0 for all test rows."
        )
    return weight


def warn_of_few_rows(
    kind: LevelKind,
    coverages: FloatArray,
    levels: FloatArray,
    calibration_weight: float,
    test_weight: float = 1.0,
) -> None:
    unreachable = unreachable_level(coverages, kind, levels, calibration_weight, test_weight)
    warn_of_unreachable_level(unreachable)


class ConformalStrategy(Protocol):
    """A fitted method of a conformal regressor."""

    @property
    def n_calibration(self) -> float:
        """Number of calibration rows, or the sum of their weights."""

    def point(self, X: Any) -> FloatArray:
        """Return point predictions, shape (n,)."""

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        """Return the intervals with guaranteed coverage, shape (n, 2, k)."""

    def dist(self, X: Any) -> Distribution:
        """Return the predictive distributions."""


class BaseConformalRegressor(BaseUncertaintyRegressor):
    """Base class of the conformal regressors. The method `_fit` of a subclass sets ``_conformal``."""

    _conformal: ConformalStrategy

    @property
    def n_calibration_(self) -> float:
        """Current number of calibration rows, or the sum of their weights."""
        check_is_fitted(self)
        return self._conformal.n_calibration

    def predict_interval(self, X: Any, coverage: ArrayLike = DEFAULT_COVERAGE) -> FloatArray:
        """Return the prediction intervals with guaranteed coverage.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of n rows
            Features, with the columns of the training data.
        coverage : float or array-like of shape (k,), default=0.9
            Nominal coverage of the central interval. Strictly between 0 and 1.

        Returns
        -------
        bounds : ndarray of shape (n, 2), or (n, 2, k) for k coverages
            Lower bounds ``bounds[:, 0]`` and upper bounds ``bounds[:, 1]``, in the units of y. If there are
            too few calibration rows for the coverage, the bounds are infinite and a `SmallSampleWarning` is
            issued.
        """
        self._check_new(X)
        checked = check_coverage(coverage)
        bounds = self._bounds_on_support(self._conformal.interval(X, np.atleast_1d(checked)))
        return bounds if checked.ndim else bounds[:, :, 0]

    def _draw_seeds(self) -> list[int]:
        seeds: list[int] = check_random_state(self.random_state).randint(MAX_SEED, size=2).tolist()
        return seeds

    def _point(self, X: Any) -> FloatArray:
        return self._conformal.point(X)

    def _predict_dist(self, X: Any) -> Distribution:
        return self._conformal.dist(X)
