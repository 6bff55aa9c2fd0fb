"""Dropout: draws that are networks, parts of the uncertainty, settings of the literature, the modules."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from torch import nn

from skuq.distributions import Empirical, Normal, StudentT
from skuq.exceptions import NoDecompositionError
from skuq.metrics import prediction_interval_coverage
from skuq.neural import ConcreteDropoutRegressor, MCDropoutRegressor
from skuq.neural._architecture import Architecture
from skuq.neural._concrete_dropout import LOGIT_SPEED, LearnedRates
from skuq.neural._mc_dropout import GivenRate
from skuq.neural._stacked import MemberSeed
from tests.neural.estimators import world

SMALL = {"hidden_layer_sizes": (16, 16), "max_epochs": 20, "n_draws": 30, "random_state": 0}


@pytest.mark.parametrize("kind", [MCDropoutRegressor, ConcreteDropoutRegressor])
def test_draws_are_networks_and_give_the_distribution(kind, sine):
    X = sine[0]
    model = kind(calibration=None, **SMALL).fit(*sine)
    loc, scale = model.predict_members(X, return_std=True)
    dist = model.predict_dist(X)
    assert isinstance(dist, Normal)
    assert loc.shape == scale.shape == (150, 30)
    np.testing.assert_allclose(dist.mean(), loc.mean(axis=1))
    np.testing.assert_allclose(dist.epistemic().std(), loc.std(axis=1, ddof=1))
    np.testing.assert_allclose(dist.aleatoric().std() ** 2, (scale**2).mean(axis=1))
    np.testing.assert_array_equal(model.predict_members(X), loc)
    # A draw is one network for all rows.
    np.testing.assert_allclose(model.predict_members(X[[7]]), loc[[7]], rtol=1e-10)
    np.testing.assert_allclose(model.predict_members(X + 1e-9), loc, atol=1e-6)
    if kind is ConcreteDropoutRegressor:  # rows are counted in its penalty even without calibration
        with pytest.raises(ValueError, match="counts repetitions"):
            model.fit(*sine, sample_weight=np.full(150, 0.01))


def test_kompas_dropout_is_a_setting(sine):
    dist = (model := MCDropoutRegressor(output="members", calibration=None, **SMALL).fit(*sine)).predict_dist(
        sine[0]
    )
    assert isinstance(dist, Empirical)
    np.testing.assert_allclose(dist.members, np.sort(model.predict_members(sine[0]), axis=1), rtol=1e-10)
    with pytest.raises(NoDecompositionError):
        dist.epistemic()


@pytest.mark.laws
def test_the_noise_is_learned():
    model = MCDropoutRegressor(dropout=0.05, calibration=None, max_epochs=60, random_state=0)
    model.fit(*world(1000, 0))
    assert model.noise_std_ == pytest.approx(0.3, rel=0.1)
    _, scale = model.predict_members(np.zeros((2, 2)), return_std=True)
    np.testing.assert_allclose(scale, model.noise_std_)


@pytest.mark.laws
def test_last_layer_dropout_spreads_less(sine):
    whole, last = (
        MCDropoutRegressor(last_layer=last, calibration=None, max_epochs=100, random_state=0).fit(*sine)
        for last in (False, True)
    )
    one, other = (model.predict_dist(sine[0]).epistemic().std().mean() for model in (whole, last))
    assert 0 < other < 0.8 * one


@pytest.mark.laws
@pytest.mark.parametrize("kind", [MCDropoutRegressor, ConcreteDropoutRegressor])
def test_the_default_covers(kind):
    X_new, y_new = world(4000, 2)
    dist = kind(max_epochs=50, random_state=0).fit(*world(400, 1)).predict_dist(X_new)
    assert isinstance(dist, StudentT)
    for coverage in (0.5, 0.8, 0.9, 0.95):
        observed = prediction_interval_coverage(y_new, dist, coverage=coverage)
        assert abs(observed - coverage) < 0.08


@pytest.mark.laws
def test_kompas_dropout_holds_no_noise():
    X, y = world(400, 1)
    X_new, y_new = world(4000, 2)
    settings = {"output": "members", "max_epochs": 50, "random_state": 0}
    raw = MCDropoutRegressor(calibration=None, **settings).fit(X, y)
    dist = raw.predict_dist(X_new)
    assert prediction_interval_coverage(y_new, dist, coverage=0.95) < 0.85
    calibrated = MCDropoutRegressor(**settings).fit(X, y)
    assert calibrated.factor_ > 1.2
    covered = prediction_interval_coverage(y_new, calibrated.predict_dist(X_new), coverage=0.95)
    assert covered == pytest.approx(0.95, abs=0.04)


@pytest.mark.laws
def test_learned_rates_fall_with_more_rows():
    rates = [
        ConcreteDropoutRegressor((16,), max_epochs=epochs, keep_best=False, calibration=None, random_state=0)
        .fit(*world(n, 0))
        .dropout_
        for n, epochs in ((40, 300), (1200, 20))
    ]
    assert rates[0].shape == (1,)
    assert rates[1] < rates[0] / 2


@pytest.mark.laws
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


def test_draws_that_are_all_the_same_cannot_be_spread(sine):
    with pytest.raises(ValueError, match="all predictions are equal"):
        MCDropoutRegressor((2,), dropout=1e-6, output="members", max_epochs=2, random_state=0).fit(*sine)


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
    monkeypatch.setattr("skuq.neural._stacked._NUMBERS_AT_ONCE", 1)  # blocks of 64 rows
    np.testing.assert_allclose(model.predict_members(sine[0]), whole, rtol=1e-12)


def test_a_draw_is_ones_own_network_without_some_units(sine):
    """One hidden layer, whose units are all there in the mean of many draws, or in none of them."""
    X = sine[0]

    def module(n_features, n_outputs):
        return nn.Sequential(nn.Linear(n_features, 3), nn.Dropout(0.5), nn.Linear(3, n_outputs))

    settings = {**SMALL, "n_draws": 400, "dtype": "float64"}
    model = MCDropoutRegressor(module=module, calibration=None, **settings).fit(*sine)
    weights = {name: value.detach()[0].numpy() for name, value in model.net_.module_.weights.items()}
    hidden = model.scaler_.features(X) @ weights["module.0.weight"].T + weights["module.0.bias"]
    kept = np.array(np.meshgrid(*[[0.0, 2.0]] * 3)).reshape(3, -1)
    expected = model.scaler_.loc(hidden @ (kept * weights["module.2.weight"].T) + weights["module.2.bias"])
    members = model.predict_members(X)
    nearest = np.abs(members[:, :, np.newaxis] - expected[:, np.newaxis]).max(axis=0)
    assert nearest.min(axis=1).max() < 1e-10
    counts = np.bincount(nearest.argmin(axis=1), minlength=8)
    assert counts.min() > 25  # of 50


@pytest.mark.laws
@pytest.mark.parametrize("kind", [MCDropoutRegressor, ConcreteDropoutRegressor])
def test_ones_own_network_learns_and_covers(kind):
    X_new, y_new = world(4000, 2)
    settings = {"hidden_layer_sizes": (16,), "max_epochs": 50, "learning_rate": 0.03, "random_state": 0}
    dist = kind(module=plain, **settings).fit(*world(400, 1)).predict_dist(X_new)
    assert np.sqrt(np.mean((dist.mean() - np.sin(2 * X_new[:, 0])) ** 2)) < 0.25
    assert prediction_interval_coverage(y_new, dist, coverage=0.9) == pytest.approx(0.9, abs=0.06)


def test_a_network_of_ones_own_replaces_the_built_in(sine):
    model = MCDropoutRegressor(module=plain, **SMALL).fit(*sine)
    other = MCDropoutRegressor(module=plain, **SMALL)
    other.set_params(dropout=7.0, last_layer=True, hidden_layer_sizes="none").fit(*sine)
    np.testing.assert_array_equal(other.predict_members(sine[0]), model.predict_members(sine[0]))


def test_a_network_that_cannot_be_drawn_from_raises(sine):
    for layers in ([], [nn.Dropout(0.0)]):
        with pytest.raises(ValueError, match="must build a network with dropout layers"):
            MCDropoutRegressor(module=lambda d, k, all=layers: nn.Sequential(*all, nn.Linear(d, k))).fit(
                *sine
            )
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
    total = model.scaler_.features(X) @ weights["module.0.weight"].T + weights["module.0.bias"]
    hidden = np.tanh(total)
    members = model.scaler_.target(model.predict_members(X)) - weights["bias_0"][0]
    drawn, residual, *_ = np.linalg.lstsq(hidden, members, rcond=None)
    np.testing.assert_allclose(residual, 0, atol=1e-15)  # every draw is linear in the features
    factors = drawn.T / weights["weight_0"][0] * (1 - model.dropout_)
    assert (factors > -1e-6).all()
    assert (factors < 1 + 1e-6).all()
    assert np.mean(factors < 0.5) == pytest.approx(model.dropout_[0], abs=0.15)


def test_the_penalty_behind_ones_own_network_is_that_of_the_last_layer():
    build = Architecture(LearnedRates, (5,), nn.Linear, headed=True, options={"length_scale": 0.5})
    module = build(MemberSeed.spawn(0, 2), 3, 2, torch.float64)
    with torch.no_grad():
        module.weights["logits"].fill_(np.log(0.25 / 0.75) / LOGIT_SPEED)
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    size = module.weights["weight_0"][1].square().sum().item()
    assert module.penalty()[1].item() == pytest.approx(0.5**2 * size / 1.5 - 5 * entropy)


# --------------------------------------------------------------------------------------------- modules


def seeds(n_members=1, n_rows=100.0):
    return [replace(seed, n_rows=n_rows) for seed in MemberSeed.spawn(0, n_members)]


def dropout(n_members=1, hidden=(8, 6), last_layer=False, rate=0.3, n_classes=None):
    sizes, options = (*hidden, n_classes or 1), {"rate": rate, "last_layer": last_layer}
    return GivenRate(seeds(n_members), 3, sizes, torch.float64, noise=n_classes is None, **options)


def concrete(n_members=1, hidden=(8, 6), length_scale=0.5):
    return LearnedRates(seeds(n_members), 3, (*hidden, 2), torch.float64, length_scale=length_scale)


def set_rate(module, rate):
    with torch.no_grad():
        module.weights["logits"].fill_(np.log(rate / (1 - rate)) / LOGIT_SPEED)


@pytest.mark.parametrize("make", [dropout, concrete])
def test_without_training_every_unit_counts(make):
    module = make(2).eval()
    x = torch.randn(5, 3, dtype=torch.float64)
    first, second = module(x), module(x)
    assert torch.equal(first, second)
    hidden = x.T
    for k in range(3):
        hidden = module.weights[f"weight_{k}"][1] @ hidden + module.weights[f"bias_{k}"][1]
        hidden = torch.relu(hidden) if k < 2 else hidden
    torch.testing.assert_close(first[:, 1, 0], hidden[0])


@pytest.mark.parametrize("make", [dropout, concrete])
def test_a_member_draws_alike_in_any_ensemble(make):
    x = torch.randn(7, 3, dtype=torch.float64)
    many, one = make(3).train(), make(1).train()
    assert torch.equal(many(x)[:, 0], one(x)[:, 0])
    assert not torch.equal(many(x)[:, 0], many(x)[:, 0])


def test_factors_have_mean_one_and_the_given_rate():
    uniform = torch.rand(1, 50, 4000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    factors = dropout(rate=0.3).factors(1, uniform)
    assert set(factors.unique().tolist()) == {0.0, 1 / 0.7}
    assert float((factors == 0).double().mean()) == pytest.approx(0.3, abs=0.01)
    module = concrete()
    for rate in (0.02, 0.1, 0.5):
        set_rate(module, rate)
        factors = module.factors(2, uniform).detach()
        # the relaxation moves the mean a little for rates far from 1/2
        assert float(factors.mean()) == pytest.approx(1.0, abs=0.02)
        assert float((factors < 0.5 / (1 - rate)).double().mean()) == pytest.approx(rate, abs=0.01)
        np.testing.assert_allclose(module.rates(), rate)


@pytest.mark.parametrize("last_layer", [False, True])
def test_drawn_networks_are_the_network_without_some_units(last_layer):
    module = dropout(last_layer=last_layer).eval()
    rng = np.random.default_rng(1)
    x = torch.randn(3, 11, dtype=torch.float64)
    with torch.no_grad():
        output = module.networks(5, rng)(x.T)
    assert output.shape == (5, 2, 11)
    rng = np.random.default_rng(1)
    keeps = {k: rng.random((5, size, 1), dtype=np.float32) >= 0.3 for k, size in ((0, 8), (1, 6))
             if not last_layer or k == 1}  # fmt: skip
    weights = {name: value.detach()[0].numpy() for name, value in module.weights.items()}
    for sample in range(5):
        hidden = x.numpy()
        for k in range(3):
            hidden = weights[f"weight_{k}"] @ hidden + weights[f"bias_{k}"]
            if k < 2:
                hidden = np.maximum(hidden, 0)
                if k in keeps:
                    hidden = hidden * keeps[k][sample] / 0.7
        np.testing.assert_allclose(output[sample, 0].numpy(), hidden[0], rtol=1e-10)


def test_the_mean_of_the_draws_of_one_layer_is_the_network_itself():
    module = dropout(hidden=(16,), rate=0.2).eval()
    x = torch.randn(3, 4, dtype=torch.float64)
    with torch.no_grad():
        mean = module.networks(20_000, np.random.default_rng(0))(x.T)[:, 0].mean(0)
        torch.testing.assert_close(mean, module(x.T)[:, 0, 0], rtol=0, atol=0.01)


def test_the_penalty_is_half_of_gals():
    module = concrete(2)
    set_rate(module, 0.25)
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    size = [module.weights[f"weight_{k}"][1].square().sum().item() for k in range(3)]
    gal = 0.5**2 / 100 * (size[0] + (size[1] + size[2]) / 0.75) - 2 / 100 * (8 + 6) * entropy
    assert module.penalty()[1].item() == pytest.approx(gal / 2)


def test_rates_have_gradients_and_learn_ten_times_as_fast():
    module = concrete().train()
    module.begin_training()
    output = module(torch.randn(9, 3, dtype=torch.float64))
    module.backward(output.sum((0, 2)) + module.penalty())
    assert (module._split(module.flat.grad)["logits"] != 0).all()
    before = module.logits.detach().clone()
    torch.optim.Adam([module.flat], lr=1e-3).step()
    moved = (module._split(module.flat.detach())["logits"] * LOGIT_SPEED - before).abs()
    torch.testing.assert_close(moved, torch.full_like(moved, 1e-2), rtol=1e-3, atol=0)


@pytest.mark.parametrize("make", [dropout, concrete])
def test_copies_predict_but_do_not_train(make):
    module = make(2)
    x = torch.randn(4, 3, dtype=torch.float64)
    for other in (copy.deepcopy(module), module.take(slice(0, 2))):
        assert torch.equal(other.eval()(x), module.eval()(x))
        with pytest.raises(RuntimeError, match="cannot be trained"):
            other.train()(x)


def test_networks_of_classes_have_an_output_each_and_no_noise():
    module = dropout(n_classes=4).eval()
    assert "raw_noise" not in module.weights
    x = torch.randn(7, 3, dtype=torch.float64)
    with torch.no_grad():
        assert module(x).shape == (7, 1, 4)
        drawn = module.networks(5, np.random.default_rng(0))(x)
    assert drawn.shape == (5, 4, 7)
    assert not torch.equal(drawn[0], drawn[1])
