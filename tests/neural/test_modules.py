"""Stacked modules: members, gradients, users' networks, the layer in front of the first dense one."""

from __future__ import annotations

import copy
import itertools
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from torch import nn

from skuq.neural import (
    BootstrapNetRegressor,
    DeepEnsembleRegressor,
    LastLayerLaplaceRegressor,
    PNNRegressor,
    SWARegressor,
    fit_many,
)
from skuq.neural._architecture import Architecture, UserNetworks
from skuq.neural._input_layer import PLAIN_LAYERS, Embeddings, Layers
from skuq.neural._last_layer import features_of
from skuq.neural._plan import TrainingOptions
from skuq.neural._stacked import MemberSeed, StackedModule
from skuq.neural._training import train

F64 = torch.float64


@pytest.fixture
def stacked():
    return StackedModule(MemberSeed.spawn(0, 3), 2, (5, 4, 2), F64)


def test_rows_may_be_shared_or_each_members_own(stacked):
    x = torch.randn(7, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    shared = stacked(x)
    assert shared.shape == (7, 3, 2)
    torch.testing.assert_close(stacked(x.unsqueeze(1).repeat(1, 3, 1)), shared)


def test_a_part_of_the_members_is_a_module_of_its_own(stacked):
    x = torch.ones(4, 2, dtype=F64)
    part = stacked.take(slice(1, 3))
    torch.testing.assert_close(part(x), stacked(x)[:, 1:])
    with torch.no_grad():
        part.flat.zero_()
    assert stacked.flat.abs().sum() > 0
    joined = StackedModule.join([stacked.take(slice(0, 1)), stacked.take(slice(1, 3))])
    torch.testing.assert_close(joined(x), stacked(x))


def test_copies_and_pickles_are_whole(stacked):
    stacked.begin_training()
    x = torch.ones(4, 2, dtype=F64)
    for other in (copy.deepcopy(stacked), pickle.loads(pickle.dumps(stacked))):
        torch.testing.assert_close(other(x), stacked(x))
        with torch.no_grad():
            other.flat.zero_()
        assert other(x).abs().sum() == 0


def test_gradients_are_those_of_autograd(stacked):
    x = torch.randn(7, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    (expected,) = torch.autograd.grad(stacked(x).square().sum(), stacked.flat)
    stacked.begin_training()
    for _ in range(2):  # the second time in memory that is used again
        stacked.backward(stacked(x).square().sum((0, 2)))
        torch.testing.assert_close(stacked.flat.grad, expected)


def test_each_member_is_clipped_by_itself(stacked):
    stacked.begin_training()
    with torch.no_grad():
        stacked.flat.grad[0] = 3.0
        stacked.flat.grad[1] = 1e-3
    before = stacked.flat.grad.clone()
    stacked.clip_gradients(5.0)
    assert torch.linalg.vector_norm(stacked.flat.grad[0]) == pytest.approx(5.0)
    assert torch.equal(stacked.flat.grad[1:], before[1:])
    stacked.end_training()
    with pytest.raises(RuntimeError, match="there are no gradients"):
        stacked.clip_gradients(5.0)


def test_weights_start_as_linear_layers_do():
    wide = StackedModule(MemberSeed.spawn(0, 2), 100, (400, 1), F64)
    weight = wide.weights["weight_0"].detach()
    assert weight.abs().max() <= 0.1
    assert weight.std() == pytest.approx(0.1 / 3**0.5, rel=0.02)
    assert not torch.equal(weight[0], weight[1])
    single = StackedModule(MemberSeed.spawn(0, 2), 100, (400, 1), torch.float32)
    torch.testing.assert_close(single.flat, wide.flat.float())


# ------------------------------------------------------------------------------ networks of users


def plain(n_features, n_outputs):
    return nn.Sequential(nn.Linear(n_features, 5), nn.Tanh(), nn.Linear(5, n_outputs))


class Branching(nn.Module):
    """Control flow that depends on values, which cannot be vectorized."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.linear = nn.Linear(n_features, n_outputs)

    def forward(self, x):
        return self.linear(x) if float(x.sum()) > -1e300 else 0 * self.linear(x)


def normed(n_features, n_outputs):
    return nn.Sequential(nn.Linear(n_features, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, n_outputs))


@pytest.mark.parametrize(("build", "vectorized"), [(plain, True), (Branching, False), (normed, True)])
def test_users_networks_give_what_they_give_alone(build, vectorized):
    stacked = StackedModule(
        MemberSeed.spawn(0, 3), 2, (), F64, UserNetworks(build, 2, F64, headed=False)
    ).eval()
    assert stacked.inputs.vectorized is vectorized
    x = torch.randn(6, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    for member, seed in enumerate(MemberSeed.spawn(0, 3)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seed.init.integers(2**63)))
            alone = build(2, 2).to(F64).eval()
        torch.testing.assert_close(stacked(x)[:, member], alone(x))


def test_the_loop_trains_as_the_vectorized_do(plan):
    options = TrainingOptions(Architecture(StackedModule, (), plain), max_epochs=10, dtype="float64")

    class Looped(nn.Module):
        def __init__(self, *sizes):
            super().__init__()
            self.inner = plain(*sizes)

        def forward(self, x):
            return self.inner(x) if float(x.sum()) > -1e300 else x

    looped = TrainingOptions(Architecture(StackedModule, (), Looped), max_epochs=10, dtype="float64")
    one, two = (train([plan(3)], each)[0].net.module_ for each in (options, looped))
    assert one.inputs.vectorized
    assert not two.inputs.vectorized
    torch.testing.assert_close(one.flat, two.flat, rtol=0, atol=1e-10)


def test_running_means_belong_to_their_member(plan):
    options = TrainingOptions(Architecture(StackedModule, (), normed), max_epochs=5, dtype="float64")
    together = train([plan(3), plan(2, seed=5)], options)
    alone = train([plan(2, seed=5)], options)[0]
    for name, value in together[1].net.module_.state_dict().items():
        torch.testing.assert_close(value, alone.net.module_.state_dict()[name], rtol=0, atol=1e-8)
    assert (together[0].net.module_.get_buffer("buffer_1__num_batches_tracked") > 0).all()


# ----------------------------------------------------------------------------- the layer in front

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
    inputs, activation = layers.input_layer(d), layers.activation
    return StackedModule(MemberSeed.spawn(0, n_members), d, (*hidden, 2), F64, inputs, activation)


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


@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_gradients_of_the_input_layer_are_those_of_autograd(activation):
    for n_frequencies, scaled, codes in itertools.product((0, 1, 3), (False, True), (False, True)):
        if codes:
            module, x = network(with_codes(n_frequencies, scaled, activation), d=4), rows_with_codes()
        else:
            module, x = network(Layers(n_frequencies, scaled, activation)), rows()
        (expected,) = torch.autograd.grad(module(x).square().sum(), module.flat)
        module.begin_training()
        module.backward(module(x).square().sum((0, 2)))
        torch.testing.assert_close(module.flat.grad, expected)


def test_members_are_the_same_whatever_the_number_of_members():
    layers, x = Layers(3, True, "silu"), rows()
    many, few = network(layers, 5)(x), network(layers, 2)(x)
    torch.testing.assert_close(many[:, :2], few)
    assert not torch.equal(many[:, 0], many[:, 1])
    x = rows_with_codes()
    torch.testing.assert_close(network(with_codes(), 5, d=4)(x)[:, :2], network(with_codes(), 2, d=4)(x))


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
    architecture = Architecture(StackedModule, (5, 4), layers=Layers(3, True, "silu"))
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


def test_other_layers_are_trained_apart(sine):
    plain, other = fit_many([PNNRegressor(**SHORT), PNNRegressor(**FRONT, **SHORT)], *sine)
    assert "frequency" not in plain.net_.module_.weights
    assert "frequency" in other.net_.module_.weights


@pytest.mark.laws
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


BAD_PARAMETERS = [
    ({"n_frequencies": -1}, ValueError, f"{COUNT}, got -1"),
    ({"n_frequencies": "many"}, ValueError, f"{COUNT}, got 'many'"),
    ({"n_frequencies": 1.5}, TypeError, f"{COUNT}, got 1.5"),
    ({"n_frequencies": None}, TypeError, f"{COUNT}, got None"),
    ({"n_frequencies": True}, TypeError, f"{COUNT}, got True"),
    ({"input_scale": "yes"}, ValueError, "`input_scale` must be one of True, False, got 'yes'"),
    ({"activation": "tanh"}, ValueError, "`activation` must be one of 'relu', 'silu', got 'tanh'"),
]


@pytest.mark.parametrize("make", ESTIMATORS)
def test_bad_parameters_raise(make, sine, subtests):
    for params, error, message in BAD_PARAMETERS:
        with subtests.test(msg=f"{params}"), pytest.raises(error, match=message):
            make(**params).fit(*sine)


# ------------------------------------------------------------------------------------ embeddings

SIZES = (4, 16)


def rows_with_codes(n=9):
    generator = torch.Generator().manual_seed(0)
    codes = [torch.randint(size, (n, 1), generator=generator) for size in SIZES]
    return torch.cat([torch.randn(n, 2, dtype=F64, generator=generator), *codes], dim=1)


def with_codes(n_frequencies=3, scaled=True, activation="silu"):
    return Layers.from_params(n_frequencies, scaled, activation).with_codes(SIZES)


def test_vectors_follow_the_numbers():
    module, x = network(with_codes(0, False), d=4), rows_with_codes()
    inputs = module.first_outputs(x.T.expand(3, -1, -1))
    assert inputs.shape[1] == module.inputs.n_outputs(4) == 2 + 3 + 8
    for member in range(3):
        tables = [module.weights[f"embedding_{j}"][member].T for j in range(2)]
        expected = torch.cat(
            [x[:, :2], *(table[x[:, 2 + j].long()] for j, table in enumerate(tables))], dim=1
        )
        torch.testing.assert_close(inputs[member].T, expected)


def test_unknown_categories_start_at_the_mean_of_the_others():
    blocks = Embeddings((64,)).blocks([seed.init for seed in MemberSeed.spawn(0, 50)])["embedding_0"]
    assert blocks.shape == (50, 8, 64)
    assert not blocks[:, :, 0].any()
    assert blocks[:, :, 1:].mean() == pytest.approx(0, abs=0.01)


def test_sizes_are_powers_of_two():
    for n_codes, size in ((2, 2), (3, 4), (4, 4), (5, 8), (255, 256)):
        assert Layers().with_codes([n_codes]).embeddings.sizes == (size,)


@pytest.fixture(scope="module")
def groups():
    """Rows of thirty groups with a mean of their own, and a number without an effect."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=30)
    code = rng.integers(30, size=900)
    X = pd.DataFrame({"group": [f"group {k}" for k in code], "number": rng.normal(size=900)})
    return X, means[code] + 0.1 * rng.normal(size=900)


@pytest.mark.laws
def test_groups_are_learned(groups):
    X, y = groups
    model = DeepEnsembleRegressor(5, max_epochs=60, random_state=0).fit(X[:600], y[:600])
    error = np.sqrt(np.mean((model.predict(X[600:]) - y[600:]) ** 2))
    assert error < 0.25 * y.std()
    only_group = DeepEnsembleRegressor(4, max_epochs=5, random_state=0).fit(X[["group"]], y)
    assert np.isfinite(only_group.predict(X[["group"]])).all()


def test_fits_with_other_rare_categories_are_trained_together(groups):
    X, y = groups
    model = PNNRegressor((8,), n_frequencies=2, max_epochs=3, dtype="float64", random_state=0)
    parts = [X.index[X["group"] != "group 3"].to_numpy(), X.index.to_numpy()]
    together = fit_many([model] * 2, X, y, parts)
    for fitted, part in zip(together, parts, strict=True):
        alone = clone(model).fit(X.iloc[part], y[part])
        np.testing.assert_allclose(fitted.predict(X), alone.predict(X), rtol=0, atol=1e-9)
    first, second = (one.net_.module_.weights["embedding_0"].shape for one in together)
    assert first == second == (1, 8, 32)
