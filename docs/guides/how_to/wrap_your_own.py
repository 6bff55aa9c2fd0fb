"""
Add predictive distributions to a custom model
==============================================

This page connects models that skuq does not support by itself: classes of your
own, classes of other packages, and predictions that are quantiles or samples. A
regressor without any distribution needs none of this; wrap it in
:class:`~skuq.regressors.UncertaintyRegressor`.

Custom classes
--------------

Implement a method ``predict_dist(X)`` that returns a
:class:`~skuq.distributions.Distribution` with as many rows as X. Registration or
inheritance are not needed, and all meta-estimators support it.
"""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

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
X = rng.standard_normal((100, 2))
y = X[:, 0] + 0.5 * rng.standard_normal(100)

# %%
# The class now works in pipelines, searches and all of skuq:

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq import predict_dist

model = make_pipeline(StandardScaler(), Climatology()).fit(X, y)
dist = predict_dist(model, X)
dist.interval(0.9)[:2].round(2)

# %%
# The scorers support it as well:

from sklearn.model_selection import cross_val_score

from skuq import get_scorer

cross_val_score(model, X, y, scoring=get_scorer("neg_crps"), cv=3).round(3)

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

neighbours = make_pipeline(StandardScaler(), KNeighborsRegressor(n_neighbors=20))
dist = predict_dist(neighbours.fit(X, y), X)
dist.interval(0.9)[:2].round(2)

# %%
# Quantiles, samples and scipy distributions
# ------------------------------------------
#
# ``predict_dist`` may return any distribution of skuq. Quantiles are represented by
# :class:`~skuq.distributions.Quantiles`, one row of values per row of X:

from skuq.distributions import Quantiles

levels = [0.1, 0.5, 0.9]
quantiles = Quantiles(levels, np.array([[1.0, 2.0, 4.0], [0.0, 1.0, 1.5]]))
quantiles.interval(0.5).round(2)

# %%
# Samples by :class:`~skuq.distributions.Empirical`:

from skuq.distributions import Empirical

draws = Empirical(rng.standard_normal((2, 500)))
draws.interval(0.5).round(2)

# %%
# A frozen scipy distribution by :class:`~skuq.distributions.ScipyDistribution`:

from scipy import stats

from skuq.distributions import ScipyDistribution

gamma = ScipyDistribution(stats.gamma(a=[2.0, 3.0], scale=[1.0, 0.5]))
gamma.interval(0.5).round(2)
