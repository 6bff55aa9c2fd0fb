"""Calibration of class probabilities: the expected calibration error, and the table behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skuq._prediction_sets import mass_tolerance
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_integer, check_n_bins, check_option, effective_rows
from skuq.metrics._binning import STRATEGIES, Bins, bin_means, make_bins
from skuq.metrics._class_inputs import ClassForecast, check_class, check_classes
from skuq.metrics._kernels import count_below
from skuq.metrics._rounding import ROUNDING
from skuq.metrics._spec import WeightFunction, metric

NORMS = ("l1", "squared", "debiased")


def _confidence(codes: IntArray, proba: ClassForecast, column: int | None) -> tuple[FloatArray, FloatArray]:
    """Return probabilities of one class, or of the most probable one, and whether it is the observed one."""
    predicted = np.argmax(proba, axis=1) if column is None else np.full(len(codes), column)
    # rows sum to 1 within a tolerance only
    confidence = np.minimum(proba[np.arange(len(codes)), predicted], 1.0, dtype=np.float64)
    return confidence, (codes == predicted).astype(np.float64)


def _edge_tolerance(proba: ClassForecast) -> float:
    """Return by how much a probability may exceed an edge by rounding alone: float32's 0.6 is above 0.6."""
    return max(ROUNDING, mass_tolerance(proba))


def _bins(
    confidence: FloatArray, tolerance: float, n_bins: int, strategy: str, weight: FloatArray | None
) -> Bins:
    """Return bins of probabilities: of equal weight, or of equal width in [0, 1] with their upper edge."""
    if strategy == "quantile":
        return make_bins(confidence, n_bins, strategy, weight)
    check_n_bins(n_bins, confidence.size)
    edges = np.linspace(0, 1, n_bins + 1)
    row_bin = count_below(edges[1:-1] + tolerance, confidence)
    return Bins(n_bins, row_bin, [], edges, weight)


def _binned_error(confidence: FloatArray, hit: FloatArray, bins: Bins, norm: str) -> float:
    """Return the calibration error of one probability a row."""
    total, (mean, share) = bin_means(bins, lambda rows: (confidence[rows], hit[rows]))
    gap = np.abs(mean - share) if norm == "l1" else np.square(mean - share)
    if norm == "debiased":
        # The square of a difference that is estimated from n labels is too large by their variance over n;
        # of one label alone there is no estimate of it, and the bin does not count (Kumar et al. 2019).
        several = total > 1
        gap[several] -= (share * (1 - share))[several] / (total[several] - 1)
        gap[~several] = 0.0
    return float(total @ gap / total.sum())


def ece_of_weights(
    codes: IntArray,
    proba: ClassForecast,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    classwise: bool = False,
) -> WeightFunction:
    """Return the error as a function of the weights."""
    check_integer(n_bins, "n_bins")
    check_option(strategy, "strategy", STRATEGIES)
    check_option(norm, "norm", NORMS)
    columns = range(proba.shape[1]) if check_option(classwise, "classwise", (False, True)) else [None]
    pairs = [_confidence(codes, proba, column) for column in columns]
    tolerance = _edge_tolerance(proba)

    def error(weight: FloatArray | None) -> float:
        if norm == "debiased":
            effective_rows(weight, len(codes))
        errors = [
            _binned_error(confidence, hit, _bins(confidence, tolerance, n_bins, strategy, weight), norm)
            for confidence, hit in pairs
        ]
        return float(np.mean(errors))

    return error


@metric(
    "ece",
    title="Expected calibration error",
    units=0,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="proba",
    proper=False,
    small_sample=True,
    source="Guo et al. 2017, eq. 3; Nixon et al. 2019; Kumar et al. 2019, definition 5.2",
    of_weights=ece_of_weights,
    meaning="the probabilities are off by {value} on average",
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
    r"""Expected calibration error (ECE): mean distance of class probabilities from observed shares, in bins.

    Do classes that are predicted with a probability of 0.8 come true in 80 % of the rows? It is above 0 for a
    perfect forecast too, the more so the fewer the rows: with ten classes and 15 bins about .08 at 200 rows
    and .01 at 10 000. So compare it with what a calibrated forecast of the same size scores, which
    `uncertainty_report` shows beside it, or use ``norm="debiased"``. It ignores how much the probabilities
    distinguish, so it is not proper: the same shares of the classes in every row have an error near 0 (see
    the example). Select by the log loss or the Brier score.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. Class labels.
    y_pred : array-like of shape (n, K)
        Forecast of every target. The probability of every class, as ``predict_proba`` returns it.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    labels : array-like of shape (K,), default=None
        Class of each column, such as ``estimator.classes_``; None takes the sorted classes in `y_true`, which
        must then hold them all. A target that is not among them has a probability of 0.
    n_bins : int, default=15
        Number of bins of the probability.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width in [0, 1], each with its upper edge, or of equal total weight, of which two may
        share the rows on their edge.
    norm : {"l1", "squared", "debiased"}, default="l1"
        Mean absolute difference; mean squared difference; or the latter less its bias, which may be negative
        and whose expectation for a calibrated forecast is about 0 at any number of rows.
    classwise : bool, default=False
        Whether to average the errors of the probabilities of all classes, instead of taking the error of
        the most probable class alone.

    Returns
    -------
    error : float
        In [0, 1], but for ``norm="debiased"``; lower is better, at best 0.

    Raises
    ------
    ValueError
        If probabilities are negative or do not sum to 1 within 1e-6.

    Warns
    -----
    SmallSampleWarning
        Below 500 rows.

    See Also
    --------
    class_reliability_table : The bins.
    set_coverage_error : The same question of prediction sets.
    sklearn.metrics.log_loss : A proper score.

    Notes
    -----
    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \left| \bar p_b - \bar h_b \right|

    with the mean probability and the share of hits in each bin. Squared, and debiased:

    .. math::

        \sum_b \frac{n_b}{n} \left( (\bar p_b - \bar h_b)^2
            - \frac{\bar h_b (1 - \bar h_b)}{n_b - 1} \right)

    Time is O(n K), and O(n K log n) for bins of equal weight.

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

    Calibrated, and of no use:

    >>> shares = np.tile(np.bincount(y) / 1000, (1000, 1))
    >>> round(expected_calibration_error(y, shares), 12)
    0.0
    """
    given = check_classes(y_true, y_pred, labels, sample_weight, needs_proba=True)
    of_weight = ece_of_weights(
        given.codes, given.forecast, n_bins=n_bins, strategy=strategy, norm=norm, classwise=classwise
    )
    return of_weight(given.weight)


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
    r"""Predicted probabilities and observed shares in bins of the probability.

    At which probabilities is a classifier overconfident? The table behind `expected_calibration_error`, of
    the most probable class or of one class, for any number of classes.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. Class labels.
    y_pred : array-like of shape (n, K)
        Forecast of every target. The probability of every class, as ``predict_proba`` returns it.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    labels : array-like of shape (K,), default=None
        Class of each column, such as ``estimator.classes_``; None takes the sorted classes in `y_true`, which
        must then hold them all. A target that is not among them has a probability of 0.
    of_class : object, default=None
        Label of the class whose probability is compared with its share; None compares the probability of the
        most probable class with how often it is the observed one.
    n_bins : int, default=15
        Number of bins of the probability.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width in [0, 1], each with its upper edge, or of equal total weight, of which two may
        share the rows on their edge. Empty bins are left out.

    Returns
    -------
    table : DataFrame
        One row a bin. `lower`, `upper`: range of the probability; `n`: weight of the rows; `predicted`: their
        mean probability; `observed`: share in which the class came true; `standard_error`: of that share
        where the mean probability is true.

    See Also
    --------
    skuq.displays.ClassReliabilityDisplay : A plot of it.
    sklearn.calibration.calibration_curve : The curve of two classes.

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
    total, (predicted, observed) = bin_means(bins, lambda rows: (confidence[rows], hit[rows]))
    occupied = bins.totals() > 0
    return pd.DataFrame(
        {
            "lower": bins.edges[:-1][occupied],
            "upper": bins.edges[1:][occupied],
            "n": total,
            "predicted": predicted,
            "observed": observed,
            "standard_error": np.sqrt(predicted * (1 - predicted) / total),
        }
    )
