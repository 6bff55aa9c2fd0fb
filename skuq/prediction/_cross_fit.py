"""The one cross-fitting loop of skuq.

(estimator, X, y, cv, params) becomes fitted clones, the rows each was tested on, and what it predicts
for them. ``fit_transform`` of the regressors, ``RecalibratedRegressor`` and ``cross_val_predict_dist``
all call :func:`cross_fit`.
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
from skuq.distributions import Distribution, concat
from skuq.prediction._failures import located, place_of
from skuq.prediction._resolve import predict_dist
from skuq.prediction._row_sets import row_mask
from skuq.prediction._wrapped import fit_wrapped

__all__ = [
    "CrossFit",
    "cross_fit",
    "fold_masks",
    "has_random_folds",
    "is_partition",
    "other_rows_masks",
    "resolve_cv",
    "row_order",
    "split_rows",
]

Split = tuple[IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class CrossFit:
    """What cross-fitting leaves: one entry per fold.

    Attributes
    ----------
    estimators : tuple
        The fitted clones.
    test_rows : tuple of ndarray
        The rows that each clone is not trained on and predicts.
    predictions : tuple
        What it predicts for them: a Distribution, or a 1-D array of point predictions.
    train_rows : tuple of ndarray
        The rows that each clone is trained on.
    """

    estimators: tuple[Any, ...]
    test_rows: tuple[IntArray, ...]
    predictions: tuple[Any, ...]
    train_rows: tuple[IntArray, ...]

    def tested(self) -> tuple[IntArray, Any]:
        """Return the tested rows and their predictions, concatenated in the order of the folds.

        A row may come several times or not at all, as the splitter has it.
        """
        return np.concatenate(self.test_rows), _concatenate(self.predictions)

    def is_partition(self, n: int) -> bool:
        """Return whether each of the ``n`` rows is tested exactly once."""
        return is_partition(self.test_rows, n)

    def in_row_order(self, n: int) -> Any:
        """Return one prediction for each of the ``n`` rows, in row order.

        Raises
        ------
        ValueError
            If not every row is tested exactly once.
        """
        rows, prediction = self.tested()
        return prediction[row_order(rows, n)]


def is_partition(test_rows: Sequence[IntArray], n: int) -> bool:
    """Return whether each of n rows is tested exactly once."""
    tested = np.concatenate(list(test_rows))
    return len(tested) == n and bool(row_mask(tested, n).all())


def row_order(rows: IntArray, n: int) -> IntArray:
    """Return the positions of the n rows among the tested ones; raise unless each is tested once."""
    order = np.argsort(rows, kind="stable")
    if len(rows) != n or not np.array_equal(rows[order], np.arange(n)):
        distinct = len(np.unique(rows))
        raise ValueError(
            f"`cv` must test every row exactly once here, but it tests {distinct} of {n} rows in "
            f"{len(rows)} tests. Use a partition such as KFold or GroupKFold; for time-ordered or "
            "repeated splits use RecalibratedRegressor, which takes any splitter."
        )
    return order


def fold_masks(test_rows: Sequence[IntArray], at_least: int = 1) -> list[BoolArray]:
    """Return for each fold which of all tested rows, in the order of the folds, are its own.

    To learn from the out-of-fold predictions of the other folds. Fewer than ``at_least`` folds raise.
    """
    if len(test_rows) < at_least:
        raise ValueError(f"`fit_transform` needs at least {at_least} folds, got one from `cv`.")
    fold = np.repeat(np.arange(len(test_rows)), [len(rows) for rows in test_rows])
    return [fold == k for k in range(len(test_rows))]


def other_rows_masks(test_rows: Sequence[IntArray]) -> list[BoolArray]:
    """Return for each fold which of all tested rows, in the order of the folds, are not among its own.

    By repeated splitters a row is tested in several folds; none of its forecasts is one of another row.
    """
    rows = np.concatenate(list(test_rows))
    return [~np.isin(rows, own) for own in test_rows]


def has_random_folds(cv: Any) -> bool:
    """Return whether the folds are drawn at random, rather than by a splitter."""
    return cv is None or (isinstance(cv, numbers.Integral) and not isinstance(cv, bool))


def resolve_cv(cv: Any, random_state: Any = None) -> Any:
    """Return the splitter that ``cv`` stands for.

    Parameters
    ----------
    cv : int, splitter, iterable of (train, test) or None
        An int k (None is 5) gives ``KFold(k, shuffle=True)``; with unshuffled folds of sorted
        rows every model would extrapolate. Splitters and iterables are used as given.
    random_state : int, RandomState or None, default=None
        The source of the one seed drawn for the shuffle; used only where ``cv`` is an int or None.
    """
    if has_random_folds(cv):
        folds = check_integer(5 if cv is None else cv, "cv", minimum=2)
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        return KFold(folds, shuffle=True, random_state=seed)
    if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise TypeError(
            "`cv` must be an int, a splitter with a `split` method or an iterable of (train, test) rows, "
            f"got {cv!r}."
        )
    if hasattr(cv, "split"):
        return check_cv(cv)
    pairs = list(cv) if getattr(cv, "ndim", 1) > 0 else [cv]
    for pair in pairs:
        if not isinstance(pair, tuple | list | np.ndarray) or getattr(pair, "ndim", 1) == 0 or len(pair) != 2:
            raise TypeError(f"`cv` must hold pairs (train, test) of rows, got {pair!r}.")
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
) -> CrossFit:
    """Fit a clone on each fold's training rows and predict for its test rows.

    Parameters
    ----------
    estimator : estimator
        Cloned, never modified. Where its class has ``_fit_many(X, y, rows, **params)``, that one call
        trains all folds.
    X : array-like, DataFrame, sparse matrix or Distribution of n rows
        Passed on as it is, only its rows are selected.
    y : array-like of shape (n,) or None
        The target.
    cv : splitter, iterable of (train, test), int or None
        See :func:`resolve_cv`; with an int or None the folds differ from call to call.
    groups : array-like of shape (n,) or None, default=None
        Given to the splitter.
    params : dict or None, default=None
        Given to ``fit``; a value with one entry per row of X is sliced with the fold.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. One job fits a fold; results do not depend on it.
    verbose : int, default=0
        Verbosity of joblib.
    predict : callable, default=predict_dist
        ``predict(fitted, X_test)``; gives a Distribution or a 1-D array, one entry per row.
    on_fold : callable or None, default=None
        Called as ``on_fold(k)`` in this process when fold k is done, in the order of the folds.
    name : str, default="fold"
        What a fold is called in errors.
    """
    params = dict(params or {})
    splits = split_rows(resolve_cv(cv), X, y, groups)
    if hasattr(type(estimator), "_fit_many"):
        rows = [train for train, _ in splits]
        fitted = estimator._fit_many(X, y, rows, **params)
        results: Iterable[tuple[Any, Any]] = (
            (one, _predict(one, X, split, predict)) for one, split in zip(fitted, splits, strict=True)
        )
    else:
        tasks = (
            delayed(_fit_fold)(clone(estimator), X, y, split, params, predict, place)
            for split, place in zip(splits, _places(name, len(splits)), strict=True)
        )
        results = run_parallel(tasks, n_jobs=n_jobs, one_by_one=on_fold is not None, verbose=verbose)
    estimators, predictions = [], []
    for fold, (one, prediction) in enumerate(results):
        estimators.append(one)
        predictions.append(prediction)
        if on_fold is not None:
            on_fold(fold)
    train_rows, test_rows = zip(*splits, strict=True)
    return CrossFit(tuple(estimators), test_rows, tuple(predictions), train_rows)


def split_rows(splitter: Any, X: Any, y: Any, groups: Any) -> list[Split]:
    """Return the folds as index arrays, with at least one row on either side."""
    n = count_rows(X)
    if isinstance(splitter, KFold) and splitter.n_splits > n:
        raise ValueError(
            f"`X` must have at least one row per fold, got {splitter.n_splits} folds of {n} rows. Pass more "
            "rows, or fewer folds where there is a parameter `cv`, such as `cv=2`."
        )
    if groups is None:
        if splitter_needs_groups(splitter):
            raise ValueError(
                f"`groups` must be given, as {type(splitter).__name__} splits by it: pass `groups=...`. "
                "Inside cross_validate or a search it arrives only with metadata routing: "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        pairs = splitter.split(X, y)
    elif splitter_ignores_groups(splitter):
        raise ValueError(
            f"`groups` is given, but {type(splitter).__name__} makes no use of it. "
            "Pass a splitter that keeps groups together, for example cv=GroupKFold(5), or leave `groups` out."
        )
    else:
        pairs = splitter.split(X, y, groups)
    splits = [(_as_rows(train, n), _as_rows(test, n)) for train, test in pairs]
    if not splits or any(not len(train) or not len(test) for train, test in splits):
        raise ValueError(
            "`cv` must give at least one fold, each with training rows and test rows, got an empty one."
        )
    return splits


def _as_rows(rows: Any, n: int) -> IntArray:
    """Return row numbers between 0 and n - 1 from row numbers or a mask."""
    index = np.asarray(rows)
    if index.dtype == bool:
        if index.shape != (n,):
            raise ValueError(
                f"`cv` must give masks of shape ({n},), one entry a row of X, got {index.shape}."
            )
        index = np.flatnonzero(index)
    if index.size and (index.min() < 0 or index.max() >= n):
        raise ValueError(f"`cv` must give row numbers from 0 to {n - 1}, got {index.min()} to {index.max()}.")
    return index.astype(np.intp)


def _places(name: str, n: int) -> list[str]:
    """Return what the folds are called in errors; a single split has no name."""
    return [place_of(name, fold, n) for fold in range(n)] if n > 1 else [""]


def _fit_fold(
    estimator: Any,
    X: Any,
    y: Any,
    split: Split,
    params: dict[str, Any],
    predict: Callable[[Any, Any], Any],
    place: str,
) -> tuple[Any, Any]:
    """Fit one clone and predict for its test rows."""
    train = split[0]
    X_train = _select(estimator, X, train, train)
    fold_params = slice_fit_params(X, params, train)
    with few_rows_reported(), located(place) if place else nullcontext():
        if y is None:
            estimator.fit(X_train, **fold_params)
        else:
            estimator = fit_wrapped(estimator, X_train, safe_indexing(y, train), **fold_params)
        return estimator, _predict(estimator, X, split, predict)


def _select(estimator: Any, X: Any, rows: IntArray, train: IntArray) -> Any:
    """Return rows of X; of a precomputed kernel also the columns that belong to the training rows."""
    return np.asarray(X)[np.ix_(rows, train)] if is_pairwise(estimator) else safe_indexing(X, rows)


def _predict(estimator: Any, X: Any, split: Split, predict: Callable[[Any, Any], Any]) -> Any:
    """Predict for the test rows and check that there is one entry for each."""
    train, test = split
    X_test = _select(estimator, X, test, train)
    prediction = predict(estimator, X_test)
    if len(prediction) != len(test):
        raise ValueError(
            f"{type(estimator).__name__} predicts {len(prediction)} rows where X has {len(test)}; it must "
            "give one a row."
        )
    return prediction


def _concatenate(predictions: tuple[Any, ...]) -> Any:
    """Join the folds' predictions."""
    if isinstance(predictions[0], Distribution):
        return concat(predictions)
    return np.concatenate([np.asarray(prediction) for prediction in predictions])
