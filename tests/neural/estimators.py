"""The neural estimators, found by the public names, so that a new one is tested as all are."""

import numpy as np

from skuq import neural
from skuq.neural._classifier import BaseNeuralClassifier
from skuq.neural._regressor import BaseNeuralRegressor


def public(base):
    """Return the public classes that are derived from one."""
    classes = [getattr(neural, name) for name in neural.__all__]
    return [each for each in classes if isinstance(each, type) and issubclass(each, base)]


ESTIMATORS = public(BaseNeuralRegressor)
CLASSIFIERS = public(BaseNeuralClassifier)


def not_among(models, estimators=ESTIMATORS):
    """Return the estimators of which none of the models is an instance."""
    classes = {type(model) for model in models}
    return [each for each in estimators if each not in classes]


def world(n, seed, n_features=2, noise=0.3):
    """Return rows of a sine; without a constant noise, it grows with the first column's distance from 0."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, n_features))
    scale = 0.1 + 0.2 * np.abs(X[:, 0]) if noise is None else noise
    return X, np.sin(2 * X[:, 0]) + scale * rng.normal(size=n)
