"""Candidate under evaluation, with its out-of-fold forecasts and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skuq._typing import FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE
from skuq.distributions import Distribution, concat
from skuq.model_selection._auto.space import Candidate


@dataclass(frozen=True)
class Summary:
    """Mean scores of forecasts, and the standard error of the CRPS."""

    crps: float
    standard_error: float
    coverage: float
    width: float


def summarize(dist: Distribution, y: FloatArray, repetitions: FloatArray) -> Summary:
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
    """Candidate and its results."""

    candidate: Candidate
    state: str = "running"  # or "complete", "pruned", "failed", "out of time" (for the next fit)
    seconds: float = 0.0
    forecasts: list[Distribution] = field(default_factory=list)  # test rows of the finished folds
    crps: list[float] = field(default_factory=list)  # mean CRPS of each finished fold
    summary: Summary | None = None
    fitted: Any = None  # model fitted to all rows
    error: Exception | None = None
    handle: Any = None  # Optuna trial
    reported: int = 0  # number of folds that are reported to Optuna

    def out_of_fold(self) -> Distribution:
        return concat(self.forecasts)

    def add(self, dist: Distribution, y: FloatArray, repetitions: FloatArray) -> None:
        self.forecasts.append(dist)
        total = repetitions.sum()
        self.crps.append(float(repetitions @ dist.crps(y) / total) if total > 0 else 0.0)

    def summarize(self, y: FloatArray, repetitions: FloatArray, folds: Sequence[IntArray]) -> None:
        rows = np.concatenate(folds[: len(self.forecasts)])
        self.summary = summarize(self.out_of_fold(), y[rows], repetitions[rows])
