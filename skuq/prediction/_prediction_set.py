"""Prediction sets from class probabilities."""

from __future__ import annotations

from skuq._prediction_sets import check_proba, mass_sets
from skuq._typing import ArrayLike, BoolArray
from skuq._validation import DEFAULT_COVERAGE, check_coverage


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
