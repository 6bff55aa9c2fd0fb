"""Coverage at each row, estimated by a classifier, and the conditional coverage error."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import has_fit_parameter

from skuq._compat import is_classifying
from skuq._fitting.cross_fit import cross_fit, resolve_cv
from skuq._numeric import weighted_mean
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_option,
    check_random_state,
    check_single_coverage,
    effective_rows,
)
from skuq.metrics._inputs import check_covered, counted
from skuq.metrics._spec import metric

NORMS = ("l2", "l1")


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
    cost is one fit of the classifier per fold.

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
    splitter, classifier = check_estimation(coverage, classifier, cv, norm, random_state)
    inside, features, weight = check_covered(y_true, y_pred, X, sample_weight, coverage, allow_nan=True)
    n = effective_rows(weight, inside.size)
    if isinstance(cv, numbers.Integral) and inside.size < int(cv):
        raise ValueError(
            f"`y_true` must have at least one row per fold, got {inside.size} rows of positive weight for "
            f"{cv} folds. Pass more rows or fewer folds."
        )
    estimated = out_of_fold_coverage(inside, features, weight, classifier, splitter)
    over = excess_risk(inside, np.maximum(estimated, coverage), coverage, norm)
    under = excess_risk(inside, np.minimum(estimated, coverage), coverage, norm)
    parts = weighted_mean(over, weight), weighted_mean(under, weight)
    variance = weighted_mean((over + under - sum(parts)) ** 2, weight)
    of_all_rows = np.full(np.shape(y_true)[0], np.nan)
    of_all_rows[counted(np.arange(of_all_rows.size), sample_weight)] = estimated
    return ConditionalCoverageEstimate(
        error=sum(parts),
        standard_error=math.sqrt(variance / (n - 1)) if n > 1 else math.nan,
        over_coverage=parts[0],
        under_coverage=parts[1],
        conditional_coverage=of_all_rows,
    )


def check_estimation(
    coverage: Any, classifier: Any, cv: Any, norm: str, random_state: int | np.random.RandomState | None
) -> tuple[Any, Any]:
    check_single_coverage(coverage)
    check_option(norm, "norm", NORMS)
    rng = check_random_state(random_state)
    return resolve_cv(cv, rng), _check_classifier(classifier, rng)


def excess_risk(inside: FloatArray, estimated: FloatArray, coverage: float, norm: str) -> FloatArray:
    if norm == "l2":
        return np.asarray((coverage - inside) ** 2 - (estimated - inside) ** 2)
    return np.asarray(np.sign(estimated - coverage) * (inside - coverage))


class CoverageClassifier(BaseEstimator):
    """Classifier that predicts whether an interval contains its target.

    If all labels are equal, the prediction is constant.
    """

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: FloatArray, inside: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        self.fitted_ = None if inside.min() == inside.max() else clone(self.classifier)
        self.label_ = float(inside[0])
        if self.fitted_ is not None:
            params = {} if sample_weight is None else {"sample_weight": sample_weight}
            self.fitted_.fit(X, inside.astype(np.intp), **params)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        if self.fitted_ is None:
            return np.full(len(X), self.label_)
        return np.asarray(self.fitted_.predict_proba(X)[:, 1], dtype=np.float64)


def out_of_fold_coverage(
    inside: FloatArray, features: FloatArray, weight: FloatArray | None, classifier: Any, splitter: Any
) -> FloatArray:
    if weight is not None and not has_fit_parameter(classifier, "sample_weight"):
        raise TypeError(
            "`classifier` must have a fit method with `sample_weight` if weights are given, got "
            f"{type(classifier).__name__}. Pass a classifier that accepts weights, or pass no weights."
        )
    fit = cross_fit(
        CoverageClassifier(classifier),
        features,
        inside,
        cv=splitter,
        params={} if weight is None else {"sample_weight": weight},
        predict=CoverageClassifier.predict,
    )
    rows, estimated = fit.tested()
    order = np.argsort(rows, kind="stable")
    if not np.array_equal(rows[order], np.arange(inside.size)):
        raise ValueError(
            f"`cv` must test every row exactly once, got {rows.size} test rows that contain "
            f"{np.unique(rows).size} of the {inside.size} rows. Use a partition such as KFold or GroupKFold."
        )
    return np.asarray(estimated[order])


def _check_classifier(classifier: Any, rng: np.random.RandomState) -> Any:
    if classifier is None:
        seed = int(rng.randint(2**31 - 1))
        # Without this option, more than 10 000 rows would activate early stopping, which holds out rows.
        return HistGradientBoostingClassifier(
            max_iter=50, learning_rate=0.05, min_samples_leaf=40, early_stopping=False, random_state=seed
        )
    if isinstance(classifier, type) or not is_classifying(classifier):
        raise TypeError(f"`classifier` must be a scikit-learn classifier, got {classifier!r}.")
    if not hasattr(classifier, "predict_proba"):
        raise TypeError(
            f"`classifier` must have `predict_proba`, got {classifier!r}. Wrap it in a "
            "`CalibratedClassifierCV`."
        )
    return classifier


@metric(
    "ert",
    title="Conditional coverage error",
    direction="lower",
    optimum=0.0,
    needs="interval",
    small_sample=True,
    source="Braun et al. 2025 (excess risk of the target coverage, ERT)",
    meaning="the squared difference between coverage and nominal coverage at a row is {value} on average",
    kernel=check_estimation,
)
def conditional_coverage_error(
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
) -> float:
    r"""Return the conditional coverage error (ERT): the mean gap between nominal coverage and coverage at X.

    The smaller the better, the minimum is zero in expectation. A classifier estimates the coverage at X. The
    error is near 0 if the intervals have nominal coverage everywhere in X. It is larger if the coverage is
    high in some regions of X and low in others, even if the average coverage is nominal. The error is a
    difference of two losses: the loss of the nominal coverage as a constant prediction, minus the loss of the
    out-of-fold predictions of the classifier. The metric is not proper, because it ignores the width of the
    intervals. For example, suppose that a random 90 % of the intervals are infinite and that all other
    intervals miss their targets. The error is then 0 at a nominal coverage of 90 % (see the example). Use the
    scorer of this metric for monitoring, and select models by `crps_loss` or `interval_score_loss`.

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
        Controls the folds and the default classifier. Pass an int to get the same folds in every call. Models
        are then compared on the same folds.

    Returns
    -------
    error : float
        At most ``max(coverage, 1 - coverage) ** 2`` for "l2", and at most ``max(coverage, 1 - coverage)`` for
        "l1". If the coverage is nominal everywhere, the error is about 0 and may be slightly negative.

    Raises
    ------
    TypeError
        If X is not numeric, or if the classifier has no ``predict_proba``.
    ValueError
        If there are fewer rows than folds, if the sum of the weights is below the number of rows, or if X
        contains a NaN that the classifier does not allow.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    skuq.evaluation.conditional_coverage_estimate : The error, its two parts and the coverage at each row.
    conditional_coverage : Coverage in given groups or bins.
    worst_slab_coverage : Coverage in the worst part of the rows along one direction.

    Notes
    -----
    The formulas are given in `~skuq.evaluation.conditional_coverage_estimate`. The classifier must be able to
    represent the coverage. For example, a logistic regression does not find low coverage at both ends of a
    feature.

    References
    ----------
    .. [1] Braun, Holzmueller, Jordan and Bach (2025), Conditional coverage diagnostics for conformal
       prediction. https://doi.org/10.48550/arXiv.2512.11779

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import conditional_coverage_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(2000, 1))
    >>> scale = 0.5 + x[:, 0]
    >>> y = scale * rng.normal(size=2000)
    >>> truth, one_width = Normal(np.zeros(2000), scale), Normal(np.zeros(2000), np.full(2000, np.std(y)))
    >>> round(conditional_coverage_error(y, one_width, x, random_state=0), 3)
    0.004
    >>> round(conditional_coverage_error(y, truth, x, random_state=0), 3)
    -0.003

    Useless intervals have no error:

    >>> useless = np.where(rng.random((2000, 1)) < 0.9, [-np.inf, np.inf], 99.0)
    >>> round(conditional_coverage_error(y, useless, x, random_state=0), 3)
    -0.002
    """
    estimate = conditional_coverage_estimate(
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
    return estimate.error
