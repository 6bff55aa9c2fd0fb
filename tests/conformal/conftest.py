"""Models that are fitted before the sequence begins."""

import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor

from skuq.regressors import LeastSquaresRegressor, MultiQuantileRegressor
from tests.conformal.split_models import SPLIT, finished_model
from tests.regressors.worlds import linear_world

MODELS = {
    "split": LinearRegression(),
    "normalized": LeastSquaresRegressor(),
    "cqr": MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.05, 0.5, 0.95]),
}


@pytest.fixture(scope="session")
def finished():
    """A finished model of each split method, with rows to calibrate, their y, and rows to predict."""
    return {method: finished_model(estimator) for method, estimator in SPLIT.items()}


@pytest.fixture(scope="package")
def models():
    X, y = linear_world(120, seed=1)
    return {method: FrozenEstimator(clone(model).fit(X, y)) for method, model in MODELS.items()}
