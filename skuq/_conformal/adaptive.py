"""Adaptive conformal inference, in which the miscoverage of the next interval depends on earlier misses.

Gibbs and Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021,
https://arxiv.org/abs/2106.00170.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skuq._conformal.calibration_set import CalibrationSet, PredictedRows
from skuq._conformal.groups_and_shift import GroupsAndShift
from skuq._conformal.scores import ConformalScore
from skuq._ranks import RANK_TOLERANCE, score_level
from skuq._typing import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Observed:
    """Observed rows. Each row is compared with the calibration rows of its prediction."""

    exceeded_weight: FloatArray  # Weight of the calibration scores below the score of each row, shape (m,).
    total: FloatArray  # Weight of all calibration scores plus the weight of the row, shape (m,).
    repetitions: FloatArray  # Number of repetitions of each row, shape (m,).

    def missed(self, miscoverage: float, symmetric: bool) -> BoolArray:
        if miscoverage <= 0:  # The interval is infinite.
            return np.zeros(self.exceeded_weight.shape, dtype=bool)
        if miscoverage >= 1:  # The interval is empty.
            return np.ones(self.exceeded_weight.shape, dtype=bool)
        target = score_level(1 - miscoverage, symmetric) * self.total
        return np.asarray(self.exceeded_weight >= target * (1 - RANK_TOLERANCE))


class AdaptiveCalibration:
    r"""Calibration set and miscoverage, which observed rows update.

    For a nominal miscoverage :math:`\alpha`, the miscoverage :math:`\alpha_t` of interval t is

    .. math:: \alpha_{t+1} = \alpha_t + \gamma (\alpha - \mathrm{err}_t), \quad \alpha_1 = \alpha

    (Gibbs and Candès, eq. 2), where :math:`\mathrm{err}_t` is 1 if the target of row t is outside its
    interval and 0 otherwise. All rows that are observed in one batch have the same :math:`\alpha_t`.
    """

    calibration_set: CalibrationSet

    def __init__(
        self,
        score: ConformalScore,
        coverage: float,
        options: GroupsAndShift,
        gamma: float,
        window: int | None,
    ) -> None:
        self._score, self._coverage, self._options = score, coverage, options
        self._gamma, self._window = gamma, window
        self._n_parts = 0
        self._observed: list[Observed] = []
        self._levels: dict[float, tuple[int, float]] = {}

    def extend(self, parts: Sequence[PredictedRows]) -> None:
        """Compare the rows of the new parts with the earlier rows.

        Then add the new rows to the calibration set.
        """
        for part in parts[self._n_parts :]:
            new, observed = self._scored(part), []
            if self._n_parts:
                observed = [self._observe(part)]
                # The first part comes from `fit`. `window` removes rows only when later parts are added.
                new = self.calibration_set.followed_by(new, self._window)
            new.check()
            self.calibration_set = new
            self._observed += observed
            self._n_parts += 1

    def miscoverage(self, coverage: float) -> float:
        nominal = 1 - coverage
        # The update continues from the last call, so that each observed row changes the miscoverage once.
        n_done, level = self._levels.get(coverage, (0, nominal))
        for rows in self._observed[n_done:]:
            misses = float(rows.repetitions @ rows.missed(level, self._score.symmetric))
            level += self._gamma * (nominal * float(rows.repetitions.sum()) - misses)
        self._levels[coverage] = (len(self._observed), level)
        return level

    def _scored(self, part: PredictedRows) -> CalibrationSet:
        return CalibrationSet(
            self._score.score(part.prediction, part.y, self._coverage),
            part.repetitions,
            np.broadcast_to(part.test_weight, part.n),
            part.labels,
            self._options,
            part.functions,
        )

    def _observe(self, part: PredictedRows) -> Observed:
        band = self._score.band(part.prediction, self._coverage)
        return Observed(
            self.calibration_set.exceeded_weight(part, band),
            self.calibration_set.weight_for(part) + part.test_weight,
            part.repetitions,
        )
