"""The modules with dropout: which units are left out, how often, and what rates cost."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.neural._modules.concrete import LOGIT_SPEED, ConcreteDropoutMLP
from skuq.neural._modules.dropout import DropoutMLP
from skuq.neural._modules.noise import has_noise
from skuq.neural._modules.seeds import MemberSeed


def seeds(n_members=1, n_rows=100.0):
    return [replace(seed, n_rows=n_rows) for seed in MemberSeed.spawn(0, n_members)]


def dropout(n_members=1, hidden=(8, 6), last_layer=False, rate=0.3, n_classes=None):
    dropped = tuple(not last_layer or k == len(hidden) - 1 for k in range(len(hidden)))
    return DropoutMLP(seeds(n_members), 3, hidden, dropped, rate, torch.float64, n_classes)


def concrete(n_members=1, hidden=(8, 6), length_scale=0.5):
    return ConcreteDropoutMLP(seeds(n_members), 3, hidden, 2, length_scale, torch.float64)


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
    factors = dropout(rate=0.3)._factors(0, uniform)
    assert set(factors.unique().tolist()) == {0.0, 1 / 0.7}
    assert float((factors == 0).double().mean()) == pytest.approx(0.3, abs=0.01)
    module = concrete()
    for rate in (0.02, 0.1, 0.5):
        set_rate(module, rate)
        factors = module._factors(1, uniform).detach()
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
        layers = module.layers_of_samples(5, rng)
        output = module.run_samples(layers, x)
    assert output.shape == (5, 2, 11)
    assert [weight.ndim for weight, _ in layers] == ([2, 2, 3] if last_layer else [2, 3, 3])
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
        layers = module.layers_of_samples(20_000, np.random.default_rng(0))
        mean = module.run_samples(layers, x)[:, 0].mean(0)
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
    module.backward(output, torch.ones_like(output), module.penalty())
    assert (module._gradients["logits"] != 0).all()
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
    assert not has_noise(module)
    assert "raw_noise" not in module.weights
    x = torch.randn(7, 3, dtype=torch.float64)
    with torch.no_grad():
        assert module(x).shape == (7, 1, 4)
        drawn = module.networks(5, np.random.default_rng(0))(x)
    assert drawn.shape == (5, 4, 7)
    assert not torch.equal(drawn[0], drawn[1])
