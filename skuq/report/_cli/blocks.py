"""Evaluation of files in blocks of rows, for files that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import pandas as pd

from skuq._periods import period_starts, periods
from skuq.monitoring import ClassMetricAccumulator, MetricAccumulator
from skuq.report._cli.columns import Rows
from skuq.report._cli.errors import InputError
from skuq.report._cli.forecasts import BoundColumns, Kind
from skuq.report._cli.inputs import Inputs, check_same_targets
from skuq.report._cli.progress import Progress

Accumulator = MetricAccumulator | ClassMetricAccumulator

MOST_GROUPS = 100
OTHERS = "other groups"

OF_BOUNDS = ["picp", "interval_coverage_error", "mpiw", "nmpiw", "cwc", "interval_score"]
OF_BOUNDS += ["miss_rate", "excess", "deficit"]


@dataclass
class Parts:
    """Accumulators of the groups of rows in one column."""

    kind: Kind
    coverage: float
    accumulators: dict[Any, Accumulator] = field(default_factory=dict)

    def update(self, labels: pd.Series[Any], y: Any, forecast: Any, weight: Any) -> None:
        for label, index in labels.groupby(labels.to_numpy()).indices.items():
            part = None if weight is None else weight[index]
            if part is None or part.any():
                self._of(label).update(y[index], forecast[index], part)

    def _of(self, label: Any) -> Accumulator:
        key = label if label in self.accumulators or len(self.accumulators) < MOST_GROUPS else OTHERS
        if key not in self.accumulators:
            self.accumulators[key] = accumulator_of_part(self.kind, self.coverage)
        return self.accumulators[key]

    def sorted(self) -> dict[Any, Accumulator]:
        return {label: self.accumulators[label] for label in sorted(self.accumulators)}


def accumulator_of_part(kind: Kind, coverage: float) -> Accumulator:
    """Return an empty accumulator of the coverage."""
    if kind.labels is not None:
        return ClassMetricAccumulator("set_coverage", labels=kind.labels, coverage=coverage)
    return MetricAccumulator("picp", coverage=coverage, curves=())


def accumulator_of(kind: Kind, coverage: float) -> Accumulator:
    """Return an empty accumulator of all metrics that suit the kind of forecast."""
    if kind.labels is not None:
        return ClassMetricAccumulator(labels=kind.labels, coverage=coverage)
    if isinstance(kind, BoundColumns):
        return MetricAccumulator(*OF_BOUNDS, coverage=coverage, curves=())
    if kind.has_atoms:
        names = [name for name in MetricAccumulator().metrics if name != "nll"]
        return MetricAccumulator(*names, coverage=coverage)
    return MetricAccumulator(coverage=coverage)


def measure_blocks(
    inputs: Inputs, n: int, progress: Progress
) -> tuple[dict[str, Accumulator], dict[str, dict[Any, Accumulator]]]:
    """Return one accumulator per model, and one accumulator per model and group of rows."""
    options = inputs.options
    separate = [*options.groups, *([options.time] if options.time is not None else [])]
    if inputs.need_all_rows:
        raise InputError(
            "--groups and --time need all rows in memory for several files; evaluate each file "
            "separately, or omit --block-rows."
        )
    models = {name: accumulator_of(kind, options.coverage) for name, kind in inputs.kinds.items()}
    parts = {column: Parts(inputs.kind, options.coverage) for column in separate}
    starts = None if options.time is None else _period_starts(inputs, n, progress)
    done = 0
    try:
        for share, blocks in _blocks(inputs, n):
            first = next(iter(blocks.values()))
            if not len(first):
                continue
            for name, rows in blocks.items():
                y, weight = inputs.targets(rows), inputs.weights(first)
                forecast = inputs.kinds[name].forecast(rows)
                if weight is None or weight.any():
                    models[name].update(y, forecast, weight)
            for column, part in parts.items():
                labels = (
                    first.groups(column)
                    if starts is None or column != options.time
                    else periods(first.times(column), starts)
                )
                part.update(labels, y, forecast, weight)
            done = first.start + len(first)
            progress.show(f"row {done}", 0.05 + 0.85 * share)
    except KeyboardInterrupt as error:
        raise InputError(f"interrupted after row {done}; no page was written.") from error
    if not done:
        raise InputError(f"{next(iter(inputs.tables.values())).path}: the file has no rows below its header.")
    counted = next(iter(models.values()))
    inputs.check_weights(counted.total_weight, counted.n_rows)
    return models, {column: part.sorted() for column, part in parts.items()}


def _blocks(inputs: Inputs, n: int) -> Iterator[tuple[float, dict[str, Rows]]]:
    """Yield the share of the files that has been read, and the next block of the same rows of all tables."""
    readers = [table.blocks(inputs.columns(name), inputs.texts, n) for name, table in inputs.tables.items()]
    start = 0
    for several in zip_longest(*readers):
        share = max(each[0] for each in several if each is not None)
        blocks = {}
        for name, each in zip(inputs.tables, several, strict=True):
            frame = pd.DataFrame() if each is None else each[1].reset_index(drop=True)
            blocks[name] = inputs.rows(name, frame, start)
        first, *others = blocks.values()
        for other in others:
            check_same_targets(first, other, inputs)
        yield share, blocks
        start += len(first)


def _period_starts(inputs: Inputs, n: int, progress: Progress) -> pd.Index[Any]:
    """Return the starts of periods of equal length, from one pass over the column of times."""
    ((name, table),) = inputs.tables.items()
    column, start, ends = inputs.options.time, 0, list[Any]()
    for share, frame in table.blocks([column], [], n):
        times = inputs.rows(name, frame, start).times(column)
        start += len(frame)
        if len(times):
            ends += [times.min(), times.max()]
        progress.show("reading the times", 0.05 * share)
    if not ends:
        return pd.Index([])
    return period_starts(min(ends), max(ends))
