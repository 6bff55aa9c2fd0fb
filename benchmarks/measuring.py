"""Measurements of time and memory, and files of results, that several benchmarks share."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Clock = Callable[[], float]
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
    folder = Path(os.environ.get("SKUQ_DATA", "."))
    if not (folder / "paper001").is_dir():
        raise SystemExit(
            f"There are no data in {str(folder)!r}. Set the environment variable SKUQ_DATA to the folder "
            "that contains the folders paper001 and gal."
        )
    return folder


def seconds(function: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Return the time of one call."""
    start = clock()
    function()
    return clock() - start


def times_in_turns(
    *sides: Callable[[], object], budget: float, most: int, least: int = 1, clock: Clock = time.perf_counter
) -> list[list[float]]:
    """Return the times of each function, measured in alternating calls after a first call of each.

    The number of calls is between `least` and `most`, and fits the budget in seconds.
    """
    first = sum(seconds(side, clock) for side in sides)  # fills the caches
    times = [
        [seconds(side, clock) for side in sides] for _ in range(int(np.clip(budget / first, least, most)))
    ]
    return [list(column) for column in zip(*times, strict=True)]


def times_of(
    function: Callable[[], object], budget: float, least: int = 1, clock: Clock = time.perf_counter
) -> list[float]:
    """Return the times of at most seven calls, within a budget in seconds."""
    times: list[float] = []
    while len(times) < least or (len(times) < 7 and sum(times) < budget):
        times.append(seconds(function, clock))
    return times


def peak_bytes(function: Callable[[], object]) -> int:
    """Return the peak of the memory that a call allocates, including its result."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def sides_of(
    fit: Callable[[], Any], predict: Callable[[Any], np.ndarray], time_of: Callable[..., float]
) -> tuple[float, float, float, np.ndarray]:
    """Return the seconds of fit and prediction, their peak memory in megabytes, and the prediction."""
    model, found = fit(), []
    fit_time, predict_time = time_of(fit), time_of(lambda: predict(model))
    peak = peak_bytes(lambda: found.append(predict(fit())))
    return fit_time, predict_time, peak / 1e6, found[0]


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
