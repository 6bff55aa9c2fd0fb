"""Proper scores of class probabilities, and the checks of class labels and probabilities.

A code is the column of a class in the forecast. A label without a column has the code -1. Its probability is
0, so it is in no set and is never the predicted class.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skuq._prediction_sets import check_proba, mass_sets
from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import as_array, as_labels, check_sample_weight, check_unmasked
from skuq.metrics._inputs import rows_with_weight
from skuq.metrics._spec import Means, metric, value_of

ClassForecast = np.ndarray
"""Array of shape (n, K), which contains probabilities, or sets as booleans."""

_KINDS = {"b": "truth values", "i": "numbers", "u": "numbers", "f": "numbers", "U": "texts", "S": "bytes"}


class CheckedClasses(NamedTuple):
    """Checked rows with positive weight. The array ``codes`` contains the codes of the targets."""

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
    forecast = check_class_forecast(y_pred, needs_proba=needs_proba)
    codes, known = check_labels(y_true, labels, forecast.shape[1], len(forecast))
    weight = check_sample_weight(sample_weight, len(forecast))
    codes, forecast, weight = rows_with_weight(weight, codes, forecast)
    return CheckedClasses(codes, forecast, weight, known)


def check_class_forecast(
    y_pred: Any, shape: tuple[int, int] | None = None, *, needs_proba: bool = False
) -> ClassForecast:
    array = as_array(y_pred, "y_pred")
    # The package crepes returns sets as integers. A DataFrame that allows missing values has dtype object.
    whole = array.dtype.kind in "iu" and array.ndim == 2 and np.any(array.sum(axis=1) != 1)
    if whole or (array.dtype == object and array.size and isinstance(array.flat[0], bool | np.bool_)):
        raise TypeError(
            f"`y_pred` must have dtype bool for prediction sets, got {array.dtype}. Pass "
            "`y_pred.astype(bool)`, or probabilities that sum to 1 in each row."
        )
    if array.dtype != np.bool_:
        array = check_proba(y_pred, "y_pred")
    elif needs_proba:
        raise ValueError("`y_pred` must hold probabilities from `predict_proba`, got sets.")
    elif array.ndim != 2 or not array.size:
        raise ValueError(
            "`y_pred` must have shape (n, K), with one column per class and at least one row, got "
            f"{array.shape}. Pass the sets of one coverage."
        )
    check_unmasked(y_pred, "y_pred")
    if shape is not None and array.shape != shape:
        raise ValueError(
            f"`y_pred` must have shape {shape}, one row per target and one column per class, got "
            f"{array.shape}."
        )
    return array


def check_class_target(y_true: ArrayLike, n: int | None = None) -> np.ndarray:
    y = _as_labels(y_true, "y_true")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or not y.size:
        raise ValueError(f"`y_true` must have shape (n,), with at least one row, got {y.shape}.")
    if n not in (None, y.size):
        raise ValueError(f"`y_true` must have {n} rows, one per sample, got {y.size}.")
    return y


def check_labels(
    y_true: ArrayLike, labels: ArrayLike | None, n_classes: int, n: int | None = None
) -> tuple[IntArray, np.ndarray]:
    """Return the code of each target, and the label of each column."""
    y = check_class_target(y_true, n)
    known = _sorted_classes(y) if labels is None else check_class_labels(labels)
    if labels is None and len(known) != n_classes:
        raise ValueError(
            f"`labels` must be given if `y_true` does not contain all {n_classes} classes, got None and a "
            f"`y_true` with {len(known)} classes. Pass `labels=estimator.classes_`."
        )
    if known.shape != (n_classes,):
        raise ValueError(f"`labels` must have shape ({n_classes},), one per column, got {known.shape}.")
    if isinstance(getattr(y_true, "dtype", None), pd.BooleanDtype) and kind_of(known) == "numbers":
        # scikit-learn's classifiers convert booleans in the same way, so their `classes_` are 0. and 1.
        y = y.astype(np.float64)
    if kind_of(y) != kind_of(known):
        here, there = y[:1].tolist()[0], known[:1].tolist()[0]
        raise TypeError(f"`labels` must have the type of `y_true`, such as {here!r}, got {there!r}.")
    return pd.Index(known).get_indexer(pd.Index(y)).astype(np.intp), known


def check_class_labels(labels: ArrayLike) -> np.ndarray:
    """Return the label of each column. The labels are distinct."""
    known = _as_labels(labels, "labels")
    if known.ndim != 1 or not known.size:
        raise ValueError(f"`labels` must have shape (K,), one per column, got {known.shape}.")
    repeated = pd.Series(known).duplicated().to_numpy()
    if repeated.any():
        raise ValueError(f"`labels` must be distinct, got {known[repeated].tolist()[0]!r} twice.")
    return known


def _sorted_classes(y: np.ndarray) -> np.ndarray:
    try:
        return np.sort(pd.unique(y))
    except TypeError as error:
        raise TypeError(
            "`y_true` must hold labels of one kind, either numbers or strings, got both."
        ) from error


def check_class(label: Any, name: str, labels: np.ndarray) -> int:
    (column,) = pd.Index(labels).get_indexer([label])
    if column < 0:
        raise ValueError(f"`{name}` must be one of the classes {labels.tolist()}, got {label!r}.")
    return int(column)


def _as_labels(values: Any, name: str) -> np.ndarray:
    if values is None:
        place = "column" if name == "labels" else "row"
        raise ValueError(f"`{name}` must hold a class for each {place}, got None.")
    return as_labels(values, name)


def kind_of(labels: np.ndarray) -> str:
    if labels.dtype == object and all(isinstance(each, str) for each in labels):
        return "texts"
    return _KINDS.get(labels.dtype.kind, "objects")


def sets_of(forecast: ClassForecast, coverage: float) -> BoolArray:
    return forecast if forecast.dtype == np.bool_ else mass_sets(forecast, np.asarray(coverage))


def claimed_mass(proba: ClassForecast, sets: BoolArray) -> FloatArray:
    # Because of rounding, a row of probabilities may sum to slightly more than 1.
    return np.asarray(np.minimum(np.einsum("ij,ij->i", proba, sets, dtype=np.float64), 1.0))


def is_in_set(codes: IntArray, sets: BoolArray) -> FloatArray:
    # The code -1 selects the last column; the next line corrects this.
    inside = sets[np.arange(len(codes)), codes]
    return np.asarray(inside & (codes >= 0), dtype=np.float64)


def draw_codes(proba: ClassForecast, rng: np.random.RandomState) -> IntArray:
    mass = np.cumsum(proba, axis=1, dtype=np.float64)
    # The random numbers are scaled to the sum of each row, because rounding may make the sum differ from 1.
    return np.asarray((rng.random_sample((len(proba), 1)) * mass[:, -1:] >= mass[:, :-1]).sum(axis=1))


def _proba_of_target(codes: IntArray, proba: ClassForecast) -> FloatArray:
    # Because of rounding, a probability may be slightly larger than 1.
    found = np.minimum(proba[np.arange(len(codes)), codes], 1.0, dtype=np.float64)
    return np.where(codes >= 0, found, 0.0)


def class_log_rows(codes: IntArray, proba: ClassForecast) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(0.0 - np.log(_proba_of_target(codes, proba)))  # A difference is never -0.0.


def class_brier_rows(codes: IntArray, proba: ClassForecast) -> FloatArray:
    squares = np.einsum("ij,ij->i", proba, proba, dtype=np.float64)
    distance = np.maximum(squares - 2 * _proba_of_target(codes, proba) + 1, 0.0)
    return np.asarray(distance / 2 if proba.shape[1] == 2 else distance)


@metric(
    "class_log_loss",
    title="Log loss of the classes",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="proba",
    proper=True,
    source="Gneiting & Raftery 2007, example 3",
    kernel=lambda: Means(class_log_rows),
)
def class_log_loss(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the log loss of class probabilities: the mean negative log probability of the observed class.

    The smaller the better, minimum is zero. The score is strictly proper, so it is suitable for model
    selection. A single row whose observed class has a small probability can dominate the mean. Prefer
    `class_brier_loss` for classifiers that predict probabilities of 0, such as random forests.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. Class labels.
    y_pred : array-like of shape (n, K)
        Forecast of every target. Probability of every class, as returned by ``predict_proba``.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    labels : array-like of shape (K,), default=None
        Class of each column, such as ``estimator.classes_``. None means the sorted classes of `y_true`, which
        must then contain all classes. A target that is not among the labels has a probability of 0.

    Returns
    -------
    loss : float
        In [0, inf], in nats. Infinite if an observed class has a probability of 0.

    Raises
    ------
    ValueError
        If probabilities are negative or do not sum to 1 within 1e-6, or if sets are given.

    See Also
    --------
    class_brier_loss : Score that is finite for probabilities of 0.
    sklearn.metrics.log_loss : The same score, but probabilities of 0 are replaced by a small number.

    Notes
    -----
    .. math:: -\frac1n \sum_i \log p_{i, y_i}

    The scorer of this function is minus infinite if a test row has a class that no training row has. The cost
    is one pass over the rows.

    References
    ----------
    .. [1] Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation.
       https://doi.org/10.1198/016214506000001437

    Examples
    --------
    >>> from skuq.metrics import class_log_loss
    >>> proba = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]
    >>> round(class_log_loss(["a", "b"], proba, labels=["a", "b", "c"]), 4)
    0.2899
    >>> class_log_loss(["a", "b"], [[1.0, 0.0], [1.0, 0.0]], labels=["a", "b"])
    inf
    """
    given = check_classes(y_true, y_pred, labels, sample_weight, needs_proba=True)
    return value_of(Means(class_log_rows), *given[:3])


@metric(
    "class_brier",
    title="Brier score of the classes",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 2.0),
    needs="proba",
    proper=True,
    source="Brier 1950, eq. 2; Gneiting & Raftery 2007, example 1",
    kernel=lambda: Means(class_brier_rows),
)
def class_brier_loss(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the Brier score of class probabilities: the mean squared distance from the observed class.

    The smaller the better, minimum is zero. The score is strictly proper, so it is suitable for model
    selection. It is finite for every forecast.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. Class labels.
    y_pred : array-like of shape (n, K)
        Forecast of every target. Probability of every class, as returned by ``predict_proba``.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    labels : array-like of shape (K,), default=None
        Class of each column, such as ``estimator.classes_``. None means the sorted classes of `y_true`, which
        must then contain all classes. A target that is not among the labels has a probability of 0.

    Returns
    -------
    loss : float
        In [0, 1] for two classes, and in [0, 2] for another number of classes.

    Raises
    ------
    ValueError
        If probabilities are negative or do not sum to 1 within 1e-6, or if sets are given.

    See Also
    --------
    class_log_loss : Score that penalizes small probabilities of observed classes more.
    skuq.evaluation.score_decomposition : The part of the score due to miscalibration.
    sklearn.metrics.brier_score_loss : The same score.

    Notes
    -----
    .. math:: \frac1n \sum_i \sum_k (p_{ik} - 1\{y_i = k\})^2

    For two classes, the sum is divided by two, as in scikit-learn. The score is then the mean squared
    difference between the probability of one class and its indicator. `~skuq.evaluation.score_decomposition`
    divides the sum by the number of classes. The cost is one pass over the rows.

    References
    ----------
    .. [1] Brier (1950), Verification of forecasts expressed in terms of probability.
       https://doi.org/10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2
    .. [2] Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation.
       https://doi.org/10.1198/016214506000001437

    Examples
    --------
    >>> from skuq.metrics import class_brier_loss
    >>> proba = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]
    >>> round(class_brier_loss(["a", "b"], proba, labels=["a", "b", "c"]), 4)
    0.1
    >>> round(class_brier_loss(["a", "b"], [[0.7, 0.3], [0.2, 0.8]], labels=["a", "b"]), 4)
    0.065
    """
    given = check_classes(y_true, y_pred, labels, sample_weight, needs_proba=True)
    return value_of(Means(class_brier_rows), *given[:3])
