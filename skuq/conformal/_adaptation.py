r"""Adaptation of the intervals of a sequence, one class per method.

Adaptive conformal inference changes the target miscoverage, and quantile tracking changes the score quantile.
The classes have the same interface: ``update`` is called once per call of `partial_fit`, with one number per
row and the number of repetitions of each row.

The nominal miscoverage is :math:`\alpha`. For "aci" and "dtaci", the number of a row is :math:`\beta_t`, in
(0, 1]. The interval does not contain the target if the target miscoverage is at least :math:`\beta_t`. For
"tracking", the number of a row is its score.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._ranks import WeightedRanks, score_level
from skuq._typing import FloatArray
from skuq._validation import check_number, check_option, check_unused
from skuq.conformal._calibration_set import CalibrationSet
from skuq.conformal._groups_and_shift import WeightedRows
from skuq.recalibration._expert_weights import ExpertWeights

ADAPTATIONS = ("aci", "dtaci", "tracking")

DTACI_STEPS = 0.001 * 2.0 ** np.arange(8)
"""Step sizes of the experts of "dtaci" (Gibbs and Candès 2024, sec. 4)."""

TRACKING_STEPS = np.array([0.01, 0.03, 0.1])
"""Step sizes of the experts of "tracking", relative to the largest recent score."""

_RECENT = 100
"""Number of recent scores whose maximum is the unit of the steps of "tracking"."""


class FixedStep:
    r"""Adaptive conformal inference, :math:`\alpha_{t+1} = \alpha_t + \gamma (\alpha - \mathrm{err}_t)`.

    The formula is eq. 2 of Gibbs and Candès 2021. All rows that are observed in one call have the same
    :math:`\alpha_t`.
    """

    def __init__(self, nominal: float, step: float) -> None:
        self.miscoverage = self._nominal = nominal
        self._step = step

    def update(self, numbers: Sequence[float], repetitions: Sequence[float]) -> None:
        n_rows = n_missed = 0.0
        for beta, n in zip(numbers, repetitions, strict=True):
            n_rows += n
            if self.miscoverage >= beta:
                n_missed += n
        self.miscoverage += self._step * (self._nominal * n_rows - n_missed)


class WeightedSteps:
    r"""Dynamically tuned adaptive conformal inference: experts with different steps, weighted by their loss.

    The loss of an expert at :math:`\alpha_t^k` is :math:`\alpha (\beta_t - \alpha_t^k) - \min(0, \beta_t -
    \alpha_t^k)` (Gibbs and Candès 2024, eq. 5).
    """

    def __init__(self, nominal: float) -> None:
        self._nominal = nominal
        self._levels = np.full(DTACI_STEPS.size, nominal)
        self._experts = ExpertWeights(DTACI_STEPS.size)

    @property
    def miscoverage(self) -> float:
        return float(self._experts.weights @ self._levels)

    def update(self, numbers: Sequence[float], repetitions: Sequence[float]) -> None:
        n = np.asarray(repetitions)
        gap = np.asarray(numbers)[:, np.newaxis] - self._levels
        self._experts.update(n @ (self._nominal * gap - np.minimum(gap, 0)))
        self._levels += DTACI_STEPS * (self._nominal * n.sum() - n @ (gap <= 0))


class QuantileTracker:
    r"""Quantile tracking, :math:`q_{t+1} = q_t + \eta_t (\mathrm{err}_t - \alpha)`, with a weighted step.

    The formula is eq. 4 of Angelopoulos, Candès and Tibshirani 2023. The step :math:`\eta_t` is a share of
    the largest of the last 100 scores. The share is the weighted mean of the shares of several experts. An
    expert tracks the quantile with its own step. The loss of an expert is the pinball loss of its quantile.
    One quantile with a weighted step reacts to its own misses. A weighted mean of the experts' quantiles
    would not.
    """

    def __init__(
        self, quantile: float, nominal: float, recent: Sequence[float], steps: FloatArray = TRACKING_STEPS
    ) -> None:
        self.quantile, self._nominal, self._steps = quantile, nominal, steps
        self._recent: deque[float] = deque(map(abs, recent), maxlen=_RECENT)  # absolute scores
        self._quantiles = np.full(steps.size, quantile)
        self._experts = ExpertWeights(steps.size)

    def update(self, numbers: Sequence[float], repetitions: Sequence[float]) -> None:
        n, scores = np.asarray(repetitions), np.asarray(numbers)
        gap = scores[:, np.newaxis] - self._quantiles
        # The unit is computed from earlier scores only, so that an outlier does not increase its own step.
        unit = max(self._recent)
        n_expected = self._nominal * float(n.sum())
        step = float(self._experts.weights @ self._steps) * unit
        self.quantile += step * (float(n @ (scores > self.quantile)) - n_expected)
        self._experts.update(n @ (np.maximum(gap, 0) - self._nominal * gap))
        self._quantiles += self._steps * unit * (n @ (gap > 0) - n_expected)
        self._recent.extend(map(abs, numbers))


class AdaptedLevels:
    """Quantiles of the calibration scores at an adapted miscoverage, for "aci" and "dtaci"."""

    def __init__(self, nominal: float, step: float | None) -> None:
        self._level = WeightedSteps(nominal) if step is None else FixedStep(nominal, step)

    @property
    def miscoverage(self) -> float:
        """Target miscoverage of the next interval, which may be slightly outside [0, 1]."""
        return self._level.miscoverage

    def update(self, numbers: Sequence[Sequence[float]], repetitions: Sequence[float]) -> None:
        self._level.update(numbers[0], repetitions)

    def quantile(self, calibration_set: CalibrationSet, rows: WeightedRows) -> FloatArray:
        return calibration_set.quantile(rows, max(1 - self.miscoverage, 0.0))


class TrackedQuantiles:
    """Tracked score quantiles, one per score of a row. The first values are the quantiles in ``first``."""

    def __init__(self, nominal: float, first: CalibrationSet) -> None:
        self.miscoverage = nominal
        symmetric = len(first.scores) == 1
        level = float(score_level(1 - nominal, symmetric))
        self._trackers = [
            QuantileTracker(
                _finite_quantile(scores, first.weight, level), 1 - level, scores[-_RECENT:].tolist()
            )
            for scores in first.scores
        ]

    def update(self, numbers: Sequence[Sequence[float]], repetitions: Sequence[float]) -> None:
        for tracker, scores in zip(self._trackers, numbers, strict=True):
            tracker.update(scores, repetitions)

    def quantile(self, calibration_set: CalibrationSet, rows: WeightedRows) -> FloatArray:
        quantiles = np.array([[tracker.quantile] for tracker in self._trackers])
        return np.repeat(quantiles, rows.n, axis=1)


def _finite_quantile(scores: FloatArray, weight: FloatArray, level: float) -> float:
    """Return the score quantile of a new row, or the largest score if the rows are too few for the level."""
    ranks = WeightedRanks(scores, weight)
    return float(np.minimum(ranks.quantile(level * (ranks.total + 1)), ranks.values[-1]))


@dataclass(frozen=True)
class Adaptation:
    """Checked parameters ``adapt`` and ``gamma`` of an estimator."""

    method: str = "aci"
    gamma: float = 0.005

    @property
    def tracks_scores(self) -> bool:
        return self.method == "tracking"

    @classmethod
    def from_params(cls, owner: Any) -> Adaptation:
        method = check_option(owner.adapt, "adapt", ADAPTATIONS)
        gamma = check_number(owner.gamma, "gamma")
        if gamma < 0:
            raise ValueError(f"`gamma` must be non-negative, got {gamma:g}.")
        if method != "aci":
            remedy = f"The method {method!r} chooses its step from a grid."
            check_unused(owner, ("gamma",), f"with adapt={method!r}", remedy)
        if method == "tracking":
            remedy = "Tracked quantiles have neither weights nor groups. Use adapt='dtaci'."
            check_unused(owner, ("density_ratio", "group_by"), "with adapt='tracking'", remedy)
        return cls(method, gamma)

    def start(self, nominal: float, first: CalibrationSet) -> AdaptedLevels | TrackedQuantiles:
        """Return the state before the first observed row, given the calibration rows of `fit`."""
        if self.tracks_scores:
            return TrackedQuantiles(nominal, first)
        return AdaptedLevels(nominal, self.gamma if self.method == "aci" else None)
