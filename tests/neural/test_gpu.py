"""Every network on a GPU: the option `device`, determinism, transfers, precision, and pickles without a GPU.

Run these tests with ``pytest -m gpu`` on a machine with CUDA. Without CUDA they are skipped.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import is_classifier

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.neural import DeepEnsembleRegressor, PNNRegressor, ProbabilisticNet, fit_many
from skuq.neural._stacked import read_device
from tests.neural.estimators import CLASSIFIERS, ESTIMATORS

DEVICE = "cuda"
SMALL = {"hidden_layer_sizes": (16,), "max_epochs": 5, "random_state": 0}

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="torch finds no GPU"),
]


class Recorder(torch.nn.Module):
    """Network that records the device and the types of its inputs."""

    seen: ClassVar[set[tuple[str, torch.dtype, bool]]] = set()

    def __init__(self, n_features: int, n_outputs: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(n_features, n_outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output = self.linear(x)
        self.seen.add((x.device.type, output.dtype, torch.is_autocast_enabled(DEVICE)))
        return output


@pytest.fixture(params=[*ESTIMATORS, *CLASSIFIERS], ids=lambda cls: cls.__name__)
def model(request):
    """Return an estimator that is trained and used on the GPU."""
    return request.param(device=DEVICE, **SMALL)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    return X, X[:, 0] + 0.3 * rng.normal(size=300)


def target_of(model, y):
    return np.where(y > 0, "high", "low") if is_classifier(model) else y


def forecast(model, X):
    """Return the probabilities of the classes, or quantiles."""
    return model.predict_proba(X) if is_classifier(model) else model.predict_dist(X).quantile([0.1, 0.5, 0.9])


def test_a_network_is_trained_and_predicts_the_same_on_both_devices(model, rows):
    """The generators of torch are left alone, and no memory of the GPU is kept."""
    X, y = rows
    state = torch.get_rng_state(), torch.cuda.get_rng_state() if DEVICE == "cuda" else torch.zeros(1)
    memory = torch.cuda.memory_allocated() if DEVICE == "cuda" else 0
    first, second = (forecast(model.fit(X, target_of(model, y)), X) for _ in range(2))
    assert isinstance(first, np.ndarray)
    assert first.dtype == np.float64
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, second)
    after = torch.get_rng_state(), torch.cuda.get_rng_state() if DEVICE == "cuda" else torch.zeros(1)
    assert all(torch.equal(one, other) for one, other in zip(state, after, strict=True))
    assert {parameter.device.type for parameter in model.net_.module_.parameters()} == {"cpu"}
    assert (torch.cuda.memory_allocated() if DEVICE == "cuda" else 0) == memory
    on_cpu = forecast(model.set_params(device="cpu"), X)
    np.testing.assert_allclose(on_cpu, first, rtol=1e-3, atol=1e-4)


def test_training_is_in_float32_and_without_bfloat16(rows):
    Recorder.seen.clear()
    PNNRegressor(module=Recorder, max_epochs=2, device=DEVICE, random_state=0).fit(*rows)
    on_device = {(kind, autocast) for device, kind, autocast in Recorder.seen if device == DEVICE}
    assert on_device == {(torch.float32, False)}


def test_auto_uses_the_gpu_for_many_networks():
    assert read_device("auto", 1).type == "cpu"
    assert read_device("auto", 32).type == DEVICE


def test_networks_that_are_trained_together_are_those_of_single_trainings(rows):
    X, y = rows
    networks = [PNNRegressor(device=DEVICE, **(SMALL | {"random_state": seed})) for seed in range(3)]
    together = [network.predict(X) for network in fit_many(networks, X, y)]
    alone = [network.fit(X, y).predict(X) for network in networks]
    np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-4)


def test_a_network_of_skorch_is_trained(rows):
    X, y = (part.astype(np.float32) for part in rows)
    net = ProbabilisticNet(Recorder, module__n_features=4, module__n_outputs=2, max_epochs=2, device=DEVICE)
    assert np.isfinite(net.fit(X, y).predict_dist(X).std()).all()


def test_several_targets_are_trained(rows):
    X, y = rows
    model = DeepEnsembleRegressor(3, device=DEVICE, **SMALL).fit(X, np.column_stack([y, -y]))
    assert np.isfinite(model.predict(X)).all()


def test_a_pickle_is_loaded_without_a_gpu(rows, tmp_path):
    """One process without a GPU loads all estimators and predicts the same numbers."""
    X, y = rows
    models = [cls(device=DEVICE, **SMALL) for cls in (*ESTIMATORS, *CLASSIFIERS)]
    fitted = [model.fit(X, target_of(model, y)) for model in models]
    expected = [forecast(model, X) for model in fitted]
    (tmp_path / "models.pickle").write_bytes(pickle.dumps((X, fitted, expected)))
    code = """
        import pickle, sys
        import numpy as np, torch
        from sklearn.base import is_classifier
        X, models, expected = pickle.load(open(sys.argv[1], "rb"))
        assert not torch.cuda.is_available()
        for model, values in zip(models, expected):
            model.set_params(device="cpu")
            found = (
                model.predict_proba(X) if is_classifier(model)
                else model.predict_dist(X).quantile([0.1, 0.5, 0.9])
            )
            np.testing.assert_allclose(found, values, rtol=1e-3, atol=1e-4)
    """
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "models.pickle")]
    subprocess.run(command, env=environment, check=True, cwd=Path(__file__).parents[2])
