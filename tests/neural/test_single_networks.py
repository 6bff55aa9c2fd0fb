"""One network: with a variance, snapshots of its training, and the posterior of its last layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from torch import nn

from skuq.distributions import Normal, StudentT
from skuq.exceptions import NoDecompositionError
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.neural import (
    IntervalLoss,
    LastLayerLaplaceRegressor,
    PNNRegressor,
    ProbabilisticNet,
    SWARegressor,
)
from skuq.neural._last_layer import Evidence, features_of
from skuq.neural._predictive import likely_noise
from tests.neural.estimators import world


@pytest.mark.parametrize(
    "loss",
    [
        "nll",
        *(pytest.param(loss, marks=pytest.mark.laws) for loss in ("beta_nll", "crps", "check", "interval")),
        pytest.param(IntervalLoss(10), marks=pytest.mark.laws),
    ],
)
def test_every_loss_learns_the_noise(loss):
    X, y = world(500, 0, 1, None)
    model = PNNRegressor(loss=loss, max_epochs=60, random_state=0).fit(X, y)
    X_new, y_new = world(4000, 1, 1, None)
    dist = model.predict_dist(X_new)
    truth = Normal(np.sin(2 * X_new[:, 0]), 0.1 + 0.2 * np.abs(X_new[:, 0]))
    assert crps_loss(y_new, dist) < 1.1 * crps_loss(y_new, truth)
    assert np.corrcoef(dist.std(), truth.std())[0, 1] > 0.8
    assert prediction_interval_coverage(y_new, dist, coverage=0.9) == pytest.approx(0.9, abs=0.05)


def test_the_net_does_not_separate_noise_from_epistemic_uncertainty():
    model = PNNRegressor((8,), max_epochs=3, random_state=0).fit(*world(100, 0, 1, None))
    assert isinstance(model.net_, ProbabilisticNet)
    assert model.predict_members(np.zeros((2, 1))).shape == (2, 1)
    dist = model.predict_dist([[0.0]])
    assert isinstance(dist, StudentT)
    with pytest.raises(NoDecompositionError):
        dist.epistemic()


def test_without_a_score_and_calibration_all_rows_are_trained_on():
    X, y = world(60, 0, 1, None)
    settings = {"keep_best": False, "calibration": None, "max_epochs": 3, "random_state": 0}
    plain = PNNRegressor((8,), **settings)
    assert isinstance(plain.fit(X, y).predict_dist(X), Normal)
    strange = PNNRegressor((8,), held_out_size="nothing", **settings).fit(X, y)
    np.testing.assert_array_equal(strange.predict(X), plain.predict(X))


class CopyWeights(skorch.callbacks.Callback):
    def __init__(self):
        self.weights = []

    def on_epoch_end(self, net, **kwargs):
        state = net.module_.state_dict()
        self.weights.append({name: value.clone() for name, value in state.items()})


def test_weights_of_an_epoch_give_the_forecast_of_that_epoch():
    """So that any metric can be plotted by epoch, as in examples/neural/plot_training_curve.py."""
    X, y = world(60, 0, 1, None)
    steps = {"keep_best": False, "calibration": None, "random_state": 0}
    constant, copies = {"lr_schedule": "constant"}, CopyWeights()
    model = PNNRegressor((8,), max_epochs=10, net_params={**constant, "callbacks": [copies]}, **steps)
    model.fit(X, y)
    for epoch in (3, 7, 10):
        model.net_.module_.load_state_dict(copies.weights[epoch - 1])
        shorter = PNNRegressor((8,), max_epochs=epoch, net_params=constant, **steps).fit(X, y)
        np.testing.assert_array_equal(np.asarray(model.predict_dist(X)), np.asarray(shorter.predict_dist(X)))


# ------------------------------------------------------------------------------------------- snapshots

SHORT = {"hidden_layer_sizes": (16,), "max_epochs": 10, "n_snapshots": 5, "random_state": 0}


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
        learning_rate=0.01,
        snapshot_learning_rate=0.002,
        net_params={"lr_schedule": schedule, "callbacks": [watching]},
        **SHORT,
    ).fit(*world(100, 0, 1))
    assert len(model.history_) == model.best_epoch_ == 15
    assert watching.rates[10:] == [0.002] * 5
    before = 0.005 * (1 + np.cos(np.pi * np.arange(10) / 10)) if schedule == "cosine" else np.full(10, 0.01)
    np.testing.assert_allclose(watching.rates[:10], before)
    snapshots = model.net_.module_.get_buffer("snapshots")
    torch.testing.assert_close(snapshots[0], torch.cat(watching.weights[10:]), rtol=0, atol=0)
    assert "keep_best" not in model.get_params()  # no epoch is selected
    assert "valid_loss" not in model.history_[-1]


def test_a_training_that_a_callback_stops_has_no_snapshots():
    stopping = skorch.callbacks.EarlyStopping(monitor="train_loss", patience=1, threshold=10.0)
    with pytest.raises(ValueError, match=r"must not stop the training early.*stopped after 2 epochs"):
        SWARegressor(net_params={"callbacks": [stopping]}, **SHORT).fit(*world(100, 0, 1))


def test_the_distribution_is_that_of_the_snapshots_and_the_last_one_is_the_network():
    X, y = world(100, 0, 1)
    model = SWARegressor(calibration=None, dtype="float64", **SHORT).fit(X, y)
    members, dist = model.predict_members(X), model.predict_dist(X)
    assert members.shape == (100, 5)
    assert isinstance(dist, Normal)
    np.testing.assert_allclose(dist.mean(), members.mean(axis=1))
    np.testing.assert_allclose(dist.epistemic().std(), members.std(axis=1))
    np.testing.assert_allclose(dist.aleatoric().std(), model.noise_std_)
    with torch.no_grad():
        output = model.net_.module_.eval()(torch.from_numpy(model.scaler_.features(X)))[:, 0, 0].numpy()
    np.testing.assert_allclose(members[:, -1], model.scaler_.loc(output))


class WithBatchNorm(torch.nn.Sequential):
    def __init__(self, n_features, n_outputs):
        linear = torch.nn.Linear
        super().__init__(
            linear(n_features, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), linear(8, n_outputs)
        )


def test_a_network_with_buffers_has_snapshots_too():
    X, y = world(100, 0, 1)
    members = SWARegressor(module=WithBatchNorm, **SHORT).fit(X, y).predict_members(X)
    assert members.shape == (100, 5)
    assert (members.std(axis=1) > 0).all()


@pytest.mark.laws
def test_it_learns_mean_and_noise():
    X, y = world(400, 0, 1)
    model = SWARegressor((32, 32), max_epochs=100, random_state=0).fit(X, y)
    X_new, y_new = world(4000, 1, 1)
    dist = model.predict_dist(X_new)
    assert isinstance(dist, StudentT)
    assert np.sqrt(np.mean((dist.mean() - np.sin(2 * X_new[:, 0])) ** 2)) < 0.12
    assert model.noise_std_ == pytest.approx(0.3, rel=0.15)
    assert prediction_interval_coverage(y_new, dist, coverage=0.9) == pytest.approx(0.9, abs=0.04)


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


# --------------------------------------------------------------------------- posterior of the last layer

SMALL = {"hidden_layer_sizes": (16,), "max_epochs": 20, "random_state": 0}


def regression(n, seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 5))
    return features, features @ np.array([1.0, -0.5, 0.2, 0.0, 0.0]) + 0.4 * rng.normal(size=n)


def test_precision_and_noise_are_those_of_bayesian_ridge():
    features, y = regression(60, 0)
    found = Evidence.maximize(features, y, np.ones(60))
    flat = {"alpha_1": 0, "alpha_2": 0, "lambda_1": 0, "lambda_2": 0}
    known = BayesianRidge(fit_intercept=False, max_iter=1000, tol=1e-10, **flat).fit(features, y)
    assert found.precision == pytest.approx(known.lambda_, rel=1e-6)
    assert found.noise == pytest.approx(1 / known.alpha_, rel=1e-6)
    mean, variance = found.posterior().moments(features)
    expected, std = known.predict(features, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-6)
    np.testing.assert_allclose(found.noise + variance, std**2, rtol=1e-6)


def test_weights_are_repetitions_in_the_evidence():
    features, y = regression(60, 0)
    weight = np.random.default_rng(1).integers(0, 4, size=60)
    one = Evidence.maximize(features, y, weight.astype(float))
    other = Evidence.maximize(
        np.repeat(features, weight, axis=0), np.repeat(y, weight), np.ones(weight.sum())
    )
    assert one.precision == pytest.approx(other.precision)
    assert one.noise == pytest.approx(other.noise)
    unseen, target = regression(40, 2)
    heavy = np.random.default_rng(3).integers(0, 4, size=40)
    noisy = one.with_likely_noise(unseen, 2 * target, heavy.astype(float))
    repeated = other.with_likely_noise(
        np.repeat(unseen, heavy, axis=0), 2 * np.repeat(target, heavy), np.ones(heavy.sum())
    )
    assert noisy.noise == pytest.approx(repeated.noise, rel=1e-4)


def test_the_likely_noise_is_found_and_never_smaller():
    features, y = regression(60, 0)
    evidence = Evidence.maximize(features, y, np.ones(60))
    unseen, target = regression(4000, 1)
    assert evidence.with_likely_noise(unseen, target, np.ones(4000)).noise >= evidence.noise
    much = target + np.random.default_rng(2).normal(size=4000)
    found = evidence.with_likely_noise(unseen, much, np.ones(4000))

    def cost(noise):
        posterior = replace(evidence, noise=noise).posterior()
        mean, variance = posterior.moments(unseen)
        return np.mean(np.log(noise + variance) + (much - mean) ** 2 / (noise + variance))

    assert found.noise == pytest.approx(1.16, rel=0.1)
    assert cost(found.noise) <= min(cost(0.99 * found.noise), cost(1.01 * found.noise))


def test_functions_drawn_have_the_moments_of_the_posterior():
    features, y = regression(60, 0)
    posterior = Evidence.maximize(features, y, np.ones(60)).posterior()
    mean, variance = posterior.moments(features)
    draws = posterior.draws(features, 20_000, 0)
    np.testing.assert_allclose(draws.std(axis=1), np.sqrt(variance), rtol=0.03)
    assert (np.abs(draws.mean(axis=1) - mean) < 5 * np.sqrt(variance / 20_000)).all()
    np.testing.assert_allclose(posterior.draws(features[:3], 20_000, 0), draws[:3])


@pytest.mark.parametrize("module", [None, lambda d, k: nn.Sequential(nn.Linear(d, k), nn.Tanh())])
def test_the_last_layer_on_the_features_is_the_network(module):
    X, y = world(100, 0, 1)
    model = LastLayerLaplaceRegressor(module=module, dtype="float64", **SMALL).fit(X, y)
    network, standardized = model.net_.module_, model.scaler_.features(X)
    features = features_of(network, standardized, torch.device("cpu"))
    assert features.shape == (100, 17)
    names = ("weight_1", "bias_1") if module is None else ("weight_0", "bias_0")
    last = np.concatenate([network.weights[name].detach().numpy().ravel() for name in names])
    with torch.no_grad():
        output = network.eval()(torch.from_numpy(standardized))[:, 0, 0].numpy()
    np.testing.assert_allclose(features @ last, output, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("keep_best", [False, pytest.param("squared_error", marks=pytest.mark.laws)])
def test_it_learns_mean_noise_and_where_it_is_uncertain(keep_best):
    X, y = world(400, 0, 1)
    model = LastLayerLaplaceRegressor((32, 32), keep_best=keep_best, max_epochs=100, random_state=0).fit(X, y)
    X_new, y_new = world(4000, 1, 1)
    dist = model.predict_dist(X_new)
    assert np.sqrt(np.mean((dist.mean() - np.sin(2 * X_new[:, 0])) ** 2)) < 0.12
    assert model.noise_std_ == pytest.approx(0.3, rel=0.15)
    assert prediction_interval_coverage(y_new, dist, coverage=0.9) == pytest.approx(0.9, abs=0.04)
    assert model.predict_dist([[6.0]]).epistemic().std()[0] > 3 * np.median(dist.epistemic().std())


@pytest.mark.laws
@pytest.mark.parametrize("kind", [LastLayerLaplaceRegressor, SWARegressor])
def test_the_noise_is_estimated_on_held_out_rows(kind):
    """A network with many weights fits few rows by far too closely; only calibration shows it."""
    X, y = np.random.default_rng(0).normal(size=(100, 10)), np.random.default_rng(1).normal(size=100)
    settings = {"hidden_layer_sizes": (64, 64), "max_epochs": 200, "random_state": 0}
    raw = kind(calibration=None, **settings).fit(X, y)
    calibrated = kind(**settings).fit(X, y)
    assert raw.noise_std_ < 0.3 * y.std() < calibrated.noise_std_


def test_epistemic_and_noise_of_a_last_layer_make_up_the_whole():
    X, y = world(100, 0, 1)
    model = LastLayerLaplaceRegressor(calibration=None, **SMALL).fit(X, y)
    dist = model.predict_dist(X)
    np.testing.assert_allclose(dist.aleatoric().std(), model.noise_std_)
    np.testing.assert_allclose(dist.var(), dist.epistemic().var() + model.noise_std_**2)
    assert isinstance(dist, Normal)
    assert (model.factor_, model.df_) == (1.0, np.inf)
    assert model.predict_members(X).shape == (100, 200)
    assert isinstance(model.set_params(calibration="split").fit(X, y).predict_dist(X), StudentT)


def test_without_hidden_layers_it_is_bayesian_ridge():
    X, y = regression(60, 0)
    model = LastLayerLaplaceRegressor((), calibration=None, max_epochs=5, random_state=0).fit(X, y)
    dist = model.predict_dist(X)
    mean, std = BayesianRidge().fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(dist.mean(), mean, atol=0.02)
    np.testing.assert_allclose(dist.std(), std, rtol=0.05)


def test_the_epoch_of_the_smallest_held_out_error_is_kept():
    model = LastLayerLaplaceRegressor(keep_best="squared_error", **SMALL).fit(*world(100, 0, 1))
    scores = [row.get("valid_loss", np.inf) for row in model.history_]
    assert model.best_epoch_ == 1 + int(np.argmin(scores))
