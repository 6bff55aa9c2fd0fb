"""Conditional coverage error: the loss of the nominal coverage minus the loss of an estimated coverage."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple, Self

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
from skuq.metrics._inputs import check_covered
from skuq.metrics._spec import metric

NORMS = ("l2", "l1")


class CoverageRisk(NamedTuple):
    """Estimated coverage of the rows with positive weight, and both parts of the error."""

    estimated: FloatArray
    over: FloatArray
    under: FloatArray
    weight: FloatArray | None
    n: float

    @property
    def parts(self) -> tuple[float, float]:
        return weighted_mean(self.over, self.weight), weighted_mean(self.under, self.weight)


def check_estimation(
    *,
    coverage: Any = DEFAULT_COVERAGE,
    classifier: Any = None,
    cv: Any = 5,
    norm: str = "l2",
    random_state: int | np.random.RandomState | None = None,
) -> tuple[Any, Any]:
    check_single_coverage(coverage)
    check_option(norm, "norm", NORMS)
    rng = check_random_state(random_state)
    return resolve_cv(cv, rng), _check_classifier(classifier, rng)


def coverage_risk(
    y_true: ArrayLike,
    y_pred: Any,
    X: Any,
    *,
    sample_weight: ArrayLike | None,
    coverage: float,
    classifier: Any,
    cv: Any,
    norm: str,
    random_state: int | np.random.RandomState | None,
) -> CoverageRisk:
    splitter, classifier = check_estimation(
        coverage=coverage, classifier=classifier, cv=cv, norm=norm, random_state=random_state
    )
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
    return CoverageRisk(estimated, over, under, weight, n)


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
    return sum(risk.parts)
