"""
Add predictive distributions to a custom model
==============================================

Custom classes
--------------

Implement a method ``predict_dist(X)`` that returns a
:class:`~skuq.distributions.Distribution` with as many rows as X. Registration or
inheritance are not needed, and all meta-estimators support it.
"""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq import predict_dist
from skuq.distributions import Normal


class Climatology(RegressorMixin, BaseEstimator):
    """Mean and spread of all targets, whatever X is."""

    def fit(self, X, y):
        self.loc_, self.scale_ = np.mean(y), np.std(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.loc_)

    def predict_dist(self, X):
        return Normal(np.full(len(X), self.loc_), np.full(len(X), self.scale_))


rng = np.random.default_rng(0)
X, y = rng.standard_normal((100, 2)), rng.standard_normal(100)
model = make_pipeline(StandardScaler(), Climatology()).fit(X, y)
dist = predict_dist(model, X)

# %%
# Third-party classes
# -------------------
#
# Register a function of the fitted estimator and X under the qualified name of its
# class. The name is a string, so the package need not be installed to register it;
# subclasses are supported too.

from sklearn.neighbors import KNeighborsRegressor

from skuq import register


def neighbours_spread(estimator, X):
    """Return the mean and standard deviation of the neighbours' targets."""
    targets = estimator._y[estimator.kneighbors(X, return_distance=False)]
    return Normal(targets.mean(axis=1), targets.std(axis=1, ddof=1))


register("sklearn.neighbors._regression.KNeighborsRegressor", neighbours_spread)

neighbours = make_pipeline(
    StandardScaler(), KNeighborsRegressor(n_neighbors=20)
).fit(X, y)
dist = predict_dist(neighbours, X)

# %%
# Quantiles, samples and scipy distributions
# ------------------------------------------
#
# Quantiles are represented by :class:`~skuq.distributions.Quantiles`, samples by
# :class:`~skuq.distributions.Empirical`, and a frozen scipy distribution by
# :class:`~skuq.distributions.ScipyDistribution`:

from scipy import stats

from skuq.distributions import Empirical, Quantiles, ScipyDistribution

levels = [0.1, 0.5, 0.9]
quantiles = Quantiles(levels, np.array([[1.0, 2.0, 4.0], [0.0, 1.0, 1.5]]))
draws = Empirical(rng.standard_normal((2, 500)))
gamma = ScipyDistribution(stats.gamma(a=[2.0, 3.0], scale=[1.0, 0.5]))
