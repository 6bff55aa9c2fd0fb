"""Gaussian process of the default pool."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from skuq.regressors import _subset_gaussian_process as module
from skuq.regressors._subset_gaussian_process import SubsetGaussianProcess

RANDOM_ROWS = {
    "check_sample_weight_equivalence_on_dense_data": "a weight is not equal to repeated rows, because rows "
    "are drawn at random and have a noise of their own"
}


@parametrize_with_checks(
    [SubsetGaussianProcess(random_state=0)], expected_failed_checks=lambda _: RANDOM_ROWS
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def world(n, columns=2):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n, columns))
    return 1e3 + 5 * X, 1e6 + 1e4 * (np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n))


@pytest.mark.parametrize("columns", [2, 50])
def test_forecasts_equal_those_of_scikit_learn_with_the_same_kernel(columns, monkeypatch):
    X, y = world(80, columns)
    kernels = []
    fitted = module._fitted_kernel
    monkeypatch.setattr(module, "_fitted_kernel", lambda X, y: kernels.append(fitted(X, y)) or kernels[0])
    model = SubsetGaussianProcess(random_state=0).fit(X, y)
    (kernel,) = kernels
    assert len(kernel.theta) == 2 + (columns if columns <= module.MOST_SCALES else 1)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    peer = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(scaled, y)
    monkeypatch.setattr(module, "MOST_ENTRIES", 7 * len(X))  # blocks of seven rows
    np.testing.assert_allclose(model.predict(X), peer.predict(scaled), rtol=1e-9)


def test_only_the_relevant_column_and_few_rows_are_needed(monkeypatch):
    X, y = world(600)
    monkeypatch.setattr(module, "KERNEL_ROWS", 60)
    monkeypatch.setattr(module, "MOST_ROWS", 200)
    model = SubsetGaussianProcess(random_state=0).fit(X, y)
    assert len(model._rows) == 200
    error = model.predict(X) - 1e6 - 1e4 * np.sin(2 * (X[:, 0] - 1e3) / 5)
    assert np.sqrt(np.mean(error**2)) < 0.5e3  # half of the noise


def test_weights():
    X, y = world(80)
    weight = np.repeat([1.0, 0.0], 40)
    wrong = np.where(weight > 0, y, 0.0)
    model = SubsetGaussianProcess(random_state=0)
    expected = model.fit(X[:40], y[:40]).predict(X)
    np.testing.assert_allclose(model.fit(X, wrong, weight).predict(X), expected)
    heavy = model.fit(X, y, np.where(np.arange(80) == 0, 1e4, 1.0)).predict(X[:1])
    assert abs(heavy - y[0]) < 0.1 * abs(model.fit(X, y).predict(X[:1]) - y[0])
