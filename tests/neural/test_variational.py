"""Variational inference: its gradients, its divergence, its posterior, and what it learns."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.distributions import Normal, StudentT
from skuq.metrics import prediction_interval_coverage
from skuq.neural import VariationalRegressor
from skuq.neural._stacked import MemberSeed, StackedModule
from skuq.neural._variational_module import Divergence, VariationalModule
from tests.neural.estimators import world

SMALL = {"hidden_layer_sizes": (16,), "max_epochs": 20, "random_state": 0}


def network(last_layer, n_members=2, warm_up=0.3, prior=None, n_classes=None):
    """Return a network of one mean and a noise, or of the logits of classes."""
    seeds = [replace(seed, n_rows=50.0 + k) for k, seed in enumerate(MemberSeed.spawn(0, n_members))]
    options = {"last_layer": last_layer, "divergence": Divergence(0.7, warm_up, prior)}
    sizes, noise = (8, 5, n_classes or 1), n_classes is None
    module = VariationalModule(seeds, 3, sizes, torch.float64, noise=noise, **options)
    with torch.no_grad():
        module.flat += 0.3 * torch.randn(module.flat.shape, dtype=torch.float64)
    return module


def reference_output(module, x, noises):
    """Return the outputs by the formulas, for autograd."""
    weights = module.weights
    for k in range(3):
        loc = weights[f"weight_{k}"] @ x + weights[f"bias_{k}"]
        if k >= module.first_random:
            of_weight, of_bias = (2 * weights[f"log_scale_{name}_{k}"] for name in ("weight", "bias"))
            loc = loc + (of_weight.exp() @ x**2 + of_bias.exp()).sqrt() * noises[k]
        x = torch.relu(loc) if k < 2 else loc
    return torch.cat([x, weights["raw_noise"].expand_as(x)], dim=1) if "raw_noise" in weights else x


def reference_divergence(module, prior):
    """Return the weighted divergence of each member by the formula, for autograd."""
    weights, total = module.weights, 0.0
    for k, name in product(range(module.first_random, 3), ("weight", "bias")):
        mean, log_scale = weights[f"{name}_{k}"], weights[f"log_scale_{name}_{k}"]
        square = mean**2 + (2 * log_scale).exp()
        given = square.mean((1, 2), keepdim=True) if prior is None else torch.tensor(prior)
        given = torch.tensor(1.0) if name == "bias" else given
        total = total + (0.5 * (square / given + given.log() - 1) - log_scale).sum((1, 2))
    return 0.7 * module._warmth / module.n_rows * total


@pytest.mark.parametrize("last_layer", [False, True])
@pytest.mark.parametrize("n_classes", [None, 4])
def test_outputs_and_gradients_are_those_of_the_formulas(last_layer, n_classes):
    for epoch, prior in product((0.0, 0.1, 0.9), (None, 0.4)):
        torch.manual_seed(0)
        module = network(last_layer, prior=prior, n_classes=n_classes)
        module.begin_training()
        module.train()
        module.begin_epoch(epoch)
        x = torch.randn(2, 3, 7, dtype=torch.float64)
        noises = {k: torch.randn(2, size, 7, dtype=torch.float64) for k, size in enumerate(module.sizes)}
        in_turn = iter([noises[k] for k in range(module.first_random, 3)])
        module.draws.normal = lambda n_units, _, in_turn=in_turn: next(in_turn)
        output = module.forward_members(x)
        expected = reference_output(module, x, noises)
        torch.testing.assert_close(output, expected)
        penalty = module.penalty()
        module.backward(output.square().sum((1, 2)) + penalty)
        gradient = module.flat.grad.clone()
        divergence = reference_divergence(module, prior)
        torch.testing.assert_close(penalty, divergence)
        StackedModule.backward(module, expected.square().sum((1, 2)) + divergence)
        torch.testing.assert_close(gradient, module.flat.grad)


@pytest.mark.parametrize("given", [None, 1.0, 0.3])
def test_the_divergence_is_that_of_the_prior(given):
    """Of the given variance, or of the best."""
    module = network(last_layer=False, n_members=1, prior=given)
    module.begin_epoch(1.0)
    assert module.penalty().item() == pytest.approx(reference_divergence(module, given).item())


def test_the_prior_is_let_in_little_by_little():
    module = network(last_layer=False)
    module.begin_epoch(1.0)
    full = module.penalty()
    for fraction, share in ((0.0, 0.0), (0.15, 0.5), (0.3, 1.0), (0.8, 1.0)):
        module.begin_epoch(fraction)
        torch.testing.assert_close(module.penalty(), share * full)
    at_once = network(last_layer=False, warm_up=0.0)
    at_once.begin_epoch(0.0)
    assert (at_once.penalty() > 0).all()


def test_networks_drawn_have_the_moments_of_the_posterior():
    X, y = world(200, 0, 1)
    for last_layer in (False, True):
        model = VariationalRegressor(last_layer=last_layer, **SMALL).fit(X, y)
        module = model.net_.module_
        weights, rng = (
            {name: value.detach() for name, value in module.weights.items()},
            np.random.default_rng(0),
        )
        for k in range(module.first_random, len(module.sizes)):
            drawn = module.drawn_layer(k, 4000, rng)
            for name, values in zip((f"weight_{k}", f"bias_{k}"), drawn, strict=True):
                scale = weights[f"log_scale_{name}"][0].exp()
                torch.testing.assert_close(values.detach().std(0), scale, rtol=0.06, atol=0)
                error = (values.detach().mean(0) - weights[name][0]).abs()
                assert (error <= 5 * scale / 60 + 1e-6).all()  # 5 standard errors


@pytest.mark.parametrize("last_layer", [False, True])
def test_logits_drawn_have_the_moments_of_the_posterior(last_layer):
    """Those of the last layer, of which there are as many as classes, given the layers before it."""
    module = network(last_layer, n_members=1, n_classes=4).eval()
    x = torch.randn(3, 3, dtype=torch.float64)
    with torch.no_grad():
        outputs = module.networks(20_000, np.random.default_rng(0))(x)
    assert outputs.shape == (20_000, 4, 3)
    if not last_layer:
        assert (outputs.std(dim=0) > 0).all()
        return
    features = module.features(x.T.unsqueeze(0))[0]
    weight, bias = (module.weights[name][0] for name in ("weight_2", "bias_2"))
    of_weight, of_bias = (module.variance(name)[0] for name in ("weight_2", "bias_2"))
    torch.testing.assert_close(outputs.mean(dim=0), weight @ features + bias, atol=0.02, rtol=0)
    std = (of_weight @ features.square() + of_bias).sqrt()
    torch.testing.assert_close(outputs.std(dim=0), std, atol=0, rtol=0.03)


def test_the_closed_form_is_the_limit_of_samples():
    X, y = world(100, 0, 1)
    exact = VariationalRegressor(last_layer=True, **SMALL).fit(X, y)
    sampled = VariationalRegressor(last_layer=True, inference="sampled", n_draws=20_000, **SMALL).fit(X, y)
    one, other = exact.predict_dist(X[:10]), sampled.predict_dist(X[:10])
    np.testing.assert_allclose(one.epistemic().std(), other.epistemic().std(), rtol=0.03)
    members = sampled.predict_members(X[:10])
    np.testing.assert_allclose(members.mean(axis=1), other.mean())
    analytic = VariationalRegressor(last_layer=True, inference="analytic", **SMALL).fit(X, y)
    np.testing.assert_array_equal(np.asarray(analytic.predict_dist(X)), np.asarray(exact.predict_dist(X)))


@pytest.mark.laws
@pytest.mark.parametrize("last_layer", [False, True])
def test_it_learns_mean_and_noise_and_is_uncertain_far_from_the_rows(last_layer):
    X, y = world(400, 0, 1)
    model = VariationalRegressor((32, 32), last_layer=last_layer, max_epochs=150, random_state=0).fit(X, y)
    X_new, y_new = world(4000, 1, 1)
    dist = model.predict_dist(X_new)
    assert np.sqrt(np.mean((dist.mean() - np.sin(2 * X_new[:, 0])) ** 2)) < 0.12
    assert model.noise_std_ == pytest.approx(0.3, rel=0.2)
    assert prediction_interval_coverage(y_new, dist, coverage=0.9) == pytest.approx(0.9, abs=0.04)
    assert model.predict_dist([[6.0]]).epistemic().std()[0] > 2 * np.median(dist.epistemic().std())


def test_networks_drawn_are_functions_and_noise_makes_up_the_whole():
    X, y = world(100, 0, 1)
    raw = VariationalRegressor(calibration=None, n_draws=7, **SMALL).fit(X, y)
    members, dist = raw.predict_members(X), raw.predict_dist(X)
    assert members.shape == (100, 7)
    np.testing.assert_allclose(raw.predict_members(X[30:40]), members[30:40], rtol=1e-9)
    assert isinstance(dist, Normal)
    np.testing.assert_allclose(dist.aleatoric().std(), raw.noise_std_)
    np.testing.assert_allclose(dist.var(), dist.epistemic().var() + raw.noise_std_**2)
    assert isinstance(VariationalRegressor(**SMALL).fit(X, y).predict_dist(X), StudentT)


@pytest.mark.laws
def test_more_rows_leave_less_unknown():
    few, many = (
        VariationalRegressor((16,), max_epochs=100, random_state=0, calibration=None).fit(*world(n, 0, 1))
        for n in (50, 1000)
    )
    X = world(50, 1, 1)[0]
    assert np.median(many.predict_dist(X).epistemic().std()) < 0.7 * np.median(
        few.predict_dist(X).epistemic().std()
    )


def test_a_lighter_prior_leaves_less_uncertainty():
    X, y = world(80, 0, 1)
    settings = {"hidden_layer_sizes": (16,), "max_epochs": 100, "random_state": 0, "calibration": None}
    dists = [
        VariationalRegressor(kl_weight=weight, **settings).fit(X, y).predict_dist(X) for weight in (1, 0.05)
    ]
    assert dists[1].epistemic().std().mean() < 0.7 * dists[0].epistemic().std().mean()


@pytest.mark.laws
def test_heavy_rows_count_in_the_prior():
    """Weights of 4 stand for four times as many rows, so that the epistemic part is smaller."""
    X, y = world(100, 0, 1)
    settings = {"hidden_layer_sizes": (16,), "max_epochs": 100, "random_state": 0, "calibration": None}
    once = VariationalRegressor(**settings).fit(X, y).predict_dist(X)
    four = VariationalRegressor(**settings).fit(X, y, sample_weight=np.full(100, 4.0)).predict_dist(X)
    assert np.median(four.epistemic().std()) < 0.8 * np.median(once.epistemic().std())


def test_the_epoch_of_the_best_held_out_score_is_kept():
    for score in ("nll", "crps"):
        model = VariationalRegressor(keep_best=score, **SMALL).fit(*world(100, 0, 1))
        scores = [row.get("valid_loss", np.inf) for row in model.history_]
        assert model.best_epoch_ == 1 + int(np.argmin(scores))


def test_relative_weights_raise_even_without_calibration():
    with pytest.raises(ValueError, match="counts repetitions"):
        VariationalRegressor(calibration=None, **SMALL).fit(*world(30, 0, 1), sample_weight=np.full(30, 0.01))


@pytest.mark.laws
def test_without_hidden_layers_it_is_bayesian_linear_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = 2 * X[:, 0] + rng.normal(size=300)
    model = VariationalRegressor((), calibration=None, max_epochs=200, random_state=0).fit(X, y)
    line = stats.linregress(X[:, 0], y)
    dist = model.predict_dist([[0.0], [3.0]])
    np.testing.assert_allclose(dist.mean(), line.intercept + line.slope * np.array([0.0, 3.0]), atol=0.15)
    expected = np.sqrt(line.intercept_stderr**2 + (line.stderr * np.array([0.0, 3.0])) ** 2)
    np.testing.assert_allclose(dist.epistemic().std(), expected, rtol=0.25)


@pytest.mark.parametrize("last_layer", [False, pytest.param(True, marks=pytest.mark.laws)])
def test_a_prior_that_outweighs_the_data_warns(sine, last_layer):
    model = VariationalRegressor((16,), last_layer=last_layer, max_epochs=40, random_state=0)
    model.fit(*sine)
    model.set_params(kl_weight=1e3, warm_up=0.0)
    with pytest.warns(ConvergenceWarning, match="the prediction is nearly constant") as caught:
        model.fit(*sine)
    assert caught[0].filename == __file__
    model.fit(np.ones((150, 2)), sine[1])  # nothing to predict by, so no warning
