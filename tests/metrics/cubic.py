"""The world of Sluijterman et al. (2024), section 5.3: a cubic mean with noise that grows from the middle."""

import numpy as np

from skuq.distributions import Normal

MEAN_SCALE = np.sqrt(1 / 100 + 2 / 10 / 12 + 1 / 80)
"""Root of the mean variance (0.1 + x^2)^2 for x uniform from -0.5 to 0.5."""


def cubic(n, n_features, seed):
    """Return X, targets, the true distributions, and those with the mean variance in every row."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, size=(n, n_features))
    mean, scale = (2 * X[:, 0] - 1) ** 3, 0.1 + X[:, 0] ** 2
    y = mean + scale * rng.standard_normal(n)
    return X, y, Normal(mean, scale), Normal(mean, np.full(n, MEAN_SCALE))
