r"""Intervals that adapt to a sequence of targets.

Adaptive conformal inference changes the target miscoverage of the next interval. Each method has one class.
Its method ``update`` is called once per call of `partial_fit`. The arguments are, for each row, the number
:math:`\beta_t` in (0, 1] and the number of repetitions. The interval does not contain the target if the
target miscoverage is at least :math:`\beta_t`.

`SequenceConformal` changes the calibration rows and the target miscoverages with the observed rows.

Gibbs and Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021,
https://arxiv.org/abs/2106.00170.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any, cast

import numpy as np

from skuq._typing import FloatArray
from skuq._validation import DEFAULT_COVERAGE
from skuq.conformal._base import concat_rows
from skuq.conformal._intervals import ObservedRows, SplitConformal
from skuq.conformal._split import CalibrationRows, GroupedScores, SplitScores
from skuq.distributions import concat
from skuq.recalibration._online import ExpertWeights

DTACI_STEPS = 0.001 * 2.0 ** np.arange(8)
"""Step sizes of the experts of "dtaci" (Gibbs and Candès 2024, sec. 4)."""

_SMALLEST = float(np.nextafter(0.0, 1.0))


class FixedStep:
    r"""Adaptive conformal inference, :math:`\alpha_{t+1} = \alpha_t + \gamma (\alpha - \mathrm{err}_t)`.

    The formula is eq. 2 of Gibbs and Candès 2021. All rows that are observed in one call have the same
    :math:`\alpha_t`.
    """

    def __init__(self, nominal: float, step: float) -> None:
        self.miscoverage = self._nominal = nominal
        self._step = step

    def update(self, beta: FloatArray, repetitions: FloatArray) -> None:
        n_missed = repetitions[self.miscoverage >= beta].sum()
        self.miscoverage += self._step * float(self._nominal * repetitions.sum() - n_missed)


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

    def update(self, beta: FloatArray, repetitions: FloatArray) -> None:
        gap = beta[:, np.newaxis] - self._levels
        self._experts.update(repetitions @ (self._nominal * gap - np.minimum(gap, 0)))
        self._levels += DTACI_STEPS * (self._nominal * repetitions.sum() - repetitions @ (gap <= 0))


class SequenceConformal(SplitConformal):
    r"""Split conformal prediction whose calibration rows and target miscoverages follow observed rows.

    The numbers :math:`\beta_t` of the observed rows in the window are stored. Therefore, the intervals at a
    coverage do not depend on when this coverage is first requested, until an observed row leaves the window.
    A coverage that is requested later starts with the rows in the window.
    """

    def __init__(self, fitted: SplitConformal, step: float | None, window: int | None) -> None:
        vars(self).update(vars(fitted))  # The model, the score, the options and the calibration rows.
        self._step, self._window = step, window
        self._levels: dict[float, FixedStep | WeightedSteps] = {}
        self._betas = dict.fromkeys(self._calibrations, np.empty(0))
        # For each observed row in the window, the number of rows before its call.
        self._calls = np.empty(0, dtype=np.intp)
        self._n_observed = 0
        # Scores that depend on the coverage are computed from these rows if a new coverage is requested.
        self._history = deque() if self._first is None else deque([self._first])
        self._first = None
        for coverage in self._requested:
            self.miscoverage(coverage)

    # ------------------------------------------------------------------------------ observed rows

    def observe(self, X: Any, y: FloatArray, repetitions: FloatArray) -> None:
        """Compare the rows with their intervals, and then add them to the calibration rows."""
        self.add(ObservedRows(self._options.rows(X), self._predict(X), y, repetitions))

    def add(self, part: ObservedRows) -> None:
        """Add rows to the calibration rows. If the rows are invalid, raise an error and change nothing."""
        followed = {key: self._followed(rows, part, key) for key, rows in self._calibrations.items()}
        last = slice(None) if self._window is None else slice(-self._window, None)
        self._calls = np.append(self._calls, np.full(part.rows.n, self._n_observed))[last]
        self._n_observed += part.rows.n
        for key, (rows, beta) in followed.items():
            self._calibrations[key], self._betas[key] = rows, np.append(self._betas[key], beta)[last]
        for coverage, level in self._levels.items():
            level.update(followed[self._key(coverage)][1], part.repetitions)
        if self._history:
            self._history.append(part)
            n_stored = sum(each.rows.n for each in self._history)
            while self._window is not None and n_stored - self._history[0].rows.n >= 2 * self._window:
                n_stored -= self._history.popleft().rows.n

    def _followed(
        self, rows: CalibrationRows, part: ObservedRows, coverage: float
    ) -> tuple[CalibrationRows, FloatArray]:
        """Return the calibration rows with the new rows, and the numbers beta of the new rows."""
        scored, band = self._scored(part, coverage), self._score.band(part.prediction, coverage)
        ranked = cast("SplitScores | GroupedScores", rows.ranked)  # `partial_fit` refuses `basis`.
        least = 1 - ranked.exceeded_share(part.rows, band, part.y)
        if not self._score.symmetric:  # Each bound has half of the miscoverage.
            least *= 2
        new = rows.followed_by(scored, self._window)
        new.check()
        # The interval is infinite at a miscoverage of 0 and empty at 1.
        return new, np.clip(least, _SMALLEST, 1.0)

    # ------------------------------------------------------------------------------ new coverages

    def miscoverage(self, coverage: float) -> float:
        """Return the adapted miscoverage of the next interval, which may be slightly outside [0, 1]."""
        if coverage not in self._levels:
            level = WeightedSteps(1 - coverage) if self._step is None else FixedStep(1 - coverage, self._step)
            repetitions = self._calibration(coverage).repetitions
            beta = self._betas[self._key(coverage)]
            edges = [*np.flatnonzero(np.diff(self._calls, prepend=-1)).tolist(), beta.size]
            for call in map(slice, edges[:-1], edges[1:]):
                level.update(beta[call], repetitions[repetitions.size - beta.size :][call])
            self._levels[coverage] = level
        return self._levels[coverage].miscoverage

    def _calibration(self, coverage: float = DEFAULT_COVERAGE) -> CalibrationRows:
        key = self._key(coverage)
        if key not in self._calibrations:
            first, *later = self._replayed()
            rows, betas = self._scored(first, key), [np.empty(0)]
            for part in later:
                rows, beta = self._followed(rows, part, key)
                betas.append(beta)
            self._calibrations[key], self._betas[key] = rows, np.concatenate(betas)
        return self._calibrations[key]

    def _observed_rows(self) -> ObservedRows | None:
        return self._stored(self._calibration().rows.n) if self._score.depends_on_coverage else None

    def _stored(self, n: int) -> ObservedRows:
        """Return the last n rows and their predictions, which are distributions."""
        parts = list(self._history)
        return ObservedRows(
            concat_rows([part.rows for part in parts]),
            concat([part.prediction for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate([part.repetitions for part in parts]),
        )[-n:]

    def _replayed(self) -> list[ObservedRows]:
        """Return the first calibration rows, and the rows of each later call that are in the window.

        The calibration rows of each of the last w rows are the w rows before it.
        """
        sizes = [part.rows.n for part in self._history]
        if self._window is None or self._n_observed <= self._window:
            return list(self._history)
        rows = self._stored(2 * self._window)
        begin = rows.rows.n - self._window
        ends = rows.rows.n - sum(sizes) + np.cumsum(sizes)
        edges = [begin, *ends[ends > begin].tolist()]
        return [rows[:begin], *(rows[first:last] for first, last in pairwise(edges))]
