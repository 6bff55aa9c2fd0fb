"""Models of folds or of one split, with their test rows, for regression and classification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator

from skuq._fitting.cross_fit import CrossFit, Split, cross_fit, resolve_cv, split_rows
from skuq._fitting.row_sets import check_disjoint, check_held_out_size, columns_of_rows, n_held_out
from skuq._fitting.training_data import TrainingData
from skuq._sklearn_compat import is_pairwise
from skuq._typing import FloatArray, IntArray
from skuq._validation import check_option, check_unused
from skuq.distributions._unreachable_levels import LevelKind, unreachable_level, warn_of_unreachable_level


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
