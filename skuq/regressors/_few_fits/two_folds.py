"""Recalibration of expensive models with few fits."""

from __future__ import annotations

from skuq._fitting.cross_fit import resolve_cv, split_rows
from skuq._fitting.training_data import TrainingData
from skuq.regressors._fold_groups import Folds
from skuq.regressors._recalibrated import RecalibratedRegressor

_ALL_TESTED = 100
"""Number of rows below which all rows are needed for calibration."""


class TwoFoldsRegressor(RecalibratedRegressor):
    """RecalibratedRegressor that calibrates on two folds, each a quarter of the rows; ``cv`` is not used.

    Models of three quarters of the rows are nearly as good as the final model; models of half of the rows
    would give intervals that are too wide. `fit_transform` also fits the models of the other two folds.
    """

    def _divide(self, data: TrainingData, seed: int) -> tuple[Folds, Folds]:
        n_folds = 2 if len(data) < _ALL_TESTED else 4
        folds = split_rows(resolve_cv(n_folds, seed), data.X, data.y, data.groups)
        return folds[:2], folds[2:]
