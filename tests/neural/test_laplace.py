"""The last layer's posterior: the evidence, the formulas, and what calibration does to the noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from torch import nn

from skuq.distributions import Normal, StudentT
from skuq.metrics import prediction_interval_coverage
from skuq.neural import LastLayerLaplaceRegressor
from skuq.neural._modules.last_layer import Evidence, features_of

SMALL = {"hidden_layer_sizes": (16,), "max_epochs": 20, "random_state": 0}
CPU = torch.device("cpu")


def world(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


def regression(n, seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 5))
    return features, features @ np.array([1.0, -0.5, 0.2, 0.0, 0.0]) + 0.4 * rng.normal(size=n)


def test_precision_and_noise_are_those_of_bayesian_ridge():
    features, y = regression(60, 0)
    found = Evidence.maximize(features, y, None)
    flat = {"alpha_1": 0, "alpha_2": 0, "lambda_1": 0, "lambda_2": 0}
    known = BayesianRidge(fit_intercept=False, max_iter=1000, tol=1e-10, **flat).fit(features, y)
    assert found.precision == pytest.approx(known.lambda_, rel=1e-6)
    assert found.noise == pytest.approx(1 / known.alpha_, rel=1e-6)
    mean, variance = found.posterior().moments(features)
    expected, std = known.predict(features, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-6)
    np.testing.assert_allclose(found.noise + variance, std**2, rtol=1e-6)


def test_weights_are_repetitions():
    features, y = regression(60, 0)
    weight = np.random.default_rng(1).integers(0, 4, size=60)
    one = Evidence.maximize(features, y, weight.astype(float))
    other = Evidence.maximize(np.repeat(features, weight, axis=0), np.repeat(y, weight), None)
    assert one.precision == pytest.approx(other.precision)
    assert one.noise == pytest.approx(other.noise)
    unseen, target = regression(40, 2)
    heavy = np.random.default_rng(3).integers(0, 4, size=40)
    noisy = one.with_likely_noise(unseen, 2 * target, heavy.astype(float))
    repeated = other.with_likely_noise(np.repeat(unseen, heavy, axis=0), 2 * np.repeat(target, heavy), None)
    assert noisy.noise == pytest.approx(repeated.noise, rel=1e-4)


def test_the_likely_noise_is_found_and_never_smaller():
    features, y = regression(60, 0)
    evidence = Evidence.maximize(features, y, None)
    unseen, target = regression(4000, 1)
    assert evidence.with_likely_noise(unseen, target, None).noise >= evidence.noise
    much = target + np.random.default_rng(2).normal(size=4000)
    found = evidence.with_likely_noise(unseen, much, None)

    def cost(noise):
        posterior = replace(evidence, noise=noise).posterior()
        mean, variance = posterior.moments(unseen)
        return np.mean(np.log(noise + variance) + (much - mean) ** 2 / (noise + variance))

    assert found.noise == pytest.approx(1.16, rel=0.1)
    assert cost(found.noise) <= min(cost(0.99 * found.noise), cost(1.01 * found.noise))


def test_functions_drawn_have_the_moments_of_the_posterior():
    features, y = regression(60, 0)
    posterior = Evidence.maximize(features, y, None).posterior()
    mean, variance = posterior.moments(features)
    draws = posterior.draws(features, 20_000, 0)
    np.testing.assert_allclose(draws.std(axis=1), np.sqrt(variance), rtol=0.03)
    assert (np.abs(draws.mean(axis=1) - mean) < 5 * np.sqrt(variance / 20_000)).all()
    np.testing.assert_allclose(posterior.draws(features[:3], 20_000, 0), draws[:3])


@pytest.mark.parametrize("module", [None, lambda d, k: nn.Sequential(nn.Linear(d, k), nn.Tanh())])
def test_the_last_layer_on_the_features_is_the_network(module):
    X, y = world(100, 0)
    model = LastLayerLaplaceRegressor(module=module, dtype="float64", **SMALL).fit(X, y)
    network, standardized = model.net_.module_, model.scaler_.features(X)
    features = features_of(network, standardized, CPU)
    assert features.shape == (100, 17)
    names = ("weight_1", "bias_1") if module is None else ("head.weight", "head.bias")
    last = np.concatenate([network.weights[name].detach().numpy().ravel() for name in names])
    with torch.no_grad():
        output = network.eval()(torch.from_numpy(standardized))[:, 0, 0].numpy()
    np.testing.assert_allclose(features @ last, output, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("keep_best", [False, "squared_error"])
def test_it_learns_mean_noise_and_where_it_is_uncertain(keep_best):
    X, y = world(400, 0)
    model = LastLayerLaplaceRegressor((32, 32), keep_best=keep_best, max_epochs=100, random_state=0).fit(X, y)
    X_new, y_new = world(4000, 1)
    dist = model.predict_dist(X_new)
    assert np.sqrt(np.mean((dist.mean() - np.sin(2 * X_new[:, 0])) ** 2)) < 0.12
    assert model.noise_std_ == pytest.approx(0.3, rel=0.15)
    assert prediction_interval_coverage(y_new, dist, coverage=0.9) == pytest.approx(0.9, abs=0.04)
    assert model.predict_dist([[6.0]]).epistemic().std()[0] > 3 * np.median(dist.epistemic().std())


def test_the_noise_is_estimated_on_held_out_rows():
    """A network with many weights fits few rows by far too closely; only calibration shows it."""
    X, y = np.random.default_rng(0).normal(size=(100, 10)), np.random.default_rng(1).normal(size=100)
    settings = {"hidden_layer_sizes": (64, 64), "max_epochs": 200, "random_state": 0}
    raw = LastLayerLaplaceRegressor(calibration=None, **settings).fit(X, y)
    calibrated = LastLayerLaplaceRegressor(**settings).fit(X, y)
    assert raw.noise_std_ < 0.3 * y.std() < calibrated.noise_std_
    assert isinstance(raw.predict_dist(X), Normal)
    assert isinstance(calibrated.predict_dist(X), StudentT)
    assert (raw.factor_, raw.df_) == (1.0, np.inf)


def test_epistemic_and_noise_make_up_the_whole():
    X, y = world(100, 0)
    model = LastLayerLaplaceRegressor(calibration=None, **SMALL).fit(X, y)
    dist = model.predict_dist(X)
    np.testing.assert_allclose(dist.aleatoric().std(), model.noise_std_)
    np.testing.assert_allclose(dist.var(), dist.epistemic().var() + model.noise_std_**2)
    assert model.predict_members(X).shape == (100, 200)


def test_without_hidden_layers_it_is_bayesian_ridge():
    X, y = regression(60, 0)
    model = LastLayerLaplaceRegressor((), calibration=None, max_epochs=5, random_state=0).fit(X, y)
    dist = model.predict_dist(X)
    mean, std = BayesianRidge().fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(dist.mean(), mean, atol=0.02)
    np.testing.assert_allclose(dist.std(), std, rtol=0.05)


def test_the_epoch_of_the_smallest_held_out_error_is_kept():
    model = LastLayerLaplaceRegressor(keep_best="squared_error", **SMALL).fit(*world(100, 0))
    scores = [row.get("valid_loss", np.inf) for row in model.history_]
    assert model.best_epoch_ == 1 + int(np.argmin(scores))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_draws": 0}, ValueError, "`n_draws` must be at least 1"),
        ({"calibration": "oob"}, ValueError, "`calibration` must be one of"),
        ({"calibration_coverage": 95}, ValueError, "`calibration_coverage` must lie strictly between"),
        ({"validation_size": None}, ValueError, "`validation_size` must be a share"),
        ({"max_epochs": "many"}, ValueError, "`max_epochs` must be 'auto' or a positive integer"),
        ({"module": lambda d, k: nn.Linear(d, k + 1)}, ValueError, r"maps \(n, 1\) to \(n, 16\)"),
        ({"module": nn.Linear, "hidden_layer_sizes": ()}, ValueError, "must contain the number of outputs"),
    ],
)
def test_bad_parameters_raise_with_the_remedy(params, error, message):
    with pytest.raises(error, match=message):
        LastLayerLaplaceRegressor(**SMALL).set_params(**params).fit(*world(30, 0))
