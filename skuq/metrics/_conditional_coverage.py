"""Conditional coverage error: how much better estimates of the coverage predict than the nominal one."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import has_fit_parameter

from skuq._sklearn_compat import is_classifying
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_option,
    check_random_state,
    check_sample_weight,
    effective_rows,
)
from skuq.metrics._inputs import check_covered
from skuq.metrics._kernels import weighted_mean
from skuq.metrics._spec import metric
from skuq.prediction._cross_fit import cross_fit, resolve_cv

NORMS = ("l2", "l1")


@dataclass(frozen=True, eq=False)
class ConditionalCoverageEstimate:
    """Estimated coverage at each row and its error; made by `conditional_coverage_estimate`.

    Parameters
    ----------
    error : float
        Conditional coverage error, the sum of the two parts.
    standard_error : float
        Standard error of ``error``, given the classifiers.
    over_coverage : float
        Part of the error from rows whose estimated coverage is above the nominal one.
    under_coverage : float
        Part of the error from rows whose estimated coverage is below the nominal one.
    conditional_coverage : ndarray of shape (n,)
        Out-of-fold estimate of the probability that the interval of each row contains its target. NaN for
        rows of weight zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import conditional_coverage_estimate
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(2000, 1))
    >>> y = (0.5 + x[:, 0]) * rng.normal(size=2000)
    >>> estimate = conditional_coverage_estimate(y, (0 * y, np.full(2000, np.std(y))), x, random_state=0)
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
    r"""Coverage at each row, estimated by a classifier, and how far it is from nominal.

    For which rows do the intervals have their nominal coverage? A classifier is trained on some folds to
    predict from X whether an interval contains its target, and predicts for the others. What its predictions
    explain better than the nominal coverage does is the conditional coverage error, of which this function
    also returns the standard error and the parts due to rows covered too often and too rarely.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds, which may be infinite.
    X : array-like of shape (n, d)
        Numeric features of each row, by which the coverage may differ: those of the model, or others. NaN
        where the classifier takes it.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. The classifier must take weights; a row and its repetitions are in
        one fold.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Bounds must have been made for it.
    classifier : classifier, default=None
        Any with ``predict_proba``; cloned for each fold. None is a `HistGradientBoostingClassifier` of 50
        trees, learning rate 0.05 and at least 40 rows a leaf, which overfits less than its defaults.
    cv : int, splitter or iterable of (train, test), default=5
        Folds in which each row is tested once, of the rows with positive weight. An int k is
        ``KFold(k, shuffle=True)``.
    norm : {"l2", "l1"}, default="l2"
        Mean squared or mean absolute difference of the coverage from nominal.
    random_state : int, RandomState instance or None, default=None
        Controls the randomness of folds and of the default classifier. Pass an int for reproducible output
        across calls.

    Returns
    -------
    estimate : ConditionalCoverageEstimate
        With ``error``, ``standard_error``, ``over_coverage``, ``under_coverage`` and
        ``conditional_coverage``.

    Raises
    ------
    TypeError
        If X is not numeric, or the classifier has no ``predict_proba``.
    ValueError
        If there are fewer rows than folds, the weights sum to less than the number of rows, or X has a NaN
        that the classifier does not take.

    See Also
    --------
    conditional_coverage_error : The error alone.
    conditional_coverage : Coverage in groups or bins that are given.
    worst_slab_coverage : Coverage in the worst part of the rows along one direction.

    Notes
    -----
    With :math:`Z_i = 1\{l_i \le y_i \le u_i\}`, c the nominal coverage and h the out-of-fold prediction of
    the classifier, the excess risk of the target coverage (ERT) [1]_ is

    .. math::

        L_2 &= \frac1n \sum_i (c - Z_i)^2 - (h_i - Z_i)^2 \\
        L_1 &= \frac1n \sum_i \operatorname{sign}(h_i - c) (Z_i - c)

    If h is the true conditional coverage p, they estimate the means of :math:`(p - c)^2` and of
    :math:`|p - c|`; for any other h they are smaller in expectation. The parts have :math:`\max(h, c)` and
    :math:`\min(h, c)` in place of h. The standard error is that of the mean of the n terms, and does not
    include the variation from one set of folds to another. Where all training labels of a fold are equal, h
    is their value. As many fits of the classifier as there are folds: about 0.3 s for 2000 rows of one
    feature.

    References
    ----------
    .. [1] Braun, Holzmueller, Jordan and Bach (2025), Conditional coverage diagnostics for conformal
       prediction. https://doi.org/10.48550/arXiv.2512.11779

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import conditional_coverage_estimate
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(2000, 1))
    >>> y = (0.5 + x[:, 0]) * rng.normal(size=2000)
    >>> one_width = (np.zeros(2000), np.full(2000, np.std(y)))  # misses that the noise grows with x
    >>> estimate = conditional_coverage_estimate(y, one_width, x, random_state=0)
    >>> round(estimate.error, 3), round(estimate.standard_error, 3)
    (0.004, 0.001)

    Where the coverage is estimated as too low, most rows have a large x:

    >>> round(float(np.median(x[estimate.conditional_coverage < 0.85])), 2)
    0.87
    """
    check_option(norm, "norm", NORMS)
    rng = check_random_state(random_state)
    splitter = resolve_cv(cv, rng)
    classifier = _check_classifier(classifier, rng)
    inside, features, weight = check_covered(y_true, y_pred, X, sample_weight, coverage, allow_nan=True)
    n = effective_rows(weight, inside.size)
    if isinstance(cv, numbers.Integral) and inside.size < int(cv):
        raise ValueError(
            f"`y_true` must have a row for each fold, got {inside.size} rows of positive weight for {cv} "
            "folds. Pass more rows, or fewer folds."
        )
    estimated = out_of_fold_coverage(inside, features, weight, classifier, splitter)
    over = excess_risk(inside, np.maximum(estimated, coverage), coverage, norm)
    under = excess_risk(inside, np.minimum(estimated, coverage), coverage, norm)
    parts = weighted_mean(over, weight), weighted_mean(under, weight)
    return ConditionalCoverageEstimate(
        error=sum(parts),
        standard_error=standard_error(over + under, weight, n),
        over_coverage=parts[0],
        under_coverage=parts[1],
        conditional_coverage=_of_all_rows(estimated, sample_weight, np.shape(y_true)[0]),
    )


def excess_risk(inside: FloatArray, estimated: FloatArray, coverage: float, norm: str) -> FloatArray:
    """Return the risk of the nominal coverage less that of the estimated one, for each row."""
    if norm == "l2":
        return np.asarray((coverage - inside) ** 2 - (estimated - inside) ** 2)
    return np.asarray(np.sign(estimated - coverage) * (inside - coverage))


def standard_error(values: FloatArray, weight: FloatArray | None, n: float) -> float:
    """Return the standard error of a mean over n rows, with weights that count repetitions."""
    if n <= 1:
        return math.nan
    variance = weighted_mean((values - weighted_mean(values, weight)) ** 2, weight)
    return math.sqrt(variance / (n - 1))


class CoverageClassifier(BaseEstimator):
    """The probability that an interval contains its target, where all labels may be equal.

    Parameters
    ----------
    classifier : classifier
        Cloned and trained where there are labels of both kinds.
    """

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: FloatArray, inside: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        """Fit the classifier, or keep the one label that there is."""
        self.fitted_ = None if inside.min() == inside.max() else clone(self.classifier)
        self.label_ = float(inside[0])
        if self.fitted_ is not None:
            params = {} if sample_weight is None else {"sample_weight": sample_weight}
            self.fitted_.fit(X, inside.astype(np.intp), **params)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the probability of each row."""
        if self.fitted_ is None:
            return np.full(len(X), self.label_)
        return np.asarray(self.fitted_.predict_proba(X)[:, 1], dtype=np.float64)


def out_of_fold_coverage(
    inside: FloatArray, features: FloatArray, weight: FloatArray | None, classifier: Any, splitter: Any
) -> FloatArray:
    """Return the probability that each row is covered, by the classifier of the folds without the row."""
    if weight is not None and not has_fit_parameter(classifier, "sample_weight"):
        raise TypeError(
            "`classifier` must take `sample_weight` in its fit, as weights are given, but "
            f"{type(classifier).__name__} does not. Pass one that does, or no weights."
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
            f"`cv` must test every row exactly once, got {np.unique(rows).size} of {inside.size} rows in "
            f"{rows.size} tests. Use a partition such as KFold or GroupKFold."
        )
    return np.asarray(estimated[order])


def _check_classifier(classifier: Any, rng: np.random.RandomState) -> Any:
    """Return the classifier, the default one where it is None."""
    if classifier is None:
        seed = int(rng.randint(2**31 - 1))
        # Early stopping, which is on above 10 000 rows, would hold out rows and change the number of trees.
        return HistGradientBoostingClassifier(
            max_iter=50, learning_rate=0.05, min_samples_leaf=40, early_stopping=False, random_state=seed
        )
    if isinstance(classifier, type) or not is_classifying(classifier):
        raise TypeError(f"`classifier` must be a classifier of scikit-learn's kind, got {classifier!r}.")
    if not hasattr(classifier, "predict_proba"):
        raise TypeError(
            f"`classifier` must have `predict_proba`, got {classifier!r}. Wrap it in a "
            "`CalibratedClassifierCV`."
        )
    return classifier


def _of_all_rows(values: FloatArray, sample_weight: ArrayLike | None, n: int) -> FloatArray:
    """Return values of the rows with positive weight among all n rows, NaN for the others."""
    weight = check_sample_weight(sample_weight, n)
    if weight is None:
        return values
    all_rows = np.full(n, np.nan)
    all_rows[weight > 0] = values
    return all_rows


@metric(
    "ert",
    title="Conditional coverage error",
    units=0,
    direction="lower",
    optimum=0.0,
    needs="interval",
    proper=False,
    random=True,
    needs_X=True,
    small_sample=True,
    source="Braun et al. 2025 (excess risk of the target coverage, ERT)",
    meaning="the squared difference of the coverage at a row from nominal is {value} on average",
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
    r"""Mean difference of the coverage at each row from the nominal one, found by a classifier (ERT).

    Do the intervals have their nominal coverage everywhere in X, or do rows covered too often make up for
    others? The excess risk of the target coverage is how much better a classifier of X predicts, out of fold,
    whether an interval contains its target than the nominal coverage does. It ignores width, so it is not
    proper: intervals over the whole line for nine random rows in ten, and none for the tenth, have no error
    (see the example). Its scorer is for monitoring; select by `crps_loss` or `interval_score_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds lower and upper bounds, which may be infinite.
    X : array-like of shape (n, d)
        Numeric features of each row, by which the coverage may differ: those of the model, or others. NaN
        where the classifier takes it.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. The classifier must take weights; a row and its repetitions are in
        one fold.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Bounds must have been made for it.
    classifier : classifier, default=None
        Any with ``predict_proba``; cloned for each fold. None is a `HistGradientBoostingClassifier` of 50
        trees, learning rate 0.05 and at least 40 rows a leaf, which overfits less than its defaults.
    cv : int, splitter or iterable of (train, test), default=5
        Folds in which each row is tested once, of the rows with positive weight. An int k is
        ``KFold(k, shuffle=True)``.
    norm : {"l2", "l1"}, default="l2"
        Mean squared or mean absolute difference of the coverage from nominal.
    random_state : int, RandomState instance or None, default=None
        Controls the randomness of folds and of the default classifier. Pass an int to compare models on the
        same folds, and for reproducible output across calls.

    Returns
    -------
    error : float
        At most ``max(coverage, 1 - coverage) ** 2``, or without the square for "l1"; lower is better. An
        estimate of 0 for nominal coverage everywhere, slightly negative where the classifier finds nothing.

    Raises
    ------
    TypeError
        If X is not numeric, or the classifier has no ``predict_proba``.
    ValueError
        If there are fewer rows than folds, the weights sum to less than the number of rows, or X has a NaN
        that the classifier does not take.

    Warns
    -----
    SmallSampleWarning
        Below 500 rows.

    See Also
    --------
    conditional_coverage_estimate : With the standard error, the parts and the coverage at each row.
    conditional_coverage : Coverage in groups or bins that are given.
    worst_slab_coverage : Coverage in the worst part of the rows along one direction.

    Notes
    -----
    `conditional_coverage_estimate` has the formulas. A classifier that cannot represent the coverage finds
    no error: a logistic one does not find that both ends of a feature are covered too rarely.

    References
    ----------
    .. [1] Braun, Holzmueller, Jordan and Bach (2025), Conditional coverage diagnostics for conformal
       prediction. https://doi.org/10.48550/arXiv.2512.11779

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import conditional_coverage_error
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(2000, 1))
    >>> scale = 0.5 + x[:, 0]
    >>> y = scale * rng.normal(size=2000)
    >>> truth, one_width = (np.zeros(2000), scale), (np.zeros(2000), np.full(2000, np.std(y)))
    >>> round(conditional_coverage_error(y, one_width, x, random_state=0), 3)
    0.004
    >>> round(conditional_coverage_error(y, truth, x, random_state=0), 3)
    -0.003

    No error, and of no use:

    >>> useless = np.where(rng.random((2000, 1)) < 0.9, [-np.inf, np.inf], 99.0)
    >>> round(conditional_coverage_error(y, useless, x, random_state=0), 3)
    -0.002
    """
    return conditional_coverage_estimate(
        y_true,
        y_pred,
        X,
        sample_weight=sample_weight,
        coverage=coverage,
        classifier=classifier,
        cv=cv,
        norm=norm,
        random_state=random_state,
    ).error
