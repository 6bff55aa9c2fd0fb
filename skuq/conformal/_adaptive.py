"""Calibration of a sequence. The calibration set and the intervals change with the observed rows.

Gibbs and Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021,
https://arxiv.org/abs/2106.00170.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skuq._typing import FloatArray
from skuq.conformal._adaptation import Adaptation, AdaptedLevels, TrackedQuantiles
from skuq.conformal._calibration_set import CalibrationSet, PredictedRows, concat_rows
from skuq.conformal._groups_and_shift import GroupsAndShift
from skuq.conformal._scores import ConformalScore

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
