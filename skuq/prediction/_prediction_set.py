"""prediction_set: the smallest set of classes that has a given probability."""

from __future__ import annotations

from skuq._prediction_sets import check_proba, mass_sets
from skuq._typing import ArrayLike, BoolArray
from skuq._validation import DEFAULT_COVERAGE, check_coverage

__all__ = ["prediction_set"]


def prediction_set(y_proba: ArrayLike, coverage: ArrayLike = DEFAULT_COVERAGE) -> BoolArray:
    """Form the smallest set of classes whose probabilities sum to at least ``coverage``.

    The class at which the sum reaches the coverage is in the set, which so is never empty and always
    contains the most probable class.

    Parameters
    ----------
    y_proba : array-like of shape (n, K)
        Probability of each class, as ``predict_proba`` returns it: non-negative, rows that sum to 1 within
        1e-6.
    coverage : float or array-like of shape (k,), default=0.9
        Nominal coverage of the prediction set, strictly between 0 and 1.

    Returns
    -------
    sets : ndarray of bool of shape (n, K), or (n, K, k) for k coverages
        Whether each class is in the set of row i. Columns are those of ``y_proba``.

    Raises
    ------
    ValueError
        If the probabilities are negative, NaN or do not sum to 1, or a coverage is not in (0, 1).
    TypeError
        If ``y_proba`` does not hold numbers.

    See Also
    --------
    predict_set : Sets of a fitted classifier.
    skuq.classifiers.ConformalClassifier : Sets that have their coverage whatever the probabilities.

    Notes
    -----
    Probabilities are summed in float64, from the largest to the smallest, and a sum reaches the coverage if
    it falls short of it by no more than rounding, a few units in the last place of ``y_proba``. Of equally
    probable classes the one of the lower column enters first. A larger coverage gives a superset.

    The sets contain the label with probability ``coverage`` *or more* if the probabilities are calibrated:
    the last class overshoots, for accurate models by much. The mass ``(y_proba * sets).sum(axis=1)`` is the
    coverage to compare with.

    Costs a sort of each row. These are the sets of Kompa, Snoek and Beam (2021), "Empirical frequentist
    coverage of deep learning uncertainty quantification procedures", Entropy 23, 1608.

    Examples
    --------
    >>> from skuq.prediction import prediction_set
    >>> y_proba = [[0.70, 0.25, 0.05], [0.40, 0.35, 0.25]]
    >>> prediction_set(y_proba, coverage=0.9)
    array([[ True,  True, False],
           [ True,  True,  True]])
    >>> prediction_set(y_proba, coverage=[0.5, 0.9]).sum(axis=1)  # sizes
    array([[1, 2],
           [2, 3]])
    """
    return mass_sets(check_proba(y_proba), check_coverage(coverage))
