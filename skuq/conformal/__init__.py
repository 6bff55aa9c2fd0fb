"""Conformal prediction: intervals and sets of classes with a guaranteed coverage.

.. code-block:: text

    model -> scores of held-out rows (_scores) -> quantile of the scores (_split) -> interval or set

    ConformalRegressor       one model and held-out rows: _conformal_regressor, _intervals
        groups, shifts       _split
        functions of x       _basis
        sequences            _adaptive
    CrossConformalRegressor  residuals of folds or resamples: _cross_conformal_regressor, _cross
    ConformalClassifier      sets of classes: _conformal_classifier, _sets
    ConformalRecalibrator    a distribution of any model: _conformal_recalibrator
    for several of them      rows, held-out rows and folds: _base
"""

from skuq.conformal._conformal_classifier import ConformalClassifier
from skuq.conformal._conformal_recalibrator import ConformalRecalibrator
from skuq.conformal._conformal_regressor import ConformalRegressor
from skuq.conformal._cross_conformal_regressor import CrossConformalRegressor
from skuq.prediction._predict_set import predict_set, prediction_set

__all__ = [
    "ConformalClassifier",
    "ConformalRecalibrator",
    "ConformalRegressor",
    "CrossConformalRegressor",
    "predict_set",
    "prediction_set",
]
