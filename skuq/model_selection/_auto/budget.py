"""Wall-clock time of a search: the remaining time, the time of each use, and the time of a fit."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

USES = ("imports", "probes", "trials", "choice", "refits")
"""Uses whose time is measured. All other time is reported as "other"."""
GROWTH = (0.3, 0.85, 1.1)
"""The time of a fit is a power of the number of rows: the smallest, the likely and the largest exponent."""
UNCERTAINTY = 2.0
"""Largest assumed ratio of the time of a fit to its stated time."""
MAX_POWER = 3.0


class Cost(NamedTuple):
    """Time of an import in seconds, and time of a fit in seconds per row, on an ordinary computer."""

    imports: float
    seconds: float
    per_row: float

    def fit(self, rows: int) -> float:
        return self.seconds + self.per_row * rows


class Forecast(NamedTuple):
    """Smallest, likely and largest time of a fit, in seconds."""

    low: float
    likely: float
    high: float

    def __mul__(self, factor: object) -> Forecast:
        if not isinstance(factor, int | float):
            return NotImplemented
        return Forecast(*(factor * one for one in (self.low, self.likely, self.high)))

    def plus(self, other: Forecast) -> Forecast:
        return Forecast(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING_KNOWN = Forecast(0.0, 0.0, math.inf)


def clock() -> float:
    """Return the time in seconds. All processes have the same clock, so deadlines can be shared."""
    return time.time()


class Budget:
    """Time budget of a search.

    The time starts when this object is constructed. ``seconds=None`` means no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self.begin = clock()
        self.seconds = seconds
        self.spent = dict.fromkeys(USES, 0.0)
        self._slowest: dict[Hashable, dict[int, float]] = {}

    def remaining(self) -> float:
        return float("inf") if self.seconds is None else self.begin + self.seconds - clock()

    @contextmanager
    def account(self, use: str) -> Iterator[None]:
        """Add the time of the block to the time of a use. Do not nest such blocks."""
        start = clock()
        try:
            yield
        finally:
            self.spent[use] += clock() - start

    def uses(self) -> dict[str, float]:
        total = clock() - self.begin
        return {**self.spent, "other": total - sum(self.spent.values()), "total": total}

    def observe(self, kind: Hashable, rows: int, seconds: float) -> None:
        of_kind = self._slowest.setdefault(kind, {})
        of_kind[rows] = max(of_kind.get(rows, 0.0), seconds)

    def largest(self, kind: Hashable) -> int:
        return max(self._slowest.get(kind, {0: 0.0}))

    def forecast(self, kind: Hashable, rows: int, cost: Cost | None = None) -> Forecast:
        """Return the time of a fit, interpolated or extrapolated from the slowest fits of its kind."""
        slowest = self._slowest.get(kind)
        if not slowest:
            if cost is None:
                return NOTHING_KNOWN
            seconds = cost.fit(rows)
            return Forecast(seconds / UNCERTAINTY, seconds, UNCERTAINTY * seconds)
        sizes = sorted(slowest)
        if rows <= sizes[-1]:
            seconds = slowest[next(size for size in sizes if size >= rows)]
            return Forecast(seconds, seconds, seconds)
        # nearly equal numbers of rows do not show how the time grows with the number of rows
        last = max(slowest[size] for size in sizes if 2 * size > sizes[-1])
        ratio = rows / sizes[-1]
        sizes = [*(size for size in sizes if 2 * size <= sizes[-1]), sizes[-1]]
        if len(sizes) == 1:
            low, likely, high = (last * ratio**power for power in GROWTH)
            return Forecast(low, likely, high)
        before, factor = slowest[sizes[-2]], sizes[-1] / sizes[-2]
        power = min(max(math.log(max(last, 1e-9) / max(before, 1e-9)) / math.log(factor), 0.0), MAX_POWER)
        line = last + max(last - before, 0.0) * (rows - sizes[-1]) / (sizes[-1] - sizes[-2])
        growing = last * ratio**power
        return Forecast(min(growing, line), max(growing, line), last * ratio ** (max(power, 1.0) + 0.1))

    def expected(self, kind: Hashable, rows: int, cost: Cost | None = None) -> float:
        return self.forecast(kind, rows, cost).likely

    def latest_start(self, seconds: float, reserve: float) -> float:
        return clock() + self.remaining() - reserve - seconds
