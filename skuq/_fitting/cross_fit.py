"""Cross-fitting: held-out rows, fitted clones and their predictions, and the check of a fit on all rows.

The method ``fit_transform`` of the regressors, ``RecalibratedRegressor`` and ``cross_val_predict_dist`` use
this module.

Out-of-fold errors describe the model of all rows only if this model is similar to the models of the folds.
The models differ, for example, if boosting stops early with all rows but not with the rows of a fold.
"""

from __future__ import annotations

import gc
import numbers
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, check_cv
from sklearn.utils.validation import has_fit_parameter

from skuq._censoring import given_censoring, read_bounds
from skuq._compat import (
    count_rows,
    is_pairwise,
    run_parallel,
    safe_indexing,
    sequential_in_cluster_task,
    slice_fit_params,
    splitter_ignores_groups,
    splitter_needs_groups,
    warn_user,
)
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.training_data import TrainingData
from skuq._numeric import standard_deviation
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import check_integer, check_number, check_random_state, few_rows_reported
from skuq.distributions import Distribution, JointDistribution, concat
from skuq.exceptions import FoldMismatchWarning
from skuq.prediction._register import note_fold, single_output
from skuq.prediction._resolve import learns_in_context, predict_dist, predicts_columns


def row_mask(rows: IntArray, n: int) -> BoolArray:
    mask = np.zeros(n, dtype=np.bool_)
    mask[rows] = True
    return mask


def rows_outside(rows: IntArray, n: int) -> IntArray:
    return np.flatnonzero(~row_mask(rows, n))


def columns_of_rows(X: Any, rows: IntArray | None) -> Any:
    """Return X. For a precomputed kernel, return the columns of the training rows."""
    return X if rows is None else np.asarray(X)[:, rows]


def check_disjoint(splits: Iterable[tuple[IntArray, IntArray]], n: int) -> None:
    """Raise an error if a row is in the training rows and in the test rows of a fold."""
    for fold, (train, test) in enumerate(splits):
        fitted = row_mask(train, n)
        if fitted[test].any():
            raise ValueError(
                f"`cv` must return disjoint training and test rows, but fold {fold} has row "
                f"{test[np.argmax(fitted[test])]} in both."
            )


def check_held_out_size(size: Any) -> float | int:
    number = check_number(size, "held_out_size", positive=True)
    if number == int(number) and not isinstance(size, float | np.floating):
        return int(number)
    if number >= 1:
        raise ValueError(
            f"`held_out_size` must be a share strictly between 0 and 1 or a whole number of rows, got {size}."
        )
    return number


def n_held_out(size: float | int, n: int) -> int:
    if isinstance(size, float):
        return min(max(int(np.ceil(size * n)), 1), n - 1)
    if size >= n:
        raise ValueError(
            f"`held_out_size` must leave rows to train on, got {size} of {n} rows. Use a smaller size, or "
            "pass a FrozenEstimator, which uses all rows for calibration."
        )
    return size


def stratified_split(
    labels: np.ndarray, n_held_out: int, seed: int, *, exchangeable: bool = False
) -> tuple[IntArray, IntArray]:
    """Return training rows and held-out rows, stratified by class.

    With ``exchangeable``, the held-out rows are drawn like new rows, whose label may not occur in the
    training rows. Otherwise, the only row of a class is a training row if possible.
    """
    n = len(labels)
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    class_size = counts[codes]
    if exchangeable:
        codes = np.where(class_size * n_held_out < 2 * n, -1, codes)
    rng = check_random_state(seed)
    shuffled = rng.permutation(n)
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    several = by_class[class_size[by_class] > 1]
    if not exchangeable and len(several) > n_held_out:
        by_class = several
    # Systematic sampling from the rows, sorted by class. Rounding may move the last position beyond the end.
    places = (np.arange(n_held_out) + rng.random_sample()) * (len(by_class) / n_held_out)
    held_out = np.sort(by_class.take(places.astype(np.intp), mode="clip"))
    return rows_outside(held_out, n), held_out


def free_device_memory() -> None:
    """Return the unused memory of a GPU to the driver. Without torch or a GPU in use, do nothing."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return
    gc.collect()
    torch.cuda.empty_cache()


def point_predict(estimator: Any, X: Any) -> FloatArray:
    if predicts_columns(estimator):
        mean: FloatArray = predict_dist(estimator, X).mean()
        return mean
    with sequential_in_cluster_task():
        points = estimator.predict(X)
    return single_output(points, estimator)


def point_and_dist(estimator: Any, X: Any) -> tuple[FloatArray, Distribution]:
    own = getattr(estimator, "_point_and_supported_dist", None)
    if own is not None:
        estimator._check_new(X)
        with sequential_in_cluster_task():
            points, dist = own(X)
        return single_output(points, estimator), dist
    dist = predict_dist(estimator, X)
    return (dist.mean() if predicts_columns(estimator) else point_predict(estimator, X)), dist


def predict_member(member: Any, X: Any, place: str) -> FloatArray:
    """Return the point prediction of one member. Error messages contain the name of the member, ``place``."""
    with note_fold(place):
        return point_predict(member, X)


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

    def in_row_order(self, n: int) -> Any:
        """Return predictions in the order of the rows. Raise an error if a row is not tested exactly once."""
        rows, prediction = self.tested()
        return prediction[row_order(rows, n)]


def is_partition(test_rows: Sequence[IntArray], n: int) -> bool:
    return np.array_equal(np.sort(np.concatenate(list(test_rows))), np.arange(n))


def row_order(rows: IntArray, n: int) -> IntArray:
    """Return the position of each row among the tested rows.

    Raise an error if a row is missing or repeated.
    """
    if not is_partition([rows], n):
        distinct = len(np.unique(rows))
        raise ValueError(
            f"`cv` must test every row exactly once, but its test folds have {len(rows)} rows in total, and "
            f"contain {distinct} of the {n} rows of X. Use a partition such as KFold or GroupKFold. For "
            "time-ordered or repeated splits, use RecalibratedRegressor, which supports any splitter, or "
            "cross_val_predict_dist(..., return_rows=True)."
        )
    return np.argsort(rows, kind="stable")


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
        n = len(splits)
        places = [f"{name} {fold + 1} of {n}" for fold in range(n)] if n > 1 else [""]
        tasks = (
            partial(_fit_fold, clone(estimator), X, y, split, params, predict, place, keep)
            for split, place in zip(splits, places, strict=True)
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


_MAX_ROWS = 1000
"""Maximum number of rows of the comparison. Each model must predict these rows."""

_MAX_MODELS = 10
"""Maximum number of folds of the comparison."""

_MAX_RATIO = 3.0
"""Largest accepted ratio of two distances between models.

The first distance is between the model of all rows and the models of the folds. It is divided by the distance
between the models of the folds. The ratio is 0.7 for linear models and about 1 for models that vary at
random. For twelve regressors of scikit-learn on 100 to 1500 rows, the ratio was at most 1.9 with K-fold
splits. With time-ordered splits, the first models have few rows. The ratio was then above 3 in one of 108
cases. For boosting that stopped after 10 instead of 100 rounds, the ratio was at least 10.
"""


_MIN_ROWS = 8
"""Smallest number of rows on which two models are compared."""

_MIN_SHARE_OF_ERRORS = 0.1
"""Smallest distance that causes a warning, as a share of the root mean squared residual."""

_MIN_SHARE_OF_TARGET = 1e-3
"""Smallest distance that causes a warning, as a share of the std of y. This limit is needed if there is no
noise."""


class Mismatch(NamedTuple):
    """Root mean squared differences between predictions for the same training rows, in the units of y."""

    refit: float
    """Difference between the model of all rows and the models of the folds."""
    folds: float
    """Difference between the models of the folds."""


def find_mismatch(
    refit: Any, folds: CrossFit, X: Any, y: FloatArray, predict: Callable[[Any, Any], FloatArray]
) -> Mismatch | None:
    """Return both distances if the model of all rows is too far from the models of the folds.

    Otherwise, return None. Each model of a fold is compared with the refit on the training rows of the fold,
    because the refit is also trained on these rows.
    """
    n = count_rows(X)
    if len(folds.estimators) < 2 or is_pairwise(refit):
        return None
    rows = np.unique(np.linspace(0, n - 1, min(n, _MAX_ROWS)).astype(np.intp))
    X = safe_indexing(X, rows)
    models = folds.estimators[:_MAX_MODELS]
    trained = np.array([row_mask(train, n)[rows] for train in folds.train_rows[:_MAX_MODELS]])
    # The models of two halves have no common training row, so they are compared on all rows.
    if np.count_nonzero(trained, axis=0).max() < 2:
        trained = np.ones_like(trained)
    kept = np.count_nonzero(trained, axis=0) >= 2
    if np.count_nonzero(kept) < _MIN_ROWS:
        return None
    by_refit, *by_folds = (predict(model, X).reshape(len(rows), -1)[kept] for model in (refit, *models))
    trained = trained[:, kept, np.newaxis]
    found, residual = _distances(by_refit, np.array(by_folds), trained, y[rows][kept, np.newaxis])
    rounding = 8 * np.finfo(np.float64).eps * float(np.abs(by_refit).max())
    negligible = max(_MIN_SHARE_OF_ERRORS * residual, _MIN_SHARE_OF_TARGET * standard_deviation(y), rounding)
    far = found.refit > max(_MAX_RATIO * found.folds, negligible)
    return found if far else None


def predict_quartiles(estimator: Any, X: Any) -> FloatArray:
    return predict_dist(estimator, X).quantile([0.25, 0.5, 0.75])


def _distances(
    refit: FloatArray, folds: FloatArray, trained: BoolArray, y: FloatArray
) -> tuple[Mismatch, float]:
    count = trained.sum(axis=0)
    difference, residual = np.where(trained, folds - refit, 0.0), np.where(trained, folds - y, 0.0)
    to_refit = (difference**2).sum(axis=0) / count
    # The mean squared difference between two models is twice their sample variance.
    spread = np.where(trained, difference - difference.sum(axis=0) / count, 0.0)
    among = 2 * (spread**2).sum(axis=0) / (count - 1)
    size = (residual**2).sum(axis=0) / count
    to_refit, among, size = (float(np.sqrt(square.mean())) for square in (to_refit, among, size))
    return Mismatch(to_refit, among), size


def warn_of_mismatch(mismatch: Mismatch | None, consequence: str) -> None:
    if mismatch is None:
        return
    warn_user(
        "The model that is fitted to all rows differs from the models of the folds. The root mean square "
        f"difference between its predictions and the predictions of a fold's model is {mismatch.refit:.3g}. "
        f"For two models of folds, this difference is {mismatch.folds:.3g}. The errors of the forecast are "
        "estimated with the models of the folds. "
        f"{consequence}. A common cause is early stopping.",
        FoldMismatchWarning,
    )


def check_recalibrator(recalibrator: Any, *, auto: bool = False) -> None:
    if recalibrator is None or (auto and isinstance(recalibrator, str) and recalibrator == "auto"):
        return
    known = all(hasattr(recalibrator, name) for name in ("fit", "transform", "predict"))
    if isinstance(recalibrator, type) or not known:
        others = "'auto' or None" if auto else "or None"
        raise TypeError(
            f"`recalibrator` must be a recalibrator, such as IsotonicRecalibrator(), {others}, got "
            f"{recalibrator!r}."
        )


def fit_recalibrator(recalibrator: Any, dist: Distribution, data: TrainingData, rows: IntArray) -> Any:
    fitted = clone(recalibrator)
    if hasattr(fitted, "partial_fit"):  # The last rows must be the latest.
        order = np.argsort(rows, kind="stable")
        dist, rows = dist[order], rows[order]
    params = _censoring_of(recalibrator, data, rows)
    if data.sample_weight is not None:
        params["sample_weight"] = data.sample_weight[rows]
    return fitted.fit(dist, data.y[rows], **params)


def _censoring_of(recalibrator: Any, data: TrainingData, rows: IntArray) -> dict[str, Any]:
    """Return the censoring of the rows. Raise an error if the recalibrator does not accept censoring."""
    given = given_censoring(data.params) if data.params else {}
    if not given or read_bounds(data.y, **given) is None:  # Every target is observed.
        return {}
    for name in given:
        if not has_fit_parameter(recalibrator, name):
            raise ValueError(
                f"`{name}` is given, but {type(recalibrator).__name__} does not take it. The recalibrator "
                "would treat censored targets as observed. Use recalibrator=IsotonicRecalibrator()."
            )
    return {name: np.asarray(values)[rows] for name, values in given.items()}
