"""The command ``report``: read the files, evaluate the forecasts, and write the page."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from skuq.report._cli.blocks import measure_blocks
from skuq.report._cli.errors import InputError, first_line
from skuq.report._cli.inputs import Inputs, check_same_targets
from skuq.report._cli.options import check
from skuq.report._cli.progress import Progress
from skuq.report._html_report import HTMLReport

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
