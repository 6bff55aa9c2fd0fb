"""Processes and estimators of the tests of simulations."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from skuq.distributions import Normal
from skuq.simulation import KnownProcess


def line(X):
    return Normal(np.asarray(X)[:, 0], 0.1)


def uniform(n, rng):
    return rng.uniform(-2, 2, size=(n, 1))


def linear_process(n_train=25, n_test=50, random_state=0, **params):
    """Section 3.2 of Sluijterman, Cator and Heskes: y is normal around x with standard deviation 0.1."""
    return KnownProcess(line, uniform, n_train=n_train, n_test=n_test, random_state=random_state, **params)


class Oracle(RegressorMixin, BaseEstimator):
    """Forecasts what a function of X returns, whatever it is fitted to."""

    def __init__(self, truth):
        self.truth = truth

    def fit(self, X, y):
        return self

    def predict_dist(self, X):
        return self.truth(X)

    def predict(self, X):
        return self.truth(X).mean()


class Recorder(RegressorMixin, BaseEstimator):
    """Forecasts a standard normal distribution around its own seed, and around that of what it holds."""

    def __init__(self, random_state=None, inner=None):
        self.random_state = random_state
        self.inner = inner

    def fit(self, X, y):
        self.first_y_ = y[0]
        return self

    def predict(self, X):
        return self.predict_dist(X).mean()

    def predict_dist(self, X):
        inner = 0 if self.inner is None else self.inner.random_state
        loc = np.zeros(len(X))
        loc[0], loc[1], loc[2] = self.random_state, inner, self.first_y_
        return Normal(loc, 1.0)
