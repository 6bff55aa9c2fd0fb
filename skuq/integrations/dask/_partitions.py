"""Partitions of a dask collection, and input checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dask.delayed import Delayed


def check_dask(caller: str) -> None:
    try:
        import dask  # noqa: F401 - only its presence is checked
    except ImportError as error:
        raise ImportError(f'{caller} needs dask: run `pip install "skuq[dask]"`.') from error


def check_one_block_of_columns(n_blocks: int, name: str) -> None:
    """Raise an error if the columns of an array are divided into several blocks."""
    if n_blocks != 1:
        raise ValueError(
            f"`{name}` must have all columns of a row in one block, got {n_blocks} blocks of columns. Call "
            f"`{name}.rechunk({{1: -1}})`."
        )


def partitions_of(data: Any) -> list[Delayed]:
    if isinstance(data, list | tuple):
        parts = list(data)
    elif hasattr(data, "to_delayed"):
        parts = data.to_delayed()
        if isinstance(parts, np.ndarray):
            if parts.ndim != 2:
                raise ValueError(f"`data` must have two dimensions, rows and columns, got {parts.ndim}.")
            check_one_block_of_columns(parts.shape[1], "data")
            parts = list(parts[:, 0])
    else:
        raise TypeError(
            "`data` must be a dask DataFrame, a dask array or a list of delayed partitions, got "
            f"{type(data).__name__}. For rows in memory, call `accumulator.update`."
        )
    if not parts:
        raise ValueError("`data` must have at least one partition, got none.")
    return parts
