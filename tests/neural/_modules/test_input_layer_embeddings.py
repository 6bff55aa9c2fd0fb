"""Embeddings of categories: vectors, derivatives, start, and estimators that train them."""

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from sklearn.base import clone

from skuq.neural import DeepEnsembleRegressor, PNNRegressor, fit_many
from skuq.neural._modules.input_layer import Embeddings, Layers
from skuq.neural._modules.seeds import MemberSeed
from skuq.neural._modules.stacked import StackedMLP

F64 = torch.float64
SIZES = (4, 16)


def network(layers, n_members=3, d=4):
    rngs = [seed.init for seed in MemberSeed.spawn(0, n_members)]
    return StackedMLP(rngs, d, (5, 4), 2, F64, layers)


def rows(n=9):
    generator = torch.Generator().manual_seed(0)
    codes = [torch.randint(size, (n, 1), generator=generator) for size in SIZES]
    return torch.cat([torch.randn(n, 2, dtype=F64, generator=generator), *codes], dim=1)


def layers(n_frequencies=3, scaled=True, activation="silu"):
    return Layers.from_params(n_frequencies, scaled, activation, SIZES)


def test_vectors_follow_the_numbers():
    module, x = network(layers(0, False)), rows()
    inputs, _ = module.input_layer.forward(module.weights, x.T.expand(3, -1, -1))
    assert inputs.shape[1] == module.input_layer.n_outputs(4) == 2 + 3 + 8
    for member in range(3):
        tables = [module.weights[f"embedding_{j}"][member].T for j in range(2)]
        expected = torch.cat(
            [x[:, :2], *(table[x[:, 2 + j].long()] for j, table in enumerate(tables))], dim=1
        )
        torch.testing.assert_close(inputs[member].T, expected)


@pytest.mark.parametrize("n_frequencies", [0, 3])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_gradients_are_those_of_autograd(n_frequencies, scaled, activation):
    module, x = network(layers(n_frequencies, scaled, activation)), rows()
    (expected,) = torch.autograd.grad(module(x).square().sum(), module.flat)
    module.begin_training()
    for _ in range(2):
        output = module(x)
        module.flat.grad.fill_(np.nan)
        module.backward(output, 2 * output.detach())
        torch.testing.assert_close(module.flat.grad, expected)


def test_unknown_categories_start_at_the_mean_of_the_others():
    blocks = Embeddings((64,)).blocks([seed.init for seed in MemberSeed.spawn(0, 50)])["embedding_0"]
    assert blocks.shape == (50, 8, 64)
    assert not blocks[:, :, 0].any()
    assert blocks[:, :, 1:].mean() == pytest.approx(0, abs=0.01)


def test_members_do_not_depend_on_their_number():
    x = rows()
    torch.testing.assert_close(network(layers(), 5)(x)[:, :2], network(layers(), 2)(x))


@pytest.mark.parametrize(("n_codes", "size"), [(2, 2), (3, 4), (4, 4), (5, 8), (255, 256)])
def test_sizes_are_powers_of_two(n_codes, size):
    assert Layers.from_params(0, False, "relu", [n_codes]).embeddings.sizes == (size,)


@pytest.fixture(scope="module")
def groups():
    """Rows of thirty groups with a mean of their own, and a number without an effect."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=30)
    code = rng.integers(30, size=900)
    X = pd.DataFrame({"group": [f"group {k}" for k in code], "number": rng.normal(size=900)})
    return X, means[code] + 0.1 * rng.normal(size=900)


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
