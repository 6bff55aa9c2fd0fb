"""Estimators with absolute tolerances are fitted to targets in units near 1."""

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skuq._fitting.fit_wrapped import in_target_units
from skuq.regressors import BootstrapRegressor, ResidualRegressor

Y = np.linspace(-1.0, 1.0, 101)


def factor(estimator, y):
    """Return the factor by which the target reaches the estimator."""
    wrapped = in_target_units(estimator, y)
    return wrapped.func(np.ones(1))[0] if isinstance(wrapped, TransformedTargetRegressor) else 1.0


def test_the_target_has_a_size_near_one():
    for estimator in (
        DecisionTreeRegressor(),
        BaggingRegressor(),
        BaggingRegressor(DecisionTreeRegressor()),
        make_pipeline(StandardScaler(), DecisionTreeRegressor()),
        GridSearchCV(DecisionTreeRegressor(), {"max_depth": [1, 2]}),
        MLPRegressor(),
    ):
        for exponent in (-600, -40, 600):
            y = np.ldexp(Y, exponent)
            assert 0.5 <= np.abs(y * factor(estimator, y)).max() <= 4
        assert factor(estimator, Y) == 1.0


def test_estimators_without_tolerances_are_left_alone():
    for estimator in (
        Ridge(),
        KNeighborsRegressor(),
        BaggingRegressor(Ridge()),
        DecisionTreeRegressor(min_impurity_decrease=1e-30),
        HistGradientBoostingRegressor(),
    ):
        assert in_target_units(estimator, np.ldexp(Y, -40)) is estimator


def test_the_unit_depends_on_the_estimator():
    early = HistGradientBoostingRegressor(early_stopping=True)  # the unit is the standard deviation
    assert factor(early, Y) == factor(early, Y * 8) * 8
    many = np.tile(Y / 64, 100)  # 10 100 rows, above which it stops early by default
    assert factor(HistGradientBoostingRegressor(), many) > 32
    assert factor(HistGradientBoostingRegressor(early_stopping=False), many) == 1.0
    network, tree = MLPRegressor(), DecisionTreeRegressor()
    assert factor(network, 1.5 + 4e-4 * Y) == 1.0  # a network learns the offset too
    assert factor(tree, 1.5 + 4e-4 * Y) > 1000
    for constant in (0.0, 0.1, -7.7e-30, 1e250):
        for estimator in (network, tree):
            assert in_target_units(estimator, np.full(50, constant)) is estimator


@pytest.mark.parametrize("estimator", [Ridge(), LinearRegression(), Lasso(), DecisionTreeRegressor()])
def test_a_constant_target_gives_no_warning_of_a_refit(estimator):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = ResidualRegressor(estimator, center="model", random_state=0).fit(X, np.full(60, 0.1))
    assert np.allclose(model.predict(X), 0.1)


@pytest.mark.parametrize(
    "forest", [RandomForestRegressor(20), BaggingRegressor(DecisionTreeRegressor(min_samples_leaf=3), 20)]
)
@pytest.mark.parametrize("exponent", [-30, 300])
def test_bootstrap_around_a_forest_in_any_units(forest, exponent):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=80)
    plain = BootstrapRegressor(forest, random_state=0).fit(X, y).predict_interval(X)
    scaled = BootstrapRegressor(forest, random_state=0).fit(X, np.ldexp(y, exponent)).predict_interval(X)
    assert np.allclose(np.ldexp(scaled, -exponent), plain, rtol=1e-9)


@pytest.mark.parametrize(
    "name", ["lightgbm.LGBMRegressor", "xgboost.XGBRegressor", "catboost.CatBoostRegressor"]
)
def test_targets_in_32_bits_are_centered_and_scaled_where_they_lose_digits(name):
    package, kind = name.split(".")
    estimator = getattr(pytest.importorskip(package), kind)()
    for usual in (Y, 50 + Y, 1e-6 * Y):
        assert in_target_units(estimator, usual) is estimator
    for unusual in (1e6 + Y, 1e-30 * Y, 1e30 * (Y - 500)):
        wrapped = in_target_units(estimator, unusual)
        unit = wrapped.func(unusual)
        assert 0.5 <= np.std(unit) <= 2
        assert np.abs(unit).max() <= 100
        np.testing.assert_allclose(wrapped.inverse_func(unit), unusual, rtol=1e-12)
