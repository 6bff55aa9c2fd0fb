"""Metrics of prediction sets of classes: coverage, size and probability mass."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, BoolArray, FloatArray, IntArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_option,
    check_sample_weight,
    check_single_coverage,
)
from skuq.metrics._class_scores import (
    CheckedClasses,
    ClassForecast,
    check_class_forecast,
    check_class_target,
    check_classes,
    claimed_mass,
    is_in_set,
    sets_of,
)
from skuq.metrics._inputs import rows_with_weight
from skuq.metrics._reliability import read_groups, table_of_groups
from skuq.metrics._spec import Means, metric, value_of

BY = ("class", "size")


def set_coverage_rows(codes: IntArray, forecast: ClassForecast, *, coverage: float) -> FloatArray:
    return is_in_set(codes, sets_of(forecast, coverage))


def observed_set_coverage(coverage: float) -> Means:
    return Means(partial(set_coverage_rows, coverage=check_single_coverage(coverage)))


@metric(
    "set_coverage",
    title="Set coverage",
    optimum_of_sets="coverage",
    bounds=(0.0, 1.0),
    needs="set",
    source="Kompa et al. 2021, section 3.2",
    meaning="{percent} of the labels are in their set",
    kernel=observed_set_coverage,
)
def set_coverage_score(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
) -> float:
    r"""Return the share of labels that are in their prediction set.

    Neither larger nor smaller values are better. For sets that are formed from probabilities, compare the
    share with the probability mass of the sets, as `set_coverage_error` does. Do not compare the share with
    `coverage`: each set includes the class at which the sum of the probabilities crosses the coverage, so the
    90 % sets of an accurate calibrated classifier contain up to 100 % of the labels. For conformal sets,
    compare the share with `coverage`. The metric is not proper, because sets with all classes contain every
    label.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. Class labels.
    y_pred : array-like of shape (n, K)
        Forecast of every target. Prediction sets as a boolean array, or class probabilities. The metric forms
        prediction sets from class probabilities.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    labels : array-like of shape (K,), default=None
        Class of each column, such as ``estimator.classes_``. None means the sorted classes of `y_true`, which
        must then contain all classes. A target that is not among the labels is in no set.
    coverage : float, default=0.9
        Nominal coverage of the prediction set. Ignored if `y_pred` holds sets.

    Returns
    -------
    share : float
        In [0, 1].

    Raises
    ------
    ValueError
        If probabilities are negative or do not sum to 1 within 1e-6.

    See Also
    --------
    set_coverage_error : Distance between the share and the probability mass of the sets.
    conditional_set_coverage : Coverage by class, set size or group.
    mean_set_size : The size of the sets.

    References
    ----------
    .. [1] Kompa et al. (2021), Empirical frequentist coverage of deep learning uncertainty quantification
       procedures. https://doi.org/10.3390/e23121608

    Examples
    --------
    >>> from skuq.metrics import set_coverage_score
    >>> sets = [[True, False, False], [True, True, False], [False, False, True], [True, True, True]]
    >>> set_coverage_score(["a", "b", "a", "c"], sets)
    0.75
    >>> set_coverage_score([0, 1], [[0.7, 0.2, 0.1], [0.95, 0.04, 0.01]], labels=[0, 1, 2])
    0.5
    """
    given = check_classes(y_true, y_pred, labels, sample_weight)
    return value_of(observed_set_coverage(coverage), *given[:3])


def set_size_rows(codes: IntArray | None, forecast: ClassForecast, *, coverage: float) -> FloatArray:
    return np.asarray(sets_of(forecast, coverage).sum(axis=1), dtype=np.float64)


def mean_size(coverage: float) -> Means:
    return Means(partial(set_size_rows, coverage=check_single_coverage(coverage)))


@metric(
    "set_size",
    title="Mean set size",
    bounds=(0.0, np.inf),
    needs="set",
    source="Kompa et al. 2021, section 3.2",
    meaning="the sets contain {value} classes on average",
    kernel=mean_size,
)
def mean_set_size(
    y_true: ArrayLike | None,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
) -> float:
    r"""Return the mean number of classes in the prediction sets.

    The smaller the better at equal coverage, minimum is zero. The size depends only on the forecasts, so
    report it together with the coverage. The metric is not proper: empty sets are smallest. The predefined
    scorer returns the size itself, so a search with this scorer selects large sets.
    ``make_scorer("set_size", greater_is_better=False)`` makes a scorer that prefers small sets.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Observed targets. Class labels. They are validated but not used. The argument exists because all
        metrics have it.
    y_pred : array-like of shape (n, K)
        Forecast of every target. Prediction sets as a boolean array, or class probabilities. The metric forms
        prediction sets from class probabilities.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    labels : array-like of shape (K,), default=None
        Class of each column. Not used. The argument exists because all classification metrics have it.
    coverage : float, default=0.9
        Nominal coverage of the prediction set. Ignored if `y_pred` holds sets.

    Returns
    -------
    size : float
        In [0, K].

    See Also
    --------
    set_coverage_score : The share of labels in their set.

    References
    ----------
    .. [1] Kompa et al. (2021), Empirical frequentist coverage of deep learning uncertainty quantification
       procedures. https://doi.org/10.3390/e23121608

    Examples
    --------
    >>> from skuq.metrics import mean_set_size
    >>> mean_set_size(None, [[True, False, False], [True, True, True]])
    2.0
    >>> mean_set_size(None, [[0.7, 0.2, 0.1], [0.95, 0.04, 0.01]])
    1.5
    """
    forecast = check_class_forecast(y_pred)
    if y_true is not None:
        check_class_target(y_true, len(forecast))
    weight = check_sample_weight(sample_weight, len(forecast))
    return value_of(mean_size(coverage), None, *rows_with_weight(weight, forecast))


def set_mass_rows(
    codes: IntArray, proba: ClassForecast, *, coverage: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return whether each label is in its set, the probability of this event, and its variance."""
    sets = sets_of(proba, coverage)
    mass = claimed_mass(proba, sets)
    return is_in_set(codes, sets), mass, mass * (1 - mass)


def set_excess_rows(codes: IntArray, proba: ClassForecast, *, coverage: float) -> FloatArray:
    inside, mass, _ = set_mass_rows(codes, proba, coverage=coverage)
    return inside - mass


def set_coverage_excess(coverage: float, signed: bool) -> Means:
    rows = partial(set_excess_rows, coverage=check_single_coverage(coverage))
    if check_option(signed, "signed", (False, True)):
        return Means(rows)
    return Means(rows, lambda means: np.abs(means[..., 0]))


@metric(
    "set_coverage_error",
    title="Set coverage error",
    direction="lower",
    optimum=0.0,
    bounds=(-1.0, 1.0),
    needs="proba",
    small_sample=True,
    source="Kompa et al. 2021, section 3.2; compared with the probability of the sets",
    meaning="the coverage of the sets differs from their predicted probability by {value}",
    kernel=set_coverage_excess,
)
def set_coverage_error(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    signed: bool = False,
) -> float:
    r"""Return the absolute difference between the coverage of prediction sets and their probability mass.

    The smaller the better, minimum is zero. The probability mass of a set is the sum of the probabilities of
    its classes. For a calibrated forecast, the coverage of the sets equals their mean probability mass in
    expectation. The nominal coverage is not a suitable reference, because the coverage of prediction sets is
    above nominal even for a calibrated forecast. The metric is not proper, because it ignores the size of the
    sets. For example, the error is near 0 if the forecast of every row consists of the overall shares of the
    classes. Select models by the log loss or the Brier score. The error describes the probabilities of
    ``predict_proba``. For a `~skuq.conformal.ConformalClassifier`, the scorer therefore evaluates the
    probabilities of the wrapped classifier, not the conformal sets.

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
        must then contain all classes. A target that is not among the labels is in no set.
    coverage : float, default=0.9
        Nominal coverage of the prediction set.
    signed : bool, default=False
        Whether to return the difference with its sign. A negative difference means overconfidence.

    Returns
    -------
    error : float
        In [0, 1], or in [-1, 1] if ``signed=True``. For a calibrated forecast, the standard error is
        ``sqrt(mean(mass * (1 - mass)) / n)``, where ``mass`` is the probability mass of each set.

    Raises
    ------
    ValueError
        If probabilities are negative or do not sum to 1 within 1e-6, or if sets are given.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    set_coverage_score : Coverage of the sets.
    expected_calibration_error : The calibration error of the probabilities.

    Notes
    -----
    .. math:: \left| \frac1n \sum_i \left( 1\{y_i \in S_i\} - \sum_{k \in S_i} p_{ik} \right) \right|

    References
    ----------
    .. [1] Kompa et al. (2021), Empirical frequentist coverage of deep learning uncertainty quantification
       procedures. https://doi.org/10.3390/e23121608

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import set_coverage_error, set_coverage_score
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.dirichlet(np.full(5, 0.3), size=2000)
    >>> y = (rng.random((2000, 1)) > proba.cumsum(axis=1)).sum(axis=1)  # a calibrated forecast
    >>> round(set_coverage_score(y, proba), 3), round(set_coverage_error(y, proba), 3)
    (0.961, 0.004)
    >>> overconfident = proba**2 / (proba**2).sum(axis=1, keepdims=True)
    >>> round(set_coverage_error(y, overconfident, signed=True), 3)
    -0.104
    """
    given = check_classes(y_true, y_pred, labels, sample_weight, needs_proba=True)
    return value_of(set_coverage_excess(coverage, signed), *given[:3])


def conditional_set_coverage(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    coverage: float = DEFAULT_COVERAGE,
    by: str = "class",
    groups: ArrayLike | None = None,
) -> pd.DataFrame:
    r"""Return coverage and size of prediction sets by class, by set size, or by groups of rows.

    The table shows the classes or groups of rows with low coverage. The coverage may be right on average, but
    too low for a rare class, or too low for sets with only one class. A difference of more than two standard
    errors between `coverage` and `claimed` is probably not due to chance.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. Class labels.
    y_pred : array-like of shape (n, K)
        Forecast of every target. Prediction sets as a boolean array, or class probabilities. The metric forms
        prediction sets from class probabilities.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    labels : array-like of shape (K,), default=None
        Class of each column, such as ``estimator.classes_``. None means the sorted classes of `y_true`, which
        must then contain all classes. A target that is not among the labels is in no set. With
        ``by="class"``, the table has one row for all such targets, with the label None.
    coverage : float, default=0.9
        Nominal coverage of the prediction set. If `y_pred` holds sets, they must have this coverage.
    by : {"class", "size"}, default="class"
        Whether rows are grouped by their observed class, or by the number of classes in their set.
    groups : array-like of shape (n,), default=None
        A label for each row. The table has one row per label, and `by` is ignored.

    Returns
    -------
    table : DataFrame
        One row per observed class, size or group. The index contains the classes, sizes or groups. `n`:
        weight of the rows; `coverage`: share of labels in their set; `claimed`: expected share according to
        the probabilities, or the nominal coverage if `y_pred` holds sets; `standard_error`: standard error of
        the share if the true share is `claimed`; `mean_size`: mean number of classes per set.

    See Also
    --------
    set_coverage_score : Coverage over all rows.
    conditional_coverage : Similar table for prediction intervals.

    Notes
    -----
    For a class k, `claimed` is the expected coverage if labels are drawn from the predicted probabilities.
    This is the expected number of rows that have the label k and contain it in their set, divided by the
    expected number of rows with the label k: :math:`\sum_i p_{ik} 1\{k \in S_i\} / \sum_i p_{ik}`. For a size
    or group, `claimed` is the mean probability mass of the sets. The standard error is ``sqrt(claimed * (1 -
    claimed) / n)``.

    The smallest coverage in the table with ``by="size"`` is the size-stratified coverage of Angelopoulos et
    al. (2021). The mean distance between the coverage of a class and the nominal coverage is the coverage gap
    of Ding et al. (2023).

    References
    ----------
    .. [1] Angelopoulos et al. (2021), Uncertainty sets for image classifiers using conformal prediction.
       https://arxiv.org/abs/2009.14193
    .. [2] Ding et al. (2023), Class-conditional conformal prediction with many classes.
       https://arxiv.org/abs/2306.09335

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import conditional_set_coverage
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.dirichlet([4, 2, 0.5], size=3000)
    >>> y = (rng.random((3000, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    >>> conditional_set_coverage(y, proba).round(3)
            n  coverage  claimed  standard_error  mean_size
    0  1838.0     1.000    1.000           0.000      2.132
    1   939.0     0.985    0.986           0.004      2.202
    2   223.0     0.794    0.723           0.030      2.695
    >>> conditional_set_coverage(y, proba, by="size").round(3)
            n  coverage  claimed  standard_error  mean_size
    1   101.0     0.911    0.928           0.026        1.0
    2  2211.0     0.977    0.969           0.004        2.0
    3   688.0     1.000    1.000           0.000        3.0
    """
    check_option(by, "by", BY)
    nominal = check_single_coverage(coverage)
    given = check_classes(y_true, y_pred, labels, sample_weight)
    sets = sets_of(given.forecast, nominal)
    is_proba = given.forecast.dtype != np.bool_
    size = sets.sum(axis=1)
    columns = {"coverage": is_in_set(given.codes, sets), "mean_size": size.astype(np.float64)}
    if is_proba:
        columns["claimed"] = claimed_mass(given.forecast, sets)
    if groups is not None:
        labels = read_groups(groups, np.shape(y_true)[0], sample_weight)
        table = table_of_groups(labels, columns, given.weight)
    elif by == "size":
        table = table_of_groups(size, columns, given.weight)
    else:
        table = _table_of_classes(given, sets, columns)
    if not is_proba:
        table["claimed"] = nominal
    table["standard_error"] = np.sqrt(table["claimed"] * (1 - table["claimed"]) / table["n"])
    return table[["n", "coverage", "claimed", "standard_error", "mean_size"]]


def _table_of_classes(given: CheckedClasses, sets: BoolArray, columns: dict[str, FloatArray]) -> pd.DataFrame:
    table = table_of_groups(given.codes, columns, given.weight)
    codes = table.index.to_numpy()
    if "claimed" in columns:
        weight = np.ones(given.codes.size) if given.weight is None else given.weight
        expected, inside = weight @ given.forecast, weight @ (given.forecast * sets)
        claimed = np.divide(inside, expected, out=np.zeros(expected.size), where=expected > 0)
        table["claimed"] = np.where(codes < 0, 0.0, np.minimum(claimed[codes], 1.0))
    observed = given.labels[codes]
    if codes[0] < 0:
        observed = np.array([None, *observed[1:]], dtype=object)
    table.index = pd.Index(observed)
    return table
