"""Tibshirani, Foygel Barber, Candès and Ramdas (2019), "Conformal prediction under covariate shift".

Their experiment on airfoil: logarithms of frequency and displacement thickness, least squares on a quarter of
the rows, a quarter calibrates, and half is resampled with weights exp(x' beta), beta = (-1, 0, 0, 0, 1).
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skuq.conformal import ConformalRegressor
from skuq.exceptions import SmallSampleWarning

pytestmark = pytest.mark.docs

N_SPLITS = 200


def ratio(X):
    """The density ratio up to a factor, which keeps the weights near 1."""
    return np.exp(X[:, 4] - X[:, 0] + 12)


def airfoil(shared_data):
    data = shared_data("paper001/airfoil_self_noise").to_numpy(dtype=float)
    X, y = data[:, :-1].copy(), data[:, -1]
    X[:, [0, 4]] = np.log(X[:, [0, 4]])
    return X, y


def coverages_and_widths(X, y):
    """Return coverage without a shift, and coverage and median width with one, without and with weights."""
    results = []
    for seed in range(N_SPLITS):
        rng = np.random.default_rng(seed)
        train, calibrating, test = np.split(rng.permutation(len(y)), [len(y) // 4, len(y) // 2])
        weight = ratio(X[test])
        shifted = rng.choice(test, size=len(test) // 2, p=weight / weight.sum())
        model = FrozenEstimator(LinearRegression().fit(X[train], y[train]))
        plain = ConformalRegressor(model).fit(X[calibrating], y[calibrating])
        weighted = ConformalRegressor(model, density_ratio=ratio).fit(X[calibrating], y[calibrating])
        row = [covered(plain.predict_interval(X[test]), y[test]).mean()]
        for regressor in (plain, weighted):
            bounds = regressor.predict_interval(X[shifted])
            row += [covered(bounds, y[shifted]).mean(), np.median(np.diff(bounds))]
        results.append(row)
    return np.mean(results, axis=0)


def covered(bounds, y):
    return (bounds[:, 0] <= y) & (y <= bounds[:, 1])


def test_weights_restore_the_coverage_that_the_shift_took(shared_data):
    with warnings.catch_warnings():  # where a new row has more weight than 10 % of all, the bound is infinite
        warnings.simplefilter("ignore", SmallSampleWarning)
        unshifted, plain, width, weighted, weighted_width = coverages_and_widths(*airfoil(shared_data))
    assert unshifted == pytest.approx(0.902, abs=0.005)
    assert plain == pytest.approx(0.824, abs=0.01)
    assert weighted == pytest.approx(0.91, abs=0.01)
    assert weighted_width > 1.2 * width
