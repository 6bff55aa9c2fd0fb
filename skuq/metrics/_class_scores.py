"""Proper scores of class probabilities: log loss and Brier score."""

from __future__ import annotations

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._weights import weighted_mean
from skuq.metrics._class_inputs import ClassForecast, check_classes
from skuq.metrics._spec import FastPath, metric


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
    units=0,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="proba",
    proper=True,
    source="Gneiting & Raftery 2007, example 3",
    fast=FastPath(rows=class_log_rows),
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
    return weighted_mean(class_log_rows(given.codes, given.forecast), given.weight)


@metric(
    "class_brier",
    title="Brier score of the classes",
    units=0,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 2.0),
    needs="proba",
    proper=True,
    source="Brier 1950, eq. 2; Gneiting & Raftery 2007, example 1",
    fast=FastPath(rows=class_brier_rows),
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
    return weighted_mean(class_brier_rows(given.codes, given.forecast), given.weight)
