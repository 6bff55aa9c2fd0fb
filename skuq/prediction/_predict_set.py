"""Prediction sets from class probabilities, and of fitted classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._compat import count_rows, is_regressing, sequential_in_cluster_task
from skuq._prediction_sets import check_proba, mass_sets
from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_coverage, check_unmasked
from skuq.exceptions import NotProbabilisticError
from skuq.prediction._adapters import CONTAINERS
from skuq.prediction._resolve import check_estimator


def prediction_set(y_proba: ArrayLike, coverage: ArrayLike = DEFAULT_COVERAGE) -> BoolArray:
    """Return the smallest set of classes whose probabilities sum to at least ``coverage``.

    The class that crosses the coverage is included, so the set is never empty and always contains the most
    probable class.

    Parameters
    ----------
    y_proba : array-like of shape (n, K)
        Probability of each class, as returned by ``predict_proba``. Probabilities must be non-negative. The
        sum of each row must be 1, with a tolerance of 1e-6.
    coverage : float or array-like of shape (k,), default=0.9
        Nominal coverage of the prediction set, strictly between 0 and 1.

    Returns
    -------
    sets : ndarray of bool of shape (n, K), or (n, K, k) for k coverages
        Whether each class is in the set of row i. Column j belongs to column j of ``y_proba``.

    Raises
    ------
    ValueError
        If probabilities are negative or NaN, if their sum is not 1, or if a coverage is not in (0, 1).
    TypeError
        If ``y_proba`` does not contain numbers.

    See Also
    --------
    skuq.conformal.predict_set : Prediction sets of a fitted classifier.
    skuq.conformal.ConformalClassifier : Prediction sets with guaranteed coverage, for any classifier.

    Notes
    -----
    Probabilities are summed in float64 in descending order. A sum that is smaller than the coverage only by
    rounding errors counts as equal to the coverage. If classes are equally probable, classes with lower
    column numbers are included first. The set for a larger coverage contains the set for a smaller coverage.

    If the probabilities are calibrated, a set contains the label with a probability of ``coverage`` *or
    more*, because the last class of a set increases the sum above the coverage. For accurate models, the sum
    of the probabilities in a set is often much larger than the coverage. Therefore, compare the observed
    coverage with the mean of ``(y_proba * sets).sum(axis=1)``.

    The function costs one sort per row. The definition of the sets is from Kompa, Snoek and Beam (2021),
    "Empirical frequentist coverage of deep learning uncertainty quantification procedures", Entropy 23, 1608.

    Examples
    --------
    >>> from skuq.conformal import prediction_set
    >>> y_proba = [[0.70, 0.25, 0.05], [0.40, 0.35, 0.25]]
    >>> prediction_set(y_proba, coverage=0.9)
    array([[ True,  True, False],
           [ True,  True,  True]])
    >>> prediction_set(y_proba, coverage=[0.5, 0.9]).sum(axis=1)  # sizes
    array([[1, 2],
           [2, 3]])
    """
    return mass_sets(check_proba(y_proba), check_coverage(coverage))


def predict_set(estimator: Any, X: Any, coverage: ArrayLike = DEFAULT_COVERAGE) -> BoolArray:
    """Return the prediction sets of a fitted classifier.

    If the classifier has a method ``predict_set``, such as `skuq.conformal.ConformalClassifier`, the
    function calls this method. The classifier may be inside a Pipeline, a search such as GridSearchCV, RFE,
    RFECV, FrozenEstimator or StackingClassifier. For all other classifiers, the function passes the result of
    ``predict_proba`` to `~skuq.conformal.prediction_set`.

    Parameters
    ----------
    estimator : estimator
        Fitted classifier. It is not modified.
    X : array-like of shape (n, n_features), or DataFrame
        Features, as for ``estimator.predict``.
    coverage : float or array-like of shape (k,), default=0.9
        Nominal coverage of the prediction set, strictly between 0 and 1.

    Returns
    -------
    sets : ndarray of bool of shape (n, K), or (n, K, k) for k coverages
        Whether each class is in the set of row i. Column j belongs to ``estimator.classes_[j]``.

    Raises
    ------
    NotProbabilisticError
        If the estimator has no class probabilities. The message contains the class and a remedy.
    NotRefittedError
        If a search was fitted with ``refit=False``.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    ValueError
        If predicted probabilities are NaN or negative, or if their sum differs from 1 by more than 1e-6.

    See Also
    --------
    skuq.conformal.prediction_set : Prediction sets from predicted probabilities.
    skuq.conformal.ConformalClassifier : Prediction sets with guaranteed coverage for every classifier.
    predict_dist : Predictive distribution of a fitted regressor.

    Notes
    -----
    If the sets are computed from probabilities, they are only as good as the probabilities: the sets of an
    overconfident model are too small. Sets of a ConformalClassifier are calibrated on held-out rows.

    The function costs one prediction of the inner estimator and one sort per row.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skuq.conformal import predict_set
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    >>> predict_set(model, X[[0, 70]], coverage=0.95)
    array([[ True, False, False],
           [False,  True,  True]])
    """
    check_estimator(estimator)
    check_unmasked(X, "X")
    return _sets(estimator, X, check_coverage(coverage))


def _sets(estimator: Any, X: Any, coverage: FloatArray) -> BoolArray:
    if callable(own := getattr(estimator, "predict_set", None)):
        with sequential_in_cluster_task():
            own_sets = own(X, coverage if coverage.ndim else float(coverage))
        return _check_sets(own_sets, estimator, X, coverage)
    for rule in CONTAINERS:
        if rule.passes_on and rule.matches(estimator):
            sets: BoolArray = rule.predict(estimator, X, lambda inner, X: _sets(inner, X, coverage))
            return sets
    return mass_sets(class_proba(estimator, X), coverage)


def _check_sets(sets: Any, estimator: Any, X: Any, coverage: FloatArray) -> BoolArray:
    array = np.asarray(sets)
    n = count_rows(X)
    if array.dtype != bool or array.ndim != 2 + coverage.ndim or len(array) != n:
        shape = f"({n}, K, {coverage.size})" if coverage.ndim else f"({n}, K)"
        raise ValueError(
            f"`predict_set` of {type(estimator).__name__} must return a boolean array of shape {shape}, "
            f"got {array.dtype} of shape {array.shape}."
        )
    return array


def class_proba(estimator: Any, X: Any) -> np.ndarray:
    """Return the checked class probabilities of a fitted classifier, shape (n, K)."""
    name = type(estimator).__name__
    if is_regressing(estimator):
        raise NotProbabilisticError(
            f"{name} is a regressor, but prediction sets need a classifier. For prediction intervals, call "
            "skuq.predict_dist(estimator, X).interval(coverage)."
        )
    if not callable(getattr(estimator, "predict_proba", None)):
        raise NotProbabilisticError(
            f"{name} gives no class probabilities, because it has no `predict_proba`. "
            f"Wrap it before fitting: sklearn.calibration.CalibratedClassifierCV({name}(...))."
        )
    with sequential_in_cluster_task():
        proba = estimator.predict_proba(X)
    if isinstance(proba, list):
        raise ValueError(
            f"`estimator` must predict one target, but {name} predicts {len(proba)}. Fit one classifier per "
            "target."
        )
    return check_proba(proba, f"{name}.predict_proba", count_rows(X))
