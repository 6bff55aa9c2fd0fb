"""Candidates to begin with."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone

from skuq.exceptions import NoDecompositionError
from skuq.model_selection import _auto_candidates as module
from skuq.model_selection import default_estimators
from skuq.prediction import supports_dist
from skuq.regressors import MixtureRegressor


def test_each_kind_gives_a_distribution():
    estimators = default_estimators()
    networks = ["deep_ensemble"] if find_spec("torch") and find_spec("skorch") else []
    assert [name for name, _ in estimators] == ["boosting", "forest", *networks]
    assert all(supports_dist(one) for _, one in estimators)


def test_without_torch_there_are_no_networks(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert [name for name, _ in default_estimators()] == ["boosting", "forest"]


def test_seeds_are_drawn_where_there_is_a_random_state():
    seeds = [[one.random_state for _, one in default_estimators(state)] for state in (0, 0, 1, None)]
    assert seeds[0] == seeds[1] != seeds[2]
    assert set(seeds[3]) == {None}
    with pytest.raises(ValueError, match="`random_state`"):
        default_estimators("zero")


def test_a_pool_of_all_of_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + np.abs(X[:, 1]) + 0.2 * rng.normal(size=120)
    estimators = [(name, clone(one)) for name, one in default_estimators()]
    for name, one in estimators:
        if name == "deep_ensemble":
            one.set_params(max_epochs=30)
    model = MixtureRegressor(estimators, random_state=0).fit(X, y)
    assert model.weights_.sum() == pytest.approx(1)
    crps = model.out_of_fold_crps_["crps"]
    assert crps["pool"] < 1.02 * crps.min()
    assert np.isfinite(model.predict_interval(X)).all()
    assert model.weights_[0] > 0
    with pytest.raises(NoDecompositionError):
        model.predict_dist(X).epistemic()
    separating = model.set_params(boosting="drop", cv=2).fit(X, y).predict_dist(X)
    assert (separating.epistemic().std() < separating.std()).all()


def test_a_pool_without_the_networks_takes_missing_values():
    pytest.importorskip("torch")
    pytest.importorskip("skorch")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.2 * rng.normal(size=60)
    X[::7, 1] = np.nan
    model = MixtureRegressor(default_estimators(), cv=2, random_state=0).set_params(
        boosting__estimator__max_iter=3, forest__estimator__n_estimators=30
    )
    with pytest.raises(ValueError, match="DeepEnsembleRegressor does not accept missing values"):
        model.fit(X, y)
    model.set_params(deep_ensemble="drop").fit(X, y)
    assert np.isfinite(model.predict_interval(X)).all()
