"""Base class of the accumulators: merges, results, reports, copies and pickles."""

from __future__ import annotations

import functools
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from skuq._validation import check_integer, check_random_state, check_repetitions, check_single_coverage
from skuq._versioned import __version__, warn_of_other_version
from skuq.evaluation._report.table import UncertaintyReport
from skuq.monitoring._accumulator.arguments import plans_of_metrics
from skuq.monitoring._accumulator.block import Block
from skuq.monitoring._accumulator.plans import Plan
from skuq.monitoring._accumulator.report import Headline, ReportEntry, report_of
from skuq.monitoring._accumulator.statistics import Statistic, same

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
