"""skuq's own regressors and recalibrators through the containers, and adapters by qualified name."""

import sys
import types

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, StackingRegressor, VotingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - makes the next import work
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skuq.distributions import Normal, StudentT
from skuq.exceptions import NotProbabilisticError
from skuq.metrics import get_scorer
from skuq.prediction import _register, predict_dist, register, supports_dist
from skuq.recalibration import IdentityRecalibrator, IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import (
    LeastSquaresRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)


def test_the_lines_users_will_remember(data):
    X, y = data
    pipeline = make_pipeline(
        StandardScaler(), UncertaintyRegressor(Ridge(), random_state=0), StdScalingRecalibrator()
    )
    grid = {
        "uncertaintyregressor__estimator": [Ridge(), BayesianRidge()],
        "stdscalingrecalibrator": [StdScalingRecalibrator(), IsotonicRecalibrator(), IdentityRecalibrator()],
    }
    search = GridSearchCV(pipeline, grid, cv=2, scoring=get_scorer("neg_crps"), error_score="raise").fit(X, y)
    dist = predict_dist(search, X)
    assert dist.interval(0.9).shape == (60, 2)
    assert dist.std().shape == (60,)
    np.testing.assert_array_equal(dist.cdf(20.0), predict_dist(search.best_estimator_, X).cdf(20.0))
    assert dist.crps(y).mean() < 1.0


def test_recalibrator_as_the_last_step(data):
    X, y = data
    model = make_pipeline(StandardScaler(), LeastSquaresRegressor(), StdScalingRecalibrator())
    assert supports_dist(model)
    model.fit(X, y)
    before = predict_dist(model[:-1], X)
    assert isinstance(before, StudentT)
    expected = model[-1].predict_dist(before)
    np.testing.assert_array_equal(predict_dist(model, X).interval(), expected.interval())
    np.testing.assert_array_equal(predict_dist(model[-1], before).interval(), expected.interval())


@pytest.mark.parametrize("scaler", [StandardScaler(), None])
def test_inside_a_transformed_target(data, scaler):
    X, y = data
    functions = {} if scaler else {"func": np.log, "inverse_func": np.exp}
    model = TransformedTargetRegressor(LeastSquaresRegressor(), transformer=scaler, **functions)
    assert supports_dist(model)
    model.fit(X, y)
    dist = predict_dist(model, X)
    np.testing.assert_allclose(dist.median(), model.predict(X), rtol=1e-10)
    assert dist.crps(y).mean() < 0.8
    if scaler:
        plain = predict_dist(LeastSquaresRegressor().fit(X, y), X)
        np.testing.assert_allclose(dist.interval(), plain.interval(), rtol=1e-9)
        np.testing.assert_allclose(dist.epistemic().std(), plain.epistemic().std(), rtol=1e-9)


def test_ensembles_of_skuq_regressors(data):
    X, y = data
    least_squares = LeastSquaresRegressor()
    bagging = BaggingRegressor(least_squares, n_estimators=3, random_state=0)
    voting = VotingRegressor([("a", least_squares), ("b", ResidualRegressor(Ridge(), random_state=0))])
    stacking = StackingRegressor([("a", Ridge())], least_squares, cv=3)
    for model in (bagging, voting, stacking):
        assert supports_dist(model)
        dist = predict_dist(model.fit(X, y), X)
        assert dist.crps(y).mean() < 0.8
        assert np.isfinite(dist.logpdf(y)).all()


def test_uncertainty_regressor_takes_a_native_model_as_it_is(data):
    X, y = data
    kernel_model = GaussianProcessRegressor(alpha=0.5, optimizer=None, normalize_y=True)
    wrapped = UncertaintyRegressor(kernel_model).fit(X, y)
    np.testing.assert_array_equal(
        predict_dist(wrapped, X).std(), predict_dist(kernel_model.fit(X, y), X).std()
    )


def test_swapped_arguments_are_not_printed_in_full(data):
    X, y = data
    with pytest.raises(TypeError, match="`fit` and `predict`, got an object of class DataFrame") as raised:
        predict_dist(pd.DataFrame(X), BayesianRidge().fit(X, y))
    assert len(str(raised.value)) < 120


@pytest.fixture(autouse=True)
def _keep_registry(monkeypatch):
    copied = {name: dict(places) for name, places in _register._ADAPTERS.items()}
    monkeypatch.setattr(_register, "_ADAPTERS", copied)


class Parent(BaseEstimator):
    def fit(self, X, y):
        return self


class Child(Parent):
    pass


class Grandchild(Child):
    pass


def constant(loc):
    return lambda estimator, X: Normal(np.full(len(X), loc), 1.0)


def name_of(cls):
    return f"{cls.__module__}.{cls.__qualname__}"


X = np.zeros((2, 1))


def test_nearest_ancestor_and_latest_registration_win():
    register(name_of(Parent), constant(5.0))
    register(name_of(Parent), constant(1.0))
    assert predict_dist(Grandchild(), X).mean()[0] == 1.0
    register(name_of(Child), constant(2.0))
    assert predict_dist(Grandchild(), X).mean()[0] == 2.0
    assert predict_dist(Parent(), X).mean()[0] == 1.0


def test_serves_inside_containers():
    register(name_of(Parent), constant(3.0))
    pipeline = make_pipeline(StandardScaler(), Parent()).fit(np.arange(4.0).reshape(-1, 1), np.arange(4.0))
    assert supports_dist(pipeline)
    assert predict_dist(pipeline, X).mean()[0] == 3.0


def test_public_name_of_a_class_defined_in_a_private_module(monkeypatch):
    package = types.ModuleType("weather_models")
    cls = type("Forecaster", (Parent,), {"__module__": "weather_models._private"})
    package.Forecaster = cls
    monkeypatch.setitem(sys.modules, "weather_models", package)
    register("weather_models.Forecaster", constant(4.0))
    assert predict_dist(cls(), X).mean()[0] == 4.0
    assert "weather_models._private" not in sys.modules


def test_other_packages_are_not_taken_for_it_and_need_not_be_installed():
    register("other_package.Parent", constant(1.0))
    with pytest.raises(NotProbabilisticError, match="Parent gives no predictive distribution"):
        predict_dist(Parent(), X)
    assert not supports_dist(LinearRegression())


def test_a_registration_is_preferred_to_the_built_in_rules(data):
    features, y = data
    pipeline = make_pipeline(LinearRegression()).fit(features, y)
    register("sklearn.pipeline.Pipeline", constant(7.0))
    assert predict_dist(pipeline, features[:2]).mean()[0] == 7.0


def test_supports():
    register(name_of(Parent), constant(1.0), supports=lambda estimator: isinstance(estimator, Child))
    assert supports_dist(Child())
    assert not supports_dist(Parent())


def test_bad_input(subtests):
    for arguments, options, error, message in (
        ((Parent, constant(1.0)), {}, TypeError, "`qualified_name` must be a string"),
        (("Parent", constant(1.0)), {}, ValueError, "`qualified_name` must contain a module and a class"),
        (("package.", constant(1.0)), {}, ValueError, "`qualified_name` must contain a module and a class"),
        (("package.Parent", None), {}, TypeError, "`adapter` must be a function"),
        (("package.Parent", constant(1.0)), {"supports": True}, TypeError, "`supports` must be a function"),
        (("a.B", constant(1.0)), {"in_context": 1.5}, ValueError, "`in_context` must be one of True, False"),
    ):
        with subtests.test(message), pytest.raises(error, match=message):
            register(*arguments, **options)
    register(name_of(Parent), lambda estimator, X: (np.zeros(2), np.ones(2)))
    with pytest.raises(TypeError, match="must be a skuq Distribution, got tuple"):
        predict_dist(Parent(), X)
    register(name_of(Parent), lambda estimator, X: Normal([0.0], 1.0))
    with pytest.raises(ValueError, match="must have 2 rows, one per row of X, got 1"):
        predict_dist(Parent(), X)


class Fitter:
    """A model with neither `get_params` nor the `fit` of scikit-learn."""

    def fit(self, frame, duration_col):
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize(
    ("module", "make"),
    [
        ("numpy", lambda package, X, y: Fitter()),
        *(
            pytest.param(module, make, marks=pytest.mark.laws)  # the packages are imported slowly
            for module, make in (
                ("lifelines", lambda package, X, y: package.WeibullAFTFitter()),
                ("statsmodels.api", lambda package, X, y: package.OLS(y, X)),
                ("statsmodels.api", lambda package, X, y: package.OLS(y, X).fit()),
            )
        ),
    ],
)
def test_the_error_advises_no_wrapper_that_cannot_work(data, module, make):
    fitter = make(pytest.importorskip(module), *data)
    with pytest.raises(NotProbabilisticError, match=r"cannot wrap it: write a class .*register\(") as raised:
        predict_dist(fitter, data[0])
    assert "UncertaintyRegressor" not in str(raised.value)


def test_the_error_of_a_model_of_several_targets_names_the_wrapper_of_several_targets():
    X = np.arange(12.0).reshape(6, 2)
    for model in (LinearRegression(), DecisionTreeRegressor()):
        for y, wrapper in (
            (X, r"multivariate\.MultiOutputUncertaintyRegressor"),
            (X[:, 0], "UncertaintyRegressor"),
        ):
            with pytest.raises(NotProbabilisticError, match=rf"Wrap it before fitting: skuq\.{wrapper}"):
                predict_dist(model.fit(X, y), X)
