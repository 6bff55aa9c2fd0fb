"""Calibration rows of a split conformal regressor."""

from __future__ import annotations

import numpy as np

from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.distributions._numerics.ranks import count_reached
from skuq.recalibration._calibration_set import CalibrationScores, PredictedRows
from skuq.recalibration._mondrian import grouped_dist
from skuq.regressors._conformal.scores import Band

__all__ = ["CalibrationSet"]


class CalibrationSet(CalibrationScores):
    """Scores of intervals, from which the ranks of observed rows and predictive distributions follow too."""

    def exceeded_weight(self, rows: PredictedRows, band: Band) -> FloatArray:
        """Return the weight of the scores that each observed y exceeds, shape (n,).

        A score is exceeded if the interval of which it is the quantile does not contain y. The bounds are
        compared as they are rounded, so that `predict_interval` and the misses counted here agree.
        """
        weight = np.empty(rows.n)
        for new, ranks in self.ranks_for(rows):
            low, high, scale = (part[new] for part in band)
            y = rows.y[new]
            # bound < y is the same as bound <= the largest number below y
            below = count_reached(ranks[0].values, -low, scale, np.nextafter(-y, -np.inf))
            above = count_reached(ranks[-1].values, high, scale, np.nextafter(y, -np.inf))
            weight[new] = np.maximum(ranks[0].weight_of(below), ranks[-1].weight_of(above))
        return weight

    def predictive(self, rows: PredictedRows, band: Band) -> Distribution:
        """Return the conformal predictive distributions of new rows whose band is a point."""
        return grouped_dist(
            self.groups,
            rows.labels,
            self.scores[-1],
            self.weight,
            band.low,
            band.scale,
            rows.test_weight,
            symmetric=len(self.scores) == 1,
        )
