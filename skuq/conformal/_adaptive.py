r"""Calibration that adapts to a sequence of targets.

Each method of adaptation has one class. Adaptive conformal inference changes the target miscoverage, and
quantile tracking changes the score quantile. The classes have the same interface: ``update`` is called once
per call of `partial_fit`, with one number per row and the number of repetitions of each row.

The nominal miscoverage is :math:`\alpha`. For "aci" and "dtaci", the number of a row is :math:`\beta_t`, in
(0, 1]. The interval does not contain the target if the target miscoverage is at least :math:`\beta_t`. For
"tracking", the number of a row is its score.

`AdaptiveCalibration` changes the calibration set and the intervals with the observed rows.

Gibbs and Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021,
https://arxiv.org/abs/2106.00170.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skuq._numeric import WeightedRanks, score_level
from skuq._typing import FloatArray
from skuq._validation import check_number, check_option, check_unused
from skuq.conformal._calibration_set import CalibrationSet, PredictedRows, concat_rows
from skuq.conformal._groups import GroupsAndShift, WeightedRows
from skuq.conformal._scores import ConformalScore
from skuq.recalibration._online import ExpertWeights

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


_SMALLEST = float(np.nextafter(0.0, 1.0))


class ObservedRows:
    """Scores and repetitions of the observed rows, grouped by call. A row needs 24 or 32 bytes."""

    def __init__(self, width: int) -> None:
        self._numbers = [array("d") for _ in range(width)]
        # Rows are counted from the first observed row. The first end is the number of removed rows.
        self._repetitions, self._ends = array("d"), array("q", [0])
        self.n_removed_calls = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return numpy arrays, because skops does not support arrays of the standard library."""
        return {
            "numbers": np.array(self._numbers),
            "repetitions": np.array(self._repetitions),
            "ends": np.array(self._ends),
            "n_removed_calls": self.n_removed_calls,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._numbers = [array("d", column.tolist()) for column in state["numbers"]]
        self._repetitions = array("d", state["repetitions"].tolist())
        self._ends = array("q", state["ends"].tolist())
        self.n_removed_calls = state["n_removed_calls"]

    def __len__(self) -> int:
        return len(self._repetitions)

    @property
    def n_calls(self) -> int:
        """Number of calls, which includes removed calls."""
        return self.n_removed_calls + len(self._ends) - 1

    def append(self, numbers: FloatArray, repetitions: FloatArray) -> None:
        """Add the rows of one call. ``numbers`` has the shape (width, m)."""
        for column, new in zip(self._numbers, numbers, strict=True):
            column.extend(new.tolist())
        self._repetitions.extend(repetitions.tolist())
        self._ends.append(self._ends[0] + len(self._repetitions))

    def keep_last(self, n_rows: int) -> None:
        n_removed = len(self) - n_rows
        for column in (*self._numbers, self._repetitions):
            del column[:n_removed]
        first = self._ends[-1] - n_rows
        n_calls = bisect_right(self._ends, first) - 1
        del self._ends[:n_calls]
        self._ends[0] = first
        self.n_removed_calls += n_calls

    def calls(self, n_done: int) -> Iterator[tuple[list[list[float]], list[float]]]:
        """Yield the numbers and the repetitions of each call after the first ``n_done`` calls."""
        ends = self._ends[n_done - self.n_removed_calls :]
        begin = ends[0] - self._ends[0]
        # Slices of lists are faster than slices of arrays.
        numbers = [column[begin:].tolist() for column in self._numbers]
        repetitions = self._repetitions[begin:].tolist()
        for first, last in pairwise([end - ends[0] for end in ends]):
            yield [column[first:last] for column in numbers], repetitions[first:last]


class PredictedCalls:
    """Rows of `fit` and of later calls, with their predictions. A window w keeps at least 2 w rows.

    The scores of a coverage that is requested later are computed from these rows. The calibration set of each
    of the last w rows consists of the w rows before it.
    """

    def __init__(self, window: int | None) -> None:
        self._window = window
        self._parts: deque[PredictedRows] = deque()
        self._n_rows = self._n_observed = 0

    def append(self, part: PredictedRows) -> None:
        self._n_observed += part.n if self._parts else 0
        self._n_rows += part.n
        self._parts.append(part)
        if self._window is not None:
            while self._n_rows - self._parts[0].n >= 2 * self._window:
                self._n_rows -= self._parts.popleft().n

    def last(self, n: int) -> PredictedRows:
        return concat_rows(self._parts)[-n:]

    def replayed(self) -> list[PredictedRows]:
        """Return the first calibration rows, and the rows of each later call that are in the window."""
        if self._window is None or self._n_observed <= self._window:
            return list(self._parts)
        rows = self.last(2 * self._window)
        begin = rows.n - self._window
        ends = rows.n - self._n_rows + np.cumsum([part.n for part in self._parts])
        edges = [begin, *ends[ends > begin].tolist()]
        return [rows[:begin], *(rows[first:last] for first, last in pairwise(edges))]


class CalibrationUpdate(NamedTuple):
    """Calibration set with m new rows. The numbers of the new rows have the shape (width, m)."""

    calibration_set: CalibrationSet
    numbers: FloatArray
    repetitions: FloatArray


class AdaptiveCalibration:
    """Calibration set and adapted intervals at several coverages, updated by observed rows.

    The numbers of the observed rows in the window are stored. Therefore, the intervals at a coverage do not
    depend on when this coverage is first requested, until an observed row leaves the window. A coverage that
    is requested later starts with the rows in the window.
    """

    calibration_set: CalibrationSet
    _first: CalibrationSet | None  # Rows of `fit`, or None after an observed row has left the window.

    def __init__(
        self,
        score: ConformalScore,
        coverage: float,
        options: GroupsAndShift,
        adaptation: Adaptation,
        window: int | None,
    ) -> None:
        self._score, self._coverage, self._options = score, coverage, options
        self._adaptation, self._window = adaptation, window
        self.n_parts = 0
        width = 1 if score.symmetric or not adaptation.tracks_scores else 2
        self._observed = ObservedRows(width)
        self._states: dict[float, tuple[int, AdaptedLevels | TrackedQuantiles]] = {}

    def add(self, part: PredictedRows) -> None:
        """Compare the rows with the earlier rows, and add the rows. If a row is invalid, change nothing."""
        self.apply(self.update_by(part))

    def update_by(self, part: PredictedRows) -> CalibrationUpdate:
        """Return the update of the calibration set by new rows. Raise an error if a row is invalid."""
        new = scored = self._scored(part)
        numbers = scored.scores
        if self.n_parts:
            if not self._adaptation.tracks_scores:
                numbers = self._least_missing(part)
            # The first part comes from `fit`. `window` removes rows only when later parts are added.
            new = self.calibration_set.followed_by(scored, self._window)
        new.check()
        return CalibrationUpdate(new, numbers, scored.repetitions)

    def apply(self, update: CalibrationUpdate) -> None:
        self.calibration_set = update.calibration_set
        if self.n_parts:
            self._observe(update.numbers, update.repetitions)
        else:
            self._first = update.calibration_set
        self.n_parts += 1

    def _observe(self, numbers: FloatArray, repetitions: FloatArray) -> None:
        self._observed.append(numbers, repetitions)
        if self._window is not None and len(self._observed) > self._window:
            for coverage in self._states:  # A state must be updated before rows are removed.
                self._state(coverage)
            self._observed.keep_last(self._window)
            self._first = None

    def miscoverage(self, coverage: float) -> float:
        """Return the target miscoverage after all observed rows, which may be slightly outside [0, 1]."""
        return self._state(coverage).miscoverage

    def quantile(self, rows: PredictedRows, coverage: float) -> FloatArray:
        """Return the adapted score quantile of each new row, shape (1, n) or (2, n)."""
        return self._state(coverage).quantile(self.calibration_set, rows)

    def _state(self, coverage: float) -> AdaptedLevels | TrackedQuantiles:
        if coverage not in self._states:
            first = self.calibration_set if self._first is None else self._first
            state = self._adaptation.start(1 - coverage, first)
            self._states[coverage] = self._observed.n_removed_calls, state
        # The update continues from the last request, so that each observed row changes the state once.
        n_done, state = self._states[coverage]
        if n_done < self._observed.n_calls:
            for numbers, repetitions in self._observed.calls(n_done):
                state.update(numbers, repetitions)
            self._states[coverage] = self._observed.n_calls, state
        return state

    def _scored(self, part: PredictedRows) -> CalibrationSet:
        return CalibrationSet(
            self._score.score(part.prediction, part.y, self._coverage),
            part.repetitions,
            np.full(part.n, part.test_weight),
            part.labels,
            self._options,
            part.functions,
        )

    def _least_missing(self, part: PredictedRows) -> FloatArray:
        """Return the smallest miscoverage in (0, 1] at which each interval excludes y, shape (1, m)."""
        band = self._score.band(part.prediction, self._coverage)
        least = 1 - self.calibration_set.exceeded_share(part, band)
        if not self._score.symmetric:  # Each bound has half of the miscoverage.
            least *= 2
        # The interval is infinite at a miscoverage of 0 and empty at 1.
        return np.minimum(np.maximum(least, _SMALLEST), 1.0)[np.newaxis]
