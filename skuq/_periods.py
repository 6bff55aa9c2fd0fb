"""Periods of equal length between the first and the last time of many rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

N_PERIODS = 12


def as_times(values: pd.Series[Any]) -> pd.Series[Any]:
    """Convert values to floats, or dates in any usual format to timestamps. Other values become missing."""
    if pd.api.types.is_numeric_dtype(values):
        return values.astype(float)
    return pd.to_datetime(values, errors="coerce", format="mixed", utc=True).dt.tz_localize(None)


def period_starts(first: Any, last: Any) -> pd.Index[Any]:
    starts: pd.Index[Any]
    if first == last:
        starts = pd.Index([first])
    elif isinstance(first, pd.Timestamp):
        exact = pd.date_range(first, last, periods=N_PERIODS + 1)[:-1].floor("s")
        days = exact.ceil("D")
        # If the times are dates without hours, each period begins at midnight.
        starts = days if first == days[0] and last == last.normalize() and days.is_unique else exact
    else:
        starts = pd.Index(np.linspace(first, last, N_PERIODS + 1)[:-1])
    return starts


def periods(times: pd.Series[Any], starts: pd.Index[Any]) -> pd.Series[Any]:
    """Return the start of the period of each time."""
    place = np.clip(starts.searchsorted(times, side="right") - 1, 0, len(starts) - 1)
    return pd.Series(starts[place], index=times.index)
