"""Types of networks."""

from __future__ import annotations

from typing import assert_type

from skuq import neural
from skuq._typing import FloatArray
from skuq.distributions import Distribution


def check_networks(X: FloatArray, y: FloatArray) -> None:
    assert_type(neural.BootstrapNetRegressor().fit(X, y), neural.BootstrapNetRegressor)
    assert_type(neural.ConcreteDropoutRegressor().fit(X, y), neural.ConcreteDropoutRegressor)
    assert_type(neural.DeepEnsembleClassifier().fit(X, y), neural.DeepEnsembleClassifier)
    assert_type(neural.DeepEnsembleRegressor().fit(X, y), neural.DeepEnsembleRegressor)
    assert_type(neural.LastLayerLaplaceRegressor().fit(X, y), neural.LastLayerLaplaceRegressor)
    assert_type(neural.MCDropoutClassifier().fit(X, y), neural.MCDropoutClassifier)
    assert_type(neural.MCDropoutRegressor().fit(X, y), neural.MCDropoutRegressor)
    assert_type(neural.PNNRegressor().fit(X, y), neural.PNNRegressor)
    assert_type(neural.SWARegressor().fit(X, y), neural.SWARegressor)
    assert_type(neural.VariationalClassifier().fit(X, y), neural.VariationalClassifier)
    assert_type(neural.VariationalRegressor().fit(X, y), neural.VariationalRegressor)
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
