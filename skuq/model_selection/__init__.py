"""Out-of-fold distributions, choosing between models, and their scores on shifted rows."""

from skuq.model_selection._auto_candidates import default_estimators
from skuq.model_selection._auto_uncertainty import AutoUncertaintyRegressor
from skuq.model_selection._cross_val_predict_dist import cross_val_predict_dist
from skuq.model_selection._refit_best import refit_best
from skuq.model_selection._shift_curve import Tilt, shift_curve

__all__ = [
    "AutoUncertaintyRegressor",
    "Tilt",
    "cross_val_predict_dist",
    "default_estimators",
    "refit_best",
    "shift_curve",
]
