"""Calibration of a sequence. The calibration set and the intervals change with the observed rows.

Gibbs and Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021,
https://arxiv.org/abs/2106.00170.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from skuq._conformal.adaptation import Adaptation, AdaptedLevels, TrackedQuantiles
from skuq._conformal.calibration_set import CalibrationSet, PredictedRows
from skuq._conformal.groups_and_shift import GroupsAndShift
from skuq._conformal.scores import ConformalScore
from skuq._typing import FloatArray

_SMALLEST = float(np.nextafter(0.0, 1.0))


class ObservedRows:
    """Scores or levels of all observed rows, and repetitions, call by call: 24 or 32 bytes per row."""

    def __init__(self, width: int) -> None:
        self._numbers = [array("d") for _ in range(width)]
        self._repetitions, self._ends = array("d"), array("q", [0])

    def __getstate__(self) -> dict[str, Any]:
        """Return numpy arrays, because skops does not support arrays of the standard library."""
        return {
            "numbers": np.array(self._numbers),
            "repetitions": np.array(self._repetitions),
            "ends": np.array(self._ends),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._numbers = [array("d", column.tolist()) for column in state["numbers"]]
        self._repetitions = array("d", state["repetitions"].tolist())
        self._ends = array("q", state["ends"].tolist())

    @property
    def n_calls(self) -> int:
        return len(self._ends) - 1

    def append(self, numbers: FloatArray, repetitions: FloatArray) -> None:
        """Add the rows of one call. ``numbers`` has the shape (width, m)."""
        for column, new in zip(self._numbers, numbers, strict=True):
            column.extend(new.tolist())
        self._repetitions.extend(repetitions.tolist())
        self._ends.append(len(self._repetitions))

    def calls(self, n_done: int) -> Iterator[tuple[list[list[float]], list[float]]]:
        """Yield the numbers and the repetitions of each call after the first ``n_done`` calls."""
        begin = self._ends[n_done]
        # Slices of lists are faster than slices of arrays.
        numbers = [column[begin:].tolist() for column in self._numbers]
        repetitions = self._repetitions[begin:].tolist()
        for first, last in pairwise([end - begin for end in self._ends[n_done:]]):
            yield [column[first:last] for column in numbers], repetitions[first:last]


class AdaptiveCalibration:
    """Calibration set and adapted intervals at several coverages, updated by observed rows.

    The scores or levels of all observed rows are stored. Therefore, the intervals at a coverage do not depend
    on when this coverage is first requested.
    """

    calibration_set: CalibrationSet

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
        """Compare the rows with the earlier rows, and add them. If they are invalid, change nothing."""
        new = self._scored(part)
        if self.n_parts:
            numbers = new.scores if self._adaptation.tracks_scores else self._least_missing(part)
            # The first part comes from `fit`. `window` removes rows only when later parts are added.
            new, scored = self.calibration_set.followed_by(new, self._window), new
        new.check()
        if self.n_parts:
            self._observed.append(numbers, scored.repetitions)
        else:
            self._first = new
        self.calibration_set = new
        self.n_parts += 1

    def miscoverage(self, coverage: float) -> float:
        """Return the target miscoverage after all observed rows, which may be slightly outside [0, 1]."""
        return self._state(coverage).miscoverage

    def quantile(self, rows: PredictedRows, coverage: float) -> FloatArray:
        """Return the adapted score quantile of each new row, shape (1, n) or (2, n)."""
        return self._state(coverage).quantile(self.calibration_set, rows)

    def _state(self, coverage: float) -> AdaptedLevels | TrackedQuantiles:
        if coverage not in self._states:
            self._states[coverage] = 0, self._adaptation.start(1 - coverage, self._first)
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
        """Return the smallest target miscoverage at which each row is missed, in (0, 1], shape (1, m)."""
        band = self._score.band(part.prediction, self._coverage)
        least = 1 - self.calibration_set.exceeded_share(part, band)
        if not self._score.symmetric:  # Each bound has half of the miscoverage.
            least *= 2
        # The interval is infinite at a miscoverage of 0 and empty at 1.
        return np.minimum(np.maximum(least, _SMALLEST), 1.0)[np.newaxis]
