"""Predictive distributions and prediction sets of fitted estimators."""

from skuq.prediction._resolve import predict_dist, register, supports_dist

__all__ = [
    "predict_dist",
    "register",
    "supports_dist",
]
