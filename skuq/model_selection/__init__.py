"""Out-of-fold distributions and model selection."""

from skuq.model_selection._auto_uncertainty import AutoUncertaintyRegressor
from skuq.model_selection._cross_val_predict_dist import cross_val_predict_dist
from skuq.model_selection._refit_best import refit_best

__all__ = [
    "AutoUncertaintyRegressor",
    "cross_val_predict_dist",
    "refit_best",
]
