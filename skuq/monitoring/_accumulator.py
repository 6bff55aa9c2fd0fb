"""Metrics of more rows than fit into memory, computed from sums over blocks of rows."""

from __future__ import annotations

import copy
import functools
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy.special import ndtri

from skuq._compat import __version__, warn_of_other_version
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_integer,
    check_mapping,
    check_option,
    check_probabilities,
    check_random_state,
    check_repetitions,
    check_single_coverage,
)
from skuq.distributions import Distribution
from skuq.evaluation._report import assemble, record
from skuq.evaluation._report_table import Headline, UncertaintyReport, class_headline_words, headline_words
from skuq.evaluation._significance import interval_of_draws
from skuq.metrics._average_calibration import CalibrationCurve
from skuq.metrics._kernels import level_grid
from skuq.metrics._spec import Means, MetricFunction, MetricSpec, first_column, warn_of_small_report
from skuq.metrics._ucc_curve import UncertaintyCharacteristicsCurve
from skuq.monitoring._coverage_monitor import has_no_rows
from skuq.monitoring._plans import (
    CURVES,
    DEFAULTS,
    Plan,
    check_accuracy,
    check_curves,
    plans_of_metrics,
    plans_of_tables,
)
from skuq.monitoring._statistics import (
    Block,
    Statistic,
    Sums,
    bin_width,
    ones_for_zeros,
    same,
)

__all__ = ["Headline", "ReportEntry", "class_headline_words", "headline_words", "report_of"]


@dataclass(frozen=True)
class ReportEntry:
    """Metric with its options, its plan and the values of its statistics."""

    spec: MetricSpec
    options: Mapping[str, Any]
    plan: Plan
    state: Sequence[Any]

    @property
    def _means(self) -> Means | None:
        computation = self.spec.computation(self.options)
        return computation if isinstance(computation, Means) else None

    @property
    def _sums(self) -> Sums | None:
        means = self._means
        if means is None or len(self.state) > 1:
            return None
        sums: Sums = self.state[0]
        # Without products, the columns have no covariance, and only shares can be drawn.
        return sums if sums.products is not None or means.cells is not None else None

    @property
    def _is_mean(self) -> bool:
        return self._means is not None and self._means.combine is first_column

    def standard_error(self, n: float) -> float:
        sums = self._sums
        if sums is None or sums.products is None or not self._is_mean:
            return np.nan
        return float(sums.units[0] * np.sqrt(_covariance(sums)[0, 0] / n))

    def interval(
        self, n: float, confidence: float, n_resamples: int, rng: np.random.RandomState
    ) -> tuple[float, float]:
        """Return the interval of a metric that is a function of means over rows.

        Return NaN for other metrics.
        """
        sums = self._sums
        if sums is None:
            return np.nan, np.nan
        if self._is_mean and sums.products is not None:
            error = float(ndtri((1 + confidence) / 2) * self.standard_error(n))
            return float(sums.means[0]) - error, float(sums.means[0]) + error
        draws = _draws(sums, n, n_resamples, rng)
        values = self._means.combine(draws)  # type: ignore[union-attr]
        if not values.size or not np.isfinite(values).all():
            return np.nan, np.nan
        # The draws of a nonlinear metric are biased, and the BCa interval corrects this bias.
        return interval_of_draws(values, float(self.plan.value(sums)), 0.0, confidence, "bca")


def _covariance(sums: Sums) -> FloatArray:
    """Return the covariance of the columns in ``units``, shape (c, c). It is NaN for infinite columns."""
    products: Any = sums.products
    with np.errstate(invalid="ignore", over="ignore"):
        means = sums.means / sums.units
        covariance = np.asarray(products / sums.total - np.outer(means, means))
    # Rounding may make the difference of nearly equal numbers negative.
    np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), 0.0))
    return covariance


def _draws(sums: Sums, n: float, size: int, rng: np.random.RandomState) -> FloatArray:
    """Draw the means of n rows from their approximate normal distribution, shape (size, c)."""
    if sums.products is None:  # The columns contain the shares of PIT values between adjacent levels.
        share = np.maximum(sums.means, 0.0)
        return np.asarray(rng.multinomial(round(n), share / share.sum(), size=size) / n)
    covariance = _covariance(sums) / n
    if not np.isfinite(covariance).all():
        return np.empty((0, sums.means.size))
    # The covariance of proportional columns is singular, so it has no Cholesky factors.
    values, vectors = np.linalg.eigh(covariance)
    spread = rng.normal(size=(size, values.size)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return np.asarray(sums.means + spread * sums.units)


def report_of(
    entries: Sequence[ReportEntry],
    n: float,
    headline: Headline,
    *,
    confidence: float,
    n_resamples: int,
    rng: np.random.RandomState,
) -> UncertaintyReport:
    warn_of_small_report(n)
    records = []
    for entry in entries:
        low, high = entry.interval(n, confidence, n_resamples, rng)
        numbers = {
            "value": float(entry.plan.value(*entry.state)),
            "low": low,
            "high": high,
            "calibrated": entry.plan.calibrated(n, *entry.state),
            "calibrated_low": np.nan,
            "calibrated_high": np.nan,
        }
        records.append(record(entry.spec, entry.options, numbers, n, confidence))
    return assemble({"model": pd.DataFrame(records)}, {"model": headline}, n, confidence, single=True)


MOST_SHOWN = 6
"""The string representation contains the names of at most this number of metrics."""


class BaseAccumulator(ABC):
    """Base class of `MetricAccumulator` and `ClassMetricAccumulator`, which document the attributes."""

    _of_classes: ClassVar[bool]
    _defaults: ClassVar[Mapping[str, Any]]

    def _start(
        self,
        metrics: Sequence[Any],
        arguments: dict[str, Any],
        tables: dict[str, Plan],
    ) -> None:
        """Set the plans of all metrics and tables. There are no rows yet."""
        self._arguments = arguments
        self._version = __version__
        self._specs, self._options, self._plans = plans_of_metrics(
            metrics, arguments, self._defaults, of_classes=self._of_classes
        )
        self._tables = tables
        # Statistics that several metrics need are stored once.
        self._statistics: list[Statistic] = []
        for plan in [*self._plans.values(), *tables.values()]:
            self._statistics += [each for each in plan.statistics if each not in self._statistics]
        self._values: list[Any] | None = None
        self._rows, self._total = 0, 0.0

    @property
    def metrics(self) -> tuple[str, ...]:
        """Abbreviations of the metrics."""
        return tuple(self._plans)

    @property
    def coverage(self) -> float:
        """Nominal coverage of the central interval or of the prediction set."""
        return float(self._arguments["coverage"])

    @property
    def n_rows(self) -> int:
        """Number of rows so far. Rows of weight 0 are not counted."""
        return self._rows

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows so far."""
        return self._total

    @property
    def exact(self) -> dict[str, bool]:
        """Whether the value of each metric is exact up to rounding."""
        return {name: plan.exact for name, plan in self._plans.items()}

    def merge(self, other: Self) -> Self:
        """Add the rows of another accumulator.

        Parameters
        ----------
        other : accumulator
            Accumulator of the same class with the same arguments, from the same version of skuq. `other` does
            not change.

        Returns
        -------
        self : accumulator
            The accumulator itself.
        """
        if not isinstance(other, type(self)):
            raise TypeError(f"`other` must be a {type(self).__name__}, got {type(other).__name__}.")
        if self._version != other._version:
            raise ValueError(
                f"`other` must be from version {self._version} of skuq like this accumulator, got version "
                f"{other._version}. The definitions of metrics may differ between versions. Compute both "
                "accumulators with the same version."
            )
        for name in ("metrics", *self._arguments):
            mine, theirs = self._setting(name), other._setting(name)
            if not same(mine, theirs):
                raise ValueError(
                    f"`other` must have the same `{name}` as this accumulator ({mine!r}), got {theirs!r}."
                )
        if other._values is not None:
            self._add(other._values, other._rows, other._total)
        return self

    def __add__(self, other: Self) -> Self:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.__copy__().merge(other)

    def __radd__(self, other: object) -> Self:
        return self.__copy__() if same(other, 0) else NotImplemented  # `sum` begins with 0.

    def _update(self, block: Block) -> Self:
        """Add the rows of a block. An error leaves the state unchanged."""
        pieces = ([statistic.of(piece) for statistic in self._statistics] for piece in block.pieces())
        self._add(functools.reduce(_added, pieces), len(block), block.total)
        return self

    def result(self) -> dict[str, float]:
        """Return the metrics of all rows so far.

        Returns
        -------
        values : dict of str to float
            Values of the metrics. The keys are their abbreviations.
        """
        return {name: float(self._value(plan)) for name, plan in self._plans.items()}

    def standard_errors(self) -> dict[str, float]:
        """Return the standard errors of the metrics that are means of one number per row.

        Returns
        -------
        errors : dict of str to float
            Standard errors of the metrics. The keys are the abbreviations of the metrics. The standard errors
            are valid for independent rows. They are NaN for infinite metrics and for metrics that are not
            means of one number per row.
        """
        n = check_repetitions(self._total, self._rows)
        return {
            name: entry.standard_error(n) for name, entry in zip(self._plans, self._entries(), strict=True)
        }

    def report(
        self,
        *,
        confidence: float = 0.95,
        n_resamples: int = 1000,
        random_state: int | np.random.RandomState | None = None,
    ) -> UncertaintyReport:
        """Return the metrics with intervals and explanations.

        Parameters
        ----------
        confidence : float, default=0.95
            Nominal coverage of the confidence intervals.
        n_resamples : int, default=1000
            Number of draws for the intervals of metrics that are functions of several means. The means are
            drawn from their normal distribution. 0 omits these intervals.
        random_state : int, RandomState instance or None, default=None
            Controls the draws. Pass an int for reproducible output across calls.

        Returns
        -------
        report : UncertaintyReport
            Report as returned by `uncertainty_report`. The value of a calibrated forecast is given only if a
            formula for it is known. Metrics that are not functions of means over rows have no interval.

        Warns
        -----
        SmallSampleWarning
            If there are fewer than 50 rows.
        """
        n = check_repetitions(self._total, self._rows)
        return report_of(
            self._entries(),
            n,
            self._headline(),
            confidence=check_single_coverage(confidence, "confidence"),
            n_resamples=check_integer(n_resamples, "n_resamples", 0),
            rng=check_random_state(random_state),
        )

    def _entries(self) -> list[ReportEntry]:
        return [
            ReportEntry(self._specs[name], self._options[name], plan, self._state(plan))
            for name, plan in self._plans.items()
        ]

    @abstractmethod
    def _headline(self) -> Headline:
        """Return the summary of the report."""

    def _setting(self, name: str) -> Any:
        if name == "metrics":
            return self.metrics
        if name == "options":
            return self._options
        return self._arguments[name]

    def _add(self, values: list[Any], rows: int, total: float) -> None:
        self._values = values if self._values is None else _added(self._values, values)
        self._rows, self._total = self._rows + rows, self._total + total

    def _state(self, plan: Plan) -> list[Any]:
        if self._values is None:
            raise ValueError("there are no rows yet: call `update` or `merge` first.")
        return [self._values[self._statistics.index(each)] for each in plan.statistics]

    def _value(self, plan: Plan) -> Any:
        return plan.value(*self._state(plan))

    def __repr__(self) -> str:
        few = len(self._plans) <= MOST_SHOWN
        shown = [repr(name) for name in self._plans] if few else [f"{len(self._plans)} metrics"]
        shown += [
            f"{key}={reprlib.repr(value)}"
            for key, value in self._arguments.items()
            if not (key in self._defaults and same(value, self._defaults[key]))
        ]
        return f"{type(self).__name__}({', '.join([*shown, f'{self._rows} rows'])})"

    def __copy__(self) -> Self:
        copied = type(self).__new__(type(self))
        # The copy may share plans and statistics, because updates replace statistics and do not modify them.
        copied.__dict__.update(self.__dict__)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        # Plans contain functions that pickle may not support, so they are made again from the arguments.
        return {
            "version": self._version,
            "metrics": tuple(self._plans),
            "arguments": self._arguments,
            "values": None if self._values is None else list(self._values),
            "rows": self._rows,
            "total": self._total,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["version"] != __version__:
            warn_of_other_version(
                type(self).__name__, state["version"], "give other numbers", "accumulate the rows again"
            )
        self.__init__(*state["metrics"], **state["arguments"])  # type: ignore[misc]
        self._version, self._values = state["version"], state["values"]
        self._rows, self._total = state["rows"], state["total"]


def _added(first: list[Any], second: list[Any]) -> list[Any]:
    return [one + other for one, other in zip(first, second, strict=True)]


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

    The memory depends on the range of the standard deviations and errors, and not on the number of rows. QCE
    needs most of the memory. The time is O(n). Fewer metrics take less time. Each update has a fixed cost, so
    blocks should have 10 000 rows or more. If the forecasts are `skuq.distributions.Quantiles`, pass their
    levels to the accumulator. This saves time, because no other quantiles have to be computed:
    ``MetricAccumulator("pinball", "mace", levels=levels, curves=["calibration"])``.

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

    @property
    def _quantile_levels(self) -> tuple[float, ...] | None:
        """Levels of the quantiles that all forecasts give. None if the forecasts are whole distributions."""
        levels: tuple[float, ...] | None = (
            self._value(self._tables["quantile levels"]) if self._rows else None
        )
        return levels

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
        weight = ones_for_zeros(sample_weight)
        try:
            block = Block.checked(y, y_pred, weight, takes_bounds=takes_bounds)
        except TypeError as error:
            if not only_intervals or takes_bounds or np.shape(y_pred)[1:] != (2,):
                raise
            raise TypeError(
                f"{error}\n\nThe metrics accept bounds of intervals, but the curves do not. For bounds, pass "
                "`curves=()` to MetricAccumulator."
            ) from None
        if not isinstance(block.forecast, Distribution):
            # An array of bounds has a fixed nominal coverage, so metrics with another coverage raise an
            # error.
            for options in self._options.values():
                check_single_coverage(options.get("coverage", DEFAULT_COVERAGE))
        return self if weight is not sample_weight else self._update(block)

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
        squares = self._state(self._table("reliability", "table"))[0]
        return np.asarray(squares.quantile(p, bin_width(self._arguments["accuracy"])))

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
