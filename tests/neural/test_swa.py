"""Snapshots along further training: which weights, at which rate, and what noise remains."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from skuq.distributions import Normal, StudentT
from skuq.metrics import prediction_interval_coverage
from skuq.neural import SWARegressor
from skuq.neural._predictive.constant_noise import likely_noise

SMALL = {"hidden_layer_sizes": (16,), "max_epochs": 10, "n_snapshots": 5, "random_state": 0}


def world(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


class Watching(skorch.callbacks.Callback):
    def __init__(self):
        self.rates, self.weights = [], []

    def on_epoch_end(self, net, **kwargs):
        self.rates.append(net.optimizer_.param_groups[0]["lr"])
        self.weights.append(net.module_.flat.detach().clone())


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_snapshots_are_the_weights_of_the_last_epochs(schedule):
    watching = Watching()
    model = SWARegressor(
        learning_rate=0.01, snapshot_learning_rate=0.002, lr_schedule=schedule, callbacks=[watching], **SMALL
    ).fit(*world(100, 0))
    assert len(model.history_) == model.best_epoch_ == 15
    assert watching.rates[10:] == [0.002] * 5
    before = 0.005 * (1 + np.cos(np.pi * np.arange(10) / 10)) if schedule == "cosine" else np.full(10, 0.01)
    np.testing.assert_allclose(watching.rates[:10], before)
    snapshots = model.net_.module_.get_buffer("snapshots")
    torch.testing.assert_close(snapshots[0], torch.cat(watching.weights[10:]), rtol=0, atol=0)


def test_no_epoch_is_selected():
    model = SWARegressor(**SMALL).fit(*world(100, 0))
    assert "keep_best" not in model.get_params()
    assert "valid_loss" not in model.history_[-1]
    assert model.best_epoch_ == len(model.history_)


def test_a_training_that_a_callback_stops_has_no_snapshots():
    stopping = skorch.callbacks.EarlyStopping(monitor="train_loss", patience=1, threshold=10.0)
    with pytest.raises(ValueError, match=r"must not stop the training early.*stopped after 2 epochs"):
        SWARegressor(callbacks=[stopping], **SMALL).fit(*world(100, 0))


def test_mean_and_epistemic_part_are_those_of_the_snapshots():
    X, y = world(100, 0)
    model = SWARegressor(calibration=None, **SMALL).fit(X, y)
    members, dist = model.predict_members(X), model.predict_dist(X)
    assert members.shape == (100, 5)
    assert isinstance(dist, Normal)
    np.testing.assert_allclose(dist.mean(), members.mean(axis=1))
    np.testing.assert_allclose(dist.epistemic().std(), members.std(axis=1))
    np.testing.assert_allclose(dist.aleatoric().std(), model.noise_std_)


def test_the_last_snapshot_is_the_network():
    X, y = world(100, 0)
    model = SWARegressor(dtype="float64", **SMALL).fit(X, y)
    with torch.no_grad():
        output = model.net_.module_.eval()(torch.from_numpy(model.scaler_.features(X)))[:, 0, 0].numpy()
    np.testing.assert_allclose(model.predict_members(X)[:, -1], model.scaler_.loc(output))


class WithBatchNorm(torch.nn.Sequential):
    def __init__(self, n_features, n_outputs):
        linear = torch.nn.Linear
        super().__init__(
            linear(n_features, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), linear(8, n_outputs)
        )


def test_a_network_with_buffers_has_snapshots_too():
    X, y = world(100, 0)
    members = SWARegressor(module=WithBatchNorm, **SMALL).fit(X, y).predict_members(X)
    assert members.shape == (100, 5)
    assert (members.std(axis=1) > 0).all()


def test_it_learns_mean_and_noise():
    X, y = world(400, 0)
    model = SWARegressor((32, 32), max_epochs=100, random_state=0).fit(X, y)
    X_new, y_new = world(4000, 1)
    dist = model.predict_dist(X_new)
    assert isinstance(dist, StudentT)
    assert np.sqrt(np.mean((dist.mean() - np.sin(2 * X_new[:, 0])) ** 2)) < 0.12
    assert model.noise_std_ == pytest.approx(0.3, rel=0.15)
    assert prediction_interval_coverage(y_new, dist, coverage=0.9) == pytest.approx(0.9, abs=0.04)


def test_the_noise_is_estimated_on_held_out_rows():
    X, y = np.random.default_rng(0).normal(size=(100, 10)), np.random.default_rng(1).normal(size=100)
    settings = {"hidden_layer_sizes": (64, 64), "max_epochs": 200, "random_state": 0}
    raw = SWARegressor(calibration=None, **settings).fit(X, y)
    calibrated = SWARegressor(**settings).fit(X, y)
    assert raw.noise_std_ < 0.3 * y.std() < calibrated.noise_std_


def test_the_noise_is_the_most_likely_one():
    rng = np.random.default_rng(0)
    epistemic = rng.uniform(0, 0.5, size=5000)
    residual = rng.normal(size=5000) * np.sqrt(0.3 + epistemic)
    found = likely_noise(residual, epistemic, None)
    assert found == pytest.approx(0.3, rel=0.1)

    def cost(noise):
        return np.mean(np.log(noise + epistemic) + residual**2 / (noise + epistemic))

    assert cost(found) <= min(cost(0.99 * found), cost(1.01 * found))
    weight = rng.integers(0, 3, size=5000)
    repeated = likely_noise(np.repeat(residual, weight), np.repeat(epistemic, weight), None)
    assert likely_noise(residual, epistemic, weight.astype(float)) == pytest.approx(repeated, rel=1e-4)


def test_without_residuals_there_is_hardly_a_noise():
    assert 0 < likely_noise(np.zeros(5), np.zeros(5), None) < 1e-6
    assert 0 < likely_noise(np.full(5, 0.1), np.full(5, 10.0), None) < 1e-6


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_snapshots": 1}, "`n_snapshots` must be at least 2"),
        ({"snapshot_learning_rate": 0.0}, "`snapshot_learning_rate` must be positive"),
        ({"learning_rate": 0.0}, "`learning_rate` must be positive"),
        ({"calibration": "oob"}, "`calibration` must be one of"),
        ({"lr_schedule": "linear"}, "`lr_schedule` must be one of"),
        ({"max_epochs": 0}, "`max_epochs` must be at least 1"),
    ],
)
def test_bad_parameters_raise_with_the_remedy(params, message):
    with pytest.raises(ValueError, match=message):
        SWARegressor(**SMALL).set_params(**params).fit(*world(30, 0))
