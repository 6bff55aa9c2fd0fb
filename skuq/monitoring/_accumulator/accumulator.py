"""Metrics that are computed from blocks of rows, on one or several machines."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_integer,
    check_mapping,
    check_option,
    check_probabilities,
    check_single_coverage,
)
from skuq.distributions import Distribution
from skuq.metrics._average_calibration import CalibrationCurve
from skuq.metrics._internal import MetricFunction, has_no_rows, level_grid
from skuq.metrics._ucc.curve import UncertaintyCharacteristicsCurve
from skuq.monitoring._accumulator.arguments import (
    CURVES,
    DEFAULTS,
    check_accuracy,
    check_curves,
    plans_of_tables,
)
from skuq.monitoring._accumulator.base import BaseAccumulator
from skuq.monitoring._accumulator.block import Block, has_only_zeros
from skuq.monitoring._accumulator.histogram import bin_width
from skuq.monitoring._accumulator.plans import Plan
from skuq.monitoring._accumulator.report import Headline, headline_words
from skuq.monitoring._accumulator.statistics import SquaresHistogram

MOST_SHOWN = 6
"""The string representation contains the names of at most this number of metrics."""


class MetricAccumulator(BaseAccumulator):
    """Metrics of any number of rows, computed block by block.

    Use the accumulator if there are more rows than fit into memory, if the rows are on several machines or in
    several files, or if they arrive over time. Each block of rows updates the accumulator and may then be
    discarded. Accumulators of different rows, such as the accumulators of several processes, can be merged.
    If all rows fit into memory, use the functions of `skuq.metrics` or `uncertainty_report`, which adds
    resampling.

    Parameters
    ----------
    *metrics : str or callable
        Metrics of skuq, by abbreviation or function. If none is given, all mergeable metrics without a
        required argument are used.
    levels : int or array-like of shape (k,), default=99
        Levels of the calibration curve, and of all metrics that have 99 levels by default. An integer m means
        the levels 1/(m+1), ..., m/(m+1).
    n_bins : int, default=10
        Number of bins of the reliability table, and of all metrics that have 10 bins by default.
    accuracy : float, default=1e-3
        Relative accuracy of quantiles of the standard deviation, from 1e-5 to 0.1. A smaller value needs more
        memory, because the histogram of the standard deviations has more bins.
    coverage : float, default=0.9
        Nominal coverage of the central interval. All metrics of a single interval use this coverage.
    curves : sequence of {"calibration", "reliability", "characteristics"}, default=all three
        Curves and tables to accumulate. "reliability" and "characteristics" need finite means and standard
        deviations.
    options : mapping of str to mapping, default=None
        Options of the metrics. The keys are the abbreviations of the metrics, for example
        ``options={"crpss": {"y_train": y_train}}``.

    Attributes
    ----------
    metrics : tuple of str
        Abbreviations of the metrics.
    coverage : float
        Nominal coverage of the central interval.
    curves : tuple of str
        Accumulated curves and tables.
    n_rows : int
        Number of rows so far. Rows of weight 0 are not counted.
    total_weight : float
        Sum of the weights.
    has_atoms : bool
        Whether any forecast so far has atoms (point masses). For such forecasts, the coverage of central
        intervals may be above nominal.
    exact : dict of str to bool
        Whether the value of each metric is exact up to rounding. If not, the metric is computed from a
        histogram.

    Raises
    ------
    ValueError
        If a metric cannot be computed from blocks of rows.

    See Also
    --------
    uncertainty_report : Metrics of rows that fit into memory, with bootstrap confidence intervals.
    ClassMetricAccumulator : Metrics of class probabilities.
    calibration_drift : Calibration in several periods.
    CoverageMonitor : Sequential test of the coverage.

    Notes
    -----
    Sums over rows, numbers of targets between fixed levels, minima and maxima can be merged exactly. Metrics
    that need only these statistics are exact: all scores, coverage, width, `auucc_loss` and metrics such as
    `mean_absolute_calibration_error`. ENCE, UCE, QCE and the uncertainty characteristics curve need sorted
    rows. The accumulator computes them from a histogram of the logarithm of the predicted standard deviation.
    Each bin of the histogram contains the sums that these metrics need. With ``accuracy=1e-3`` and a million
    rows, the error of ENCE is below 1e-4, and the error of the area under the curve is below 1e-5. The error
    of a partial area is below `accuracy`. `miscalibration_area` is computed with straight lines between
    ``1 / accuracy`` levels. Its error is below ``accuracy / 2``.

    The accumulator needs about 1 MB of memory for any number of rows if standard deviations and errors span
    six orders of magnitude. QCE needs most of this memory. The time is O(n). For normal forecasts, all
    metrics and curves together take about 1 s per million rows. Fewer metrics take less time. In addition,
    each update takes a few milliseconds, so blocks should have 10 000 rows or more. If the forecasts are
    `skuq.distributions.Quantiles`, pass their levels to the accumulator. This saves time, because no other
    quantiles have to be computed: ``MetricAccumulator("pinball", "mace", levels=levels,
    curves=["calibration"])``.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.monitoring import MetricAccumulator
    >>> def block(seed):
    ...     rng = np.random.default_rng(seed)
    ...     scale = rng.uniform(1, 3, size=5000)
    ...     return rng.normal(scale=scale), Normal(np.zeros(5000), scale)
    >>> monday, tuesday = (MetricAccumulator("crps", "picp", "ence") for _ in range(2))
    >>> monday.update(*block(0))
    MetricAccumulator('crps', 'picp', 'ence', 5000 rows)
    >>> tuesday.update(*block(1)).update(*block(2))
    MetricAccumulator('crps', 'picp', 'ence', 10000 rows)
    >>> both = monday + tuesday
    >>> {name: round(value, 2) for name, value in both.result().items()}
    {'crps': 1.13, 'picp': 0.9, 'ence': 0.01}
    >>> both.exact
    {'crps': True, 'picp': True, 'ence': False}
    """

    _of_classes = False
    _defaults = DEFAULTS

    def __init__(
        self,
        *metrics: str | MetricFunction,
        levels: int | ArrayLike = 99,
        n_bins: int = 10,
        accuracy: float = 1e-3,
        coverage: float = DEFAULT_COVERAGE,
        curves: Sequence[str] = CURVES,
        options: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        level_grid(levels, closed=True)  # This call raises an error for invalid levels.
        # The arguments are copied, because all later rows must use the same arguments.
        arguments = {
            "levels": copy.deepcopy(levels),
            "n_bins": check_integer(n_bins, "n_bins"),
            "accuracy": check_accuracy(accuracy),
            "coverage": check_single_coverage(coverage),
            "curves": check_curves(curves),
            "options": None if options is None else copy.deepcopy(check_mapping(options, "options")),
        }
        self._start(metrics, arguments, plans_of_tables(arguments))

    @property
    def curves(self) -> tuple[str, ...]:
        """Accumulated curves and tables."""
        return tuple(self._arguments["curves"])

    @property
    def has_atoms(self) -> bool:
        """Whether any forecast so far has atoms (point masses)."""
        return self._values is not None and bool(self._value(self._tables["atoms"]))

    def update(self, y: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Add a block of rows.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observed targets. A block without rows has no effect, like a block whose weights are all 0.
        y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
            Forecast of every target. An array holds lower and upper bounds. In this case, all metrics must be
            metrics of intervals, and `curves` must be empty.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.

        Returns
        -------
        self : MetricAccumulator
            The accumulator.

        Raises
        ------
        ValueError
            If a number is NaN, or if a metric is not defined for a row. In this case, the accumulator does
            not change.
        """
        only_intervals = all(spec.needs == "interval" for spec in self._specs.values())
        takes_bounds = only_intervals and not self._arguments["curves"]
        if has_no_rows(y, y_pred, sample_weight, takes_bounds=takes_bounds):
            return self
        block = Block.checked(y, y_pred, sample_weight, takes_bounds=takes_bounds)
        if not isinstance(block.forecast, Distribution):
            # An array of bounds has a fixed nominal coverage, so metrics with another coverage raise an
            # error.
            for options in self._options.values():
                check_single_coverage(options.get("coverage", DEFAULT_COVERAGE))
        return self if has_only_zeros(sample_weight) else self._update(block)

    def calibration_curve(self) -> CalibrationCurve:
        """Return the calibration curve: the observed share of targets at each nominal level.

        Returns
        -------
        curve : CalibrationCurve
            Curve as returned by `regression_calibration_curve`.
        """
        curve: CalibrationCurve = self._value(self._table("calibration", "curve"))
        return curve

    def reliability_table(self) -> pd.DataFrame:
        """Return predicted and observed size of the errors in bins of the predicted uncertainty.

        Returns
        -------
        table : DataFrame
            Table as returned by the function `reliability_table` for bins of equal weight. The columns
            `lower` and `upper` have the relative accuracy `accuracy`.
        """
        table: pd.DataFrame = self._value(self._table("reliability", "table"))
        return table

    def characteristics_curve(self, *, bands: str = "std") -> UncertaintyCharacteristicsCurve:
        """Return the uncertainty characteristics curve.

        Parameters
        ----------
        bands : {"std", "constant"}, default="std"
            Bands of one standard deviation on each side of the mean ("std"), or the same band for every row
            ("constant").

        Returns
        -------
        curve : UncertaintyCharacteristicsCurve
            Curve as returned by `uncertainty_characteristics_curve`. It has one corner per bin of the
            histogram.
        """
        check_option(bands, "bands", ("std", "constant"))
        curve: UncertaintyCharacteristicsCurve = self._value(self._table("characteristics", bands))
        return curve

    def std_quantile(self, levels: ArrayLike) -> FloatArray:
        """Return quantiles of the predicted standard deviation over the rows.

        Parameters
        ----------
        levels : float or array-like of shape (k,)
            Levels in [0, 1].

        Returns
        -------
        quantiles : ndarray of shape (k,)
            Quantile at each level, in the units of y, with the relative accuracy `accuracy`.
        """
        p = np.atleast_1d(check_probabilities(levels, "levels"))
        squares: SquaresHistogram = self._state(self._table("reliability", "table"))[0]
        return squares.histogram.quantile(p, bin_width(self._arguments["accuracy"]))

    def _table(self, curve: str, name: str) -> Plan:
        if curve not in self._arguments["curves"]:
            raise ValueError(
                f"`curves` must hold {curve!r} for this method, got {self._arguments['curves']!r}. Make a "
                "new accumulator."
            )
        return self._tables[f"{curve} {name}"]

    def _setting(self, name: str) -> Any:
        setting = super()._setting(name)
        return level_grid(setting, closed=True) if name == "levels" else setting

    def _headline(self) -> Headline:
        inside = self._value(self._tables["inside"])
        below = self._value(self._tables["below"]) if "below" in self._tables else None
        return headline_words(inside, below, self.coverage, self._total)
