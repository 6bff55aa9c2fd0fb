"""Point predictions of wrapped estimators."""

from __future__ import annotations

from typing import Any

from skuq._sklearn_compat import sequential_in_cluster_task
from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.prediction._failures import note_fold, single_output
from skuq.prediction._resolve import predict_dist, predicts_columns


def point_predict(estimator: Any, X: Any) -> FloatArray:
    if predicts_columns(estimator):
        mean: FloatArray = predict_dist(estimator, X).mean()
        return mean
    with sequential_in_cluster_task():
        points = estimator.predict(X)
    return single_output(points, estimator)


def point_and_dist(estimator: Any, X: Any) -> tuple[FloatArray, Distribution]:
    own = getattr(estimator, "_point_and_supported_dist", None)
    if own is not None:
        estimator._check_new(X)
        with sequential_in_cluster_task():
            points, dist = own(X)
        return single_output(points, estimator), dist
    dist = predict_dist(estimator, X)
    return (dist.mean() if predicts_columns(estimator) else point_predict(estimator, X)), dist


def predict_member(member: Any, X: Any, place: str) -> FloatArray:
    """Return the point prediction of one member. Error messages contain the name of the member, ``place``."""
    with note_fold(place):
        return point_predict(member, X)
