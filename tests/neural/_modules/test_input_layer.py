"""The layer in front of the first dense one: formula, derivatives, start, and the parameters that set it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.neural import (
    BootstrapNetRegressor,
    DeepEnsembleRegressor,
    LastLayerLaplaceRegressor,
    PNNRegressor,
    SWARegressor,
    fit_many,
)
from skuq.neural._modules.input_layer import PLAIN_LAYERS, Layers
from skuq.neural._modules.last_layer import FeatureArchitecture, features_of
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedMLP

F64 = torch.float64
FRONT = {"n_frequencies": 4, "input_scale": True, "activation": "silu"}
PLAIN = {"n_frequencies": 0, "input_scale": False, "activation": "relu"}
COUNT = "`n_frequencies` must be an integer of at least 0 or 'auto'"
SHORT = {"hidden_layer_sizes": (8,), "max_epochs": 3, "random_state": 0}
ESTIMATORS = (
    PNNRegressor,
    partial(DeepEnsembleRegressor, 3),
    partial(BootstrapNetRegressor, 4),
    LastLayerLaplaceRegressor,
    partial(SWARegressor, n_snapshots=2),
)


def network(layers=PLAIN_LAYERS, n_members=3, d=2, hidden=(5, 4)):
    rngs = [seed.init for seed in MemberSeed.spawn(0, n_members)]
    return StackedMLP(rngs, d, hidden, 2, F64, layers)


def rows(n=7, d=2):
    return torch.randn(n, d, dtype=F64, generator=torch.Generator().manual_seed(0))


def test_outputs_are_those_of_the_formula():
    module, x = network(Layers(3, True, "silu")), rows()
    with torch.no_grad():  # other scales than those of the start, which are all 1
        scale = module.weights["scale"]
        scale.mul_(torch.rand(scale.shape, dtype=F64, generator=torch.Generator().manual_seed(1)))
    weights = {name: value.detach().numpy() for name, value in module.weights.items()}
    for member in range(3):
        own = {name: value[member] for name, value in weights.items()}
        columns = list(x.numpy().T)
        for j, column in enumerate(x.numpy().T):
            waves = np.cos(2 * np.pi * own["frequency"][j] * column + own["phase"][j])
            columns.extend(own["combination"][j] @ waves + own["shift"][j])
        hidden = 6 * own["scale"] * np.array(columns)
        for k in range(2):
            total = own[f"weight_{k}"] @ hidden + own[f"bias_{k}"]
            hidden = total * expit(total)
        expected = own["weight_2"] @ hidden + own["bias_2"]
        np.testing.assert_allclose(module(x)[:, member].detach().numpy(), expected.T, rtol=1e-12)


@pytest.mark.parametrize("n_frequencies", [0, 1, 3])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_gradients_are_those_of_autograd(n_frequencies, scaled, activation):
    module, x = network(Layers(n_frequencies, scaled, activation)), rows()
    (expected,) = torch.autograd.grad(module(x).square().sum(), module.flat)
    module.begin_training()
    for _ in range(2):  # the second time in memory that is used again
        output = module(x)
        module.flat.grad.fill_(np.nan)
        module.backward(output, 2 * output.detach())
        torch.testing.assert_close(module.flat.grad, expected)


def test_members_are_the_same_whatever_the_number_of_members():
    layers, x = Layers(3, True, "silu"), rows()
    many, few = network(layers, 5)(x), network(layers, 2)(x)
    torch.testing.assert_close(many[:, :2], few)
    assert not torch.equal(many[:, 0], many[:, 1])


def test_periodic_parts_are_small_at_the_start():
    module, x = network(Layers(8, True, "silu"), d=10, hidden=(64, 64)), rows(200, 10)
    weights = module.weights
    assert torch.equal(6 * weights["scale"], torch.ones(3, 40, 1, dtype=F64))
    assert weights["frequency"].std().item() == pytest.approx(0.1, rel=0.1)
    assert weights["combination"].abs().max().item() <= 0.1 / 8**0.5
    # the bound of the first weights is that of four inputs a column: half that of a plain network
    plain = network(d=10, hidden=(64, 64)).weights["weight_0"].abs().max().item()
    assert weights["weight_0"].abs().max().item() == pytest.approx(plain / 2, rel=0.01)
    with torch.no_grad():
        outputs = module(x)
        weights["combination"].zero_()
        periodic_part = outputs - module(x)
    assert 0 < periodic_part.std(dim=0).mean() < 0.1 * outputs.std(dim=0).mean()


def test_nothing_but_frequencies_changes_the_draws_of_a_member():
    plain = network().weights
    assert set(plain) == {f"{part}_{k}" for part in ("weight", "bias") for k in range(3)}
    for layers in (Layers(0, True), Layers(0, False, "silu"), Layers(0, True, "silu")):
        for name, value in network(layers).weights.items():
            assert name == "scale" or torch.equal(value, plain[name])


def test_wide_tables_have_fewer_frequencies_for_each_column():
    automatic = Layers.from_params("auto", True, "silu")
    n_columns = (1, 32, 33, 81, 256, 257)
    assert [automatic.input_layer(d).n_frequencies for d in n_columns] == [8, 8, 7, 3, 1, 0]
    n_inputs = [automatic.input_layer(d).n_outputs(d) for d in n_columns]
    assert n_inputs == [4, 128, 132, 324, 512, 257]  # more combinations than frequencies would be redundant
    assert "frequency" not in network(automatic, d=300).weights
    assert network(automatic, d=50).weights["frequency"].shape == (3, 50, 5, 1)


def test_features_of_the_last_layer_have_passed_the_layer_in_front():
    x = rows().numpy()
    architecture = FeatureArchitecture.from_params((5, 4), None, Layers(3, True, "silu"))
    module = architecture(MemberSeed.spawn(0, 1), 2, 1, F64)
    features = features_of(module, x, torch.device("cpu"))
    last = [module.weights[name][0].detach().numpy() for name in ("weight_2", "bias_2")]
    expected = module(torch.as_tensor(x))[:, 0].detach().numpy()
    np.testing.assert_allclose(features @ np.column_stack(last).T, expected, rtol=1e-12)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_estimators_train_the_layer_and_keep_it(make, sine):
    model = clone(make(**FRONT, **SHORT)).fit(*sine)
    assert model.get_params()["n_frequencies"] == 4
    assert model.net_.module_.weights["frequency"].shape[1:] == (2, 4, 1)
    first, again = (clone(model).fit(*sine).predict(sine[0]) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    # a constant column changes nothing, whatever it is in new rows, nor does a row beside another
    wide = np.column_stack([sine[0], np.full(len(sine[0]), 7.0)])
    other = np.column_stack([sine[0], np.linspace(-1e6, 1e6, len(sine[0]))])
    with_constant = clone(model).fit(wide, sine[1])
    np.testing.assert_array_equal(with_constant.predict(other), with_constant.predict(wide))
    np.testing.assert_allclose(model.predict(sine[0][:1]), model.predict(sine[0])[:1], rtol=1e-12)


def test_networks_trained_together_are_those_trained_alone(sine):
    models = [
        PNNRegressor((16,), **FRONT, max_epochs=5, dtype="float64", random_state=seed) for seed in range(2)
    ]
    for together, model in zip(fit_many(models, *sine), models, strict=True):
        alone = model.fit(*sine)
        np.testing.assert_allclose(together.predict(sine[0]), alone.predict(sine[0]), rtol=0, atol=1e-9)


def test_other_layers_are_trained_apart(sine):
    plain, other = fit_many([PNNRegressor(**SHORT), PNNRegressor(**FRONT, **SHORT)], *sine)
    assert "frequency" not in plain.net_.module_.weights
    assert "frequency" in other.net_.module_.weights


def test_few_of_many_columns_are_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(700, 20))
    y = np.sin(5 * X[:, 0]) * (1 + X[:, 1]) + 0.1 * rng.normal(size=700)
    error = {}
    for name, layers in {"plain": PLAIN, "default": {}}.items():
        model = DeepEnsembleRegressor(5, **layers, max_epochs=80, random_state=0).fit(X[:500], y[:500])
        error[name] = np.sqrt(np.mean((model.predict(X[500:]) - y[500:]) ** 2))
    assert error["default"] < 0.6 * error["plain"]
    scale = np.abs(6 * model.net_.module_.weights["scale"].detach().numpy()).mean(axis=(0, 2))
    of_columns = scale[:20], scale[20:].reshape(20, 3).mean(axis=1)  # and of their periodic functions
    assert all(scales[:2].mean() > 1.5 * scales[2:].mean() for scales in of_columns)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_frequencies": -1}, ValueError, f"{COUNT}, got -1"),
        ({"n_frequencies": "many"}, ValueError, f"{COUNT}, got 'many'"),
        ({"n_frequencies": 1.5}, TypeError, f"{COUNT}, got 1.5"),
        ({"n_frequencies": None}, TypeError, f"{COUNT}, got None"),
        ({"n_frequencies": True}, TypeError, f"{COUNT}, got True"),
        ({"input_scale": "yes"}, ValueError, "`input_scale` must be one of True, False, got 'yes'"),
        ({"activation": "tanh"}, ValueError, "`activation` must be one of 'relu', 'silu', got 'tanh'"),
    ],
)
@pytest.mark.parametrize("make", ESTIMATORS)
def test_bad_parameters_raise(make, params, error, message, sine):
    with pytest.raises(error, match=message):
        make(**params).fit(*sine)
