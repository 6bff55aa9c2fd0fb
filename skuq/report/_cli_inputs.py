"""Options of the command line, and the columns and forecasts that they name."""

from __future__ import annotations

import argparse
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd

from skuq._compat import __version__
from skuq._prediction_sets import SUM_TOLERANCE
from skuq._typing import BoolArray, FloatArray
from skuq.distributions import Empirical, Normal, Quantiles
from skuq.report._cli_tables import InputError, Table
from skuq.report._measure import N_PERIODS, as_times

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
        if self.options.weight is not None and (not rows or total < rows * (1 - 1e-9)):
            path = next(iter(self.tables.values())).path
            raise InputError(
                f"{path}: column {self.options.weight!r} counts repetitions, so its sum must be at least "
                f"{max(rows, 1)}, the number of rows with positive weight, got {total:g}. Multiply the "
                "column by a constant."
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


class Kind(ABC):
    """Columns of the forecasts, and the forecast of a block of rows."""

    has_atoms = False
    labels: tuple[str, ...] | None = None
    """Classes of the columns, for forecasts of classes."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @abstractmethod
    def forecast(self, rows: Rows) -> Any:
        """Return the forecast of a block of rows."""


@dataclass(frozen=True)
class LocScale(Kind):
    """Normal distributions given by mean and standard deviation."""

    loc: str
    scale: str

    @property
    def columns(self) -> tuple[str, ...]:
        return self.loc, self.scale

    def forecast(self, rows: Rows) -> Normal:
        loc, scale = rows.numbers(self.loc), rows.numbers(self.scale)
        remedy = "Pass the standard deviation, not its logarithm."
        rows.fail(self.scale, scale <= 0, "must be positive", remedy)
        return Normal(loc, scale)


@dataclass(frozen=True)
class QuantileColumns(Kind):
    """Quantiles at fixed levels."""

    names: tuple[str, ...]
    levels: tuple[float, ...]
    sort: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def forecast(self, rows: Rows) -> Quantiles:
        values = [rows.numbers(column) for column in self.columns]
        for lower, upper, column, before in zip(
            values, values[1:], self.columns[1:], self.columns, strict=False
        ):
            if not self.sort:
                rows.fail(
                    column,
                    upper < lower,
                    f"must be at least column {before!r}, because quantiles must not cross",
                    "Correct the rows, or pass --sort-quantiles to sort the quantiles of each row.",
                )
        return Quantiles(self.levels, np.column_stack(values))


@dataclass(frozen=True)
class MemberColumns(Kind):
    """Members of an ensemble, or samples."""

    names: tuple[str, ...]
    has_atoms = True

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def forecast(self, rows: Rows) -> Empirical:
        return Empirical(np.column_stack([rows.numbers(column) for column in self.columns]))


@dataclass(frozen=True)
class BoundColumns(Kind):
    """Lower and upper bounds of intervals."""

    lower: str
    upper: str

    @property
    def columns(self) -> tuple[str, ...]:
        return self.lower, self.upper

    def forecast(self, rows: Rows) -> FloatArray:
        lower, upper = rows.numbers(self.lower), rows.numbers(self.upper)
        rows.fail(self.upper, upper < lower, f"must be at least column {self.lower!r}")
        return np.column_stack([lower, upper])


@dataclass(frozen=True)
class ProbaColumns(Kind):
    """Probabilities of classes."""

    names: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def forecast(self, rows: Rows) -> FloatArray:
        values = [rows.numbers(column) for column in self.columns]
        for column, each in zip(self.columns, values, strict=True):
            rows.fail(column, (each < 0) | (each > 1), "must hold probabilities from 0 to 1")
        proba = np.column_stack(values)
        total = proba.sum(axis=1)
        far = np.abs(total - 1) > ROUNDING
        if far.any():
            i = int(np.argmax(far))
            names = ", ".join(map(repr, self.columns))
            raise InputError(
                f"{rows.path}: columns {names} must sum to 1 in each row, got {total[i]:.6g} at row "
                f"{rows.start + i + 1}. Pass the probabilities of all classes."
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


def quantile_columns(text: str, *, sort: bool) -> QuantileColumns:
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
    return QuantileColumns(columns, levels, sort)


def member_columns(text: str, names: Sequence[str]) -> MemberColumns:
    """Return the columns that match names or patterns such as ``member_*``."""
    found: list[str] = []
    for pattern in (part.strip() for part in text.split(",")):
        matching = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        # A name without a column is reported as a missing column of the file.
        found += [name for name in matching or [pattern] if name not in found]
    return MemberColumns(tuple(found))


def proba_columns(text: str) -> ProbaColumns:
    found = pairs(text, "--proba", "p_cat=cat,p_dog=dog")
    columns, labels = tuple(column for column, _ in found), tuple(label for _, label in found)
    if len(set(labels)) < max(len(labels), 2):
        raise InputError(f"--proba must hold at least two different classes, got {text!r}.")
    return ProbaColumns(columns, labels)
