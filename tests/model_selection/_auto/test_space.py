"""The space of candidates: how it is read, and how candidates are drawn."""

import numpy as np
import pytest
from scipy.stats import expon, loguniform, randint, uniform
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, QuantileRegressor, Ridge
from sklearn.preprocessing import StandardScaler

from skuq.model_selection._auto_space import Candidate, deferred_space, read_space

optuna = pytest.importorskip("optuna")
PARAMS = {
    "alpha": loguniform(1e-2, 1e2),
    "tol": uniform(0.1, 0.4),
    "max_iter": randint(5, 9),
    "solver": ["auto", "svd", None],
}


def read(estimators, random_folds=True, **others):
    return read_space({"estimators": estimators, **others}, random_folds)


@pytest.mark.parametrize(
    ("estimator", "random_folds", "methods"),
    [
        (GaussianProcessRegressor(), True, ("native", "residual")),
        (BayesianRidge(), True, ("residual",)),
        (Ridge(), True, ("residual",)),
        (RandomForestRegressor(), True, ("forest", "residual")),
        (RandomForestRegressor(), False, ("residual",)),
        (QuantileRegressor(), True, ("quantile", "residual")),
    ],
)
def test_methods_are_those_of_all_rules_that_apply(estimator, random_folds, methods):
    assert read({"one": {"estimator": estimator}}, random_folds).bases["one"].methods == methods


def test_out_of_bag_methods_are_left_out_where_folds_are_given():
    entry = {"estimator": RandomForestRegressor(), "methods": ["forest"]}
    assert read({"one": entry}, random_folds=False).bases["one"].methods == ("residual",)


def test_every_base_model_comes_first_as_it_is_by_its_first_method():
    space = read(
        {
            "process": {"estimator": GaussianProcessRegressor()},
            "ridge": {"estimator": Ridge(alpha=2.0, solver="svd", max_iter=50), "params": PARAMS},
        }
    )
    first = [space.suggest(optuna.trial.FixedTrial(params)) for params in space.first()]
    assert [candidate.kind for candidate in first] == [
        ("process", "native"),
        ("ridge", "residual"),
        ("process", "residual"),
    ]
    # of values outside of the space, the middle of it is taken
    assert first[1].params == {"alpha": 2.0, "tol": pytest.approx(0.3), "max_iter": 6, "solver": "svd"}


def test_suggested_parameters_fill_their_ranges():
    space = read({"ridge": {"estimator": Ridge(), "params": PARAMS}})
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    drawn = [space.suggest(study.ask()).params for _ in range(200)]
    alphas = np.array([one["alpha"] for one in drawn])
    assert 1e-2 <= alphas.min() < 1.3e-2
    assert 75 < alphas.max() <= 1e2
    assert 0.4 < (alphas < 1).mean() < 0.6  # uniform in the logarithm
    assert {one["max_iter"] for one in drawn} == {5, 6, 7, 8}
    assert {one["solver"] for one in drawn} == {"auto", "svd", None}
    assert all(0.1 <= one["tol"] <= 0.5 for one in drawn)


def test_a_candidate_is_built_with_its_parameters_and_leaves_the_space_as_it_is():
    space = read({"ridge": {"estimator": Ridge(), "params": PARAMS}})
    built = space.build(Candidate("ridge", "residual", {"alpha": 7.0}), None, 3)
    assert built.estimator.alpha == 7.0
    assert (built.method, built.effort, built.random_state) == ("residual", "low", 3)
    assert space.bases["ridge"].estimator.alpha == 1.0


RIDGE = {"estimator": Ridge()}
BAD_SPACES = [
    ([], ValueError, "`space` must be a dict with the keys 'estimators' and 'recalibrators'.*got list"),
    ({"models": {}}, ValueError, r"got \['models'\]"),
    ({"estimators": {}}, ValueError, r"`space\['estimators'\]` must be a dict with at least one"),
    ({"estimators": {"a": Ridge()}}, ValueError, r"`space\['estimators'\]\['a'\]` must be a dict"),
    ({"estimators": {"a": {"estimator": Ridge}}}, TypeError, "must be a regressor, got"),
    ({"estimators": {"cv": RIDGE}}, ValueError, "must not contain the name 'cv'"),
    ({"estimators": {"pool": RIDGE}}, ValueError, "must not contain the name 'pool'"),
    ({"estimators": {"a__b": RIDGE}}, ValueError, "must not contain the name 'a__b'"),
    (
        {"estimators": {1: RIDGE, "1": RIDGE}},
        ValueError,
        r"different when converted to strings, got \[1, '1'\]",
    ),
    (
        {"estimators": {"a": RIDGE}, "recalibrators": {"none": StandardScaler}},
        TypeError,
        "`recalibrator` must be a recalibrator",
    ),
    (
        {"estimators": {"a": RIDGE}, "recalibrators": {"five": 5}},
        TypeError,
        r"`space\['recalibrators'\]\['five'\]`: `recalibrator` must be",
    ),
]
BAD_ENTRIES = [
    (
        {"parameters": {}},
        ValueError,
        r"no keys except 'estimator', 'methods', 'params' and 'encoding', got \['parameters'\]",
    ),
    ({"params": {"C": [1]}}, ValueError, r"only have names of parameters of Ridge as keys, got \['C'\]"),
    ({"params": {"alpha": []}}, ValueError, "must have at least one value"),
    ({"params": {"alpha": expon()}}, TypeError, "a list of values or scipy's uniform, loguniform or randint"),
    ({"params": {"alpha": uniform(1, 0)}}, ValueError, "must be a distribution with two finite bounds"),
    ({"params": {"alpha": randint(1, 5, loc=0.5)}}, ValueError, "must have integer bounds"),
    ({"methods": "residual"}, TypeError, "must be a list of methods, got 'residual'"),
    ({"methods": 5}, TypeError, "must be a list of methods, got 5"),
    ({"methods": ["nope"]}, ValueError, r"\['methods'\]`: `method` must be one of"),
]


def test_a_wrong_space_is_named(subtests):
    for space, error, message in BAD_SPACES:
        with subtests.test(msg=message), pytest.raises(error, match=message):
            read_space(space, True)
    for entry, error, message in BAD_ENTRIES:
        place = rf"`space\['estimators'\]\['one'\].*{message}"
        with subtests.test(msg=message), pytest.raises(error, match=place):
            read({"one": {**RIDGE, **entry}})


def test_a_listed_value_may_be_nan():
    space = read({"one": {"estimator": Ridge(), "params": {"alpha": [float("nan"), 1.0]}}})
    for value, position in ((np.nan, 0), (float("nan"), 0), (1.0, 1)):
        assert space.bases["one"].params["alpha"].start(value) == position


def test_the_default_space_of_networks_is_centered_on_their_default(neural):
    default = neural.DeepEnsembleRegressor().get_params()
    space = read_space(deferred_space(), random_folds=True)
    base = space.bases["deep_ensemble"]
    (params,) = (one for one in space.first() if one["base"] == "deep_ensemble")
    first = space.suggest(optuna.trial.FixedTrial(params)).params
    assert first == {name: default[name] for name in base.params}
    rate = base.params["learning_rate"]
    assert np.sqrt(rate.low * rate.high) == pytest.approx(default["learning_rate"])
    for name in ("n_frequencies", "loss", "bootstrap", "hidden_layer_sizes"):
        assert base.params[name].values[0] == default[name]
