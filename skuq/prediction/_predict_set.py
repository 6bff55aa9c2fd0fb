"""predict_set: one function that gets prediction sets out of any fitted classifier."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._prediction_sets import check_proba, mass_sets
from skuq._sklearn_compat import count_rows, is_regressing, sequential_in_cluster_task
from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_coverage, check_unmasked
from skuq.exceptions import NotProbabilisticError
from skuq.prediction._resolve import check_estimator
from skuq.prediction._rules.containers import CONTAINERS

__all__ = ["class_proba", "predict_set"]


def predict_set(estimator: Any, X: Any, coverage: ArrayLike = DEFAULT_COVERAGE) -> BoolArray:
    """Get the prediction sets of a fitted classifier, whatever it is wrapped in.

    Looks through Pipeline, the searches, RFE and RFECV, FrozenEstimator and StackingClassifier down to an
    estimator with a method ``predict_set`` of its own, such as `skuq.classifiers.ConformalClassifier`. Any
    other classifier gets the `prediction_set` of its ``predict_proba``.

    Parameters
    ----------
    estimator : estimator
        Fitted classifier. Not modified.
    X : array-like of shape (n, n_features), or DataFrame
        What ``estimator.predict`` takes.
    coverage : float or array-like of shape (k,), default=0.9
        Nominal coverage of the prediction set, strictly between 0 and 1.

    Returns
    -------
    sets : ndarray of bool of shape (n, K), or (n, K, k) for k coverages
        Whether each class is in the set of row i. Column j is that of ``estimator.classes_[j]``.

    Raises
    ------
    NotProbabilisticError
        If the estimator gives no class probabilities; the message names the class and what to do.
    NotRefittedError
        If a search was fitted with ``refit=False``.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    ValueError
        If the predicted probabilities are NaN or negative, or do not sum to 1 within 1e-6.

    See Also
    --------
    prediction_set : Sets of probabilities that were predicted already.
    skuq.classifiers.ConformalClassifier : Sets with guaranteed coverage, for any classifier.
    predict_dist : The same for regressors.

    Notes
    -----
    Sets formed of probabilities are as good as these: an overconfident model has sets that are too small.
    They depend on nothing but the prediction; those of a ConformalClassifier also on the rows that
    calibrate it.

    Costs one prediction of the inner estimator, and a sort of each row.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skuq.prediction import predict_set
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
    """Return the sets of the estimator's own method, of what it passes on to, or of its probabilities."""
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
    """Return what the estimator's own ``predict_set`` gives, if it is sets of all rows and coverages."""
    array = np.asarray(sets)
    n = count_rows(X)
    if array.dtype != bool or array.ndim != 2 + coverage.ndim or len(array) != n:
        shape = f"({n}, K, {coverage.size})" if coverage.ndim else f"({n}, K)"
        raise ValueError(
            f"the prediction sets of {type(estimator).__name__} must be a boolean array of shape {shape}, "
            f"got {array.dtype} of shape {array.shape}."
        )
    return array


def class_proba(estimator: Any, X: Any) -> np.ndarray:
    """Return the class probabilities that a fitted classifier predicts, checked, shape (n, K)."""
    name = type(estimator).__name__
    if is_regressing(estimator):
        raise NotProbabilisticError(
            f"{name} is a regressor, and prediction sets are those of classifiers. Its prediction intervals "
            "are skuq.predict_dist(estimator, X).interval(coverage)."
        )
    if not callable(getattr(estimator, "predict_proba", None)):
        raise NotProbabilisticError(
            f"{name} gives no class probabilities, as it has no `predict_proba`; prediction sets are formed "
            f"of these. Wrap it before fitting: sklearn.calibration.CalibratedClassifierCV({name}(...))."
        )
    with sequential_in_cluster_task():
        proba = estimator.predict_proba(X)
    if isinstance(proba, list):
        raise ValueError(
            f"{name} predicts {len(proba)} targets; a prediction set is that of one. Fit one classifier a "
            "target."
        )
    return check_proba(proba, f"{name}.predict_proba", count_rows(X))
