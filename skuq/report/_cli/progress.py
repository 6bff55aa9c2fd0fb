"""Progress bar of a command on stderr."""

from __future__ import annotations

import sys
import time

WIDTH, SECONDS = 30, 0.2


class Progress:
    """Bar that is drawn on one line of stderr, if stderr is a terminal or the user requests it."""

    def __init__(self, *, shown: bool | None) -> None:
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._last = 0.0

    def show(self, what: str, share: float) -> None:
        now = time.monotonic()
        if self.shown and (now - self._last > SECONDS or share >= 1):
            self._last = now
            share = min(max(share, 0.0), 1.0)
            filled = round(WIDTH * share)
            bar = "#" * filled + " " * (WIDTH - filled)
            sys.stderr.write(f"\r[{bar}] {100 * share:3.0f} %  {what[:60]:60}")
            sys.stderr.flush()

    def close(self) -> None:
        """End the line of the bar, so that the next message starts on a new line."""
        if self.shown and self._last:
            sys.stderr.write("\r" + " " * (WIDTH + 72) + "\r")
            sys.stderr.flush()
