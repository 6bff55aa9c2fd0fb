"""Default members of a pool, and the pool without arguments."""

import subprocess
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder
from sklearn.utils import get_tags

from skuq._fitting.table_encoder import TableEncoder
from skuq.exceptions import NoDecompositionError
from skuq.prediction import supports_dist
from skuq.regressors import MixtureRegressor, UncertaintyRegressor, _mixture, default_estimators
from skuq.regressors import _default_estimators as module
from skuq.regressors._pool import members as members_module

ROUNDS = "n_estimators" if find_spec("lightgbm") else "max_iter"
needs_networks = pytest.mark.skipif(not module.has_networks(), reason="needs torch and skorch")


@pytest.fixture
def small(monkeypatch):
    """Make the default members small; with networks if they are installed."""
    real = default_estimators
    sizes = {
        "boosting": {f"model__estimator__{ROUNDS}": 5, "model__cv": 2},
        "forest": {"model__estimator__n_estimators": 50},
        "deep_ensemble": {"n_estimators": 3, "max_epochs": 3},
        "plain_ensemble": {"n_estimators": 4, "max_epochs": 3},
    }

    def small_estimators(random_state=None):
        return [(name, one.set_params(**sizes[name])) for name, one in real(random_state)]

    monkeypatch.setattr(_mixture, "default_estimators", small_estimators)


@pytest.fixture(scope="module")
def table():
    """Return a table as it comes: words, categories, dates with a time zone, missing and constant columns."""
    rng = np.random.default_rng(0)
    n = 90
    X = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "word": rng.choice(["red", "green", "blue"], n),
            "date": pd.date_range("2026-01-01", periods=n, freq="D", tz="Europe/Berlin"),
            "category": pd.Categorical(rng.choice(["u", "v"], n)),
            "empty": np.nan,
            "constant": 1.0,
        }
    )
    y = X["number"].to_numpy() + 2 * (X["word"] == "red") + 0.3 * rng.normal(size=n)
    X.loc[::7, "number"] = np.nan
    X.loc[::9, "word"] = None
    return X, y


def test_each_kind_gives_a_distribution():
    estimators = default_estimators()
    networks = ["deep_ensemble", "plain_ensemble"] if module.has_networks() else []
    assert [name for name, _ in estimators] == ["boosting", "forest", *networks]
    assert all(supports_dist(one) for _, one in estimators)


def test_seeds_are_drawn_from_a_random_state():
    def seeds_of(state):
        models = [getattr(one, "named_steps", {}).get("model", one) for _, one in default_estimators(state)]
        return [model.random_state for model in models]

    seeds = [seeds_of(state) for state in (0, 0, 1, None)]
    assert seeds[0] == seeds[1] != seeds[2]
    assert set(seeds[3]) == {None}
    with pytest.raises(ValueError, match="`random_state`"):
        default_estimators("zero")


def test_importing_regressors_loads_no_torch():
    code = "import skuq.regressors, sys; sys.exit('torch' in sys.modules or 'skuq.neural' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_default_pool_takes_a_table_as_it_comes(small, table):
    X, y = table
    model = MixtureRegressor(cv=2, random_state=0).fit(X, y)
    assert list(model.named_estimators_) == [name for name, _ in default_estimators()]
    assert model.weights_.sum() == pytest.approx(1)
    assert list(model.feature_names_in_) == list(X.columns)
    new = X[:5].copy()
    new.loc[0, ["word", "number"]] = ["never seen", np.nan]
    assert np.isfinite(model.predict_interval(new)).all()
    assert get_tags(model).input_tags.allow_nan
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict_interval(new), model.predict_interval(new))


DAYS = pd.date_range("2026-01-01", periods=60, freq="D")
ONE_NUMBER, ONE_WORD = {"a": np.ones(60)}, {"a": ["x"] * 60}
ZONES = [day.tz_localize(("Europe/Berlin", "America/New_York")[k % 2]) for k, day in enumerate(DAYS)]


@pytest.mark.parametrize(
    ("columns", "of_new_rows"),
    [
        ({"a": np.full(60, np.nan), "b": [None] * 60}, {"a": [1.0], "b": ["x"]}),
        (ONE_NUMBER, {"a": [2.0]}),
        (ONE_NUMBER, {"a": [np.nan]}),
        (ONE_WORD, {"a": ["never seen"]}),
        ({"a": DAYS.tz_localize("Europe/Berlin")}, {"a": DAYS[:1]}),
        ({"a": DAYS}, {"a": DAYS[:1].tz_localize("America/New_York")}),
        ({"a": pd.Series(ZONES, dtype=object)}, {"a": [pd.NaT]}),
    ],
    ids=["all missing", "one number", "one number, missing", "one word", "zone", "no zone", "many zones"],
)
def test_columns_without_information_and_time_zones(small, columns, of_new_rows):
    X, new = pd.DataFrame(columns), pd.DataFrame(of_new_rows)
    y = np.random.default_rng(0).normal(size=60)
    model = MixtureRegressor(cv=2, random_state=0).fit(X, y)
    interval = model.predict_interval(pd.concat([X[:1].astype(object), new.astype(object)]))
    assert np.isfinite(interval).all()
    if X["a"].nunique() < 2:  # a column of one value, or without values, has no effect
        np.testing.assert_allclose(interval[0], interval[1])


def test_the_default_pool_gives_its_default_parameters_back():
    model = MixtureRegressor()
    assert model.estimators is None
    assert model.get_params()["estimators"] is None
    assert "MixtureRegressor()" in repr(model)


def test_without_lightgbm_the_boosting_is_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    boosting = default_estimators()[0][1]["model"].estimator
    assert isinstance(boosting, HistGradientBoostingRegressor)


def test_without_torch_the_pool_has_two_members_and_warns(small, table, monkeypatch):
    monkeypatch.setattr(module, "has_networks", lambda: False)
    monkeypatch.setattr(_mixture, "has_networks", lambda: False)
    assert [name for name, _ in default_estimators()] == ["boosting", "forest"]
    X, y = table
    with pytest.warns(UserWarning, match="contain no networks, because torch or skorch is not installed"):
        model = MixtureRegressor(cv=2, random_state=0).fit(X, y)
    assert len(model.estimators_) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        MixtureRegressor(_mixture.default_estimators(), cv=2, random_state=0).fit(X, y)


@needs_networks
def test_both_parts_of_uncertainty_without_boosting(small, table):
    X, y = table
    model = MixtureRegressor(_mixture.default_estimators(), cv=2, random_state=0, weights="equal").fit(X, y)
    with pytest.raises(NoDecompositionError):
        model.predict_dist(X).epistemic()
    dist = model.set_params(boosting="drop").fit(X, y).predict_dist(X)
    assert (dist.epistemic().std() < dist.std()).all()


def test_a_pipeline_keeps_the_out_of_fold_forecasts_of_its_last_step():
    forest = UncertaintyRegressor(RandomForestRegressor(50))
    assert members_module._has_own_folds(forest)
    assert members_module._has_own_folds(make_pipeline(TableEncoder("codes"), "passthrough", forest))
    assert not members_module._has_own_folds(make_pipeline(TableEncoder("numbers"), BayesianRidge()))
    for transformer in (TargetEncoder(), SelectKBest(), StandardScaler()):
        assert not members_module._has_own_folds(make_pipeline(transformer, forest))


def test_a_pipeline_as_member_equals_its_last_step_where_the_first_changes_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + rng.normal(size=80)
    forest = UncertaintyRegressor(RandomForestRegressor(50, random_state=0), random_state=0)
    boosting = UncertaintyRegressor(HistGradientBoostingRegressor(max_iter=5), cv=2, random_state=0)
    plain = MixtureRegressor([("forest", forest), ("boosting", boosting)], random_state=0)
    members = [(name, make_pipeline("passthrough", one)) for name, one in plain.estimators]
    chained = MixtureRegressor(members, random_state=0)
    plain.fit(X, y)
    chained.fit(X, y)
    np.testing.assert_array_equal(plain.weights_, chained.weights_)
    np.testing.assert_array_equal(plain.predict_interval(X), chained.predict_interval(X))
