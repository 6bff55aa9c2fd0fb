"""Forecasts that columns of a table describe: one kind per group of options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from skuq._prediction_sets import SUM_TOLERANCE
from skuq._typing import FloatArray
from skuq.distributions import Empirical, Normal, Quantiles
from skuq.report._cli.columns import Rows
from skuq.report._cli.errors import InputError

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
