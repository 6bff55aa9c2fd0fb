"""Measurements of time and memory, and files of results, that several benchmarks share."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

shown: dict[str, pd.DataFrame] | None = None
"""Tables that a benchmark has shown, by name, if `make tables` runs it."""


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser of command lines whose help is the docstring of a script."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def show(name: str, table: pd.DataFrame, decimals: dict[str, int] | int = 3) -> None:
    """Print a table, with a named index as the first columns; `make tables` stores it under this name.

    Numbers get the given decimals, by column or 3. Missing values are empty cells.
    """
    table = table.reset_index() if any(table.index.names) else table.copy()

    def cell(value: Any, column: str) -> str:
        if isinstance(value, str):
            return value
        if value is None or np.isnan(value):
            return ""
        n = decimals if isinstance(decimals, int) else decimals.get(column, 3)
        return f"{value:d}" if isinstance(value, int | np.integer) else f"{value:.{n}f}"

    table.columns = table.columns.map(str)
    texts = table.apply(lambda column: column.map(lambda value: cell(value, column.name)))
    print(f"{name}\n\n{texts.to_string(index=False)}\n", flush=True)
    if shown is not None:
        shown[name] = texts


def data_folder() -> Path:
    """Return the folder of the data sets; end the script if ``SKUQ_DATA`` does not have its path."""
    folder = os.environ.get("SKUQ_DATA")
    if not folder or not Path(folder).is_dir():
        raise SystemExit(
            "The environment variable SKUQ_DATA must be the path of the folder that contains the folders "
            f"paper001, gal and other, got {folder!r}."
        )
    return Path(folder)


def seconds(function: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def best_times(*sides: Callable[[], object], budget: float = 3.0, most: int = 15) -> list[float]:
    """Return the shortest time of each function, of alternating calls within a budget in seconds."""
    times: list[list[float]] = []
    while not times or (len(times) < most and sum(map(sum, times)) < budget):
        times.append([seconds(side) for side in sides])
    return [min(column) for column in zip(*times, strict=True)]


def peak_megabytes(function: Callable[[], object]) -> tuple[object, float]:
    """Return the result of a call, and the peak of the memory that it allocates, including the result."""
    tracemalloc.start()
    result = function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, peak / 1e6


def significant(value: float, digits: int = 3) -> str:
    """Return a number with some significant digits, without an exponent."""
    return np.format_float_positional(value, digits, unique=False, fractional=False, trim="-")


@dataclass(frozen=True)
class Line:
    """Comparison of skuq with a reference, which returns the same values unless `same` is false.

    The reference does 1 / `repeats` of the work, and its time is multiplied by `repeats`.
    """

    what: str
    rows: int
    reference: str
    skuq: Callable[[], object]
    ref: Callable[[], object]
    same: bool = False
    repeats: float = 1.0

    def row(self, quick: bool, memory: bool) -> dict[str, Any]:
        """Return the row of the table; the first calls load packages, and are not timed.

        With `quick`, each side is called once, and no time is measured.
        """
        results, sizes = zip(
            *(peak_megabytes(side) if memory else (side(), 0.0) for side in (self.skuq, self.ref)),
            strict=True,
        )
        if self.same:
            np.testing.assert_allclose(*results, rtol=1e-9, atol=1e-12, err_msg=self.what)
        own, ref = (np.nan, np.nan) if quick else best_times(self.skuq, self.ref)
        row = {
            "what": self.what,
            "rows": self.rows,
            "compared with": self.reference,
            "skuq, ms": significant(1e3 * own),
            "ref., ms": significant(1e3 * ref * self.repeats),
            "times faster": significant(ref * self.repeats / own, 2),
        }
        if memory:
            row |= {"skuq, MB": significant(sizes[0]), "ref., MB": significant(sizes[1])}
        return row


def compared(lines: Iterable[Line], quick: bool, memory: bool = False) -> pd.DataFrame:
    """Return a table of comparisons, with the peak memory in addition to the inputs if `memory` is true.

    With `quick`, each side is called once, and no time is measured.
    """
    import pandas as pd

    return pd.DataFrame([line.row(quick, memory) for line in lines])


def stored(path: Path) -> list[dict[str, Any]]:
    """Return the results in a file, one per line."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def missing(
    results: list[dict[str, Any]],
    tasks: Iterable[tuple[Any, str, int]],
    evaluate: Callable[..., dict[str, Any]],
    path: Path,
    most: int | None = None,
) -> None:
    """Compute at most some of the missing results, and append each to the list and to the file.

    A task is a method, a data set and a seed.
    """
    there = {(result["method"], result["set"], result["seed"]) for result in results}
    tasks = (task for task in tasks if (getattr(task[0], "name", task[0]), *task[1:]) not in there)
    for task in itertools.islice(tasks, most):
        results.append(evaluate(*task))
        with path.open("a") as file:
            file.write(json.dumps(results[-1]) + "\n")
