"""One small regressor of each kind."""

from __future__ import annotations

import pytest
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor
from sklearn.tree import DecisionTreeRegressor

from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    LeastSquaresRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)
from tests.regressors.worlds import linear_world


@pytest.fixture(scope="session")
def small():
    return linear_world(80)


TREE = DecisionTreeRegressor(min_samples_leaf=5)

REGRESSORS = {
    "least squares": LeastSquaresRegressor(),
    "bootstrap": BootstrapRegressor(TREE, 20, random_state=0),
    "bootstrap, heteroscedastic": BootstrapRegressor(TREE, 20, noise="heteroscedastic", random_state=0),
    "bootstrap, members": BootstrapRegressor(TREE, 30, noise=None, random_state=0),
    "quantiles": MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.1, 0.5, 0.9], cv=3, random_state=0),
    "residual": ResidualRegressor(TREE, cv=3, random_state=0),
    "recalibrated": RecalibratedRegressor(LeastSquaresRegressor(), cv=3, random_state=0),
    "recalibrated, ensemble": RecalibratedRegressor(
        BayesianRidge(), IsotonicRecalibrator(), cv=3, ensemble=True, random_state=0
    ),
    "uncertainty": UncertaintyRegressor(LinearRegression(), cv=3, random_state=0),
    "uncertainty, native": UncertaintyRegressor(BayesianRidge(), cv=3, random_state=0),
}


@pytest.fixture(params=REGRESSORS)
def regressor(request):
    return REGRESSORS[request.param]
