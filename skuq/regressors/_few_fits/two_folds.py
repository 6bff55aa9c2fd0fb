"""Recalibration with few fits, for models that are expensive to fit."""

from __future__ import annotations

from skuq._fitting.cross_fit import Split, resolve_cv, split_rows
from skuq._fitting.training_data import TrainingData
from skuq.regressors._recalibrated import RecalibratedRegressor

_ALL_TESTED = 100
"""With fewer rows, the two folds are halves of the data, so that all rows are calibration rows."""


class TwoFoldsRegressor(RecalibratedRegressor):
    """RecalibratedRegressor that calibrates on two of four folds. It has no parameter ``cv``."""

    # Models fitted to three quarters of the rows are nearly as good as the final model. Models fitted to half
    # of the rows have larger errors, which would make the intervals too wide. `fit_transform` also needs
    # models that are fitted without one of the other two folds.

    def _divide(self, data: TrainingData, seed: int) -> tuple[list[Split], list[Split]]:
        n_folds = 2 if len(data) < _ALL_TESTED else 4
        folds = split_rows(resolve_cv(n_folds, seed), data.X, data.y, data.groups)
        return folds[:2], folds[2:]
