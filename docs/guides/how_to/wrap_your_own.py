"""
Add predictive distributions to a custom model
==============================================

This page connects skuq to models with their own predictive distributions: your own
classes, classes of other packages, and predicted quantiles or samples. If a
regressor does not predict distributions, wrap it in
:class:`~skuq.regressors.UncertaintyRegressor` instead. :doc:`/how-to/extend`
explains how to write new metrics, recalibrators, regressors and conformal scores.

Custom classes
--------------

Implement a method ``predict_dist(X)`` that returns a
:class:`~skuq.distributions.Distribution` with as many rows as X. All meta-estimators
support this method. Registration and inheritance are not required.
"""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from skuq.distributions import Normal


class Climatology(RegressorMixin, BaseEstimator):
    """Mean and spread of all targets, independent of X."""

    def fit(self, X, y):
        self.loc_, self.scale_ = np.mean(y), np.std(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.loc_)

    def predict_dist(self, X):
        return Normal(np.full(len(X), self.loc_), np.full(len(X), self.scale_))


rng = np.random.default_rng(0)
X = rng.standard_normal((100, 2))
y = X[:, 0] + 0.5 * rng.standard_normal(100)

# %%
# The class works in pipelines, in searches, and with all functions of skuq:

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq import predict_dist

model = make_pipeline(StandardScaler(), Climatology()).fit(X, y)
dist = predict_dist(model, X)
dist.interval(0.9)[:2].round(2)

# %%
# The scorers also support the class:

from sklearn.model_selection import cross_val_score

from skuq import get_scorer

cross_val_score(model, X, y, scoring=get_scorer("neg_crps"), cv=3).round(3)

# %%
# Third-party classes
# -------------------
#
# For a class of another package, write a function that takes the fitted estimator
# and X and returns a distribution. Register this function under the qualified name
# of the class. The name is a string, so you can register the function without
# installing the package. The function is also used for subclasses.

from sklearn.neighbors import KNeighborsRegressor

from skuq import register


def neighbors_spread(estimator, X):
    """Return the mean and standard deviation of the neighbors' targets."""
    targets = estimator._y[estimator.kneighbors(X, return_distance=False)]
    return Normal(targets.mean(axis=1), targets.std(axis=1, ddof=1))


register("sklearn.neighbors._regression.KNeighborsRegressor", neighbors_spread)

neighbors = make_pipeline(StandardScaler(), KNeighborsRegressor(n_neighbors=20))
dist = predict_dist(neighbors.fit(X, y), X)
dist.interval(0.9)[:2].round(2)

# %%
# Quantiles, samples and scipy distributions
# ------------------------------------------
#
# ``predict_dist`` may return any distribution of skuq.
# :class:`~skuq.distributions.Quantiles` represents predicted quantiles, with one row
# of values per row of X:

from skuq.distributions import Quantiles

levels = [0.1, 0.5, 0.9]
quantiles = Quantiles(levels, np.array([[1.0, 2.0, 4.0], [0.0, 1.0, 1.5]]))
quantiles.interval(0.5).round(2)

# %%
# :class:`~skuq.distributions.Empirical` represents samples:

from skuq.distributions import Empirical

draws = Empirical(rng.standard_normal((2, 500)))
draws.interval(0.5).round(2)

# %%
# :class:`~skuq.distributions.ScipyDistribution` represents a frozen scipy
# distribution:

from scipy import stats

from skuq.distributions import ScipyDistribution

gamma = ScipyDistribution(stats.gamma(a=[2.0, 3.0], scale=[1.0, 0.5]))
gamma.interval(0.5).round(2)
