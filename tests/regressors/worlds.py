"""Worlds whose truth is known."""

import numpy as np


def linear_world(n, seed=0):
    """y linear in three columns, with Gaussian noise of one variance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ [1.0, -2.0, 0.5] + rng.normal(size=n)


def heteroscedastic_world(n, seed=0):
    """A smooth mean and noise that grows with the first column's distance from 0."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + (0.2 + 0.5 * np.abs(X[:, 0])) * rng.normal(size=n)


def noisy_line(n, seed=0):
    """One column, in which neighbors predict each other, and noise that varies."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    return X, np.sin(4 * X[:, 0]) + (0.2 + 2 * X[:, 0]) * rng.normal(size=n)
