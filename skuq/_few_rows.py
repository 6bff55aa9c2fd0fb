"""Warning about too few calibration rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from skuq._compat import warn_user
from skuq._typing import FloatArray
from skuq.exceptions import SmallSampleWarning

FEWEST_ROWS = 12
"""Smallest number of rows without a warning. From this number on, 90 % intervals contain 87 to 95 % of the
targets, averaged over training sets."""

_reported: ContextVar[bool] = ContextVar("few rows are reported by an outer fit", default=False)


@contextmanager
def few_rows_reported() -> Iterator[None]:
    """Suppress the warning in inner fits, because the outer fit issues its own warning."""
    token = _reported.set(True)
    try:
        yield
    finally:
        _reported.reset(token)


def repeated_rows(sample_weight: FloatArray | None, n: int) -> float:
    if sample_weight is None:
        return float(n)
    return max(float(sample_weight.sum()), float((sample_weight > 0).sum()))


def warn_of_few_rows(n: float, unit: str = "rows") -> None:
    """Issue one `SmallSampleWarning` if there are too few rows, or groups of rows, for calibration."""
    if n < FEWEST_ROWS and not _reported.get():
        warn_user(
            f"intervals need at least {FEWEST_ROWS} {unit} for calibration, got {n:g}. The coverage of the "
            f"intervals may be far from the nominal coverage. Use more {unit}.",
            SmallSampleWarning,
        )
