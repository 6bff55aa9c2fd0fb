"""Metrics of rows that come in blocks, from one machine or several."""

from __future__ import annotations

import copy
import functools
import reprlib
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
    check_random_state,
    check_repetitions,
    check_single_coverage,
)
from skuq._versioned import __version__, warn_of_other_version
from skuq.metrics._accumulator.arguments import (
    CURVES,
    DEFAULTS,
    check_accuracy,
    check_curves,
    plans_of_metrics,
    plans_of_tables,
)
from skuq.metrics._accumulator.block import Block
from skuq.metrics._accumulator.histogram import bin_width
from skuq.metrics._accumulator.plans import Plan
from skuq.metrics._accumulator.report import ReportEntry, report_of
from skuq.metrics._accumulator.statistics import SquaresHistogram, Statistic, same
from skuq.metrics._average_calibration import CalibrationCurve
from skuq.metrics._inputs import has_no_rows, is_bounds
from skuq.metrics._kernels import level_grid
from skuq.metrics._report.table import UncertaintyReport
from skuq.metrics._report.wording import headline_words
from skuq.metrics._spec import MetricFunction, warn_of_small_report
from skuq.metrics._ucc.curve import UncertaintyCharacteristicsCurve

MOST_SHOWN = 6
"""Metrics up to which their names are shown."""


class MetricAccumulator:
    """Metrics of any number of rows, which come in blocks; accumulators of different rows are added.

    How good are the forecasts of more rows than memory holds, or of rows on several machines, in several
    files, or of last month? Each block of rows updates the accumulator and may then be discarded; the
    accumulators of several processes are merged. On rows that fit into memory the functions of
    `skuq.metrics` are as good, and `uncertainty_report` resamples.

    Parameters
    ----------
    *metrics : str or callable
        Metrics of skuq, by abbreviation or function. Without any, all that merge and need no argument.
    levels : int or array-like of shape (k,), default=99
        Levels of the calibration curve, and of the metrics whose default is 99 levels. An integer m stands
        for 1/(m+1), ..., m/(m+1).
    n_bins : int, default=10
        Number of bins of the reliability table, and of the metrics whose default is 10 bins.
    accuracy : float, default=1e-3
        Relative accuracy of quantiles of the standard deviation, from 1e-5 to 0.1: half the width of the bins
        of a histogram of its logarithm. It decides the size of the state.
    coverage : float, default=0.9
        Nominal coverage of the central interval. It applies to all metrics of one interval.
    curves : sequence of {"calibration", "reliability", "characteristics"}, default=all three
        Curves and tables to accumulate. The last two need a finite mean and standard deviation.
    options : mapping of str to mapping, default=None
        Options by abbreviation: ``options={"crpss": {"y_train": y_train}}``.

    Attributes
    ----------
    metrics : tuple of str
        Abbreviations of the metrics.
    coverage : float
        Nominal coverage of the central interval.
    curves : tuple of str
        Curves and tables that are accumulated.
    n_rows : int
        Number of rows so far, without those of weight 0.
    total_weight : float
        Sum of their weights.
    has_atoms : bool
        Whether a forecast so far has atoms (point masses), so that its central interval may cover more than
        nominal.
    exact : dict of str to bool
        Whether each metric is that of all rows up to rounding, or computed from a histogram.

    Raises
    ------
    ValueError
        If a metric does not merge: it draws groups at random from all rows, or has options with which it is a
        function of all rows.

    See Also
    --------
    uncertainty_report : All rows at once, with intervals by resampling.
    calibration_drift : Accumulators of several periods compared with their nominal calibration.
    CoverageMonitor : A test of the coverage of rows over time.

    Notes
    -----
    Means per row, shares at fixed levels and ranges add exactly: all scores, coverage and width,
    `mean_absolute_calibration_error` and its like, `auucc_loss`. Metrics of rows in bins of the predicted
    standard deviation (ENCE, UCE, QCE), the uncertainty characteristics curve and the areas of parts of it
    are computed from a histogram in the logarithm, whose bins hold the sums of the other columns: at
    ``accuracy=1e-3`` and a million rows ENCE is within 1e-4 and the area of the curve within 1e-5 of its
    value. The exact `miscalibration_area` is that of straight lines between ``1 / accuracy`` levels, and
    within ``accuracy / 2``.
    The areas of parts of the curve are within `accuracy`.

    The state takes about 1 MB where standard deviations and errors span six orders of magnitude, most of it
    for QCE, whatever the number of rows. Time is O(n), for all metrics and curves of normal forecasts about
    1 s a million rows, and for fewer metrics less; each update also takes some milliseconds, so that blocks
    should have 10 000 rows or more. `skuq.distributions.Quantiles` take least at their own levels, where no
    distribution is evaluated: ``MetricAccumulator("pinball", "mace", levels=levels,
    curves=["calibration"])``.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import MetricAccumulator
    >>> def block(seed):
    ...     rng = np.random.default_rng(seed)
    ...     scale = rng.uniform(1, 3, size=5000)
    ...     return rng.normal(scale=scale), (np.zeros(5000), scale)
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

    def __init__(
        self,
        *metrics: str | MetricFunction,
        levels: int | ArrayLike = 99,
        n_bins: int = 10,
        accuracy: float = 1e-3,
        coverage: float = DEFAULT_COVERAGE,
        curves: Sequence[str] = CURVES,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        level_grid(levels, closed=True)  # raises where these are no levels
        # Copies, because what is accumulated later must belong to the same arguments.
        self._arguments: dict[str, Any] = {
            "levels": copy.deepcopy(levels),
            "n_bins": check_integer(n_bins, "n_bins"),
            "accuracy": check_accuracy(accuracy),
            "coverage": check_single_coverage(coverage),
            "curves": check_curves(curves),
            "options": None if options is None else copy.deepcopy(check_mapping(options, "options")),
        }
        self._version = __version__
        self._specs, self._options, self._plans = plans_of_metrics(metrics, self._arguments)
        self._tables = plans_of_tables(self._arguments)
        # Metrics that need the same sums share them.
        self._statistics: list[Statistic] = []
        for plan in [*self._plans.values(), *self._tables.values()]:
            self._statistics += [each for each in plan.statistics if each not in self._statistics]
        self._values: list[Any] | None = None
        self._rows, self._total = 0, 0.0

    @property
    def metrics(self) -> tuple[str, ...]:
        """Abbreviations of the metrics."""
        return tuple(self._plans)

    @property
    def coverage(self) -> float:
        """Nominal coverage of the central interval."""
        return float(self._arguments["coverage"])

    @property
    def curves(self) -> tuple[str, ...]:
        """Curves and tables that are accumulated."""
        return tuple(self._arguments["curves"])

    @property
    def n_rows(self) -> int:
        """Number of rows so far, without those of weight 0."""
        return self._rows

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows so far."""
        return self._total

    @property
    def has_atoms(self) -> bool:
        """Whether a forecast so far has atoms, so that its central interval may cover more than nominal."""
        return self._values is not None and bool(self._value(self._tables["atoms"]))

    @property
    def exact(self) -> dict[str, bool]:
        """Whether each metric is that of all rows up to rounding, or computed from a histogram."""
        return {name: plan.exact for name, plan in self._plans.items()}

    def update(self, y: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Add a block of rows.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observed targets. A block without rows changes nothing.
        y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
            Forecast of every target. An array of lower and upper bounds where all metrics are those of
            intervals and there are no curves.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each row.

        Returns
        -------
        self : MetricAccumulator
            Itself.

        Raises
        ------
        ValueError
            If a number is NaN, or a metric is not defined for a row; the state is then as it was.
        """
        only_intervals = all(spec.needs == "interval" for spec in self._specs.values())
        takes_bounds = only_intervals and not self._arguments["curves"]
        if (takes_bounds or not is_bounds(y_pred)) and has_no_rows(y, y_pred, sample_weight):
            return self
        block = Block.checked(y, y_pred, sample_weight, takes_bounds=takes_bounds)
        if is_bounds(block.forecast):
            for options in self._options.values():  # one array of bounds has one coverage
                check_single_coverage(options.get("coverage", DEFAULT_COVERAGE))
        # The state changes only when all values have been computed.
        pieces = ([statistic.of(piece) for statistic in self._statistics] for piece in block.pieces())
        self._add(functools.reduce(_added, pieces), len(block), block.total)
        return self

    def merge(self, other: MetricAccumulator) -> Self:
        """Add the rows of another accumulator.

        Parameters
        ----------
        other : MetricAccumulator
            One with the same arguments, made by the same version of skuq. It is not changed.

        Returns
        -------
        self : MetricAccumulator
            Itself.
        """
        if not isinstance(other, MetricAccumulator):
            raise TypeError(f"`other` must be a MetricAccumulator, got {type(other).__name__}.")
        if self._version != other._version:
            raise ValueError(
                f"`other` must be made by the same version of skuq, got {other._version} and here "
                f"{self._version}: definitions may have changed. Compute one of the two again."
            )
        for name in ("metrics", *self._arguments):
            mine, theirs = self._setting(name), other._setting(name)
            if not same(mine, theirs):
                raise ValueError(f"`other` must have the same `{name}`, got {theirs!r} and here {mine!r}.")
        if other._values is not None:
            self._add(other._values, other._rows, other._total)
        return self

    def __add__(self, other: MetricAccumulator) -> Self:
        if not isinstance(other, MetricAccumulator):
            return NotImplemented
        return self.__copy__().merge(other)

    def __radd__(self, other: object) -> Self:
        return self.__copy__() if same(other, 0) else NotImplemented  # `sum` begins with 0

    def result(self) -> dict[str, float]:
        """Return the metrics of all rows so far.

        Returns
        -------
        values : dict of str to float
            By abbreviation.
        """
        return {name: float(self._value(plan)) for name, plan in self._plans.items()}

    def standard_errors(self) -> dict[str, float]:
        """Return the standard errors of the metrics that are means of one number per row.

        Returns
        -------
        errors : dict of str to float
            By abbreviation; NaN of the other metrics, and of infinite ones. They are those of independent
            rows.
        """
        n = check_repetitions(self._total, self._rows)
        return {
            name: entry.standard_error(n) for name, entry in zip(self._plans, self._entries(), strict=True)
        }

    def calibration_curve(self) -> CalibrationCurve:
        """Return the shares of targets observed below the quantile of each level, exactly.

        Returns
        -------
        curve : CalibrationCurve
            As `regression_calibration_curve` returns it.
        """
        curve: CalibrationCurve = self._value(self._table("calibration", "curve"))
        return curve

    def reliability_table(self) -> pd.DataFrame:
        """Return predicted and observed size of the errors in bins of the predicted uncertainty.

        Returns
        -------
        table : DataFrame
            As the function `reliability_table` returns it, for bins of equal weight; `lower` and `upper`
            within the accuracy.
        """
        table: pd.DataFrame = self._value(self._table("reliability", "table"))
        return table

    def characteristics_curve(self, *, bands: str = "std") -> UncertaintyCharacteristicsCurve:
        """Return the uncertainty characteristics curve.

        Parameters
        ----------
        bands : {"std", "constant"}, default="std"
            Bands of one standard deviation to either side of the mean, or the same for every row.

        Returns
        -------
        curve : UncertaintyCharacteristicsCurve
            As `uncertainty_characteristics_curve` returns it, with a corner for each bin of the histogram.
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
            The smallest standard deviations that this share of the rows does not exceed, in the units of y,
            within the relative accuracy.
        """
        p = np.atleast_1d(check_probabilities(levels, "levels"))
        squares: SquaresHistogram = self._state(self._table("reliability", "table"))[0]
        return squares.histogram.quantile(p, bin_width(self._arguments["accuracy"]))

    def report(
        self,
        *,
        confidence: float = 0.95,
        n_resamples: int = 1000,
        random_state: int | np.random.RandomState | None = None,
    ) -> UncertaintyReport:
        """Return the metrics with intervals and what they mean.

        Parameters
        ----------
        confidence : float, default=0.95
            Nominal probability of the intervals.
        n_resamples : int, default=1000
            Draws of the means per row from their normal distribution, from which the intervals of functions
            of several means come; 0 leaves these intervals out.
        random_state : int, RandomState instance or None, default=None
            Controls the randomness of the draws. Pass an int for reproducible output across calls.

        Returns
        -------
        report : UncertaintyReport
            As `uncertainty_report` returns it, with what calibrated forecasts score where there is a formula.
            Intervals of metrics that are no function of means per row are left out.

        Warns
        -----
        SmallSampleWarning
            Below 50 rows.
        """
        n = check_repetitions(self._total, self._rows)
        inside = self._value(self._tables["inside"])
        below = self._value(self._tables["below"]) if "below" in self._tables else None
        warn_of_small_report(n)
        return report_of(
            self._entries(),
            n,
            headline_words(inside, below, self._arguments["coverage"], self._total),
            confidence=check_single_coverage(confidence, "confidence"),
            n_resamples=check_integer(n_resamples, "n_resamples", 0),
            rng=check_random_state(random_state),
        )

    def _entries(self) -> list[ReportEntry]:
        """Return each metric with the values of its statistics."""
        return [
            ReportEntry(self._specs[name], self._options[name], plan.value, self._state(plan))
            for name, plan in self._plans.items()
        ]

    def _setting(self, name: str) -> Any:
        """Return an argument in the form in which it is compared with that of another accumulator."""
        if name == "metrics":
            return self.metrics
        if name == "options":
            return self._options
        value = self._arguments[name]
        return level_grid(value, closed=True) if name == "levels" else value

    def _add(self, values: list[Any], rows: int, total: float) -> None:
        """Add the values of the statistics of other rows, of so many rows and this weight."""
        self._values = values if self._values is None else _added(self._values, values)
        self._rows, self._total = self._rows + rows, self._total + total

    def _state(self, plan: Plan) -> list[Any]:
        """Return the values of the statistics of a plan."""
        if self._values is None:
            raise ValueError("there are no rows yet: call `update` or `merge` first.")
        return [self._values[self._statistics.index(each)] for each in plan.statistics]

    def _value(self, plan: Plan) -> Any:
        """Return the result of a plan for the rows so far."""
        return plan.value(*self._state(plan))

    def _table(self, curve: str, name: str) -> Plan:
        """Return the plan of a table of a curve, which must have been chosen."""
        if curve not in self._arguments["curves"]:
            raise ValueError(
                f"`curves` must hold {curve!r} for this, got {self._arguments['curves']!r} when the "
                "accumulator was made."
            )
        return self._tables[f"{curve} {name}"]

    def __repr__(self) -> str:
        few = len(self._plans) <= MOST_SHOWN
        shown = [repr(name) for name in self._plans] if few else [f"{len(self._plans)} metrics"]
        shown += [
            f"{key}={reprlib.repr(value)}"
            for key, value in self._arguments.items()
            if not same(value, DEFAULTS[key])
        ]
        return f"MetricAccumulator({', '.join([*shown, f'{self._rows} rows'])})"

    def __copy__(self) -> Self:
        copied = type(self).__new__(type(self))
        # What is accumulated is replaced by each update and never changed, and the plans are the same.
        copied.__dict__.update(self.__dict__)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        # Plans hold functions and are made again; the sums are what counts.
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
    """Return the values of the statistics of two sets of rows together."""
    return [one + other for one, other in zip(first, second, strict=True)]
