"""Conformal prediction: intervals and sets of classes with a guaranteed coverage.

.. code-block:: text

    model -> scores of held-out rows (_scores, _class_scores) -> quantile of the scores -> interval or set

    ConformalRegressor       one model and held-out rows: _split, _calibration_set
        groups, shifts       _groups, _groups_and_shift, _basis, _basis_path
        sequences            _adaptive, _adaptation
    CrossConformalRegressor  folds or resamples: _fold_models, _cross, _cross_bounds, _order_statistics
    ConformalClassifier      sets of classes: _split_sets, _cross_sets, _class_labels
    ConformalRecalibrator    a distribution of any model
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
