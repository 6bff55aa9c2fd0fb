"""Point predictions of wrapped estimators."""

from __future__ import annotations

from typing import Any

from skuq._sklearn_compat import sequential_in_cluster_task
from skuq._typing import FloatArray
from skuq.prediction._resolve import predict_dist, predicts_columns
from skuq.prediction._rules.native import single_output

__all__ = ["point_predict"]


def point_predict(estimator: Any, X: Any) -> FloatArray:
    """Return an estimator's point predictions as finite floats, one a row.

    The mean of its distribution where ``predict`` gives the parameters or quantiles of that.
    """
    if predicts_columns(estimator):
        mean: FloatArray = predict_dist(estimator, X).mean()
        return mean
    with sequential_in_cluster_task():
        points = estimator.predict(X)
    return single_output(points, estimator)
