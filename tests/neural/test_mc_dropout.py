"""Dropout alone: draws that are networks, parts of the uncertainty, settings of the literature."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from torch import nn

from skuq.distributions import Empirical, Normal, StudentT
from skuq.exceptions import NoDecompositionError
from skuq.metrics import prediction_interval_coverage
from skuq.neural import ConcreteDropoutRegressor, MCDropoutRegressor

SMALL = {"hidden_layer_sizes": (16, 16), "max_epochs": 20, "n_draws": 30, "random_state": 0}


def world(n, seed, sigma=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + sigma * rng.normal(size=n)


@pytest.mark.parametrize("kind", [MCDropoutRegressor, ConcreteDropoutRegressor])
def test_mean_and_variance_are_those_of_the_draws(kind, sine):
    model = kind(calibration=None, **SMALL).fit(*sine)
    loc, scale = model.predict_members(sine[0], return_std=True)
    dist = model.predict_dist(sine[0])
    assert isinstance(dist, Normal)
    assert loc.shape == scale.shape == (150, 30)
    np.testing.assert_allclose(dist.mean(), loc.mean(axis=1))
    np.testing.assert_allclose(dist.epistemic().std(), loc.std(axis=1, ddof=1))
    np.testing.assert_allclose(dist.aleatoric().std() ** 2, (scale**2).mean(axis=1))
    np.testing.assert_array_equal(model.predict_members(sine[0]), loc)


@pytest.mark.parametrize("kind", [MCDropoutRegressor, ConcreteDropoutRegressor])
def test_a_draw_is_one_network_for_all_rows(kind, sine):
    model = kind(**SMALL).fit(*sine)
    whole = model.predict_members(sine[0])
    np.testing.assert_allclose(model.predict_members(sine[0][[7]]), whole[[7]], rtol=1e-10)
    near = model.predict_members(sine[0] + 1e-9)
    np.testing.assert_allclose(near, whole, atol=1e-6)


def test_the_noise_is_learned():
    model = MCDropoutRegressor(dropout=0.05, calibration=None, max_epochs=60, random_state=0)
    model.fit(*world(1000, 0))
    assert model.noise_std_ == pytest.approx(0.3, rel=0.1)
    _, scale = model.predict_members(np.zeros((2, 2)), return_std=True)
    np.testing.assert_allclose(scale, model.noise_std_)


def test_last_layer_dropout_spreads_less(sine):
    whole, last = (
        MCDropoutRegressor(last_layer=last, calibration=None, max_epochs=100, random_state=0).fit(*sine)
        for last in (False, True)
    )
    one, other = (model.predict_dist(sine[0]).epistemic().std().mean() for model in (whole, last))
    assert 0 < other < 0.8 * one


@pytest.mark.parametrize("kind", [MCDropoutRegressor, ConcreteDropoutRegressor])
def test_the_default_covers(kind):
    X_new, y_new = world(4000, 2)
    dist = kind(max_epochs=50, random_state=0).fit(*world(400, 1)).predict_dist(X_new)
    assert isinstance(dist, StudentT)
    for coverage in (0.5, 0.8, 0.9, 0.95):
        observed = prediction_interval_coverage(y_new, dist, coverage=coverage)
        assert abs(observed - coverage) < 0.08


def test_kompas_dropout_is_a_setting_and_holds_no_noise():
    X, y = world(400, 1)
    X_new, y_new = world(4000, 2)
    settings = {"output": "members", "max_epochs": 50, "random_state": 0}
    raw = MCDropoutRegressor(calibration=None, **settings).fit(X, y)
    dist = raw.predict_dist(X_new)
    assert isinstance(dist, Empirical)
    np.testing.assert_allclose(dist.members, np.sort(raw.predict_members(X_new), axis=1), rtol=1e-10)
    assert prediction_interval_coverage(y_new, dist, coverage=0.95) < 0.85
    with pytest.raises(NoDecompositionError):
        dist.epistemic()
    calibrated = MCDropoutRegressor(**settings).fit(X, y)
    assert calibrated.factor_ > 1.2
    covered = prediction_interval_coverage(y_new, calibrated.predict_dist(X_new), coverage=0.95)
    assert covered == pytest.approx(0.95, abs=0.04)


def test_learned_rates_fall_with_more_rows():
    rates = [
        ConcreteDropoutRegressor((16,), max_epochs=epochs, keep_best=False, calibration=None, random_state=0)
        .fit(*world(n, 0))
        .dropout_
        for n, epochs in ((40, 300), (1200, 20))
    ]
    assert rates[0].shape == (1,)
    assert rates[1] < rates[0] / 2


def test_a_longer_length_scale_shrinks_weights(sine):
    short, long = (
        ConcreteDropoutRegressor(length_scale=scale, **{**SMALL, "max_epochs": 150}).fit(*sine)
        for scale in (1e-4, 30.0)
    )
    assert long.predict(sine[0]).std() < 0.7 * short.predict(sine[0]).std()


def test_weights_count_as_rows_in_the_penalty(sine):
    weight = np.full(150, 3.0)
    model = ConcreteDropoutRegressor(calibration=None, keep_best=False, **SMALL)
    assert float(model.fit(*sine, sample_weight=weight).net_.module_.n_rows) == 450
    assert float(model.fit(*sine).net_.module_.n_rows) == 150


def test_relative_weights_raise_even_without_calibration(sine):
    with pytest.raises(ValueError, match="counts repetitions"):
        ConcreteDropoutRegressor(calibration=None, **SMALL).fit(*sine, sample_weight=np.full(150, 0.01))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"dropout": 0.0}, "`dropout` must lie strictly between 0 and 1, got 0"),
        ({"dropout": 1}, "`dropout` must lie strictly between 0 and 1"),
        ({"output": "quantiles"}, "`output` must be one of"),
        ({"last_layer": "no"}, "`last_layer` must be one of True, False, got 'no'"),
        ({"n_draws": 1}, "`n_draws` must be at least 2"),
        ({"hidden_layer_sizes": ()}, "at least 1 hidden layer"),
        ({"keep_best": "accuracy"}, "`keep_best` must be one of"),
    ],
)
def test_settings_that_make_no_sense_raise(sine, params, message):
    with pytest.raises(ValueError, match=message):
        MCDropoutRegressor(**SMALL).set_params(**params).fit(*sine)


def test_draws_that_are_all_the_same_cannot_be_spread(sine):
    with pytest.raises(ValueError, match="all predictions are equal"):
        MCDropoutRegressor((2,), dropout=1e-6, output="members", max_epochs=2, random_state=0).fit(*sine)


def test_a_length_scale_must_be_positive(sine):
    with pytest.raises(ValueError, match="`length_scale` must be positive"):
        ConcreteDropoutRegressor(length_scale=0.0).fit(*sine)


def test_auto_epochs_are_6000_steps_but_40_to_1000():
    options = MCDropoutRegressor()._options()
    assert [options.epochs(n) for n in (1, 6, 60, 200, 1000)] == [1000, 1000, 100, 40, 40]


# ------------------------------------------------------------------------------ networks of users


def plain(n_features, n_outputs):
    layers = [nn.Linear(n_features, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 16), nn.ReLU()]
    return nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(16, n_outputs))


def alpha(n_features, n_outputs):
    return nn.Sequential(nn.Linear(n_features, 16), nn.SELU(), nn.AlphaDropout(0.2), nn.Linear(16, n_outputs))


def in_place(n_features, n_outputs):
    return nn.Sequential(
        nn.Linear(n_features, 16),
        nn.BatchNorm1d(16),
        nn.Dropout(0.2, inplace=True),
        nn.Linear(16, n_outputs),
    )


class Channels(nn.Module):
    """Leaves out whole channels."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.spread, self.dropout = nn.Conv1d(1, 8, n_features), nn.Dropout1d(0.3)
        self.last = nn.Linear(8, n_outputs)

    def forward(self, x):
        return self.last(self.dropout(torch.tanh(self.spread(x.unsqueeze(1)))).flatten(1))


class Branching(nn.Module):
    """Control flow that depends on values."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.linear, self.dropout = nn.Linear(n_features, n_outputs), nn.Dropout(0.3)

    def forward(self, x):
        return self.dropout(self.linear(x)) if float(x.detach().sum()) > -1e300 else x


@pytest.mark.parametrize("module", [plain, alpha, in_place, Channels])
def test_a_draw_of_ones_own_network_is_the_same_for_all_rows_and_blocks(module, sine, monkeypatch):
    model = MCDropoutRegressor(module=module, dtype="float64", **SMALL).fit(*sine)
    whole = model.predict_members(sine[0])
    assert len(np.unique(whole[0])) > 25
    np.testing.assert_array_equal(model.predict_members(sine[0]), whole)
    np.testing.assert_allclose(model.predict_members(sine[0][[140]]), whole[[140]], rtol=1e-12)
    np.testing.assert_allclose(model.predict_members(sine[0] + 1e-9), whole, atol=1e-6)
    monkeypatch.setattr("skuq.neural._modules.evaluate._NUMBERS_AT_ONCE", 1)  # blocks of 64 rows
    np.testing.assert_allclose(model.predict_members(sine[0]), whole, rtol=1e-12)


def test_a_draw_is_ones_own_network_without_some_units(sine):
    """One hidden layer, whose units are all there in the mean of many draws, or in none of them."""
    X = sine[0]

    def module(n_features, n_outputs):
        return nn.Sequential(nn.Linear(n_features, 3), nn.Dropout(0.5), nn.Linear(3, n_outputs))

    settings = {**SMALL, "n_draws": 400, "dtype": "float64"}
    model = MCDropoutRegressor(module=module, calibration=None, **settings).fit(*sine)
    weights = {name: value.detach()[0].numpy() for name, value in model.net_.module_.weights.items()}
    hidden = model.scaler_.features(X) @ weights["0.weight"].T + weights["0.bias"]
    kept = np.array(np.meshgrid(*[[0.0, 2.0]] * 3)).reshape(3, -1)
    expected = model.scaler_.loc(hidden @ (kept * weights["2.weight"].T) + weights["2.bias"])
    members = model.predict_members(X)
    nearest = np.abs(members[:, :, np.newaxis] - expected[:, np.newaxis]).max(axis=0)
    assert nearest.min(axis=1).max() < 1e-10
    counts = np.bincount(nearest.argmin(axis=1), minlength=8)
    assert counts.min() > 25  # of 50


@pytest.mark.parametrize(("kind", "module"), [(MCDropoutRegressor, plain), (ConcreteDropoutRegressor, plain)])
def test_ones_own_network_learns_and_covers(kind, module):
    X_new, y_new = world(4000, 2)
    settings = {"hidden_layer_sizes": (16,), "max_epochs": 50, "learning_rate": 0.03, "random_state": 0}
    dist = kind(module=module, **settings).fit(*world(400, 1)).predict_dist(X_new)
    assert np.sqrt(np.mean((dist.mean() - np.sin(2 * X_new[:, 0])) ** 2)) < 0.25
    assert prediction_interval_coverage(y_new, dist, coverage=0.9) == pytest.approx(0.9, abs=0.06)


def test_a_network_of_ones_own_replaces_the_built_in(sine):
    model = MCDropoutRegressor(module=plain, **SMALL).fit(*sine)
    other = MCDropoutRegressor(module=plain, **SMALL)
    other.set_params(dropout=7.0, last_layer=True, hidden_layer_sizes="none").fit(*sine)
    np.testing.assert_array_equal(other.predict_members(sine[0]), model.predict_members(sine[0]))


@pytest.mark.parametrize("rate", [None, 0.0])
def test_a_network_without_dropout_cannot_be_drawn_from(rate, sine):
    layers = [] if rate is None else [nn.Dropout(rate)]
    with pytest.raises(ValueError, match="must build a network with dropout layers"):
        MCDropoutRegressor(module=lambda d, k: nn.Sequential(*layers, nn.Linear(d, k)), **SMALL).fit(*sine)


def test_a_network_that_cannot_be_vectorized_raises(sine):
    with pytest.raises(ValueError, match=r"that torch\.func\.vmap supports"):
        MCDropoutRegressor(module=Branching, **SMALL).fit(*sine)


def test_concrete_dropout_sits_between_ones_own_network_and_the_last_layer(sine):
    X = sine[0]
    settings = {**SMALL, "dtype": "float64", "hidden_layer_sizes": (5,)}
    model = ConcreteDropoutRegressor(
        module=lambda d, k: nn.Sequential(nn.Linear(d, k), nn.Tanh()), calibration=None, **settings
    ).fit(*sine)
    assert model.dropout_.shape == (1,)
    assert model.dropout_ != pytest.approx(0.1, rel=1e-3)  # where it started
    weights = {name: value.detach()[0].numpy() for name, value in model.net_.module_.weights.items()}
    hidden = np.tanh(model.scaler_.features(X) @ weights["body.0.weight"].T + weights["body.0.bias"])
    members = model.scaler_.target(model.predict_members(X)) - weights["head.bias"][0]
    drawn, residual, *_ = np.linalg.lstsq(hidden, members, rcond=None)
    np.testing.assert_allclose(residual, 0, atol=1e-15)  # every draw is linear in the features
    factors = drawn.T / weights["head.weight"][0] * (1 - model.dropout_)
    assert (factors > -1e-6).all()
    assert (factors < 1 + 1e-6).all()
    assert np.mean(factors < 0.5) == pytest.approx(model.dropout_[0], abs=0.15)


def test_the_penalty_behind_ones_own_network_is_that_of_the_last_layer():
    from skuq.neural._modules.concrete import LOGIT_SPEED, ConcreteArchitecture
    from skuq.neural._modules.seeds import MemberSeed

    build = ConcreteArchitecture((5,), 0.5, module=nn.Linear)
    module = build(MemberSeed.spawn(0, 2), 3, 2, torch.float64)
    with torch.no_grad():
        module.weights["logits"].fill_(np.log(0.25 / 0.75) / LOGIT_SPEED)
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    size = module.weights["head.weight"][1].square().sum().item()
    assert module.penalty()[1].item() == pytest.approx(0.5**2 * size / 1.5 - 5 * entropy)
