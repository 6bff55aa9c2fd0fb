"""A simulated set of waiting times with half of the rows censored."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skuq.distributions import Normal


class WaitingTimes(NamedTuple):
    X: np.ndarray
    time: np.ndarray
    censoring: np.ndarray
    loc: np.ndarray
    scale: np.ndarray

    @property
    def y(self):
        return np.minimum(self.time, self.censoring)

    @property
    def event(self):
        return self.time <= self.censoring

    @property
    def log_truth(self):
        return Normal(self.loc, self.scale)


def waiting_times(n, seed):
    """Return log-normal times with a nonlinear location and a varying scale, censored independently."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 6))
    loc = 1 + np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 5] / 3
    scale = 0.6 * np.exp(0.4 * X[:, 4])
    time = np.exp(loc + scale * rng.normal(size=n))
    return WaitingTimes(X, time, rng.exponential(4.2, size=n), loc, scale)
