"""XGBoostLSS against a fake with its interface, because it requires older versions of numpy and scipy."""

import sys
import types

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.exceptions import NotFittedError

from skuq.distributions import Hurdle, Quantiles
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist

A, B = np.array([0.8, 2.0, 5.0]), np.array([0.5, 1.0, 2.0])
GATE, PROBS = np.array([0.1, 0.5, 0.9]), np.array([0.3, 0.5, 0.8])
X = np.zeros((3, 2))
CASES = {
    "Gaussian": ({"loc": A, "scale": B}, stats.norm(A, B)),
    "StudentT": ({"df": A + 2, "loc": A, "scale": B}, stats.t(A + 2, A, B)),
    "Cauchy": ({"loc": A, "scale": B}, stats.cauchy(A, B)),
    "Laplace": ({"loc": A, "scale": B}, stats.laplace(A, B)),
    "Gumbel": ({"loc": A, "scale": B}, stats.gumbel_r(A, B)),
    "Gamma": ({"concentration": A, "rate": B}, stats.gamma(A, scale=1 / B)),
    "LogNormal": ({"loc": A, "scale": B}, stats.lognorm(B, scale=np.exp(A))),
    "Weibull": ({"scale": A, "concentration": B}, stats.weibull_min(B, scale=A)),
    "Beta": ({"concentration1": A, "concentration0": B}, stats.beta(A, B)),
    "Poisson": ({"rate": A}, stats.poisson(A)),
    "NegativeBinomial": ({"total_count": A, "probs": PROBS}, stats.nbinom(A, 1 - PROBS)),
}
ZEROS = {
    "ZIPoisson": ({"rate": A, "gate": GATE}, stats.poisson(A)),
    "ZINB": ({"total_count": A, "probs": PROBS, "gate": GATE}, stats.nbinom(A, 1 - PROBS)),
    "ZAGamma": ({"concentration": A, "rate": B, "gate": GATE}, stats.gamma(A, scale=1 / B)),
    "ZALN": ({"loc": A, "scale": B, "gate": GATE}, stats.lognorm(B, scale=np.exp(A))),
    "ZABeta": ({"concentration1": A, "concentration0": B, "gate": GATE}, stats.beta(A, B)),
}


class DMatrix:
    def __init__(self, data):
        self.data = np.asarray(data)


class XGBoostLSS:
    """The interface of XGBoostLSS 0.6: a trained booster, and parameters or quantiles as a table."""

    def __init__(self, family, parameters, *, trained=True, multivariate=False):
        self.dist = type(family, (), {"multivariate": multivariate})()
        self.booster = object() if trained else None
        self.parameters = parameters

    def predict(self, data, pred_type="parameters", quantiles=()):
        assert isinstance(data, DMatrix)
        if pred_type == "parameters":
            return pd.DataFrame(self.parameters)
        return pd.DataFrame({f"quant_{q}": stats.norm.ppf(q, self.parameters["loc"]) for q in quantiles})


XGBoostLSS.__module__ = "xgboostlss.model"
XGBoostLSS.__qualname__ = "XGBoostLSS"


@pytest.fixture(autouse=True)
def xgboost(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", types.SimpleNamespace(DMatrix=DMatrix))


@pytest.mark.parametrize("family", CASES)
def test_families(family):
    parameters, expected = CASES[family]
    model = XGBoostLSS(family, parameters)
    assert supports_dist(model)
    dist = predict_dist(model, X)
    for level in (0.1, 0.5, 0.95):
        assert_allclose(dist.ppf(level), expected.ppf(level), rtol=1e-9)


@pytest.mark.parametrize("family", ZEROS)
def test_families_with_additional_zeros(family):
    parameters, rest = ZEROS[family]
    dist = predict_dist(XGBoostLSS(family, parameters), X)
    assert isinstance(dist, Hurdle)
    for y in (0.0, 0.4, 3.0):
        assert_allclose(dist.cdf(y), GATE + (1 - GATE) * rest.cdf(y), rtol=1e-9)
    assert dist.has_mass == (family in {"ZIPoisson", "ZINB"})


def test_other_families_are_quantiles():
    dist = predict_dist(XGBoostLSS("SplineFlow", {"loc": A}), X)
    assert isinstance(dist, Quantiles)
    assert_allclose(dist.ppf(0.3), stats.norm.ppf(0.3, A), atol=1e-3)


def test_bad_models_are_named():
    with pytest.raises(NotFittedError, match="XGBoostLSS is not fitted"):
        predict_dist(XGBoostLSS("Gaussian", {}, trained=False), X)
    with pytest.raises(NotProbabilisticError, match="must have one target, got MVN"):
        predict_dist(XGBoostLSS("MVN", {}, multivariate=True), X)
