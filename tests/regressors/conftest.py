"""One small regressor of each kind."""

from __future__ import annotations

import functools
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor
from sklearn.tree import DecisionTreeRegressor

from skuq.conformal import ConformalRegressor, CrossConformalRegressor
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    ForestDistributionRegressor,
    LeastSquaresRegressor,
    MixtureRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    SparseGaussianProcessRegressor,
    UncertaintyRegressor,
)
from tests.regressors.worlds import linear_world


@pytest.fixture(scope="session")
def small():
    return linear_world(80)


def first_is_positive(X):
    return np.asarray(X)[:, 0] > 0


TREE = DecisionTreeRegressor(min_samples_leaf=5)
QUANTILES = MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.1, 0.5, 0.9], cv=3, random_state=0)

REGRESSORS = {
    "least squares": LeastSquaresRegressor(),
    "bootstrap": BootstrapRegressor(TREE, 20, random_state=0),
    "bootstrap, heteroscedastic": BootstrapRegressor(TREE, 20, noise="heteroscedastic", random_state=0),
    "bootstrap, members": BootstrapRegressor(TREE, 30, noise=None, random_state=0),
    "forest": ForestDistributionRegressor(RandomForestRegressor(30), random_state=0),
    "quantiles": QUANTILES,
    "residual": ResidualRegressor(TREE, cv=3, random_state=0),
    "recalibrated": RecalibratedRegressor(LeastSquaresRegressor(), cv=3, random_state=0),
    "recalibrated, ensemble": RecalibratedRegressor(
        BayesianRidge(), IsotonicRecalibrator(), cv=3, ensemble=True, random_state=0
    ),
    "conformal": ConformalRegressor(LinearRegression(), random_state=0),
    "conformal, normalized": ConformalRegressor(
        BayesianRidge(), "normalized", symmetric=False, held_out_size=0.4, random_state=0
    ),
    "conformal, groups": ConformalRegressor(
        TREE, group_by=first_is_positive, held_out_size=0.5, random_state=0
    ),
    "conformal, cqr": ConformalRegressor(QUANTILES, "cqr", random_state=0),
    "conformal, cv+": CrossConformalRegressor(TREE, random_state=0),
    "conformal, jackknife+ab": CrossConformalRegressor(TREE, "jackknife+ab", n_estimators=20, random_state=0),
    "mixture": MixtureRegressor(
        [("line", LeastSquaresRegressor()), ("dummy", DummyRegressor())], cv=3, random_state=0
    ),
    "uncertainty": UncertaintyRegressor(LinearRegression(), cv=3, random_state=0),
    "uncertainty, native": UncertaintyRegressor(BayesianRidge(), "native", cv=3, random_state=0),
}
if find_spec("gpytorch"):
    REGRESSORS["sparse Gaussian process"] = SparseGaussianProcessRegressor(
        15, max_iter=10, cv=2, random_state=0
    )


@pytest.fixture(params=REGRESSORS)
def regressor(request):
    return REGRESSORS[request.param]


@pytest.fixture(scope="session")
def fit_once(small):
    """Return ``fit_once(regressor)``: a fitted copy, made once, which no test may fit or change."""
    if find_spec("gpytorch"):
        clone(REGRESSORS["sparse Gaussian process"]).fit(*small)  # imports, whose time belongs to no test

    @functools.cache
    def fit(regressor):
        return clone(regressor).fit(*small)

    return fit


@pytest.fixture(scope="session")
def fit_transform_once(small):
    """Return ``fit_transform_once(regressor)``: a fitted copy and its out-of-sample forecasts, made once."""

    @functools.cache
    def fit_transform(regressor):
        model = clone(regressor)
        return model, model.fit_transform(*small)

    return fit_transform


def promises_intervals_of_its_own(regressor):
    """Return whether `predict_interval` has a guarantee that no distribution of one shape can have."""
    return getattr(regressor, "method", None) in {"cqr", "cv+", "jackknife+", "jackknife+ab"}
