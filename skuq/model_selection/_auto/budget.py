"""Wall-clock time: the rest of it, its use so far, and the expected time of a fit."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

__all__ = ["Budget", "Cost", "Forecast", "clock"]

USES = ("imports", "probes", "trials", "choice", "refits")
"""Uses of the time that are measured; the rest is "other"."""
GROWTH = (0.3, 0.85, 1.1)
"""Powers of the number of rows by which the time of a fit grows, where it is known for one number of rows:
the least, the likely and the largest."""
UNCERTAINTY = 2.0
"""Factor by which the time of a kind differs from the one that is stated for it."""
MAX_POWER = 3.0


class Cost(NamedTuple):
    """Stated time of an import and of a fit on an ordinary machine: seconds, and seconds per row."""

    imports: float
    seconds: float
    per_row: float

    def fit(self, rows: int) -> float:
        """Return the seconds of a fit."""
        return self.seconds + self.per_row * rows


class Forecast(NamedTuple):
    """Seconds: the least, the likely and the largest number."""

    low: float
    likely: float
    high: float

    def __mul__(self, factor: object) -> Forecast:
        """Return the time of some such fits."""
        if not isinstance(factor, int | float):
            return NotImplemented
        return Forecast(*(factor * one for one in (self.low, self.likely, self.high)))

    def plus(self, other: Forecast) -> Forecast:
        """Return the time of two fits one after the other."""
        return Forecast(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING_KNOWN = Forecast(0.0, 0.0, math.inf)


def clock() -> float:
    """Return the time in seconds; the same for all processes, so that deadlines can be sent to them."""
    return time.time()


class Budget:
    """The time of a search, from now on.

    Parameters
    ----------
    seconds : float or None
        None is without limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self.begin = clock()
        self.seconds = seconds
        self.spent = dict.fromkeys(USES, 0.0)
        self._slowest: dict[Hashable, dict[int, float]] = {}

    def remaining(self) -> float:
        """Return the seconds that are left; infinity without limit."""
        return float("inf") if self.seconds is None else self.begin + self.seconds - clock()

    @contextmanager
    def account(self, use: str) -> Iterator[None]:
        """Add the time inside of the block to a use; blocks must not contain others."""
        start = clock()
        try:
            yield
        finally:
            self.spent[use] += clock() - start

    def uses(self) -> dict[str, float]:
        """Return the seconds so far by use, and their total."""
        total = clock() - self.begin
        return {**self.spent, "other": total - sum(self.spent.values()), "total": total}

    def observe(self, kind: Hashable, rows: int, seconds: float) -> None:
        """Record the time of a fit of a kind."""
        of_kind = self._slowest.setdefault(kind, {})
        of_kind[rows] = max(of_kind.get(rows, 0.0), seconds)

    def largest(self, kind: Hashable) -> int:
        """Return the most rows of a fit of this kind that has been observed; 0 without one."""
        return max(self._slowest.get(kind, {0: 0.0}))

    def forecast(self, kind: Hashable, rows: int, cost: Cost | None = None) -> Forecast:
        """Return the time of a fit by the slowest fits of its kind so far.

        It is the time for the next larger number of rows, if that is known. Otherwise the time for the
        largest two numbers of rows is continued, by the power of the rows or the straight line through both.

        Parameters
        ----------
        kind : hashable
            Its kind.
        rows : int
            Number of rows.
        cost : Cost or None
            Stated time, which is used before the first fit of the kind.
        """
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
        # folds differ by a row; times of about as many rows say nothing on the growth
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
        """Return the likely seconds of a fit; 0 where nothing is known."""
        return self.forecast(kind, rows, cost).likely

    def latest_start(self, seconds: float, reserve: float) -> float:
        """Return the latest start of a fit of this duration that leaves the reserve."""
        return clock() + self.remaining() - reserve - seconds
