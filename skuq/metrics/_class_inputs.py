"""Validation of the arguments of metrics of classes, and the codes that stand for classes in kernels.

A code is the column of a class in the forecast, or -1 for a label that the forecast has no column for: such a
label had no probability, so that it is never in a set and never the predicted class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skuq._prediction_sets import check_proba, mass_sets
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import as_array, as_labels, check_sample_weight, check_single_coverage, check_unmasked

ClassForecast = np.ndarray
"""Probabilities or, of dtype bool, sets: shape (n, K)."""

_KINDS = {"b": "truth values", "i": "numbers", "u": "numbers", "f": "numbers", "U": "texts", "S": "bytes"}


@dataclass(frozen=True)
class CheckedClasses:
    """Checked targets and forecasts of the rows with positive weight.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Column of the class of each target, or -1.
    forecast : ndarray of shape (n, K)
        Probabilities or sets.
    weight : ndarray of shape (n,) or None
        Repetitions of each row.
    labels : ndarray of shape (K,)
        Class of each column.
    """

    codes: IntArray
    forecast: ClassForecast
    weight: FloatArray | None
    labels: np.ndarray


def check_classes(
    y_true: ArrayLike,
    y_pred: Any,
    labels: ArrayLike | None,
    sample_weight: ArrayLike | None,
    *,
    needs_proba: bool = False,
) -> CheckedClasses:
    """Return targets as codes, forecast and weights of the rows with positive weight."""
    forecast = check_class_forecast(y_pred, needs_proba=needs_proba)
    codes, known = check_labels(y_true, labels, forecast.shape[1], len(forecast))
    weight = check_sample_weight(sample_weight, len(forecast))
    if weight is not None and weight.min() == 0:
        keep = weight > 0
        codes, forecast, weight = codes[keep], forecast[keep], weight[keep]
    return CheckedClasses(codes, forecast, weight, known)


def check_class_forecast(
    y_pred: Any, shape: tuple[int, int] | None = None, *, needs_proba: bool = False
) -> ClassForecast:
    """Return probabilities, or sets as a boolean array, of shape (n, K)."""
    array = as_array(y_pred, "y_pred")
    # those of crepes are whole numbers, those of a DataFrame with missing values allowed are objects
    whole = array.dtype.kind in "iu" and array.ndim == 2 and np.any(array.sum(axis=1) != 1)
    if whole or (array.dtype == object and array.size and isinstance(array.flat[0], bool | np.bool_)):
        raise TypeError(
            f"`y_pred` must be of dtype bool where it holds sets, got {array.dtype}. Pass "
            "`y_pred.astype(bool)`, or probabilities that sum to 1 in each row."
        )
    if array.dtype != np.bool_:
        array = check_proba(y_pred, "y_pred")
    elif needs_proba:
        raise ValueError("`y_pred` must hold probabilities, as `predict_proba` returns them, got sets.")
    elif array.ndim != 2 or not array.size:
        raise ValueError(
            "`y_pred` must have shape (n, K), one column a class and at least one row, got "
            f"{array.shape}. Pass the sets of one coverage."
        )
    check_unmasked(y_pred, "y_pred")
    if shape is not None and array.shape != shape:
        raise ValueError(f"`y_pred` must have shape {shape}, rows and classes, got {array.shape}.")
    return array


def check_class_target(y_true: ArrayLike, n: int | None = None) -> np.ndarray:
    """Return the observed classes as an array of shape (n,)."""
    y = _as_labels(y_true, "y_true")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or not y.size:
        raise ValueError(f"`y_true` must have shape (n,), with at least one row, got {y.shape}.")
    if n not in (None, y.size):
        raise ValueError(f"`y_true` must have {n} rows, one a sample, got {y.size}.")
    return y


def check_labels(
    y_true: ArrayLike, labels: ArrayLike | None, n_classes: int, n: int | None = None
) -> tuple[IntArray, np.ndarray]:
    """Return the code of each target, -1 for those not among the labels, and the label of each column."""
    y = check_class_target(y_true, n)
    known = _sorted_classes(y) if labels is None else _as_labels(labels, "labels")
    if labels is None and len(known) != n_classes:
        raise ValueError(
            f"`labels` must name the class of each of the {n_classes} columns where `y_true` does not hold "
            f"them all, got None and {len(known)} classes. Pass `labels=estimator.classes_`."
        )
    if known.shape != (n_classes,):
        raise ValueError(f"`labels` must have shape ({n_classes},), one a column, got {known.shape}.")
    if len(pd.unique(known)) < n_classes:
        raise ValueError(f"`labels` must differ, got {known.tolist()}.")
    if isinstance(getattr(y_true, "dtype", None), pd.BooleanDtype) and kind_of(known) == "numbers":
        y = y.astype(np.float64)  # as scikit-learn's classifiers do, whose `classes_` are then 0. and 1.
    if kind_of(y) != kind_of(known):
        here, there = y[:1].tolist()[0], known[:1].tolist()[0]
        raise TypeError(f"`labels` must be of the kind of `y_true`, got {there!r} there and {here!r} here.")
    return pd.Index(known).get_indexer(pd.Index(y)).astype(np.intp), known


def _sorted_classes(y: np.ndarray) -> np.ndarray:
    """Return the classes that are observed, in the order of scikit-learn's ``classes_``."""
    try:
        return np.sort(pd.unique(y))
    except TypeError as error:
        raise TypeError("`y_true` must hold labels of one kind, numbers or texts, got a mixture.") from error


def check_class(label: Any, name: str, labels: np.ndarray) -> int:
    """Return the column of a class."""
    (column,) = pd.Index(labels).get_indexer([label])
    if column < 0:
        raise ValueError(f"`{name}` must be one of the classes {labels.tolist()}, got {label!r}.")
    return int(column)


def _as_labels(values: Any, name: str) -> np.ndarray:
    """Return labels as an array, none of which is missing."""
    if values is None:
        raise ValueError(f"`{name}` must hold a class for each row, got None.")
    return as_labels(values, name)


def kind_of(labels: np.ndarray) -> str:
    """Return what labels are: pandas finds labels of one kind in another nowhere, and 1 is not True."""
    if labels.dtype == object and all(isinstance(each, str) for each in labels):
        return "texts"
    return _KINDS.get(labels.dtype.kind, "objects")


def sets_of(forecast: ClassForecast, coverage: Any) -> BoolArray:
    """Return the sets given, or those that reach the coverage by the probabilities."""
    nominal = check_single_coverage(coverage)
    return forecast if forecast.dtype == np.bool_ else mass_sets(forecast, np.asarray(nominal))


def claimed_mass(proba: ClassForecast, sets: BoolArray) -> FloatArray:
    """Return the probability that each row claims for its set, shape (n,)."""
    # rows sum to 1 within a tolerance only
    return np.asarray(np.minimum(np.einsum("ij,ij->i", proba, sets, dtype=np.float64), 1.0))


def is_in_set(codes: IntArray, sets: BoolArray) -> FloatArray:
    """Return 1 for each row whose label is in its set, else 0."""
    inside = sets[np.arange(len(codes)), codes]  # a code of -1 reads the last column, and is a miss
    return np.asarray(inside & (codes >= 0), dtype=np.float64)


def draw_codes(proba: ClassForecast, rng: np.random.RandomState) -> IntArray:
    """Return the class of each row, drawn from its probabilities, shape (n,)."""
    mass = np.cumsum(proba, axis=1, dtype=np.float64)
    # in parts of the last sum, so that rounding leaves no gap above it
    return np.asarray((rng.random_sample((len(proba), 1)) * mass[:, -1:] >= mass[:, :-1]).sum(axis=1))
