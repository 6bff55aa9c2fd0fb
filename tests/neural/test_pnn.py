"""What is special to a single probabilistic network."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from skorch.callbacks import Callback

from skuq.distributions import Normal, StudentT
from skuq.exceptions import NoDecompositionError
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.neural import IntervalLoss, PNNRegressor, ProbabilisticNet


def world(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 1))
    return X, np.sin(2 * X[:, 0]) + (0.1 + 0.2 * np.abs(X[:, 0])) * rng.normal(size=n)


@pytest.mark.parametrize("loss", ["nll", "beta_nll", "crps", "check", "interval", IntervalLoss(10)])
def test_every_loss_learns_the_noise(loss):
    X, y = world(500, 0)
    model = PNNRegressor(loss=loss, max_epochs=60, random_state=0).fit(X, y)
    X_new, y_new = world(4000, 1)
    dist = model.predict_dist(X_new)
    truth = Normal(np.sin(2 * X_new[:, 0]), 0.1 + 0.2 * np.abs(X_new[:, 0]))
    assert crps_loss(y_new, dist) < 1.1 * crps_loss(y_new, truth)
    assert np.corrcoef(dist.std(), truth.std())[0, 1] > 0.8
    assert prediction_interval_coverage(y_new, dist, coverage=0.9) == pytest.approx(0.9, abs=0.05)


def test_the_net_is_a_probabilistic_net():
    model = PNNRegressor((8,), max_epochs=3, random_state=0).fit(*world(100, 0))
    assert isinstance(model.net_, ProbabilisticNet)
    assert model.predict_members(np.zeros((2, 1))).shape == (2, 1)


def test_one_network_does_not_separate_noise_from_epistemic_uncertainty():
    dist = PNNRegressor((8,), max_epochs=3, random_state=0).fit(*world(100, 0)).predict_dist([[0.0]])
    assert isinstance(dist, StudentT)
    with pytest.raises(NoDecompositionError):
        dist.epistemic()


def test_without_a_score_and_calibration_all_rows_are_trained_on():
    X, y = world(60, 0)
    settings = {"keep_best": False, "calibration": None, "max_epochs": 3, "random_state": 0}
    plain = PNNRegressor((8,), **settings)
    assert isinstance(plain.fit(X, y).predict_dist(X), Normal)
    strange = PNNRegressor((8,), validation_size="nothing", **settings).fit(X, y)
    np.testing.assert_array_equal(strange.predict(X), plain.predict(X))


def test_a_loss_without_variance_raises():
    with pytest.raises(ValueError, match="`loss` must learn a variance"):
        PNNRegressor(loss="squared_error").fit(*world(60, 0))


class CopyWeights(Callback):
    def __init__(self):
        self.weights = []

    def on_epoch_end(self, net, **kwargs):
        state = net.module_.state_dict()
        self.weights.append({name: value.clone() for name, value in state.items()})


@pytest.mark.parametrize("epoch", [3, 7, 10])
def test_weights_of_an_epoch_give_the_forecast_of_that_epoch(epoch):
    """So that any metric can be plotted by epoch, as in examples/neural/plot_training_curve.py."""
    X, y = world(60, 0)
    steps = {"lr_schedule": "constant", "keep_best": False, "calibration": None, "random_state": 0}
    copies = CopyWeights()
    model = PNNRegressor((8,), max_epochs=10, callbacks=[copies], **steps).fit(X, y)
    model.net_.module_.load_state_dict(copies.weights[epoch - 1])
    shorter = PNNRegressor((8,), max_epochs=epoch, **steps).fit(X, y)
    np.testing.assert_array_equal(model.predict_dist(X).mean(), shorter.predict_dist(X).mean())
    np.testing.assert_array_equal(model.predict_dist(X).std(), shorter.predict_dist(X).std())
