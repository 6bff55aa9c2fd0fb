"""Options of the command line, and the columns and forecasts that they name."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd

from skuq._compat import __version__
from skuq._prediction_sets import SUM_TOLERANCE
from skuq._typing import BoolArray, FloatArray
from skuq._validation import LEAST_MEAN_WEIGHT
from skuq.distributions import Empirical, Normal, Quantiles
from skuq.report._cli_tables import InputError, Table
from skuq.report._measure import N_PERIODS, as_times

REPORT = """Evaluate the forecasts in csv or Parquet files with one row per forecast, and
write one HTML page. Several files are several models for the same rows."""

ENDING = """Rows in error messages are counted from 1, without the header. The exit code is
2 after an error in the files or options, and 1 after an error of skuq itself."""

USAGE = """python -m skuq report FILE ... --y COL -o PAGE [forecasts] [rows] [page]"""

OPTIONS: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "forecasts (exactly one kind)": [
        ("--loc COL", "means of normal distributions", {}),
        ("--scale COL", "standard deviations of normal distributions", {}),
        ("--quantiles COL=LEVEL,...", 'quantiles, as in "q05=.05,q95=.95"', {}),
        ("--sort-quantiles", "sort quantiles that cross", {}),
        ("--members COL,...", 'ensemble or samples, as in "member_*"', {}),
        ("--lower COL", "lower bounds of intervals of --coverage", {}),
        ("--upper COL", "upper bounds", {}),
        ("--proba COL=CLASS,...", 'probabilities, as in "p_cat=cat,p_dog=dog"', {}),
    ],
    "rows": [
        ("--y COL", "observed values or classes", {"required": True}),
        ("--coverage P", "nominal coverage of intervals, 0 to 1 (0.9)", {"type": float, "default": 0.9}),
        ("--weight COL", "number of repetitions of each row", {}),
        ("--groups COL", "groups, for their coverage; can be repeated", {"action": "append", "default": []}),
        ("--time COL", f"dates or numbers, divided into {N_PERIODS} equal periods", {}),
        ("--sep C", "character between columns of a csv file (,)", {"default": ","}),
        ("--decimal C", "decimal character of a csv file (.)", {"default": "."}),
        ("--block-rows N", "rows read at a time, for files larger than memory", {"type": int}),
    ],
    "page": [
        ("--output PAGE", "HTML page to write", {"required": True, "type": Path}),
        ("--no-json", "write no JSON file next to the page", {}),
        ("--title TEXT", "title of the page", {}),
        ("--name TEXT", "name of a model, once per file", {"action": "append", "default": []}),
        ("--seed N", "seed of resamples and draws (0)", {"type": int, "default": 0}),
        ("--resamples N", "bootstrap resamples, for 95 %% intervals (300)", {"type": int}),
        ("--draws N", "draws, for the column Calibrated (100)", {"type": int}),
        ("--created TIME", "time on the page; a fixed time repeats the bytes", {}),
        ("--progress", "always draw a progress bar", {"default": None}),
        ("--quiet", "print errors only", {}),
        ("--traceback", "show where an error of skuq occurred", {}),
        ("--help", "show this text and exit", {"action": "help"}),
    ],
}
"""Options of each group: name with argument, description, and keywords for argparse."""

SHORT = {"--output": "-o", "--help": "-h"}


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
        usage=USAGE,
        description=REPORT,
        epilog=ENDING,
        add_help=False,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=29, width=80),
    )
    report.add_argument("files", nargs="+", type=Path, help=argparse.SUPPRESS)
    for title, options in OPTIONS.items():
        group = report.add_argument_group(title)
        for usage, text, more in options:
            flag, _, metavar = usage.partition(" ")
            keywords = {"metavar": metavar} if metavar else {"action": "store_true"}
            names = [SHORT[flag], flag] if flag in SHORT else [flag]
            group.add_argument(*names, help=text, **{**keywords, **more})
    return main


def kind_of(options: argparse.Namespace, names: Sequence[str]) -> Kind:
    """Return the kind of forecast that the options describe, for a file with these columns."""
    makers: dict[str, Callable[[], Kind]] = {
        "--loc and --scale": lambda: Kind((options.loc, options.scale), normal),
        "--quantiles": lambda: quantile_columns(options.quantiles, sort=options.sort_quantiles),
        "--members": lambda: Kind(member_columns(options.members, names), members, has_atoms=True),
        "--lower and --upper": lambda: Kind((options.lower, options.upper), bounds, of_bounds=True),
        "--proba": lambda: proba_columns(options.proba),
    }
    given = {kind: [getattr(options, each.strip("-")) for each in kind.split(" and ")] for kind in makers}
    used = [kind for kind, values in given.items() if any(value is not None for value in values)]
    if len(used) != 1:
        got = " and ".join(used) or "none"
        raise InputError(f"exactly one kind of forecast is needed, from {', '.join(given)}; got {got}.")
    if None in given[used[0]]:
        raise InputError(f"{used[0]} must be given together.")
    return makers[used[0]]()


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
    if options.quiet and options.progress:
        raise InputError("--quiet must not be given together with --progress.")
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


MOST_DIFFERENT = 0.5
"""Maximum number of groups per row. It is checked for the first block of at least `MIN_ROWS` rows."""

MIN_ROWS = 50


class Rows:
    """Block of rows of a table, and the number of rows before it.

    Rows are counted from 1, without the header.
    """

    def __init__(self, path: object, frame: pd.DataFrame, start: int) -> None:
        self.path, self.frame, self.start = path, frame, start

    def __len__(self) -> int:
        return len(self.frame)

    def fail(self, column: str, wrong: BoolArray, requirement: str, remedy: str = "") -> None:
        """Raise an error that names the first wrong row, if there is one."""
        if wrong.any():
            i = int(np.argmax(wrong))
            value = self.frame[column].iloc[i]
            got = "an empty cell" if pd.isna(value) else repr(getattr(value, "item", lambda: value)())
            row = self.start + i + 1
            more = f" ({int(wrong.sum())} such rows in this block)" if wrong.sum() > 1 else ""
            end = f" {remedy}" if remedy else ""
            raise InputError(
                f"{self.path}: column {column!r} {requirement}, got {got} at row {row}{more}.{end}"
            )

    def numbers(self, column: str) -> FloatArray:
        """Return a column of finite numbers."""
        values = self.frame[column]
        if values.dtype.kind not in "iuf":
            converted = pd.to_numeric(values.astype(object), errors="coerce")
            has_comma = values.astype(str).head(100).str.fullmatch(r"-?\d+,\d+").any()
            hint = "Write decimals with a point, or pass --decimal." if has_comma else ""
            missing = converted.isna().to_numpy()
            self.fail(column, missing & values.notna().to_numpy(), "must hold numbers", hint)
            values = converted
        array: FloatArray = values.to_numpy(dtype=np.float64, na_value=np.nan)
        self.fail(column, ~np.isfinite(array), "must hold finite numbers")
        return array

    def texts(self, column: str) -> pd.Series[Any]:
        """Return a column as text. Whole numbers have no decimals."""
        values = self.frame[column]
        missing = (values.isna() | (values.astype(object) == "")).to_numpy(dtype=bool)
        self.fail(column, missing, "must not have empty cells")
        if values.dtype.kind == "f" and (values % 1 == 0).all():
            values = values.astype("int64")
        return values.astype(str).reset_index(drop=True)

    def groups(self, column: str) -> pd.Series[Any]:
        """Return a column of names of groups."""
        names = self.texts(column)
        different = names.nunique()
        if not self.start and len(names) >= MIN_ROWS and different > MOST_DIFFERENT * len(names):
            raise InputError(
                f"{self.path}: column {column!r} of --groups must hold names that many rows share, got "
                f"{different} different values in {len(names)} rows. Use a column such as a region, or "
                "--time for dates and numbers."
            )
        return names

    def times(self, column: str) -> pd.Series[Any]:
        """Return a column of numbers or timestamps."""
        values = self.frame[column]
        if values.dtype.kind in "iuf":
            return pd.Series(self.numbers(column), name=column)
        read = as_times(values)
        remedy = "Use dates such as 2024-01-31."
        self.fail(column, read.isna().to_numpy(), "must hold dates or numbers", remedy)
        return read.reset_index(drop=True)


@dataclass(frozen=True)
class Inputs:
    """Tables of all models, with their kinds of forecast and the names of the columns.

    The first table has the weights, groups and times of the rows.
    """

    options: argparse.Namespace
    tables: Mapping[str, Table]
    kinds: Mapping[str, Kind]

    @classmethod
    def opened(cls, options: argparse.Namespace) -> Self:
        """Open the files, and check that they have all columns."""
        tables = {
            name: Table(path, options.sep, options.decimal)
            for name, path in zip(names_of(options), options.files, strict=True)
        }
        kinds = {name: kind_of(options, table.names) for name, table in tables.items()}
        inputs = cls(options, tables, kinds)
        for name, table in tables.items():
            table.check(inputs.columns(name))
        return inputs

    @property
    def kind(self) -> Kind:
        return next(iter(self.kinds.values()))

    @property
    def need_all_rows(self) -> bool:
        """Return whether the evaluation needs all rows in memory."""
        return len(self.tables) > 1 and bool(self.options.groups or self.options.time is not None)

    @property
    def texts(self) -> list[str]:
        """Columns that are read as text."""
        classes = [self.options.y] if self.kind.labels is not None else []
        return [*classes, *self.options.groups]

    def columns(self, name: str) -> list[str]:
        """Columns of one table."""
        chosen = [self.options.y, *self.kinds[name].columns]
        if name == next(iter(self.tables)):
            others = [self.options.weight, *self.options.groups, self.options.time]
            chosen += [column for column in others if column is not None]
        return list(dict.fromkeys(chosen))

    def rows(self, name: str, frame: pd.DataFrame, start: int) -> Rows:
        return Rows(self.tables[name].path, frame, start)

    def targets(self, rows: Rows) -> Any:
        """Return the observed values, or the observed classes as text."""
        column, labels = self.options.y, self.kind.labels
        if labels is None:
            return rows.numbers(column)
        y = rows.texts(column)
        wrong = ~y.isin(labels).to_numpy()
        remedy = "Add this class to --proba."
        rows.fail(column, wrong, f"must hold one of the classes {', '.join(labels)}", remedy)
        return y.to_numpy(dtype=str)

    def weights(self, rows: Rows) -> FloatArray | None:
        if self.options.weight is None:
            return None
        weight = rows.numbers(self.options.weight)
        rows.fail(self.options.weight, weight < 0, "must not be negative")
        return weight

    def check_weights(self, total: float, rows: int) -> None:
        """Raise an error if the weights cannot be numbers of repetitions of the rows."""
        if self.options.weight is not None and (not rows or total < LEAST_MEAN_WEIGHT * rows):
            path = next(iter(self.tables.values())).path
            raise InputError(
                f"{path}: column {self.options.weight!r} counts repetitions, so its sum must be at least "
                f"{LEAST_MEAN_WEIGHT * max(rows, 1):g}, half of the number of rows with positive weight, got "
                f"{total:g}. Multiply the column by a constant."
            )

    def groups(self, rows: Rows) -> pd.DataFrame | None:
        if not self.options.groups:
            return None
        return pd.DataFrame({column: rows.groups(column) for column in self.options.groups})

    def times(self, rows: Rows) -> pd.Series[Any] | None:
        """Return times as numbers or timestamps."""
        column = self.options.time
        return None if column is None else rows.times(column)

    def origin(self, argv: list[str]) -> dict[str, str]:
        lines = {"Command": shlex.join(["python", "-m", "skuq", *argv])}
        for name, table in self.tables.items():
            lines[f"File of {name}"] = f"{table.path.name}, {table.size} bytes, SHA-256 {table.sha256}"
        return lines

    def facts(self) -> dict[str, str]:
        facts = {"Files": ", ".join(table.path.name for table in self.tables.values())}
        facts |= {"Column of the observed values": self.options.y}
        facts |= {"Columns of the forecasts": ", ".join(self.kind.columns)}
        if self.options.weight is not None:
            facts["Column of the weights"] = self.options.weight
        return facts


def check_same_targets(first: Rows, other: Rows, inputs: Inputs) -> None:
    """Raise an error if two tables do not have the same observed values in the same order."""
    if len(first) != len(other):
        ends = [each.start + len(each) for each in (first, other)]
        raise InputError(
            f"{other.path}: the file must have as many rows as {first.path}, but has "
            f"{'fewer' if ends[1] < ends[0] else 'more'}: row {min(ends) + 1} is in only one file."
        )
    different = inputs.targets(first) != inputs.targets(other)
    requirement = f"must have the values of {first.path} in the same order"
    other.fail(inputs.options.y, np.asarray(different), requirement)


ROUNDING = 0.01
"""Largest accepted difference between 1 and the sum of rounded class probabilities."""


@dataclass(frozen=True)
class Kind:
    """Columns of the forecasts, and the function that reads the forecast of a block of rows from them."""

    columns: tuple[str, ...]
    read: Callable[[Rows, tuple[str, ...]], Any]
    labels: tuple[str, ...] | None = None
    """Classes of the columns, for forecasts of classes."""
    has_atoms: bool = False
    of_bounds: bool = False

    def forecast(self, rows: Rows) -> Any:
        return self.read(rows, self.columns)


def normal(rows: Rows, columns: tuple[str, ...]) -> Normal:
    loc, scale = (rows.numbers(column) for column in columns)
    remedy = "Pass the standard deviation, not its logarithm."
    rows.fail(columns[1], scale <= 0, "must be positive", remedy)
    return Normal(loc, scale)


def quantiles(rows: Rows, columns: tuple[str, ...], *, levels: tuple[float, ...], sort: bool) -> Quantiles:
    values = [rows.numbers(column) for column in columns]
    for (before, lower), (column, upper) in pairwise(zip(columns, values, strict=True)):
        if not sort:
            rows.fail(
                column,
                upper < lower,
                f"must be at least column {before!r}, because quantiles must not cross",
                "Correct the rows, or pass --sort-quantiles to sort the quantiles of each row.",
            )
    return Quantiles(levels, np.column_stack(values))


def members(rows: Rows, columns: tuple[str, ...]) -> Empirical:
    return Empirical(np.column_stack([rows.numbers(column) for column in columns]))


def bounds(rows: Rows, columns: tuple[str, ...]) -> FloatArray:
    lower, upper = (rows.numbers(column) for column in columns)
    rows.fail(columns[1], upper < lower, f"must be at least column {columns[0]!r}")
    return np.column_stack([lower, upper])


def probabilities(rows: Rows, columns: tuple[str, ...]) -> FloatArray:
    values = [rows.numbers(column) for column in columns]
    for column, each in zip(columns, values, strict=True):
        rows.fail(column, (each < 0) | (each > 1), "must hold probabilities from 0 to 1")
    proba = np.column_stack(values)
    total = proba.sum(axis=1)
    far = np.abs(total - 1) > ROUNDING
    if far.any():
        i = int(np.argmax(far))
        raise InputError(
            f"{rows.path}: columns {', '.join(map(repr, columns))} must sum to 1 in each row, got "
            f"{total[i]:.6g} at row {rows.start + i + 1}. Pass the probabilities of all classes."
        )
    rounded = np.abs(total - 1) > SUM_TOLERANCE
    return np.where(rounded[:, np.newaxis], proba / total[:, np.newaxis], proba)


def pairs(text: str, option: str, example: str) -> list[tuple[str, str]]:
    """Return the pairs of a text such as ``q05=.05,q95=.95``."""
    found = []
    for part in text.split(","):
        column, equals, value = part.strip().rpartition("=")
        if not (column and equals and value):
            raise InputError(f"{option} must hold pairs such as {example!r}, got {part.strip()!r}.")
        found.append((column.strip(), value.strip()))
    return found


def quantile_columns(text: str, *, sort: bool) -> Kind:
    """Return the quantiles in the order of their levels."""
    found = []
    for column, value in pairs(text, "--quantiles", "q05=.05,q95=.95"):
        try:
            level = float(value)
        except ValueError:
            level = np.nan
        if not 0 < level < 1:
            raise InputError(
                f"--quantiles must hold levels between 0 and 1, got {value!r} for column {column!r}."
            )
        found.append((level, column))
    found.sort()
    levels, columns = tuple(level for level, _ in found), tuple(column for _, column in found)
    if len(set(levels)) < len(levels) or len(levels) < 2:
        raise InputError(f"--quantiles must hold at least two different levels, got {text!r}.")
    return Kind(columns, partial(quantiles, levels=levels, sort=sort))


def member_columns(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that match names or patterns such as ``member_*``."""
    found: list[str] = []
    for pattern in (part.strip() for part in text.split(",")):
        matching = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        # A name without a column is reported as a missing column of the file.
        found += [name for name in matching or [pattern] if name not in found]
    return tuple(found)


def proba_columns(text: str) -> Kind:
    found = pairs(text, "--proba", "p_cat=cat,p_dog=dog")
    columns, labels = tuple(column for column, _ in found), tuple(label for _, label in found)
    if len(set(labels)) < max(len(labels), 2):
        raise InputError(f"--proba must hold at least two different classes, got {text!r}.")
    return Kind(columns, probabilities, labels)
