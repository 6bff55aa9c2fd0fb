"""Options of the command ``report``, and the checks that need no file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from skuq._periods import N_PERIODS
from skuq._versioned import __version__
from skuq.report._cli.errors import InputError
from skuq.report._cli.forecasts import (
    BoundColumns,
    Kind,
    LocScale,
    member_columns,
    proba_columns,
    quantile_columns,
)

REPORT = """Evaluate forecasts in csv or Parquet files, and write one HTML page that needs no other file.

A file has one row per forecast, with the observed value in the column --y. Describe the forecasts by exactly
one of:
  --loc, --scale     mean and standard deviation of normal distributions
  --quantiles        columns of quantiles with their levels
  --members          columns of ensemble members or samples
  --lower, --upper   bounds of intervals, whose nominal coverage is --coverage
  --proba            columns of class probabilities with their classes
Several files are several models for the same rows, and are shown side by side."""

EXAMPLES = """examples:
  python -m skuq report forecasts.csv --y demand --loc mean --scale std -o report.html
  python -m skuq report forecasts.parquet --y y --quantiles "q05=.05,q50=.5,q95=.95" -o report.html
  python -m skuq report forecasts.csv --y y --members "member_*" --groups region --time date -o report.html
  python -m skuq report forecasts.csv --y y --lower low --upper high --coverage 0.8 -o report.html
  python -m skuq report classes.csv --y animal --proba "p_cat=cat,p_dog=dog" -o report.html
  python -m skuq report ours.csv theirs.csv --y y --loc mean --scale std -o report.html

Rows in error messages are counted from 1, without the header. The exit code is 0 after success, 2 after an
error in the files or options, and 1 after an error of skuq itself."""


class Parser(argparse.ArgumentParser):
    """Parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see `{self.prog} --help`")


def parser() -> Parser:
    main = Parser(prog="python -m skuq", description="Evaluate the uncertainty of forecasts.")
    main.add_argument("--version", action="version", version=f"skuq {__version__}")
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    commands.add_parser("show-versions", help="print the versions of skuq and related packages")
    report = commands.add_parser(
        "report",
        help="evaluate forecasts in files, and write an HTML page",
        description=REPORT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_inputs(report)
    _add_outputs(report)
    return main


def _add_inputs(report: argparse.ArgumentParser) -> None:
    report.add_argument("files", nargs="+", type=Path, metavar="FILE", help="csv or Parquet, also compressed")
    report.add_argument("--y", required=True, metavar="COLUMN", help="observed values or classes")
    kinds = report.add_argument_group("forecasts")
    kinds.add_argument("--loc", metavar="COLUMN", help="predicted means")
    kinds.add_argument("--scale", metavar="COLUMN", help="predicted standard deviations")
    kinds.add_argument(
        "--quantiles", metavar="COLUMN=LEVEL,...", help='columns and levels, such as "q05=.05,q95=.95"'
    )
    kinds.add_argument("--sort-quantiles", action="store_true", help="sort quantiles that cross")
    kinds.add_argument("--members", metavar="COLUMN,...", help='names or patterns, such as "member_*"')
    kinds.add_argument("--lower", metavar="COLUMN", help="lower bounds")
    kinds.add_argument("--upper", metavar="COLUMN", help="upper bounds")
    kinds.add_argument(
        "--proba",
        metavar="COLUMN=CLASS,...",
        help='columns and their classes in --y, such as "p_cat=cat,p_dog=dog"',
    )
    rows = report.add_argument_group("rows")
    rows.add_argument(
        "--coverage",
        type=float,
        default=0.9,
        help="share of observed values that the intervals should contain, between 0 and 1 (default 0.9)",
    )
    rows.add_argument("--weight", metavar="COLUMN", help="number of repetitions of each row")
    rows.add_argument(
        "--groups",
        metavar="COLUMN",
        action="append",
        default=[],
        help="column of groups, such as a region; the page shows the coverage of each group; repeat the "
        "option for a second column",
    )
    rows.add_argument(
        "--time",
        metavar="COLUMN",
        help=f"dates or numbers; the rows are divided into {N_PERIODS} equal periods",
    )
    rows.add_argument("--sep", default=",", help="character between the columns of a csv file (,)")
    rows.add_argument("--decimal", default=".", help="decimal character of a csv file (.)")
    rows.add_argument(
        "--block-rows",
        type=int,
        metavar="N",
        help="read N rows at a time, for files that do not fit into memory (200000 for Parquet files of more "
        "than one million rows and csv files of more than 50 MB; not for several files with --groups or "
        "--time)",
    )


def _add_outputs(report: argparse.ArgumentParser) -> None:
    page = report.add_argument_group("page")
    page.add_argument("-o", "--output", required=True, type=Path, help="HTML page to write")
    page.add_argument("--no-json", action="store_true", help="write no JSON file next to the page")
    page.add_argument("--title", help="title of the page")
    page.add_argument("--name", action="append", default=[], help="name of the model, once per file")
    page.add_argument("--seed", type=int, default=0, help="seed of resamples and draws (0)")
    page.add_argument(
        "--resamples",
        type=int,
        metavar="N",
        help="number of bootstrap resamples of the rows for the 95 %% interval of each metric; 0 for no "
        "intervals (default 300, fewer above 300000 rows)",
    )
    page.add_argument(
        "--draws",
        type=int,
        metavar="N",
        help="number of draws of observed values from the forecasts, for the column Calibrated; 0 for no "
        "draws (default 100, fewer above 1000000 rows)",
    )
    page.add_argument(
        "--created", metavar="TIME", help="time on the page; the same time gives identical files"
    )
    shown = page.add_mutually_exclusive_group()
    shown.add_argument("--progress", action="store_true", default=None, help="always draw a progress bar")
    shown.add_argument("--quiet", action="store_true", help="print errors only")
    page.add_argument("--traceback", action="store_true", help="show where an error of skuq occurred")


def kind_of(options: argparse.Namespace, names: Sequence[str]) -> Kind:
    """Return the kind of forecast that the options describe, for a file with these columns."""
    given = {
        "--loc and --scale": (options.loc, options.scale),
        "--quantiles": (options.quantiles,),
        "--members": (options.members,),
        "--lower and --upper": (options.lower, options.upper),
        "--proba": (options.proba,),
    }
    used = [name for name, values in given.items() if any(value is not None for value in values)]
    if len(used) != 1:
        got = " and ".join(used) or "none"
        raise InputError(f"exactly one kind of forecast is needed, from {', '.join(given)}; got {got}.")
    if None in given[used[0]]:
        raise InputError(f"{used[0]} must be given together.")
    makers: dict[str, Any] = {
        "--loc and --scale": lambda: LocScale(options.loc, options.scale),
        "--quantiles": lambda: quantile_columns(options.quantiles, sort=options.sort_quantiles),
        "--members": lambda: member_columns(options.members, names),
        "--lower and --upper": lambda: BoundColumns(options.lower, options.upper),
        "--proba": lambda: proba_columns(options.proba),
    }
    kind: Kind = makers[used[0]]()
    return kind


def check(options: argparse.Namespace) -> None:
    """Check options that need no file, and that the page can be written."""
    if not 0 < options.coverage < 1:
        hint = f" Did you mean {options.coverage / 100:g}?" if 1 < options.coverage < 100 else ""
        raise InputError(f"--coverage must lie between 0 and 1, got {options.coverage:g}.{hint}")
    if options.block_rows is not None and options.block_rows < 1:
        raise InputError(f"--block-rows must be at least 1, got {options.block_rows}.")
    for name in ("resamples", "draws"):
        number = getattr(options, name)
        if number is not None and number < 0:
            raise InputError(f"--{name} must be at least 0, got {number}.")
    if not 0 <= options.seed < 2**32:
        raise InputError(f"--seed must be a number from 0 to 2**32 - 1, got {options.seed}.")
    if options.name and len(options.name) != len(options.files):
        counts = f"{len(options.name)} names for {len(options.files)} files"
        raise InputError(f"--name must be given once per file, got {counts}.")
    if len(options.sep) != 1 or len(options.decimal) != 1:
        raise InputError(
            f"--sep and --decimal must each be one character, got {options.sep!r} and {options.decimal!r}."
        )
    check_output(options.output, options.files)


def check_output(output: Path, files: Sequence[Path]) -> None:
    if output.suffix.lower() == ".json":
        raise InputError(f"--output must not have the suffix .json, got {str(output)!r}. Use .html.")
    if output.is_dir() or not output.parent.is_dir():
        what = "is a folder" if output.is_dir() else "is in a folder that does not exist"
        raise InputError(f"{output}: the page cannot be written, because this path {what}.")
    if not os.access(output.parent, os.W_OK):
        raise InputError(f"{output}: the page cannot be written: no permission for this folder.")
    targets = {output.resolve(), output.with_suffix(".json").resolve()}
    for file in files:
        if file.resolve() in targets:
            raise InputError(f"{output}: the page would replace the input {file}. Choose another name.")


def names_of(options: argparse.Namespace) -> list[str]:
    """Return one name per model."""
    names: list[str] = options.name or [file.name.split(".")[0] for file in options.files]
    if len(set(names)) < len(names):
        names = options.name or [str(file) for file in options.files]
    if len(set(names)) < len(names):
        raise InputError(f"the models must have different names, got {', '.join(names)}. Pass --name.")
    return names
