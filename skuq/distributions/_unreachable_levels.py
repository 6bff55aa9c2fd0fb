"""What calibration rows lack for a level that the ranks of a conformal distribution cannot reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from skuq._typing import FloatArray
from skuq._warnings import warn_user
from skuq.distributions._numerics.ranks import RANK_TOLERANCE, rows_needed
from skuq.exceptions import SmallSampleWarning

LevelKind = Literal["level", "row", "coverage"]
"""Quantile levels for all rows, one quantile level a row, or coverages of central intervals."""


@dataclass(frozen=True)
class UnreachableLevel:
    """How many rows, or what weight of rows, a level needs, and the sentence that says so."""

    needed: float
    message: str


def unreachable_level(
    requested: FloatArray, kind: LevelKind, probability: FloatArray, known: float, unseen: float
) -> UnreachableLevel | None:
    """Return what the calibration rows lack for the most extreme level that their ranks do not reach.

    Parameters
    ----------
    requested : ndarray of shape (k,)
        Levels or coverages, as the user gave them.
    kind : {"level", "row", "coverage"}
        Which of them they are.
    probability : ndarray of shape (k,)
        Level that each needs of the ranks of one side.
    known, unseen : float
        Weight of the calibration rows and of a new row.
    """
    unreached = probability * (known + unseen) * (1 - RANK_TOLERANCE) > known
    if not unreached.any():
        return None
    worst = int(np.argmax(np.where(unreached, probability, -1.0)))
    needed = rows_needed(float(probability[worst])) * unseen
    what = (
        f"{100 * requested[worst]:g} %"
        if kind == "coverage"
        else f"the quantile at level {requested[worst]:g}"
    )
    unit = "calibration rows"
    if unseen != 1:
        unit = f"weight of calibration rows beside a new row of weight {unseen:g}"
    return UnreachableLevel(
        needed,
        f"{what} needs at least {needed:g} {unit}, got {known:g}: bounds are infinite. Use a lower "
        "coverage, or calibrate on more rows.",
    )


def most_demanding(found: Iterable[UnreachableLevel | None]) -> UnreachableLevel | None:
    """Return that of several parts which needs most."""
    present = [level for level in found if level is not None]
    return max(present, key=lambda level: level.needed, default=None)


def warn_of_unreachable_level(level: UnreachableLevel | None) -> None:
    """Give one warning, where there is something to warn of."""
    if level is not None:
        warn_user(level.message, SmallSampleWarning)
