"""Predictive distributions and prediction sets of fitted estimators."""

from skuq.prediction._predict_set import predict_set
from skuq.prediction._prediction_set import prediction_set
from skuq.prediction._resolve import predict_dist, register, supports_dist

__all__ = [
    "predict_dist",
    "predict_set",
    "prediction_set",
    "register",
    "supports_dist",
]
