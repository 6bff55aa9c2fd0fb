"""Tables in csv and Parquet files, read at once or in blocks of rows."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd


class InputError(Exception):
    """Error in the files or options of the user; its message is one line."""


def first_line(error: BaseException) -> str:
    """Return the message of an error as one line."""
    return " ".join(str(error).split()) or type(error).__name__


PARQUET = (".parquet", ".pq")
PACKED = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".zip": "zip"}
MOST_NAMES = 12

ROWS_IN_MEMORY, BYTES_IN_MEMORY = 1_000_000, 50_000_000
"""Larger Parquet files (in rows) and larger csv files (in bytes) are evaluated in blocks.

One million normal distributions need about 1 GB of memory.
"""

COMPRESSION = 4
"""Assumed ratio of the sizes of a csv file without and with compression."""


@dataclass(frozen=True)
class Table:
    """File with one row per forecast. Columns in `texts` are read as text."""

    path: Path
    separator: str = ","
    decimal: str = "."

    @property
    def is_parquet(self) -> bool:
        return self.path.suffix.lower() in PARQUET

    @cached_property
    def names(self) -> list[str]:
        """Names of all columns, in order; a name may occur twice."""
        with self._errors():
            if self.is_parquet:
                return list(self._parquet().schema_arrow.names)
            head = pd.read_csv(self.path, nrows=1, header=None, dtype=str, na_filter=False, **self._options())
            return [str(name) for name in head.iloc[0]]

    @cached_property
    def sha256(self) -> str:
        with self._errors(), self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    @property
    def is_large(self) -> bool:
        """Return whether the file is read in blocks by default."""
        if self.is_parquet:
            with self._errors():
                return bool(self._parquet().metadata.num_rows > ROWS_IN_MEMORY)
        ratio = COMPRESSION if self.path.suffix.lower() in PACKED else 1
        return self.size * ratio > BYTES_IN_MEMORY

    def check(self, columns: Sequence[str]) -> None:
        """Raise an error for a missing or duplicate column."""
        counts = Counter(self.names)
        for column in columns:
            if not counts[column]:
                shown = ", ".join(self.names[:MOST_NAMES]) + (", ..." if len(self.names) > MOST_NAMES else "")
                close = get_close_matches(column, self.names, 1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                if len(self.names) == 1 and not self.is_parquet:
                    hint = " If another character separates the columns, pass it as --sep."
                raise InputError(f"{self.path}: column {column!r} is missing; the columns are {shown}.{hint}")
            if counts[column] > 1:
                raise InputError(
                    f"{self.path}: column {column!r} occurs {counts[column]} times. Rename all but one."
                )

    def read(self, columns: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
        """Return some columns of all rows."""
        with self._errors():
            if self.is_parquet:
                frame: pd.DataFrame = self._parquet().read(columns=list(columns)).to_pandas()
                return frame
            return self._selected(pd.read_csv(self.path, **self._csv(texts)), columns)

    def blocks(
        self, columns: Sequence[str], texts: Sequence[str], n: int
    ) -> Iterator[tuple[float, pd.DataFrame]]:
        """Yield the share of the file that has been read, and the next n rows."""
        with self._errors():
            if self.is_parquet:
                file = self._parquet()
                done, total = 0, max(file.metadata.num_rows, 1)
                for batch in file.iter_batches(batch_size=n, columns=list(columns)):
                    done += batch.num_rows
                    yield done / total, batch.to_pandas()
                return
            with (
                self.path.open("rb") as raw,
                pd.read_csv(raw, chunksize=n, **self._csv(texts)) as reader,
            ):
                for block in reader:
                    yield raw.tell() / max(self.size, 1), self._selected(block, columns)

    def _csv(self, texts: Sequence[str]) -> dict[str, Any]:
        # Texts such as "NA" and "None" are names of groups and classes. All columns are read, because pandas
        # ignores additional fields of a row if it reads only some columns.
        return {"converters": dict.fromkeys(texts, str), "low_memory": False, **self._options()}

    def _selected(self, frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
        if not isinstance(frame.index, pd.RangeIndex):
            raise InputError(f"{self.path}: the rows have more fields than the header.")
        return frame[list(columns)]

    def _options(self) -> dict[str, Any]:
        return {
            "sep": self.separator,
            "decimal": self.decimal,
            "encoding": "utf-8-sig",
            "compression": PACKED.get(self.path.suffix.lower()),
        }

    def _parquet(self) -> Any:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError as error:
            raise InputError('Parquet needs pyarrow: run `pip install "skuq[parquet]"`.') from error
        return ParquetFile(self.path)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn each error of a file into one line that names the file."""
        try:
            yield
        except InputError:
            raise
        except FileNotFoundError as error:
            raise InputError(f"{self.path}: the file does not exist.") from error
        except pd.errors.EmptyDataError as error:
            raise InputError(f"{self.path}: the file is empty.") from error
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.path}: the file is not valid UTF-8 text (byte {error.start})."
            ) from error
        except (OSError, EOFError, ValueError, zlib.error) as error:  # pyarrow's errors are ValueErrors.
            raise InputError(
                f"{self.path}: the file cannot be read and may be incomplete: {first_line(error)}"
            ) from error
