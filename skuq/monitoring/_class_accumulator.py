"""Metrics of class probabilities that are computed from blocks of rows."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Self

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike
from skuq._validation import DEFAULT_COVERAGE, check_integer, check_mapping, check_single_coverage
from skuq.metrics._class_scores import check_class_labels
from skuq.metrics._spec import MetricFunction
from skuq.monitoring._accumulator import BaseAccumulator, Headline, class_headline_words
from skuq.monitoring._plans import CLASS_DEFAULTS, plans_of_class_tables
from skuq.monitoring._statistics import Block, ones_for_zeros


class ClassMetricAccumulator(BaseAccumulator):
    """Metrics of class probabilities for any number of rows, computed block by block.

    Use the accumulator if there are more rows than fit into memory, if the rows are on several machines or in
    several files, or if they arrive over time. Each block of rows updates the accumulator and may then be
    discarded. Accumulators of different rows can be merged. All values are exact up to rounding.

    Parameters
    ----------
    *metrics : str or callable
        Abbreviations or functions of metrics of classes. By default, all metrics of classes are used.
    labels : array-like of shape (K,)
        Class of each column of the probabilities, such as ``estimator.classes_``.
    n_bins : int, default=15
        Number of bins of the reliability table and of the expected calibration error.
    coverage : float, default=0.9
        Nominal coverage of the prediction sets.
    options : mapping of str to mapping, default=None
        Options of the metrics. The keys are the abbreviations of the metrics, for example
        ``options={"ece": {"classwise": True}}``.

    Attributes
    ----------
    metrics : tuple of str
        Abbreviations of the metrics.
    labels : ndarray of shape (K,)
        Class of each column.
    coverage : float
        Nominal coverage of the prediction sets.
    expected_coverage : float
        Mean predicted probability of the prediction sets. A calibrated classifier has this coverage.
    n_rows : int
        Number of rows so far. Rows of weight 0 are not counted.
    total_weight : float
        Sum of the weights.
    exact : dict of str to bool
        Whether the value of each metric is exact up to rounding. All values are True.

    Raises
    ------
    ValueError
        If a metric cannot be computed from blocks of rows, such as the expected calibration error with bins
        of equal weight.

    See Also
    --------
    MetricAccumulator : Metrics of predictive distributions and intervals.
    skuq.evaluation.uncertainty_report : Metrics of rows that fit into memory.
    skuq.displays.ClassReliabilityDisplay : Plot of the reliability table.

    Notes
    -----
    The accumulator stores sums of a few numbers per row: scores, coverage and size of the sets, and the
    predicted probabilities and observed classes in bins of equal width. The time is O(n K log K), and the
    memory does not depend on the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.monitoring import ClassMetricAccumulator
    >>> def block(seed):
    ...     rng = np.random.default_rng(seed)
    ...     proba = rng.dirichlet(np.ones(3), size=5000)
    ...     return (rng.random((5000, 1)) > proba.cumsum(axis=1)).sum(axis=1), proba
    >>> monday, tuesday = (ClassMetricAccumulator("class_log_loss", "ece", labels=[0, 1, 2]) for _ in "ab")
    >>> both = monday.update(*block(0)) + tuesday.update(*block(1))
    >>> both.n_rows
    10000
    >>> {name: round(value, 2) for name, value in both.result().items()}
    {'class_log_loss': 0.82, 'ece': 0.01}
    """

    _of_classes = True
    _defaults = CLASS_DEFAULTS

    def __init__(
        self,
        *metrics: str | MetricFunction,
        labels: ArrayLike,
        n_bins: int = 15,
        coverage: float = DEFAULT_COVERAGE,
        options: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        # The arguments are copied, because all later rows must use the same arguments.
        arguments = {
            "labels": check_class_labels(labels).copy(),
            "n_bins": check_integer(n_bins, "n_bins"),
            "coverage": check_single_coverage(coverage),
            "options": None if options is None else copy.deepcopy(check_mapping(options, "options")),
        }
        self._start(metrics, arguments, plans_of_class_tables(arguments))

    @property
    def labels(self) -> np.ndarray:
        """Class of each column."""
        return np.array(self._arguments["labels"])

    @property
    def expected_coverage(self) -> float:
        """Mean predicted probability of the prediction sets."""
        return float(self._value(self._tables["sets"])[1])

    def update(self, y: ArrayLike, y_pred: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add a block of rows.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observed targets. Class labels. A label that is not among `labels` has a probability of 0. A block
            without rows has no effect, like a block whose weights are all 0.
        y_pred : array-like of shape (n, K)
            Forecast of every target. Class probabilities, as returned by ``predict_proba``.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.

        Returns
        -------
        self : ClassMetricAccumulator
            The accumulator.

        Raises
        ------
        ValueError
            If probabilities are negative or do not sum to 1 within 1e-6. In this case, the accumulator does
            not change.
        """
        if np.shape(y)[:1] == np.shape(y_pred)[:1] == (0,):
            return self
        weight = ones_for_zeros(sample_weight)
        block = Block.of_classes(y, y_pred, self._arguments["labels"], weight)
        return self if weight is not sample_weight else self._update(block)

    def reliability_table(self) -> pd.DataFrame:
        """Return predicted probabilities and observed shares in bins of the probability.

        Returns
        -------
        table : DataFrame
            Table of the most probable class, as returned by `skuq.metrics.class_reliability_table`.
        """
        table: pd.DataFrame = self._value(self._tables["reliability"])
        return table

    def _headline(self) -> Headline:
        inside, claimed, variance = map(float, self._value(self._tables["sets"]))
        return class_headline_words(inside, claimed, variance, self._total)
