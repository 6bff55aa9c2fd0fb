"""Adapters by qualified name, along the base classes, without an import."""

import sys
import types

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.distributions import Normal
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import _registry, predict_dist, register, supports_dist


@pytest.fixture(autouse=True)
def _keep_registry(monkeypatch):
    copied = {name: dict(places) for name, places in _registry._ADAPTERS.items()}
    monkeypatch.setattr(_registry, "_ADAPTERS", copied)


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


def test_nearest_ancestor_wins():
    register(name_of(Parent), constant(1.0))
    assert predict_dist(Grandchild(), X).mean()[0] == 1.0
    register(name_of(Child), constant(2.0))
    assert predict_dist(Grandchild(), X).mean()[0] == 2.0
    assert predict_dist(Parent(), X).mean()[0] == 1.0


def test_registering_again_replaces():
    register(name_of(Parent), constant(1.0))
    register(name_of(Parent), constant(5.0))
    assert predict_dist(Parent(), X).mean()[0] == 5.0


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


def test_same_class_name_elsewhere_is_not_taken_for_it():
    register("other_package.Parent", constant(1.0))
    with pytest.raises(NotProbabilisticError, match="Parent gives no predictive distribution"):
        predict_dist(Parent(), X)


def test_name_of_a_package_that_is_not_installed_is_fine():
    register("package_that_does_not_exist.Model", constant(1.0))
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


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((Parent, constant(1.0)), TypeError, "`qualified_name` must be a string"),
        (("Parent", constant(1.0)), ValueError, "`qualified_name` must contain a module and a class"),
        (("package.", constant(1.0)), ValueError, "`qualified_name` must contain a module and a class"),
        (("package.Parent", None), TypeError, "`adapter` must be a function"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        register(*arguments)


def test_bad_supports():
    with pytest.raises(TypeError, match="`supports` must be a function"):
        register("package.Parent", constant(1.0), supports=True)


def test_adapter_that_returns_something_else():
    register(name_of(Parent), lambda estimator, X: (np.zeros(2), np.ones(2)))
    with pytest.raises(TypeError, match="must be a skuq Distribution, got tuple"):
        predict_dist(Parent(), X)


def test_adapter_that_returns_the_wrong_number_of_rows():
    register(name_of(Parent), lambda estimator, X: Normal([0.0], 1.0))
    with pytest.raises(ValueError, match="must have 2 rows, one per row of X, got 1"):
        predict_dist(Parent(), X)
