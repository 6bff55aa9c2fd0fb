"""Levels whose quantiles are infinite, because conformal distributions have too few calibration rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from skuq._ranks import has_rank, rows_needed
from skuq._typing import FloatArray
from skuq._warnings import warn_user
from skuq.exceptions import SmallSampleWarning

LevelKind = Literal["level", "row", "coverage", "set"]
"""Kind of a level: one level for all rows, one level per row, the coverage of intervals, or the coverage of
sets."""


@dataclass(frozen=True)
class UnreachableLevel:
    """Level whose quantile is infinite.

    The attribute ``needed`` is the total weight of calibration rows that a finite quantile requires.
    """

    needed: float
    message: str


def unreachable_level(
    requested: FloatArray,
    kind: LevelKind,
    score_levels: FloatArray,
    calibration_weight: float,
    test_weight: float,
) -> UnreachableLevel | None:
    """Return the most extreme level whose quantile is infinite, or None."""
    unreached = ~has_rank(score_levels, calibration_weight, test_weight)
    if not unreached.any():
        return None
    worst = int(np.argmax(np.where(unreached, score_levels, -1.0)))
    needed = rows_needed(float(score_levels[worst])) * test_weight
    what = (
        f"{100 * requested[worst]:g} %"
        if kind in ("coverage", "set")
        else f"the quantile at level {requested[worst]:g}"
    )
    rows = f"at least {needed:g} calibration rows"
    if test_weight != 1:
        rows = (
            f"calibration rows with a total weight of at least {needed:g} for a new row of weight "
            f"{test_weight:g}"
        )
    consequence = "sets contain all classes" if kind == "set" else "bounds are infinite"
    return UnreachableLevel(
        needed,
        f"{what} needs {rows}, got {calibration_weight:g}. Therefore, {consequence}. "
        "Use a lower coverage, or calibrate on more rows.",
    )


def most_demanding(found: Iterable[UnreachableLevel | None]) -> UnreachableLevel | None:
    present = [level for level in found if level is not None]
    return max(present, key=lambda level: level.needed, default=None)


def warn_of_unreachable_level(level: UnreachableLevel | None) -> None:
    """Issue one `SmallSampleWarning` if a level has no finite quantile."""
    if level is not None:
        warn_user(level.message, SmallSampleWarning)
