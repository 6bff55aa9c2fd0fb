"""Cross-fitting: fitted clones, their test rows, and their predictions.

The method ``fit_transform`` of the regressors, ``RecalibratedRegressor`` and ``cross_val_predict_dist`` use
this module.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, check_cv

from skuq._few_rows import few_rows_reported
from skuq._fitting.device_memory import free_device_memory
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.row_sets import row_mask
from skuq._sklearn_compat import (
    count_rows,
    delayed,
    is_pairwise,
    run_parallel,
    safe_indexing,
    slice_fit_params,
    splitter_ignores_groups,
    splitter_needs_groups,
)
from skuq._typing import BoolArray, IntArray
from skuq._validation import check_integer, check_random_state
from skuq.distributions import Distribution, JointDistribution, concat
from skuq.prediction._failures import note_fold, place_of
from skuq.prediction._resolve import learns_in_context, predict_dist

Split = tuple[IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Fitted clones, test rows, predictions and training rows of cross-fitting.

    Each has one entry per fold. There are no estimators if they learn in context and are not kept.
    """

    estimators: tuple[Any, ...]
    test_rows: tuple[IntArray, ...]
    predictions: tuple[Any, ...]
    train_rows: tuple[IntArray, ...]

    def tested(self) -> tuple[IntArray, Any]:
        return np.concatenate(self.test_rows), _concatenate(self.predictions)

    def is_partition(self, n: int) -> bool:
        return is_partition(self.test_rows, n)

    def in_row_order(self, n: int) -> Any:
        """Return predictions in the order of the rows. Raise an error if a row is not tested exactly once."""
        rows, prediction = self.tested()
        return prediction[row_order(rows, n)]


def is_partition(test_rows: Sequence[IntArray], n: int) -> bool:
    tested = np.concatenate(list(test_rows))
    return len(tested) == n and bool(row_mask(tested, n).all())


def row_order(rows: IntArray, n: int) -> IntArray:
    """Return the position of each row among the tested rows.

    Raise an error if a row is missing or repeated.
    """
    order = np.argsort(rows, kind="stable")
    if len(rows) != n or not np.array_equal(rows[order], np.arange(n)):
        distinct = len(np.unique(rows))
        raise ValueError(
            f"`cv` must test every row exactly once, but its test folds have {len(rows)} rows in total, and "
            f"contain {distinct} of the {n} rows of X. Use a partition such as KFold or GroupKFold. For "
            "time-ordered or repeated splits, use RecalibratedRegressor, which supports any splitter, or "
            "cross_val_predict_dist(..., return_rows=True)."
        )
    return order


def fold_masks(test_rows: Sequence[IntArray], at_least: int = 1) -> list[BoolArray]:
    """Return a mask of the tested rows for each fold. Raise an error if there are too few folds."""
    if len(test_rows) < at_least:
        raise ValueError(f"`cv` must give at least {at_least} folds for `fit_transform`, got one.")
    fold = np.repeat(np.arange(len(test_rows)), [len(rows) for rows in test_rows])
    return [fold == k for k in range(len(test_rows))]


def other_rows_masks(test_rows: Sequence[IntArray]) -> list[BoolArray]:
    rows = np.concatenate(list(test_rows))
    return [~np.isin(rows, own) for own in test_rows]


def has_random_folds(cv: Any) -> bool:
    return cv is None or (isinstance(cv, numbers.Integral) and not isinstance(cv, bool))


def resolve_cv(cv: Any, random_state: Any = None, *, name: str = "cv") -> Any:
    """Return the splitter for the parameter ``cv``. An int k means shuffled KFold(k), and None means 5."""
    if has_random_folds(cv):
        folds = check_integer(5 if cv is None else cv, name, minimum=2)
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        return KFold(folds, shuffle=True, random_state=seed)
    if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise TypeError(
            f"`{name}` must be an int, a splitter with a `split` method or an iterable of (train, test) "
            f"rows, got {cv!r}."
        )
    if hasattr(cv, "split"):
        return check_cv(cv)
    pairs = list(cv) if getattr(cv, "ndim", 1) > 0 else [cv]
    for pair in pairs:
        if not isinstance(pair, tuple | list | np.ndarray) or getattr(pair, "ndim", 1) == 0 or len(pair) != 2:
            raise TypeError(f"`{name}` must contain pairs (train, test) of row indices, got {pair!r}.")
    return check_cv(pairs)


def cross_fit(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any,
    groups: Any = None,
    params: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    predict: Callable[[Any, Any], Any] = predict_dist,
    on_fold: Callable[[int], object] | None = None,
    name: str = "fold",
    keep_in_context: bool = True,
) -> CrossFit:
    """Fit a clone to the training rows of each fold, and predict the test rows.

    If the class of the estimator has a method ``_fit_many(X, y, rows, **params)``, one call trains all folds.
    ``params`` are arguments of ``fit``. Values with one entry per row are divided into folds, like X.
    ``predict(fitted, X_test)`` returns a Distribution or a 1-D array. ``on_fold(k)`` is called after fold k.
    ``name`` is the name of a fold in errors. With ``keep_in_context=False``, fitted clones that learn in
    context are deleted after their prediction. The results do not depend on ``n_jobs``.
    """
    params = dict(params or {})
    splits = split_rows(resolve_cv(cv), X, y, groups)
    keep = keep_in_context or not learns_in_context(estimator)
    if hasattr(type(estimator), "_fit_many"):
        rows = [train for train, _ in splits]
        fitted = estimator._fit_many(X, y, rows, **params)
        results: Iterable[tuple[Any, Any]] = (
            (one, _predict(one, X, split, predict)) for one, split in zip(fitted, splits, strict=True)
        )
    else:
        tasks = (
            delayed(_fit_fold)(clone(estimator), X, y, split, params, predict, place, keep)
            for split, place in zip(splits, _places(name, len(splits)), strict=True)
        )
        results = run_parallel(tasks, n_jobs=n_jobs, one_by_one=on_fold is not None, verbose=verbose)
    estimators, predictions = [], []
    for fold, (one, prediction) in enumerate(results):
        estimators.extend([one] if keep else [])
        predictions.append(prediction)
        if on_fold is not None:
            on_fold(fold)
    train_rows, test_rows = zip(*splits, strict=True)
    return CrossFit(tuple(estimators), test_rows, tuple(predictions), train_rows)


def split_rows(splitter: Any, X: Any, y: Any, groups: Any, *, name: str = "cv") -> list[Split]:
    """Return the folds as index arrays. Raise an error if a fold has no training row or no test row."""
    n = count_rows(X)
    if isinstance(splitter, KFold) and splitter.n_splits > n:
        fewer = "fewer folds with the parameter `cv`, such as `cv=2`"
        if name != "cv":
            fewer = f"a splitter of fewer folds as `{name}`"
        raise ValueError(
            f"`X` must have at least one row per fold, got {n} rows for {splitter.n_splits} folds. Pass more "
            f"rows, or use {fewer}."
        )
    if groups is None:
        if splitter_needs_groups(splitter):
            raise ValueError(
                f"`groups` must be given, because {type(splitter).__name__} splits by groups. Pass "
                "`groups=...`. In cross_validate and searches, `groups` also requires metadata routing: "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        pairs = splitter.split(X, y)
    elif splitter_ignores_groups(splitter):
        raise ValueError(
            f"`groups` is given, but {type(splitter).__name__} does not use it. "
            "Pass a splitter that keeps groups together, for example cv=GroupKFold(5), or leave `groups` out."
        )
    else:
        pairs = splitter.split(X, y, groups)
    splits = [(_as_rows(train, n, name), _as_rows(test, n, name)) for train, test in pairs]
    if not splits or any(not len(train) or not len(test) for train, test in splits):
        raise ValueError(
            f"`{name}` must give at least one fold, and each fold must have training rows and test rows, got "
            f"{len(splits)} folds, of which at least one is empty."
            if splits
            else f"`{name}` must give at least one fold, got none."
        )
    return splits


def _as_rows(rows: Any, n: int, name: str) -> IntArray:
    """Return row numbers from a mask or from row numbers."""
    index = np.asarray(rows)
    if index.dtype == bool:
        if index.shape != (n,):
            raise ValueError(
                f"`{name}` must give masks of shape ({n},), one entry per row of X, got {index.shape}."
            )
        index = np.flatnonzero(index)
    if index.size and (index.min() < 0 or index.max() >= n):
        raise ValueError(
            f"`{name}` must give row numbers from 0 to {n - 1}, got {index.min()} to {index.max()}."
        )
    return index.astype(np.intp)


def _places(name: str, n: int) -> list[str]:
    return [place_of(name, fold, n) for fold in range(n)] if n > 1 else [""]


def _fit_fold(
    estimator: Any,
    X: Any,
    y: Any,
    split: Split,
    params: dict[str, Any],
    predict: Callable[[Any, Any], Any],
    place: str,
    keep: bool,
) -> tuple[Any, Any]:
    train = split[0]
    X_train = _select(estimator, X, train, train)
    fold_params = slice_fit_params(X, params, train)
    with few_rows_reported(), note_fold(place) if place else nullcontext():
        if y is None:
            estimator.fit(X_train, **fold_params)
        else:
            estimator = fit_wrapped(estimator, X_train, safe_indexing(y, train), **fold_params)
        prediction = _predict(estimator, X, split, predict)
    if keep:
        return estimator, prediction
    del estimator
    free_device_memory()
    return None, prediction


def _select(estimator: Any, X: Any, rows: IntArray, train: IntArray) -> Any:
    """Return rows of X. For a precomputed kernel, return the columns of the training rows."""
    return np.asarray(X)[np.ix_(rows, train)] if is_pairwise(estimator) else safe_indexing(X, rows)


def _predict(estimator: Any, X: Any, split: Split, predict: Callable[[Any, Any], Any]) -> Any:
    train, test = split
    X_test = _select(estimator, X, test, train)
    prediction = predict(estimator, X_test)
    if len(prediction) != len(test):
        raise ValueError(
            f"`predict` of {type(estimator).__name__} must return one prediction per row, got "
            f"{len(prediction)} for {len(test)} rows of X."
        )
    return prediction


def _concatenate(predictions: tuple[Any, ...]) -> Any:
    if isinstance(predictions[0], Distribution | JointDistribution):
        return concat(predictions)
    return np.concatenate([np.asarray(prediction) for prediction in predictions])
