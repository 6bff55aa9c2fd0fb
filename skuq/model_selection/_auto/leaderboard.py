"""Table of all trials. The best trial is first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from skuq.model_selection._auto.finalists import Finalist
from skuq.model_selection._auto.space import POOL
from skuq.model_selection._auto.trial import Summary, Trial

COLUMNS = (
    "base",
    "method",
    "recalibration",
    "crps",
    "standard_error",
    "coverage",
    "width",
    "seconds",
    "state",
    "params",
)
STATES = ("complete", "stored", "pruned", "out of time", "failed")


def leaderboard(
    trials: Iterable[Trial],
    finalists: Iterable[Finalist],
    stored: Iterable[Trial],
    violation: Callable[[Summary], float],
    chosen: Finalist,
) -> pd.DataFrame:
    """Return the table of trials and finalists.

    The winner is first. All other rows are sorted by state, violation and CRPS.
    """
    finalists = list(finalists)
    shown = {id(one.members[0]) for one in finalists if len(one.members) == 1 and one.recalibrator is None}
    entries = [
        (_key(one.summary, "complete", violation, one is chosen), _row_of_finalist(one)) for one in finalists
    ]
    for state, group in ((None, trials), ("stored", stored)):
        for trial in group:
            if id(trial) not in shown and (trial.summary is not None or trial.error is not None):
                row = _row_of_trial(trial, state or trial.state)
                entries.append((_key(trial.summary, row["state"], violation, False), row))
    entries.sort(key=lambda entry: entry[0])
    return pd.DataFrame([row for _, row in entries], columns=list(COLUMNS))


def _key(
    summary: Summary | None, state: str, violation: Callable[[Summary], float], chosen: bool
) -> tuple[bool, int, float, float]:
    worst = (np.inf, np.inf) if summary is None else (violation(summary), summary.crps)
    return (not chosen, STATES.index(state), *worst)


def _row_of_trial(trial: Trial, state: str) -> dict[str, Any]:
    return {
        "base": trial.candidate.base,
        "method": trial.candidate.method,
        "recalibration": "none",
        **_numbers(trial.summary),
        "seconds": trial.seconds,
        "state": state,
        "params": trial.candidate.params,
    }


def _row_of_finalist(finalist: Finalist) -> dict[str, Any]:
    alone = len(finalist.members) == 1
    first = finalist.members[0].candidate
    weights = {
        trial.candidate.base: float(weight)
        for trial, weight in zip(finalist.members, finalist.weights, strict=True)
    }
    return {
        "base": first.base if alone else POOL,
        "method": first.method if alone else "mixture",
        "recalibration": finalist.recalibration,
        **_numbers(finalist.summary),
        "seconds": sum(trial.seconds for trial in finalist.members),
        "state": "complete",
        "params": first.params if alone else weights,
    }


def _numbers(summary: Summary | None) -> dict[str, float]:
    names = ("crps", "standard_error", "coverage", "width")
    return {name: np.nan if summary is None else getattr(summary, name) for name in names}
