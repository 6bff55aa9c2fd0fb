"""The predictive objects: members and their noise, the device of prediction, and who sets what."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

import skuq.neural
from skuq.neural import (
    BootstrapNetRegressor,
    ConcreteDropoutRegressor,
    DeepEnsembleRegressor,
    LastLayerLaplaceRegressor,
    MCDropoutRegressor,
    PNNRegressor,
    SWARegressor,
    VariationalRegressor,
)

SMALL = {"hidden_layer_sizes": (8,), "max_epochs": 5, "random_state": 0}
MODELS = {
    "network": (PNNRegressor(**SMALL), 1),
    "ensemble": (DeepEnsembleRegressor(4, **SMALL), 4),
    "bootstrap": (BootstrapNetRegressor(4, **SMALL), 4),
    "dropout": (MCDropoutRegressor(n_draws=10, **SMALL), 10),
    "concrete dropout": (ConcreteDropoutRegressor(n_draws=10, **SMALL), 10),
    "snapshots": (SWARegressor(n_snapshots=5, **SMALL), 5),
    "variational": (VariationalRegressor(n_draws=10, **SMALL), 10),
    "last layer": (LastLayerLaplaceRegressor(n_draws=10, **SMALL), 10),
}
CONSTANT = ("bootstrap", "dropout", "snapshots", "variational", "last layer")


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


def test_members_have_means_and_noise(name, sine):
    X, y = sine
    model, n_members = MODELS[name]
    loc, scale = model.fit(X, 5 * y).predict_members(X[:7], return_std=True)
    assert loc.shape == scale.shape == (7, n_members)
    np.testing.assert_array_equal(model.predict_members(X[:7]), loc)
    if name in CONSTANT:
        np.testing.assert_allclose(scale, model.noise_std_)
    else:
        assert np.ptp(scale) > 0


def test_a_posterior_may_be_used_on_another_device(name, sine, monkeypatch):
    """A model that was trained on a GPU can be loaded where there is none."""
    model = MODELS[name][0].fit(*sine)
    expected = model.predict(sine[0])
    with_gpu = pickle.loads(pickle.dumps(model)).set_params(device="cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="torch finds no GPU"):
        with_gpu.predict(sine[0])
    np.testing.assert_array_equal(with_gpu.set_params(device="cpu").predict(sine[0]), expected)


def test_private_attributes_are_set_by_their_own_class_alone():
    """Only ``self``, and copies that a method of the class makes of it, have their private attributes set."""
    found = {
        (path.name, ast.unparse(node.value))
        for path in Path(skuq.neural.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr.startswith("_")
    }
    copies = {("stacked.py", "taken"), ("stacked.py", "made")}
    assert {each for each in found if each[1] != "self"} == copies


def test_a_loaded_model_predicts_by_the_networks_of_its_net(name, sine):
    X, y = sine
    model = MODELS[name][0].fit(X, y)
    data = pickle.dumps(model)
    loaded = pickle.loads(data)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded._current_posterior().module is loaded.net_.module_
    assert not hasattr(pickle.loads(pickle.dumps(model._fitted_posterior)), "module")


def test_a_fit_that_fails_leaves_no_model(sine, monkeypatch):
    X, y = sine
    model = PNNRegressor(**SMALL)
    monkeypatch.setattr(PNNRegressor, "_posterior", lambda self, fit, data: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
