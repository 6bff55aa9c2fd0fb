"""Adaptive conformal inference: the miscoverage of the next interval depends on the misses so far.

Gibbs and Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021,
https://arxiv.org/abs/2106.00170.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skuq._typing import BoolArray, FloatArray
from skuq.distributions._numerics.ranks import RANK_TOLERANCE, score_level
from skuq.recalibration._calibration_set import PredictedRows
from skuq.regressors._conformal.calibration_set import CalibrationSet
from skuq.regressors._conformal.scores import ConformalScore
from skuq.regressors._conformal.settings import ConformalSettings

__all__ = ["AdaptiveCalibration", "Observed"]


@dataclass(frozen=True, eq=False)
class Observed:
    """Ranks of rows that were predicted together and then observed, among the calibration rows of that time.

    From these follows which of the rows an interval of any miscoverage would have missed.

    Attributes
    ----------
    exceeded_weight : ndarray of shape (m,)
        Weight of the calibration scores that each row exceeds.
    total : ndarray of shape (m,)
        Weight of all calibration scores and of the row itself.
    repetitions : ndarray of shape (m,)
        Number of observations that each row stands for.
    """

    exceeded_weight: FloatArray
    total: FloatArray
    repetitions: FloatArray

    def missed(self, miscoverage: float, symmetric: bool) -> BoolArray:
        """Return which rows lay outside the interval of this miscoverage: conformal p-value not above it."""
        if miscoverage <= 0:  # the interval was the whole line
            return np.zeros(self.exceeded_weight.shape, dtype=bool)
        if miscoverage >= 1:  # it was empty
            return np.ones(self.exceeded_weight.shape, dtype=bool)
        target = score_level(1 - miscoverage, symmetric) * self.total
        return np.asarray(self.exceeded_weight >= target * (1 - RANK_TOLERANCE))


class AdaptiveCalibration:
    r"""Calibration rows that grow by observed rows, and the miscoverage that follows from these.

    The miscoverage :math:`\alpha_t` of the next interval, for any nominal one :math:`\alpha`, is

    .. math:: \alpha_{t+1} = \alpha_t + \gamma (\alpha - \mathrm{err}_t), \quad \alpha_1 = \alpha

    (eq. 2 of the paper) with :math:`\mathrm{err}_t` whether row t was missed; rows that were predicted
    together have one :math:`\alpha_t`.

    Parameters
    ----------
    score : ConformalScore
        Score of the rows.
    coverage : float
        Nominal coverage of the band; without effect where the band does not depend on it.
    settings : ConformalSettings
        Step, window and treatment of rare groups.

    Attributes
    ----------
    calibration_set : CalibrationSet
        Rows that calibrate now; there is none before the first call of `extend`.
    """

    calibration_set: CalibrationSet

    def __init__(self, score: ConformalScore, coverage: float, settings: ConformalSettings) -> None:
        self._score, self._coverage, self._settings = score, coverage, settings
        self._n_parts = 0
        self._observed: list[Observed] = []
        self._levels: dict[float, tuple[int, float]] = {}

    def extend(self, parts: Sequence[PredictedRows]) -> None:
        """Add those of the ``parts`` that are new; each is first ranked among the rows before it.

        A part that cannot be scored, or that pushes rows of a group out of the window until it is too small,
        raises and changes nothing.
        """
        for part in parts[self._n_parts :]:
            new, observed = self._scored(part), []
            if self._n_parts:
                observed = [self._observe(part)]
                # only rows observed after `fit` push older ones out of the window
                new = self.calibration_set.followed_by(new, self._settings.window)
            new.check()
            self.calibration_set = new
            self._observed += observed
            self._n_parts += 1

    def miscoverage(self, coverage: float) -> float:
        r"""Return :math:`\alpha_t` after all observed rows; it may lie outside [0, 1] by up to one step."""
        nominal = 1 - coverage
        # continued from the rows at the last request: a later request needs only the rows since then
        n_done, level = self._levels.get(coverage, (0, nominal))
        for rows in self._observed[n_done:]:
            misses = float(rows.repetitions @ rows.missed(level, self._score.symmetric))
            level += self._settings.gamma * (nominal * float(rows.repetitions.sum()) - misses)
        self._levels[coverage] = (len(self._observed), level)
        return level

    def _scored(self, part: PredictedRows) -> CalibrationSet:
        """Return the calibration set of these rows alone."""
        return CalibrationSet(
            self._score.score(part.prediction, part.y, self._coverage),
            part.repetitions,
            np.broadcast_to(part.test_weight, part.n),
            part.labels,
            self._settings.rare_groups,
            self._settings.min_group_size,
        )

    def _observe(self, part: PredictedRows) -> Observed:
        band = self._score.band(part.prediction, self._coverage)
        return Observed(
            self.calibration_set.exceeded_weight(part, band),
            self.calibration_set.weight_for(part) + part.test_weight,
            part.repetitions,
        )
