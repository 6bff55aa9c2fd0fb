"""Recalibration with few fits of an expensive model."""

from __future__ import annotations

from skuq.prediction._cross_fit import resolve_cv, split_rows
from skuq.regressors._fit_inputs import TrainingData
from skuq.regressors._fold_groups import Folds
from skuq.regressors._recalibrated import RecalibratedRegressor

__all__ = ["TwoFoldsRegressor"]

_ALL_TESTED = 100
"""Number of rows below which half of them are too few for calibration."""


class TwoFoldsRegressor(RecalibratedRegressor):
    """RecalibratedRegressor that calibrates on two folds, each a quarter of the rows.

    Models of three quarters of the rows are nearly as good as the final one. Models of half of the rows have
    larger errors, so the intervals would be too wide. With fewer than 100 rows the two folds are halves, as
    each row is needed for calibration. `fit_transform` also fits the models of the other two folds.

    Parameters are those of `RecalibratedRegressor`; ``cv`` is not used.
    """

    def _divide(self, data: TrainingData, seed: int) -> tuple[Folds, Folds]:
        n_folds = 2 if len(data) < _ALL_TESTED else 4
        folds = split_rows(resolve_cv(n_folds, seed), data.X, data.y, data.groups)
        return folds[:2], folds[2:]
