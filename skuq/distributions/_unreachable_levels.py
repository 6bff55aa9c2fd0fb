"""Levels beyond the ranks of the calibration rows of a conformal distribution, and the rows they need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from skuq._typing import FloatArray
from skuq._warnings import warn_user
from skuq.distributions._numerics.ranks import has_rank, rows_needed
from skuq.exceptions import SmallSampleWarning

LevelKind = Literal["level", "row", "coverage", "set"]
"""Quantile levels for all rows, one quantile level a row, coverages of central intervals or of sets."""


@dataclass(frozen=True)
class UnreachableLevel:
    """A level without a finite quantile.

    Attributes
    ----------
    needed : float
        Number, or weight, of calibration rows from which on the quantile is finite.
    message : str
        Text of the warning.
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
    """Return the most extreme level without a finite quantile, and the rows it needs; None if all are finite.

    Parameters
    ----------
    requested : ndarray of shape (k,)
        Levels or coverages, as the user gave them.
    kind : {"level", "row", "coverage", "set"}
        Meaning of ``requested``.
    score_levels : ndarray of shape (k,)
        Quantile level of the scores that each of them takes.
    calibration_weight, test_weight : float
        Weight of the calibration rows and of the row to be predicted.
    """
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
    unit = "calibration rows"
    if test_weight != 1:
        unit = f"weight of calibration rows beside a new row of weight {test_weight:g}"
    consequence = "sets contain all classes" if kind == "set" else "bounds are infinite"
    return UnreachableLevel(
        needed,
        f"{what} needs at least {needed:g} {unit}, got {calibration_weight:g}: {consequence}. "
        "Use a lower coverage, or calibrate on more rows.",
    )


def most_demanding(found: Iterable[UnreachableLevel | None]) -> UnreachableLevel | None:
    """Return the level of several parts that needs most calibration rows."""
    present = [level for level in found if level is not None]
    return max(present, key=lambda level: level.needed, default=None)


def warn_of_unreachable_level(level: UnreachableLevel | None) -> None:
    """Give one `SmallSampleWarning`, unless all levels are finite."""
    if level is not None:
        warn_user(level.message, SmallSampleWarning)
