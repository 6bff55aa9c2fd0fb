"""One finished model for each conformal method that has one, and rows that are new to it."""

from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor

from skuq.regressors import MultiQuantileRegressor, ResidualRegressor
from tests.regressors.worlds import heteroscedastic_world

COVERAGES = [0.5, 0.8, 0.9, 0.95]
QUANTILES = MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.05, 0.5, 0.95])
SPLIT = {
    "split": LinearRegression(),
    "normalized": ResidualRegressor(LinearRegression(), cv=3, center="model", random_state=0),
    "cqr": QUANTILES,
}


def finished_model(estimator, n=150):
    """Return a finished model, and rows to calibrate and to predict that are new to it."""
    X, y = heteroscedastic_world(n + 200 + 60)
    fitted = FrozenEstimator(clone(estimator).fit(X[:n], y[:n]))
    return fitted, X[n : n + 200], y[n : n + 200], X[n + 200 :]
