"""Synthetic sets, and the distributions that they were drawn from."""

import numpy as np
import pytest
from sklearn import datasets as sklearn_datasets

from skuq.datasets import make_chung, make_wibbeke
from skuq.metrics import prediction_interval_coverage

N_FEATURES = {
    "euclidean": 2,
    "nernst": 6,
    "stribeck": 6,
    "arctan": 1,
    "mlp": 4,
    "linear": 3,
    "sparse_uncorrelated": 4,
    "friedman1": 5,
    "friedman2": 4,
    "friedman3": 4,
}
FORMULAS = {
    "euclidean": np.hypot,
    "nernst": lambda R, T, z, F, a1, a2: R * T / z / F * np.log(a1 / a2),
    "stribeck": lambda m1, m2, F, v1, v2, d: m1 * F + (m2 * F - m1 * F) * np.exp(-np.abs((v1 / v2) ** d)),
    "arctan": np.arctan,
    "sparse_uncorrelated": lambda a, b, c, d: a + 2 * b - 2 * c - 1.5 * d,
}


@pytest.mark.parametrize("name", N_FEATURES)
def test_sets_of_wibbeke_have_the_features_of_table_3_and_a_calibrated_truth(name):
    X, y = make_wibbeke(name, random_state=0)
    again = make_wibbeke(name, random_state=0, return_distribution=True)
    assert X.shape == (1000, N_FEATURES[name])
    assert np.isfinite(X).all()
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(y, again[1])
    if name != "sparse_uncorrelated":
        np.testing.assert_array_equal(y, again[2].mean())
        assert (again[2].std() == 0).all()
    X, _, dist = make_wibbeke(name, noise=0.3, random_state=1, return_distribution=True)
    if name in FORMULAS:  # the mean is the printed function
        np.testing.assert_allclose(dist.mean(), FORMULAS[name](*X.T), rtol=1e-12, atol=1e-12)
    _, y, dist = make_wibbeke(name, 4000, noise=0.5, random_state=3, return_distribution=True)
    for coverage in (0.5, 0.9):
        assert prediction_interval_coverage(y, dist, coverage=coverage) == pytest.approx(coverage, abs=0.03)
    assert np.corrcoef(dist.pit(y), dist.mean())[0, 1] == pytest.approx(0, abs=0.06)


@pytest.mark.parametrize("name", ["sparse_uncorrelated", "friedman1", "friedman2", "friedman3"])
def test_sets_of_scikit_learn_are_its_sets(name):
    options = {"n_features": N_FEATURES[name]} if name in {"sparse_uncorrelated", "friedman1"} else {}
    X, y = getattr(sklearn_datasets, f"make_{name}")(1000, random_state=1, **options)
    mine = make_wibbeke(name, random_state=1)
    np.testing.assert_array_equal(mine[0], X)
    np.testing.assert_allclose(mine[1], y, rtol=1e-12)


def test_the_true_distribution_of_chung_is_calibrated_in_each_part_of_x():
    for name in ("sine", "quadrants"):
        X, y, dist = make_chung(name, 8000, random_state=0, return_distribution=True)
        for part in np.array_split(np.argsort(X[:, 0]), 4):
            assert prediction_interval_coverage(y[part], dist[part]) == pytest.approx(0.9, abs=0.025)


def test_mean_and_noise_of_chung_are_those_of_the_appendix():
    X, _, dist = make_chung("quadrants", 500, random_state=0, return_distribution=True)
    x = X[:, 0]
    np.testing.assert_allclose(dist.mean(), np.sin(x / 2) + x * np.cos(0.8 * x))
    expected = [(1.0, -10, -5), (0.01, -5, 0), (1.5, 0, 5), (0.5, 5, 10)]
    for std, lower, upper in expected:
        rows = (lower <= X[:, 0]) & (X[:, 0] < upper)
        assert rows.any()
        assert (dist.std()[rows] == std).all()


@pytest.mark.laws  # the package takes seconds to import
def test_sine_is_that_of_the_package():
    data = pytest.importorskip("uncertainty_toolbox.data")
    mean, std, _, x = data.synthetic_sine_heteroscedastic(30)
    mine = make_chung("sine", 30, random_state=4, return_distribution=True)
    np.testing.assert_array_equal(mine[0][:, 0], x)
    np.testing.assert_allclose(mine[2].mean(), mean)
    np.testing.assert_allclose(mine[2].std(), std)


def test_wrong_options_are_named():
    for make, options, message in (
        (make_wibbeke, {"name": "euclid"}, "`name` must be one of"),
        (make_wibbeke, {"name": "arctan", "noise": -1.0}, "`noise` must be at least 0"),
        (make_wibbeke, {"name": "arctan", "n_samples": 1}, "`n_samples` must be at least 2"),
        (make_chung, {"name": "arctan"}, "`name` must be one of"),
        (make_chung, {"name": "sine", "return_distribution": 1}, "`return_distribution` must be"),
    ):
        with pytest.raises(ValueError, match=message):
            make(**options)
