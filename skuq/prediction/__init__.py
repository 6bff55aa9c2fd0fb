"""From any fitted estimator to its predictive distribution."""

from skuq.prediction._resolve import predict_dist, register, supports_dist

__all__ = ["predict_dist", "register", "supports_dist"]
