"""Wall-clock time: what is left of it, and how long a fit is expected to take."""

from __future__ import annotations

import time
from collections.abc import Hashable

__all__ = ["Budget", "clock"]


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
        self._slowest: dict[Hashable, float] = {}

    def remaining(self) -> float:
        """Return the seconds that are left; infinity without limit."""
        return float("inf") if self.seconds is None else self.begin + self.seconds - clock()

    def observe(self, kind: Hashable, rows: int, seconds: float) -> None:
        """Record how long a fit of a kind took."""
        self._slowest[kind] = max(self._slowest.get(kind, 0.0), seconds / rows)

    def has_observed(self, kind: Hashable) -> bool:
        """Return whether a fit of this kind has been observed."""
        return kind in self._slowest

    def expected(self, kind: Hashable, rows: int) -> float:
        """Return the seconds of a fit by the slowest of its kind so far, in proportion to the rows.

        Before the first of a kind that is 0.
        """
        return self._slowest.get(kind, 0.0) * rows

    def latest_start(self, kind: Hashable, rows: int, reserve: float) -> float:
        """Return the time after which a fit would not end before the reserve is needed."""
        return clock() + self.remaining() - reserve - self.expected(kind, rows)
