"""The command line, and reports of tables that are read in blocks."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skuq._compat import show_versions
from skuq.monitoring import ClassMetricAccumulator, MetricAccumulator
from skuq.report._cli_inputs import Inputs, Kind, Rows, check, check_same_targets, parser
from skuq.report._cli_tables import InputError, first_line
from skuq.report._html_report import HTMLReport
from skuq.report._measure import MOST_GROUPS, OTHERS, Accumulator, period_starts, periods

WIDTH, SECONDS = 30, 0.2


class Progress:
    """Bar that is drawn on one line of stderr, if stderr is a terminal or the user requests it."""

    def __init__(self, *, shown: bool | None) -> None:
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._last = 0.0

    def show(self, what: str, share: float) -> None:
        now = time.monotonic()
        if self.shown and (now - self._last > SECONDS or share >= 1):
            self._last = now
            share = min(max(share, 0.0), 1.0)
            filled = round(WIDTH * share)
            bar = "#" * filled + " " * (WIDTH - filled)
            sys.stderr.write(f"\r[{bar}] {100 * share:3.0f} %  {what[:60]:60}")
            sys.stderr.flush()

    def close(self) -> None:
        """End the line of the bar, so that the next message starts on a new line."""
        if self.shown and self._last:
            sys.stderr.write("\r" + " " * (WIDTH + 72) + "\r")
            sys.stderr.flush()


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
            labels, coverage = self.kind.labels, self.coverage
            self.accumulators[key] = (
                MetricAccumulator("picp", coverage=coverage, curves=())
                if labels is None
                else ClassMetricAccumulator("set_coverage", labels=labels, coverage=coverage)
            )
        return self.accumulators[key]

    def sorted(self) -> dict[Any, Accumulator]:
        return {label: self.accumulators[label] for label in sorted(self.accumulators)}


def accumulator_of(kind: Kind, coverage: float) -> Accumulator:
    """Return an empty accumulator of all metrics that suit the kind of forecast."""
    if kind.labels is not None:
        return ClassMetricAccumulator(labels=kind.labels, coverage=coverage)
    if kind.of_bounds:
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


BLOCK_ROWS = 200_000
"""Number of rows per block of a large file."""


def run(options: argparse.Namespace, argv: list[str]) -> None:
    """Evaluate the forecasts in files, and write the page."""
    check(options)
    inputs = Inputs.opened(options)
    progress = Progress(shown=False if options.quiet else options.progress)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = measure(inputs, argv, progress)
        messages = sorted({" ".join(str(each.message).split()) for each in caught})
        if messages:
            report.facts = {**report.facts, "Warnings": " ".join(messages)}
        progress.show("writing the page", 0.97)
        write(report, options.output, json=not options.no_json)
        progress.show("done", 1.0)
    finally:
        progress.close()
    if not options.quiet:
        show(report, options, messages)


def measure(inputs: Inputs, argv: list[str], progress: Progress) -> HTMLReport:
    """Return the report of all files, with all rows in memory or block by block."""
    options = inputs.options
    keywords: dict[str, Any] = {
        "random_state": options.seed,
        "title": options.title or f"Uncertainty report: {', '.join(inputs.tables)}",
        "created": options.created,
        "origin": inputs.origin(argv),
    }
    in_blocks = not inputs.need_all_rows and any(table.is_large for table in inputs.tables.values())
    rows = options.block_rows or (BLOCK_ROWS if in_blocks else None)
    if rows is None:
        report = in_memory(inputs, keywords, progress)
    else:
        models, slices = measure_blocks(inputs, rows, progress)
        report = HTMLReport.from_accumulator(models, slices=slices, **keywords)
    report.facts = {**inputs.facts(), **report.facts}
    return report


def in_memory(inputs: Inputs, keywords: dict[str, Any], progress: Progress) -> HTMLReport:
    options, models = inputs.options, {}
    read = {
        name: inputs.rows(name, table.read(inputs.columns(name), inputs.texts), 0)
        for name, table in inputs.tables.items()
    }
    first = next(iter(read.values()))
    for name, rows in read.items():
        if not len(rows):
            raise InputError(f"{rows.path}: the file has no rows below its header.")
        check_same_targets(first, rows, inputs)
        models[name] = inputs.kinds[name].forecast(rows)
    weights = inputs.weights(first)
    if weights is not None:
        inputs.check_weights(weights.sum(), int(np.count_nonzero(weights)))
    progress.show("evaluating the forecasts", 0.3)
    labels = inputs.kind.labels
    return HTMLReport.from_predictions(
        inputs.targets(first),
        models,
        labels=None if labels is None else np.array(labels),
        coverage=options.coverage,
        sample_weight=weights,
        groups=inputs.groups(first),
        time=inputs.times(first),
        n_resamples=options.resamples,
        n_draws=options.draws,
        **keywords,
    )


def write(report: HTMLReport, output: Path, *, json: bool) -> None:
    try:
        report.save(output, json=json)
    except OSError as error:
        raise InputError(f"{output}: the page cannot be written: {first_line(error)}") from error


def show(report: HTMLReport, options: argparse.Namespace, messages: list[str]) -> None:
    """Print the summary of each model, the most important finding, and the names of the files."""
    for name, found in report.findings.items():
        print(f"{name}: {report.summaries[name]}.")
        for finding in found:
            print(f"  {finding.severity}: {finding.title}")
    for message in messages:
        print(f"warning: {message}")
    names = [str(options.output)]
    if not options.no_json:
        names.append(str(options.output.with_suffix(".json")))
    print(f"written: {' and '.join(names)}")


SUCCESS, INTERNAL, INPUT = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    The exit code is 2 after an error in the files or options, and 1 after an error of skuq.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        options = parser().parse_args(arguments)
        if options.command == "show-versions":
            show_versions()
        else:
            run(options, arguments)
    except (InputError, MemoryError, ImportError) as error:
        return fail(first_line(error), INPUT)
    except KeyboardInterrupt:
        return fail("interrupted; no page was written.", INPUT)
    except Exception as error:
        if "--traceback" in arguments:
            traceback.print_exc()
        message = first_line(error)
        # Messages of argument checks begin with the name of the argument.
        if isinstance(error, ValueError | TypeError) and message.startswith("`"):
            return fail(message, INPUT)
        return fail(
            f"internal error: {type(error).__name__}: {message} (pass --traceback to see where)", INTERNAL
        )
    return SUCCESS


def fail(message: str, code: int) -> int:
    print(f"skuq: error: {message}", file=sys.stderr)
    return code
