"""Checks of columns. Each error names the file, the column and the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skuq._periods import as_times
from skuq._typing import BoolArray, FloatArray
from skuq.report._cli.errors import InputError

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
            hint = "Write decimals with a point, or pass --decimal." if _has_comma(values) else ""
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


def _has_comma(values: pd.Series[Any]) -> bool:
    return bool(values.astype(str).head(100).str.fullmatch(r"-?\d+,\d+").any())
