"""Estimate of the coverage at each row by a classifier, and the error of conditional coverage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._numeric import weighted_mean
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_sample_weight
from skuq.metrics._conditional_coverage import coverage_risk


@dataclass(frozen=True, eq=False)
class ConditionalCoverageEstimate:
    """Estimated coverage at each row and its error; returned by `conditional_coverage_estimate`.

    Parameters
    ----------
    error : float
        Conditional coverage error. It is the sum of the two parts.
    standard_error : float
        Standard error of ``error``. It does not include the variation between random choices of the folds.
    over_coverage : float
        Part of the error from rows with an estimated coverage above nominal.
    under_coverage : float
        Part of the error from rows with an estimated coverage below nominal.
    conditional_coverage : ndarray of shape (n,)
        Out-of-fold estimate of the probability that the interval of a row contains its target. NaN for rows
        of weight zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import conditional_coverage_estimate
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(2000, 1))
    >>> y = (0.5 + x[:, 0]) * rng.normal(size=2000)
    >>> dist = Normal(0 * y, np.full(2000, np.std(y)))
    >>> estimate = conditional_coverage_estimate(y, dist, x, random_state=0)
    >>> estimate.error == estimate.over_coverage + estimate.under_coverage
    True
    """

    error: float
    standard_error: float
    over_coverage: float
    under_coverage: float
    conditional_coverage: FloatArray


def conditional_coverage_estimate(
    y_true: ArrayLike,
    y_pred: Any,
    X: Any,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    classifier: Any = None,
    cv: Any = 5,
    norm: str = "l2",
    random_state: int | np.random.RandomState | None = None,
) -> ConditionalCoverageEstimate:
    r"""Return the coverage at each row, estimated by a classifier, and the conditional coverage error.

    A classifier predicts from X whether an interval contains its target. Its out-of-fold probabilities are
    the estimated coverage at each row. The conditional coverage error is the loss of the nominal coverage as
    a constant prediction, minus the loss of these probabilities. The function also returns the standard error
    of this error. The error is the sum of two parts: one from rows whose coverage is too high, and one from
    rows whose coverage is too low.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds, which may be infinite.
    X : array-like of shape (n, d)
        Numeric features on which the coverage may depend. These features may differ from the features of the
        model. NaN is allowed if the classifier allows it.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. The classifier must accept weights. A row and its repetitions are
        in the same fold.
    coverage : float, default=0.9
        Nominal coverage of the central interval. If `y_pred` holds bounds, they must have this coverage.
    classifier : classifier, default=None
        Classifier with ``predict_proba``, which is cloned for each fold. None means a
        `HistGradientBoostingClassifier` with 50 trees, learning rate 0.05 and at least 40 rows per leaf.
        These parameters overfit less than the defaults of scikit-learn.
    cv : int, splitter or iterable of (train, test), default=5
        Folds of the rows with positive weight. Each row must be in one test fold. An int k means
        ``KFold(k, shuffle=True)``.
    norm : {"l2", "l1"}, default="l2"
        Mean squared ("l2") or mean absolute ("l1") difference between the coverage at X and the nominal
        coverage.
    random_state : int, RandomState instance or None, default=None
        Controls the folds and the default classifier. Pass an int for reproducible output across calls.

    Returns
    -------
    estimate : ConditionalCoverageEstimate
        Estimate with ``error``, ``standard_error``, ``over_coverage``, ``under_coverage`` and
        ``conditional_coverage``.

    Raises
    ------
    TypeError
        If X is not numeric, or if the classifier has no ``predict_proba``.
    ValueError
        If there are fewer rows than folds, if the sum of the weights is below the number of rows, or if X
        contains a NaN that the classifier does not allow.

    See Also
    --------
    skuq.metrics.conditional_coverage_error : The same error as a metric.
    skuq.metrics.conditional_coverage : Coverage in given groups or bins.
    skuq.metrics.worst_slab_coverage : Coverage in the worst part of the rows along one direction.

    Notes
    -----
    Let :math:`Z_i = 1\{l_i \le y_i \le u_i\}`, let c be the nominal coverage, and let h be the out-of-fold
    prediction of the classifier. The excess risk of the target coverage (ERT) [1]_ is

    .. math::

        L_2 &= \frac1n \sum_i (c - Z_i)^2 - (h_i - Z_i)^2 \\
        L_1 &= \frac1n \sum_i \operatorname{sign}(h_i - c) (Z_i - c)

    If h is the true coverage p at each row, :math:`L_2` estimates the mean of :math:`(p - c)^2`, and
    :math:`L_1` estimates the mean of :math:`|p - c|`. For any other h, both errors are smaller in
    expectation. ``over_coverage`` is the error with :math:`\max(h, c)` instead of h, and ``under_coverage``
    is the error with :math:`\min(h, c)`. The standard error is computed from the n terms of the sum. It does
    not include the variation between random choices of the folds. If the intervals contain all training
    targets of a fold, h is 1 in this fold. If the intervals contain no training target of a fold, h is 0. The
    cost is one fit of the classifier per fold. For 2000 rows and one feature, all folds together take about
    0.3 s.

    References
    ----------
    .. [1] Braun, Holzmueller, Jordan and Bach (2025), Conditional coverage diagnostics for conformal
       prediction. https://doi.org/10.48550/arXiv.2512.11779

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import conditional_coverage_estimate
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(2000, 1))
    >>> y = (0.5 + x[:, 0]) * rng.normal(size=2000)
    >>> one_width = Normal(np.zeros(2000), np.full(2000, np.std(y)))  # ignores that the noise grows with x
    >>> estimate = conditional_coverage_estimate(y, one_width, x, random_state=0)
    >>> round(estimate.error, 3), round(estimate.standard_error, 3)
    (0.004, 0.001)

    Most rows with a low estimated coverage have a large x:

    >>> round(float(np.median(x[estimate.conditional_coverage < 0.85])), 2)
    0.87
    """
    risk = coverage_risk(
        y_true,
        y_pred,
        X,
        sample_weight=sample_weight,
        coverage=coverage,
        classifier=classifier,
        cv=cv,
        norm=norm,
        random_state=random_state,
    )
    over, under = risk.parts
    return ConditionalCoverageEstimate(
        error=sum(risk.parts),
        standard_error=standard_error(risk.over + risk.under, risk.weight, risk.n),
        over_coverage=over,
        under_coverage=under,
        conditional_coverage=_of_all_rows(risk.estimated, sample_weight, np.shape(y_true)[0]),
    )


def standard_error(values: FloatArray, weight: FloatArray | None, n: float) -> float:
    if n <= 1:
        return math.nan
    variance = weighted_mean((values - weighted_mean(values, weight)) ** 2, weight)
    return math.sqrt(variance / (n - 1))


def _of_all_rows(values: FloatArray, sample_weight: ArrayLike | None, n: int) -> FloatArray:
    weight = check_sample_weight(sample_weight, n)
    if weight is None:
        return values
    all_rows = np.full(n, np.nan)
    all_rows[weight > 0] = values
    return all_rows
