"""Files of all models, and the columns of their rows."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from skuq._typing import FloatArray
from skuq.report._cli.columns import Rows
from skuq.report._cli.errors import InputError
from skuq.report._cli.forecasts import Kind
from skuq.report._cli.options import kind_of, names_of
from skuq.report._cli.tables import Table


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
