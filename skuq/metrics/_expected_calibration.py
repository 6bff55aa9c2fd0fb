"""Calibration of class probabilities: expected calibration error and reliability table."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skuq._numeric import ROUNDING
from skuq._prediction_sets import mass_tolerance
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_integer, check_n_bins, check_option, effective_rows
from skuq.metrics._binning import (
    STRATEGIES,
    Bins,
    bin_means,
    curve_of_bins,
    make_bins,
    reliability_curve,
    undivided,
)
from skuq.metrics._class_scores import ClassForecast, check_class, check_classes
from skuq.metrics._kernels import BinIndex, count_below
from skuq.metrics._spec import Binned, Computation, Means, WeightFunction, metric, one_by_one, value_of

NORMS = ("l1", "squared", "debiased")


def _confidence(codes: IntArray, proba: ClassForecast, column: int | None) -> tuple[FloatArray, FloatArray]:
    predicted = np.argmax(proba, axis=1) if column is None else np.full(len(codes), column)
    # Because of rounding, a probability may be slightly larger than 1.
    confidence = np.minimum(proba[np.arange(len(codes)), predicted], 1.0, dtype=np.float64)
    return confidence, (codes == predicted).astype(np.float64)


def _edge_tolerance(proba: ClassForecast) -> float:
    return max(ROUNDING, mass_tolerance(proba))


def _bins(
    confidence: FloatArray, tolerance: float, n_bins: int, strategy: str, weight: FloatArray | None
) -> Bins:
    if strategy == "quantile":
        return make_bins(confidence, n_bins, strategy, weight)
    check_n_bins(n_bins, confidence.size)
    weight = np.ones(confidence.size) if weight is None else weight
    row_bin = _uniform_bin(confidence, tolerance, n_bins)
    return undivided(weight, np.linspace(0, 1, n_bins + 1), row_bin=row_bin)


def _uniform_bin(confidence: FloatArray, tolerance: float, n_bins: int) -> BinIndex:
    """Return the bin of each row. A bin of equal width includes its upper edge."""
    return count_below(np.linspace(0, 1, n_bins + 1)[1:-1] + tolerance, confidence)


def _binned_error(total: FloatArray, mean: FloatArray, share: FloatArray, norm: str) -> float:
    """Compute the error from weights, mean probabilities and observed shares of bins, each of shape (b,)."""
    gap = np.abs(mean - share) if norm == "l1" else np.square(mean - share)
    if norm == "debiased":
        # The squared gap is too large by the variance of the observed share. A bin with one row gives no
        # estimate of this variance and is left out (Kumar et al. 2019).
        several = total > 1
        gap[several] -= (share * (1 - share))[several] / (total[several] - 1)
        gap[~several] = 0.0
    return float(total @ gap / total.sum())


def class_calibration(n_bins: int, strategy: str, norm: str, classwise: bool) -> Computation:
    check_integer(n_bins, "n_bins")
    check_option(strategy, "strategy", STRATEGIES)
    check_option(norm, "norm", NORMS)
    check_option(classwise, "classwise", (False, True))
    if strategy == "uniform" and norm != "debiased":
        rows = partial(class_bin_rows, n_bins=n_bins, classwise=classwise)
        return Means(
            rows, partial(error_of_bins, n_bins, norm), calibrated=partial(expected_error, n_bins, norm)
        )

    def computation(codes: IntArray, proba: ClassForecast) -> WeightFunction:
        columns = range(proba.shape[1]) if classwise else [None]
        pairs = [_confidence(codes, proba, column) for column in columns]
        tolerance = _edge_tolerance(proba)

        def of_weight(weight: FloatArray) -> float:
            if norm == "debiased":
                effective_rows(weight, len(codes))
            errors = []
            for confidence, hit in pairs:
                bins = _bins(confidence, tolerance, n_bins, strategy, weight)
                total, (mean, share) = bin_means(bins, confidence, hit)
                errors.append(_binned_error(total, mean, share, norm))
            return float(np.mean(errors))

        return one_by_one(of_weight)

    return computation


def error_of_bins(n_bins: int, norm: str, means: FloatArray) -> FloatArray:
    total, confidence, hit = np.moveaxis(means.reshape(*means.shape[:-1], -1, 3, n_bins), -2, 0)
    gap = np.abs(confidence - hit)
    if norm == "squared":
        gap = np.divide(np.square(gap), total, out=np.zeros_like(gap), where=total > 0)
    return np.asarray(gap.sum(axis=-1).mean(axis=-1))


def expected_error(n_bins: int, norm: str, means: FloatArray, n: float) -> float:
    """Return the expected error if the share of each bin is normal around its mean probability."""
    total, sums, _ = np.moveaxis(means.reshape(-1, 3, n_bins), 1, 0)
    mean = np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)
    variance = mean * (1 - mean) / n
    expected = np.sqrt(2 / np.pi * variance * total) if norm == "l1" else variance
    return float(expected.sum(axis=-1).mean())


def class_bin_rows(
    codes: IntArray, proba: ClassForecast, *, n_bins: int, classwise: bool
) -> tuple[Binned, ...]:
    """Return 1, the probability and the hit of each row in its bin, for each column of probabilities."""
    parts = []
    for column in range(proba.shape[1]) if classwise else [None]:
        confidence, hit = _confidence(codes, proba, column)
        place = _uniform_bin(confidence, _edge_tolerance(proba), n_bins)
        parts += [Binned(place, n_bins, values) for values in (None, confidence, hit)]
    return tuple(parts)


def class_table_of_sums(sums: FloatArray, *, n_bins: int) -> pd.DataFrame:
    """Return the reliability table of the most probable class, computed from sums over the rows."""
    total, predicted, observed = sums.reshape(3, n_bins)
    edges = np.linspace(0, 1, n_bins + 1)
    return with_standard_error(
        reliability_curve(edges, total, {"predicted": predicted, "observed": observed})
    )


def with_standard_error(table: pd.DataFrame) -> pd.DataFrame:
    predicted = table["predicted"]
    return table.assign(standard_error=np.sqrt(predicted * (1 - predicted) / table["n"]))


@metric(
    "ece",
    title="Expected calibration error",
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="proba",
    small_sample=True,
    source="Guo et al. 2017, eq. 3; Nixon et al. 2019; Kumar et al. 2019, definition 5.2",
    meaning="the probabilities are off by {value} on average",
    kernel=class_calibration,
)
def expected_calibration_error(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    n_bins: int = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    classwise: bool = False,
) -> float:
    r"""Return the expected calibration error (ECE) of class probabilities.

    The smaller the better, minimum is zero. The error is the mean distance between the predicted
    probabilities and the observed shares in bins. Among the rows with a predicted probability of 0.8, 80 %
    should have the predicted class. Even a perfect forecast has a positive error, which is larger for fewer
    rows. With ten classes and 15 bins, this error is about 0.08 for 200 rows and 0.01 for 10 000 rows.
    Therefore, compare the error with the value that `uncertainty_report` shows for a calibrated forecast, or
    use ``norm="debiased"``. The metric is not proper, because it does not measure how well the probabilities
    distinguish the classes. For example, the error is near 0 if the forecast of every row consists of the
    overall shares of the classes (see the example). Select models by the log loss or the Brier score.

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
    n_bins : int, default=15
        Number of bins of the probability. The default is the number in [1]_.
    strategy : {"uniform", "quantile"}, default="uniform"
        "uniform" makes bins of equal width in [0, 1] that include their upper edge, as in [1]_. "quantile"
        makes bins of equal total weight. A row on the edge of two such bins may count partly in both bins.
    norm : {"l1", "squared", "debiased"}, default="l1"
        "l1" is the mean absolute difference. "squared" is the mean squared difference. "debiased" is the mean
        squared difference minus its bias and may be negative. For a calibrated forecast, the expected value
        of "debiased" is about 0 for any number of rows.
    classwise : bool, default=False
        Whether to average the errors of all classes. If False, the error is computed for the most probable
        class of each row.

    Returns
    -------
    error : float
        In [0, 1]. With ``norm="debiased"``, the error may be negative.

    Raises
    ------
    ValueError
        If probabilities are negative or do not sum to 1 within 1e-6.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    class_reliability_table : Table of the bins.
    set_coverage_error : Calibration of prediction sets.
    sklearn.metrics.log_loss : A proper score.

    Notes
    -----
    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \left| \bar p_b - \bar h_b \right|

    where :math:`\bar p_b` is the mean probability and :math:`\bar h_b` the observed share in bin b. The
    debiased squared error is

    .. math::

        \sum_b \frac{n_b}{n} \left( (\bar p_b - \bar h_b)^2
            - \frac{\bar h_b (1 - \bar h_b)}{n_b - 1} \right)

    The time is O(n K), or O(n K log n) for bins of equal weight.

    References
    ----------
    .. [1] Guo et al. (2017), On calibration of modern neural networks. https://arxiv.org/abs/1706.04599
    .. [2] Nixon et al. (2019), Measuring calibration in deep learning. https://arxiv.org/abs/1904.01685
    .. [3] Kumar et al. (2019), Verified uncertainty calibration. https://arxiv.org/abs/1909.10155

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (rng.random((1000, 1)) > proba.cumsum(axis=1)).sum(axis=1)  # a calibrated forecast
    >>> round(expected_calibration_error(y, proba), 3)
    0.031
    >>> round(expected_calibration_error(y, proba, norm="debiased"), 4)
    -0.0002
    >>> overconfident = proba**2 / (proba**2).sum(axis=1, keepdims=True)
    >>> round(expected_calibration_error(y, overconfident), 3)
    0.133

    A calibrated but useless forecast:

    >>> shares = np.tile(np.bincount(y) / 1000, (1000, 1))
    >>> round(expected_calibration_error(y, shares), 12)
    0.0
    """
    given = check_classes(y_true, y_pred, labels, sample_weight, needs_proba=True)
    kernel = class_calibration(n_bins, strategy, norm, classwise)
    check_n_bins(n_bins, len(given.codes))
    return value_of(kernel, *given[:3])


def class_reliability_table(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    of_class: Any = None,
    n_bins: int = 15,
    strategy: str = "uniform",
) -> pd.DataFrame:
    r"""Return predicted probabilities and observed shares in bins of the probability.

    The table shows the probabilities at which a classifier is overconfident. `expected_calibration_error` is
    a summary of the table. The table describes the most probable class of each row, or one chosen class. The
    classifier may have any number of classes.

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
    of_class : object, default=None
        Label of the class whose probability is compared with its observed share. None means the most probable
        class of each row.
    n_bins : int, default=15
        Number of bins of the probability, as in `expected_calibration_error`.
    strategy : {"uniform", "quantile"}, default="uniform"
        "uniform" makes bins of equal width in [0, 1] that include their upper edge. "quantile" makes bins of
        equal total weight. A row on the edge of two such bins may count partly in both bins. Empty bins are
        left out.

    Returns
    -------
    table : DataFrame
        One row per bin. `lower`, `upper`: range of the probability; `n`: weight of the rows; `predicted`:
        mean probability; `observed`: share of rows with this class; `standard_error`: standard error of this
        share if the mean probability is correct.

    See Also
    --------
    skuq.displays.ClassReliabilityDisplay : A plot of the table.
    sklearn.calibration.calibration_curve : Calibration curve of a classifier with two classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import class_reliability_table
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (rng.random((1000, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    >>> overconfident = proba**2 / (proba**2).sum(axis=1, keepdims=True)
    >>> table = class_reliability_table(y, overconfident, n_bins=5)
    >>> table[["n", "predicted", "observed", "standard_error"]].round(3)
           n  predicted  observed  standard_error
    0    9.0      0.377     0.444           0.162
    1  235.0      0.521     0.434           0.033
    2  319.0      0.701     0.574           0.026
    3  437.0      0.920     0.762           0.013
    """
    check_integer(n_bins, "n_bins")
    check_option(strategy, "strategy", STRATEGIES)
    given = check_classes(y_true, y_pred, labels, sample_weight, needs_proba=True)
    column = None if of_class is None else check_class(of_class, "of_class", given.labels)
    confidence, hit = _confidence(given.codes, given.forecast, column)
    bins = _bins(confidence, _edge_tolerance(given.forecast), n_bins, strategy, given.weight)
    return with_standard_error(curve_of_bins(bins, predicted=confidence, observed=hit))
