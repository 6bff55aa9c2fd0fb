"""A candidate under evaluation: its out-of-fold forecasts so far, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skuq._typing import FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE
from skuq.distributions import Distribution, concat
from skuq.model_selection._auto.space import Candidate

__all__ = ["Summary", "Trial", "summarise"]


@dataclass(frozen=True)
class Summary:
    """Scores of forecasts: means, with the standard error of the CRPS."""

    crps: float
    standard_error: float
    coverage: float
    width: float


def summarise(dist: Distribution, y: FloatArray, repetitions: FloatArray) -> Summary:
    """Return the scores of forecasts, each of which counts as often as its row is repeated."""
    crps = dist.crps(y)
    lower, upper = dist.interval(DEFAULT_COVERAGE).T
    total = repetitions.sum()
    mean = repetitions @ crps / total
    variance = repetitions @ (crps - mean) ** 2 / max(total - 1, 1)
    covered = repetitions @ ((lower <= y) & (y <= upper)) / total
    width = repetitions @ (upper - lower) / total
    return Summary(float(mean), float(np.sqrt(variance / total)), float(covered), float(width))


@dataclass(eq=False)
class Trial:
    """A candidate, and what is known of it.

    Attributes
    ----------
    candidate : Candidate
        What is evaluated.
    state : {"running", "complete", "pruned", "failed", "out of time"}
        "out of time" is a candidate whose next fit would not have ended in time.
    seconds : float
        Time of all fits and scores.
    forecasts : list of Distribution
        For the test rows of the folds so far.
    crps : list of float
        Mean CRPS of each fold so far.
    summary : Summary or None
        Scores of all forecasts so far.
    fitted : estimator or None
        Fitted to all rows.
    error : Exception or None
        Why it failed.
    handle : object
        The trial of Optuna.
    reported : int
        Number of folds that Optuna knows.
    """

    candidate: Candidate
    state: str = "running"
    seconds: float = 0.0
    forecasts: list[Distribution] = field(default_factory=list)
    crps: list[float] = field(default_factory=list)
    summary: Summary | None = None
    fitted: Any = None
    error: Exception | None = None
    handle: Any = None
    reported: int = 0

    def out_of_fold(self) -> Distribution:
        """Return all forecasts, in the order of the folds."""
        return concat(self.forecasts)

    def add(self, dist: Distribution, y: FloatArray, repetitions: FloatArray) -> None:
        """Add the forecasts of the next fold."""
        self.forecasts.append(dist)
        total = repetitions.sum()
        self.crps.append(float(repetitions @ dist.crps(y) / total) if total > 0 else 0.0)

    def summarise(self, y: FloatArray, repetitions: FloatArray, folds: Sequence[IntArray]) -> None:
        """Compute the scores of all forecasts so far."""
        rows = np.concatenate(folds[: len(self.forecasts)])
        self.summary = summarise(self.out_of_fold(), y[rows], repetitions[rows])
