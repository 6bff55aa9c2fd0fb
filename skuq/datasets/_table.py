"""Reading, checks and storage of the tables of values."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd

from skuq.datasets._sets import DataSet

_NUMBERS = {"": "nan", "NA": "nan", "?": "nan", "True": "1", "False": "0"}


def read_csv(source: Any, **options: Any) -> pd.DataFrame:
    table: pd.DataFrame = pd.read_csv(source, dtype=str, keep_default_na=False, **options)
    return table


def read_table(path: Path, data: DataSet) -> pd.DataFrame:
    return check_table(read_csv(path, compression="gzip"), data)


def check_table(texts: pd.DataFrame, data: DataSet) -> pd.DataFrame:
    """Return the table with numeric columns. Raise a ValueError if it is not the table of the papers."""
    columns = list(data.units)
    if set(columns) <= set(texts.columns):
        table = texts[columns].copy()
    elif texts.shape[1] == len(columns) and data.sha256:  # the checksum then checks the order of the columns
        table = texts.set_axis(columns, axis=1)
    else:
        raise ValueError(f"it has the columns {_shorten(texts.columns)}, not {_shorten(columns)}")
    if len(table) != data.n_rows:
        raise ValueError(f"it has {len(table)} rows, not {data.n_rows}")
    for name in columns:
        if name not in data.text:
            table[name] = table[name].replace(_NUMBERS).astype(np.float64)
    if data.sha256 and _checksum(table) != data.sha256:
        raise ValueError("its values differ from the published table (checksum)")
    return table


def store_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table to a temporary file and rename it, so that no process reads an incomplete file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with temporary.open("xb") as file:  # with the permissions of a new file
            table.to_csv(file, index=False, compression="gzip")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _checksum(table: pd.DataFrame) -> str:
    """Return the SHA-256 of names and values.

    Values have single precision, because printed values lose digits.
    """
    found = hashlib.sha256()
    for name, values in table.items():
        found.update(f"{name}\0".encode())
        if values.dtype == np.float64:
            numbers = values.to_numpy("<f4") + np.float32(0)  # converts -0.0 to 0.0
            numbers[np.isnan(numbers)] = np.nan
            found.update(numbers.tobytes())
        else:
            found.update("\0".join(values).encode())
    return found.hexdigest()


def _shorten(names: Any) -> str:
    listing = ", ".join(map(str, list(names)[:4]))[:80]
    return f"{listing}, ... ({len(names)})" if len(names) > 4 else listing
