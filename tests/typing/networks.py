"""Types of networks."""

from __future__ import annotations

from typing import assert_type

from skuq import neural
from skuq._typing import FloatArray
from skuq.distributions import Distribution


def check_networks(X: FloatArray, y: FloatArray) -> None:
    assert_type(neural.DeepEnsembleRegressor().fit(X, y), neural.DeepEnsembleRegressor)
    assert_type(neural.DeepEnsembleClassifier().fit(X, y), neural.DeepEnsembleClassifier)
    assert_type(neural.PNNRegressor(loss=neural.BetaNLLLoss()).predict_dist(X), Distribution)
    assert_type(neural.fit_many([neural.PNNRegressor()], X, y), list[neural.PNNRegressor])


def check_losses() -> None:
    losses: list[neural.Loss] = [
        neural.BetaNLLLoss(),
        neural.CRPSLoss(),
        neural.CheckLoss(),
        neural.IntervalLoss(),
        neural.NLLLoss(),
        neural.SquaredErrorLoss(),
    ]
    assert_type(neural.PNNRegressor(loss=losses[0]), neural.PNNRegressor)
