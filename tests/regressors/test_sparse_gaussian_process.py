"""The sparse Gaussian process beside scikit-learn's exact one, gpytorch, repetition and Kompa et al. 2021."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq import get_scorer, predict_dist
from skuq.distributions import Normal
from skuq.recalibration import StdScalingRecalibrator
from skuq.regressors import RecalibratedRegressor, SparseGaussianProcessRegressor, UncertaintyRegressor
from skuq.regressors._sparse_gp.collapsed_bound import _build_model, _closure, as_kernel, maximize_bound
from skuq.regressors._sparse_gp.inducing_points import (
    choose_inducing_points,
    collapsed_posterior,
    distinct_rows,
)
from tests.regressors.worlds import heteroscedastic_world

gpytorch = pytest.importorskip("gpytorch")
import torch  # noqa: E402 - it comes with gpytorch

SKLEARN = {
    "rbf": RBF,
    "matern32": lambda scale: Matern(scale, nu=1.5),
    "matern52": lambda scale: Matern(scale, nu=2.5),
}
RNG = np.random.RandomState


def world(n=60, seed=0):
    """A smooth function of two columns with noise, standardized."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.normal(size=n)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def fitted(kernel_name, X, y, n_inducing_points, *, weight=None, max_iter=30, jitter=1e-10):
    """Return kernel and posterior as the regressor fits them, in standardized units."""
    weight = np.ones(len(y)) if weight is None else weight
    kernel = as_kernel(kernel_name, X.shape[1], True)
    start, exact = choose_inducing_points(X, weight, n_inducing_points, "k-means++", RNG(0))
    options = {"jitter": jitter, "max_iter": max_iter, "tol": 1e-6, "report": None}
    optimum = maximize_bound(kernel, X, y, weight, start, move_inducing=not exact, **options)
    return kernel, collapsed_posterior(kernel, X, y, weight, optimum, jitter)


def exact_process(kernel_name, kernel, posterior, X, y):
    """Return scikit-learn's process with the hyperparameters of a fitted one."""
    scale = kernel.base_kernel.lengthscale.detach().numpy().ravel()
    own = ConstantKernel(kernel.outputscale.item()) * SKLEARN[kernel_name](scale)
    process = GaussianProcessRegressor(own, alpha=posterior.noise, optimizer=None)
    return process.fit(X, y - posterior.constant)


# ------------------------------------------------------------------------------------ the model


@pytest.mark.parametrize("kernel_name", SKLEARN)
@pytest.mark.parametrize("max_iter", [0, 30])
def test_with_all_rows_as_inducing_points_it_is_the_exact_process(kernel_name, max_iter):
    X, y = world()
    kernel, posterior = fitted(kernel_name, X, y, 60, max_iter=max_iter, jitter=1e-12)
    reference = exact_process(kernel_name, kernel, posterior, X, y)
    new = np.random.default_rng(1).normal(size=(40, 2)) * 2
    mean, spread = posterior.latent(kernel, new)
    expected, std = reference.predict(new, return_std=True)
    np.testing.assert_allclose(mean - posterior.constant, expected, atol=1e-6)
    np.testing.assert_allclose(np.sqrt(spread), std, atol=1e-6)
    assert posterior.bound == pytest.approx(reference.log_marginal_likelihood_value_, abs=1e-6)


def test_the_regressor_is_the_exact_process_in_the_units_of_the_data():
    X, y = heteroscedastic_world(80)
    X, y = 50 * X + 3, 1000 * y - 7
    model = SparseGaussianProcessRegressor(random_state=0, max_iter=0).fit(X, y)
    kernel = ConstantKernel(1.0) * RBF(np.sqrt(3) * X.std(axis=0))
    reference = GaussianProcessRegressor(kernel, alpha=0.5, optimizer=None, normalize_y=True).fit(X, y)
    mean, std = reference.predict(X, return_std=True)
    dist = model.predict_dist(X)
    np.testing.assert_allclose(dist.mean(), mean, atol=1e-6 * y.std())
    np.testing.assert_allclose(dist.epistemic().std(), std, atol=1e-6 * y.std())
    np.testing.assert_allclose(dist.aleatoric().std(), model.noise_scale_)
    assert model.noise_scale_ == pytest.approx(y.std() * np.sqrt(0.5))
    covariance = y.var() * (kernel(X) + 0.5 * np.eye(80))
    log_density = multivariate_normal(np.full(80, y.mean()), covariance).logpdf(y)
    assert model.log_marginal_likelihood_ == pytest.approx(log_density, abs=1e-6)
    assert model.n_iter_ == 0
    np.testing.assert_allclose(np.sort(model.inducing_points_, axis=0), np.sort(X, axis=0))


@pytest.mark.parametrize("kernel_name", SKLEARN)
@pytest.mark.parametrize("n_inducing_points", [1, 3, 10, 30, 59])
@pytest.mark.parametrize("max_iter", [0, 20])
def test_the_bound_is_never_above_the_log_marginal_likelihood(kernel_name, n_inducing_points, max_iter):
    X, y = world()
    kernel, posterior = fitted(kernel_name, X, y, n_inducing_points, max_iter=max_iter)
    exact = exact_process(kernel_name, kernel, posterior, X, y).log_marginal_likelihood_value_
    assert posterior.bound <= exact + 1e-9
    assert n_inducing_points > 3 or posterior.bound < exact - 0.1


def test_more_inducing_points_at_the_same_hyperparameters_raise_the_bound():
    X, y = world()
    bounds = [fitted("rbf", X, y, m, max_iter=0)[1].bound for m in (2, 8, 20, 60)]
    assert (np.diff(bounds) > 0).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel_name", SKLEARN)
def test_what_the_search_maximizes_is_the_bound_of_the_posterior(kernel_name, weighted):
    X, y = world()
    weight = np.random.default_rng(0).uniform(0.5, 3.0, 60) if weighted else np.ones(60)
    kernel, posterior = fitted(kernel_name, X, y, 9, weight=weight)
    rows = torch.from_numpy(X), torch.from_numpy(y)
    model = _build_model(kernel, *rows, weight, posterior.inducing, 1e-10)
    model.likelihood.noise, model.mean_module.constant = posterior.noise, posterior.constant
    loss = _closure(model, weight.sum(), model.zero_grad, None)().item()
    # gpytorch leaves out that the density of w observations is sqrt(w) times wider than that of their mean
    assert -loss * weight.sum() == pytest.approx(posterior.bound + 0.5 * np.log(weight).sum(), abs=1e-6)


def test_blocks_of_rows_change_nothing(monkeypatch):
    X, y = world()
    kernel, whole = fitted("rbf", X, y, 9)
    monkeypatch.setattr("skuq.regressors._sparse_gp.inducing_points._BLOCK", 50)
    _, parts = fitted("rbf", X, y, 9)
    assert parts.bound == pytest.approx(whole.bound, abs=1e-9)
    for one, other in zip(parts.latent(kernel, X), whole.latent(kernel, X), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


def test_a_row_does_not_depend_on_its_neighbors():
    X, y = heteroscedastic_world(100)
    model = SparseGaussianProcessRegressor(10, random_state=0, max_iter=20).fit(X, y)
    far = np.vstack([X[:1], [[1e300, 0, 0]]])
    np.testing.assert_allclose(model.predict(far)[0], model.predict(X)[0], atol=1e-12)
    assert np.isfinite(model.predict_interval(far)).all()


def test_the_epistemic_part_grows_away_from_the_rows():
    X, y = heteroscedastic_world(200)
    model = SparseGaussianProcessRegressor(30, random_state=0).fit(X, y)
    near, far = model.predict_dist([[0.0, 0, 0], [30.0, 0, 0]]).epistemic().std()
    assert far > 5 * near
    assert isinstance(model.predict_dist(X), Normal)
    dist = model.predict_dist(X)
    np.testing.assert_allclose(dist.var(), dist.epistemic().var() + dist.aleatoric().var())


# ------------------------------------------------------------------------------ sample weights


@pytest.mark.parametrize("n_inducing_points", [6, 100])
def test_weights_equal_repetition(n_inducing_points):
    X, y = heteroscedastic_world(50)
    weight = np.random.default_rng(0).integers(0, 4, 50)
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(50), weight))
    model = SparseGaussianProcessRegressor(n_inducing_points, random_state=0, max_iter=30)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X[rows], y[rows])
    assert weighted.log_marginal_likelihood_ == repeated.log_marginal_likelihood_
    np.testing.assert_array_equal(weighted.predict_interval(X), repeated.predict_interval(X))
    assert not np.allclose(weighted.predict(X), clone(model).fit(X, y).predict(X), rtol=1e-3)


def test_weights_equal_repetition_in_the_closed_form_too():
    X, y = world()
    weight = np.random.default_rng(0).integers(1, 4, 60).astype(float)
    rows = np.repeat(np.arange(60), weight.astype(int))
    kernel = as_kernel("rbf", 2, True)
    start, _ = choose_inducing_points(X, np.ones(60), 7, "random", RNG(0))
    options = {"move_inducing": True, "jitter": 1e-10, "max_iter": 0, "tol": 1e-6, "report": None}
    optimum = maximize_bound(kernel, X, y, weight, start, **options)
    one = collapsed_posterior(kernel, X, y, weight, optimum, 1e-10)
    other = collapsed_posterior(kernel, X[rows], y[rows], np.ones(len(rows)), optimum, 1e-10)
    assert one.bound == pytest.approx(other.bound, rel=1e-12)
    np.testing.assert_allclose(one.slope, other.slope, rtol=1e-9)


def test_equal_data_are_equal_however_they_are_written():
    X, y = np.array([[1.0, 2], [0, 5], [1, 2], [1, 2]]), np.array([3.0, 4, 3, 7])
    rows, target, repetitions = distinct_rows(X, y, np.array([1.0, 1, 2, 1]))
    np.testing.assert_array_equal(rows, [[0, 5], [1, 2], [1, 2]])
    np.testing.assert_array_equal(target, [4, 3, 7])
    np.testing.assert_array_equal(repetitions, [1, 3, 1])


def test_relative_weights_raise_and_offer_the_repair():
    X, y = heteroscedastic_world(20)
    with pytest.raises(ValueError, match=r"sample_weight \* len\(sample_weight\)"):
        SparseGaussianProcessRegressor().fit(X, y, sample_weight=np.full(20, 0.1))


def test_on_folds_weights_may_sum_to_less_than_the_rows():
    X, y = heteroscedastic_world(30)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 30)
    weight *= 30 / weight.sum()
    model = SparseGaussianProcessRegressor(5, random_state=0, max_iter=5)
    assert len(model.fit_transform(X, y, sample_weight=weight)) == 30


def test_one_row_of_positive_weight_raises():
    X, y = heteroscedastic_world(5)
    with pytest.raises(ValueError, match="at least 2 samples of positive weight, got 1"):
        SparseGaussianProcessRegressor().fit(X, y, sample_weight=[0, 7, 0, 0, 0])


# ------------------------------------------------------------------------------ inducing points


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_inducing_points_start_at_distinct_rows(init):
    X = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 3, axis=0)
    start, exact = choose_inducing_points(X, np.ones(90), 20, init, RNG(0))
    assert not exact
    assert len(np.unique(start, axis=0)) == 20
    assert all((row == X).all(axis=1).any() for row in start)
    whole, exact = choose_inducing_points(X, np.ones(90), 30, init, RNG(0))
    assert exact
    assert len(whole) == 30


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_inducing_points_start_where_the_observations_are(init):
    X = np.random.default_rng(0).normal(size=(50, 2))
    weight = np.ones(50)
    weight[10:15] = 1e9
    start, _ = choose_inducing_points(X, weight, 5, init, RNG(0))
    np.testing.assert_array_equal(np.unique(start, axis=0), np.unique(X[10:15], axis=0))


def test_fewer_rows_than_inducing_points_makes_every_row_one():
    X, y = heteroscedastic_world(20)
    few, many = (SparseGaussianProcessRegressor(m, random_state=0).fit(X, y) for m in (20, 1000))
    assert len(few.inducing_points_) == len(many.inducing_points_) == 20
    np.testing.assert_array_equal(few.predict_interval(X), many.predict_interval(X))


def test_the_search_moves_inducing_points_and_raises_the_bound():
    X, y = heteroscedastic_world(200)
    models = [SparseGaussianProcessRegressor(8, random_state=0, max_iter=k).fit(X, y) for k in (0, 5, 50)]
    assert (np.diff([model.log_marginal_likelihood_ for model in models]) > 1).all()
    assert not np.allclose(models[0].inducing_points_, models[2].inducing_points_)
    assert 1 <= models[1].n_iter_ <= 5


def test_a_search_that_has_converged_stops():
    X, y = heteroscedastic_world(60)
    model = SparseGaussianProcessRegressor(random_state=0, max_iter=1000, tol=1e-4).fit(X, y)
    assert model.n_iter_ < 200


# --------------------------------------------------------------------------------- Kompa et al. (2021)


KOMPA_2021 = {  # table A1 and A2: coverage and width of 95 % intervals, in standard deviations of y
    "boston": (0.977, 1.872),
    "concrete": (0.967, 2.000),
    "energy": (0.886, 1.077),
    "wine": (0.947, 3.163),
    "yacht": (0.973, 1.697),
}


def kompa_2021(data: pd.DataFrame, splits: int) -> tuple[float, float]:
    """Return mean coverage and width over Gal's splits, with ten inducing points and one length scale."""
    values, rng = data.to_numpy(float), np.random.RandomState(1)
    results = []
    for _ in range(splits):
        order = rng.choice(len(values), len(values), replace=False)
        train, test = values[order[: round(0.9 * len(values))]], values[order[round(0.9 * len(values)) :]]
        model = SparseGaussianProcessRegressor(10, ard=False, random_state=0).fit(train[:, :-1], train[:, -1])
        lower, upper = model.predict_interval(test[:, :-1], 0.95).T
        inside = (lower <= test[:, -1]) & (test[:, -1] <= upper)
        results.append((inside.mean(), (upper - lower).mean() / train[:, -1].std()))
    return tuple(np.mean(results, axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("name", KOMPA_2021)
def test_coverage_and_width_are_those_of_kompa_2021(shared_data, name):
    coverage, width = kompa_2021(shared_data(f"gal/gal_{name}"), 20)
    assert coverage == pytest.approx(KOMPA_2021[name][0], abs=0.01)
    # The paper's process has mean 0. Where y is skewed, as on yacht, one with a mean of its own has a bound
    # that is higher by 0.045 a row, and is narrower; with mean 0 the width there is 1.710.
    assert 0.955 * KOMPA_2021[name][1] < width < 1.005 * KOMPA_2021[name][1]


@pytest.mark.parametrize("name", KOMPA_2021)
def test_one_split_of_kompa_2021_is_plausible(shared_data, name):
    coverage, width = kompa_2021(shared_data(f"gal/gal_{name}"), 1)
    assert coverage == pytest.approx(KOMPA_2021[name][0], abs=0.06)
    assert width == pytest.approx(KOMPA_2021[name][1], rel=0.07)


# ------------------------------------------------------------------------------ awkward data


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_units_of_the_target_change_no_digit(unit):
    X, y = heteroscedastic_world(60)
    model = SparseGaussianProcessRegressor(8, random_state=0, max_iter=30)
    expected, scaled = clone(model).fit(X, y), clone(model).fit(X, unit * y)
    np.testing.assert_array_equal(scaled.predict_interval(X) / unit, expected.predict_interval(X))
    shift = 60 * np.log(unit)
    assert scaled.log_marginal_likelihood_ == pytest.approx(expected.log_marginal_likelihood_ - shift)


@pytest.mark.parametrize(("unit", "offset"), [(1e-9, 0.0), (1e-200, 0.0), (1e200, 0.0), (1.0, 1e7)])
def test_units_and_offset_of_the_target(unit, offset):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(100, 2))
    y = np.abs(np.sin(X[:, 0])) * rng.uniform(0, 1, 100)
    model = SparseGaussianProcessRegressor(8, random_state=0, max_iter=30)
    expected = clone(model).fit(X, y).predict_interval(X)
    moved = clone(model).fit(X, offset + unit * y).predict_interval(X)
    np.testing.assert_allclose((moved - offset) / unit, expected, atol=1e-4)


def test_noise_at_a_large_offset():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = 1e7 + np.random.default_rng(1).uniform(0, 1, 200)
    model = SparseGaussianProcessRegressor(10, random_state=0).fit(X, y)
    dist = model.predict_dist(X)
    np.testing.assert_allclose(dist.mean(), y.mean(), atol=0.2)
    np.testing.assert_allclose(dist.std(), y.std(), rtol=0.1)


@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1e200])
def test_units_of_X(unit):
    X, y = heteroscedastic_world(60)
    model = SparseGaussianProcessRegressor(8, random_state=0, max_iter=20)
    expected = clone(model).fit(X, y).predict_interval(X)
    np.testing.assert_allclose(clone(model).fit(unit * X, y).predict_interval(unit * X), expected, atol=1e-4)


@pytest.mark.parametrize("value", [0.0, -3.0, 1e7, 1e-9])
def test_a_constant_target_is_a_point_mass(value):
    X, _ = heteroscedastic_world(30)
    model = SparseGaussianProcessRegressor(5, random_state=0).fit(X, np.full(30, value))
    np.testing.assert_allclose(model.predict_interval(X), value, rtol=1e-15)
    assert (model.predict_dist(X).std() == 0).all()
    assert model.noise_scale_ == 0
    assert model.log_marginal_likelihood_ == np.inf
    assert model.n_iter_ == 0


def test_a_target_without_noise():
    X, _ = heteroscedastic_world(200)
    y = np.sin(X[:, 0])
    dist = SparseGaussianProcessRegressor(20, random_state=0).fit(X, y).predict_dist(X)
    np.testing.assert_allclose(dist.mean(), y, atol=1e-3)
    assert (dist.std() < 0.01).all()


def test_one_row_raises():
    with pytest.raises(ValueError, match="needs at least 2 samples, got 1 sample"):
        SparseGaussianProcessRegressor().fit([[1.0]], [2.0])


@pytest.mark.parametrize("n", [2, 3])
def test_few_rows(n):
    X, y = heteroscedastic_world(n)
    bounds = SparseGaussianProcessRegressor(random_state=0).fit(X, y).predict_interval(X)
    assert ((bounds[:, 0] <= y) & (y <= bounds[:, 1])).all()


def test_a_column_without_variance_plays_no_part():
    X, y = heteroscedastic_world(80)
    wide = np.column_stack([X, np.full(80, 1e9 / 3)])
    model = SparseGaussianProcessRegressor(10, random_state=0, max_iter=20).fit(wide, y)
    other = wide.copy()
    other[:, 3] = 0.0
    np.testing.assert_array_equal(model.predict(other), model.predict(wide))
    np.testing.assert_allclose(model.inducing_points_[:, 3], 1e9 / 3)
    assert (
        len(SparseGaussianProcessRegressor(10, max_iter=2).fit(np.ones((9, 2)), y[:9]).inducing_points_) == 1
    )


@pytest.mark.parametrize("kernel", SKLEARN)
def test_duplicated_rows(kernel):
    X, y = heteroscedastic_world(10)
    rng = np.random.default_rng(0)
    X, y = np.repeat(X, 20, axis=0), np.repeat(y, 20) + 0.01 * rng.normal(size=200)
    model = SparseGaussianProcessRegressor(100, kernel, random_state=0).fit(X, y)
    assert len(model.inducing_points_) == 10
    np.testing.assert_allclose(model.predict(X), y, atol=0.1)
    assert model.noise_scale_ == pytest.approx(0.01, rel=0.3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_and_infinite_values_raise(bad):
    X, y = heteroscedastic_world(20)
    broken = X.copy()
    broken[3, 1] = bad
    word = "NaN" if np.isnan(bad) else "infinity"
    with pytest.raises(ValueError, match=word):
        SparseGaussianProcessRegressor().fit(broken, y)
    with pytest.raises(ValueError, match=word):
        SparseGaussianProcessRegressor().fit(X, np.r_[y[:-1], bad])
    model = SparseGaussianProcessRegressor(5, max_iter=2).fit(X, y)
    with pytest.raises(ValueError, match=word):
        model.predict(broken)


def test_sparse_X_and_words_raise():
    from scipy import sparse

    X, y = heteroscedastic_world(20)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        SparseGaussianProcessRegressor().fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="could not convert"):
        SparseGaussianProcessRegressor().fit(X.astype(str) + "a", y)


# -------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_inducing_points": 0}, ValueError, "`n_inducing_points` must be at least 1, got 0"),
        ({"n_inducing_points": 10.0}, TypeError, "`n_inducing_points` must be an integer"),
        ({"kernel": "RBF"}, ValueError, "`kernel` must be one of 'rbf', 'matern32', 'matern52' or a kernel"),
        ({"kernel": RBF()}, ValueError, "or a kernel of gpytorch, got RBF"),
        ({"ard": "yes"}, ValueError, "`ard` must be one of True, False, got 'yes'"),
        ({"init": "kmeans"}, ValueError, "`init` must be one of 'k-means"),
        ({"max_iter": -1}, ValueError, "`max_iter` must be at least 0"),
        ({"tol": 0.0}, ValueError, "`tol` must be positive"),
        ({"jitter": -1e-6}, ValueError, "`jitter` must be positive"),
        ({"torch_threads": 0}, ValueError, "`torch_threads` must be at least 1"),
    ],
)
def test_bad_parameters_raise(parameters, error, message):
    X, y = heteroscedastic_world(20)
    with pytest.raises(error, match=message):
        SparseGaussianProcessRegressor(**parameters).fit(X, y)


def test_unknown_fit_parameters_raise():
    X, y = heteroscedastic_world(20)
    with pytest.raises(TypeError, match=r"does not accept the parameters \['epochs'\]"):
        SparseGaussianProcessRegressor().fit(X, y, epochs=3)
    with pytest.raises(ValueError, match="`groups` is given"):
        SparseGaussianProcessRegressor().fit(X, y, groups=np.arange(20))


def test_a_kernel_of_gpytorch_starts_from_its_own_hyperparameters_and_is_left_alone():
    X, y = heteroscedastic_world(80)
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(active_dims=[0]))
    kernel.base_kernel.lengthscale = 0.7
    kernel.base_kernel.raw_lengthscale.requires_grad_(False)
    model = SparseGaussianProcessRegressor(8, kernel, random_state=0, max_iter=20).fit(X, y)
    assert model.kernel_ is not kernel
    assert model.kernel_.base_kernel.lengthscale.item() == pytest.approx(0.7)
    assert model.kernel_.outputscale.item() != pytest.approx(kernel.outputscale.item())
    assert kernel.base_kernel.lengthscale.dtype == torch.float32
    elsewhere = X + np.array([0, 5, -5])
    np.testing.assert_allclose(model.predict(elsewhere), model.predict(X))


def test_sums_and_priors_of_kernels():
    kernels = gpytorch.kernels
    X, y = heteroscedastic_world(80)
    strict = gpytorch.priors.NormalPrior(3.0, 1e-3)
    kernel = kernels.LinearKernel() + kernels.ScaleKernel(kernels.RBFKernel(lengthscale_prior=strict))
    model = SparseGaussianProcessRegressor(8, kernel, random_state=0, max_iter=50).fit(X, y)
    assert model.kernel_.kernels[1].base_kernel.lengthscale.item() == pytest.approx(3.0, abs=0.05)
    assert np.isfinite(model.predict_interval(X)).all()


def test_a_kernel_that_does_not_fit_raises():
    kernels = gpytorch.kernels
    X, y = heteroscedastic_world(20)

    class Negative(kernels.Kernel):
        def forward(self, x1, x2, diag=False, **params):
            product = -x1 @ x2.transpose(-1, -2)
            return product.diagonal() if diag else product

    for max_iter in (0, 5):
        with (
            pytest.raises(ValueError, match="`kernel` must give a finite, positive"),
            gpytorch.settings.cholesky_max_tries(1),
        ):
            SparseGaussianProcessRegressor(5, Negative(), max_iter=max_iter).fit(X, y)
    with pytest.raises(ValueError, match="`kernel` must accept the 3 columns of X"):
        SparseGaussianProcessRegressor(5, kernels.RBFKernel(ard_num_dims=7)).fit(X, y)
    with pytest.raises(ValueError, match=r"no batch shape, got \(2,\)"):
        SparseGaussianProcessRegressor(5, kernels.RBFKernel(batch_shape=torch.Size([2]))).fit(X, y)
    inner = kernels.InducingPointKernel(
        kernels.RBFKernel(), torch.zeros(2, 3), gpytorch.likelihoods.GaussianLikelihood()
    )
    with pytest.raises(TypeError, match="Pass its `base_kernel`"):
        SparseGaussianProcessRegressor(5, inner).fit(X, y)


@pytest.mark.parametrize("spoilt", ["value", "gradient"])
def test_a_step_out_of_the_domain_of_the_kernel_is_taken_back(spoilt):
    X, y = world(100)
    seen = []

    class Limited(gpytorch.kernels.RBFKernel):
        def forward(self, *args, **kwargs):
            covariance = super().forward(*args, **kwargs)
            seen.append(self.lengthscale.item())
            if self.lengthscale.item() > 0.9:
                bad = self.lengthscale.squeeze() * 0
                return covariance + (bad / 0 if spoilt == "value" else bad.sqrt())
            return covariance

    model = SparseGaussianProcessRegressor(10, Limited(), random_state=0, max_iter=30).fit(X, y)
    assert max(seen) > 0.9
    assert model.kernel_.lengthscale.item() <= 0.9
    assert model.n_iter_ > 1
    assert np.isfinite(model.predict_interval(X)).all()


def test_ard_finds_the_column_that_matters():
    X, _ = heteroscedastic_world(200)
    y = np.sin(2 * X[:, 1])
    model = SparseGaussianProcessRegressor(20, random_state=0).fit(X, y)
    scale = model.kernel_.base_kernel.lengthscale.detach().numpy().ravel()
    assert scale.shape == (3,)
    assert scale[1] < 0.3 * scale[[0, 2]].min()
    single = SparseGaussianProcessRegressor(20, ard=False, random_state=0, max_iter=5).fit(X, y)
    assert single.kernel_.base_kernel.lengthscale.numel() == 1


# ------------------------------------------------------------------- reproducible, and no trace


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_an_integer_seed_makes_everything_reproducible(init):
    X, y = heteroscedastic_world(100)
    model = SparseGaussianProcessRegressor(10, init=init, random_state=0, max_iter=10)
    one, same = (clone(model).fit(X, y).predict_interval(X) for _ in range(2))
    np.testing.assert_array_equal(one, same)
    other = clone(model).set_params(random_state=1).fit(X, y).predict_interval(X)
    assert not np.array_equal(one, other)
    out_of_sample, again = (clone(model).fit_transform(X, y) for _ in range(2))
    np.testing.assert_array_equal(out_of_sample, again)


def test_torch_is_left_as_it_was():
    X, y = heteroscedastic_world(50)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    seen = []

    class Watched(gpytorch.kernels.RBFKernel):
        def forward(self, *args, **kwargs):
            seen.append(torch.get_num_threads())
            return super().forward(*args, **kwargs)

    try:
        torch.set_num_threads(3)
        with torch.no_grad():
            SparseGaussianProcessRegressor(5, Watched(), random_state=0, max_iter=2).fit(X, y).predict(X)
        assert set(seen) == {1}
        assert torch.get_num_threads() == 3
        seen.clear()
        SparseGaussianProcessRegressor(5, Watched(), torch_threads=None, max_iter=2).fit(X, y)
        assert set(seen) == {3}
        with pytest.raises(ValueError, match="the 3 columns of X"):
            SparseGaussianProcessRegressor(5, gpytorch.kernels.RBFKernel(ard_num_dims=2)).fit(X, y)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == torch.float32


def test_without_gpytorch_fit_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    with pytest.raises(ImportError, match=r'pip install "skuq\[gp\]"'):
        SparseGaussianProcessRegressor().fit(*heteroscedastic_world(20))


def test_pickle_and_clone():
    X, y = heteroscedastic_world(50)
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=0.5))
    model = SparseGaussianProcessRegressor(5, kernel, random_state=0, max_iter=5).fit(X, y)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict_interval(X), model.predict_interval(X))
    assert not hasattr(clone(model), "kernel_")
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))
    assert len(pickle.dumps(model)) < 30_000  # no training rows


# ------------------------------------------------------------------------- out of sample, in searches


def test_fit_transform_is_out_of_fold():
    X, y = heteroscedastic_world(120)
    model = SparseGaussianProcessRegressor(random_state=0, max_iter=30, cv=4)
    out_of_sample = model.fit_transform(X, y)
    seen = model.predict_dist(X)
    assert np.mean((y - out_of_sample.mean()) ** 2) > 1.2 * np.mean((y - seen.mean()) ** 2)


def test_groups_go_to_the_splitter():
    X, y = heteroscedastic_world(60)
    groups = np.arange(60) % 6
    model = SparseGaussianProcessRegressor(5, cv=GroupKFold(3), max_iter=3, random_state=0)
    assert len(model.fit_transform(X, y, groups=groups)) == 60


def test_data_frames():
    X, y = heteroscedastic_world(60)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = SparseGaussianProcessRegressor(5, random_state=0, max_iter=5).fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    plain = SparseGaussianProcessRegressor(5, random_state=0, max_iter=5).fit(X, y)
    np.testing.assert_array_equal(model.predict(frame), plain.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])


def test_in_pipelines_searches_and_recalibration():
    X, y = heteroscedastic_world(120)
    model = SparseGaussianProcessRegressor(5, random_state=0, max_iter=10, cv=3)
    pipeline = make_pipeline(StandardScaler(), model, StdScalingRecalibrator()).fit(X, y)
    assert len(predict_dist(pipeline, X)) == 120
    grid = {"n_inducing_points": [2, 20], "kernel": ["rbf", gpytorch.kernels.LinearKernel()]}
    search = GridSearchCV(model, grid, scoring=get_scorer("neg_crps"), cv=3, error_score="raise").fit(X, y)
    assert search.best_params_["n_inducing_points"] == 20
    assert isinstance(predict_dist(search, X), Normal)
    recalibrated = RecalibratedRegressor(model, cv=3, random_state=0).fit(X, y)
    front = UncertaintyRegressor(model, method="native", random_state=0).fit(X, y)
    approximate = UncertaintyRegressor(model, cv=3, random_state=0).fit(X, y)
    assert approximate.method_ == "recalibrated"
    for fitted_one in (recalibrated, front, approximate):
        bounds = fitted_one.predict_interval(X)
        assert np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1])) > 0.8
    np.testing.assert_allclose(front.predict_interval(X), model.fit(X, y).predict_interval(X))


def test_every_evaluation_of_the_bound_is_reported():
    pytest.importorskip("sklearn.callback")
    X, y = heteroscedastic_world(30)
    begun, ended = [], []

    class Recorder:
        max_propagation_depth = None

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            begun.append(context.task_name)

        def on_fit_task_end(self, estimator, context):
            ended.append(context.task_name)

        def teardown(self, estimator, context):
            pass

    model = SparseGaussianProcessRegressor(5, max_iter=4, cv=3, random_state=0).set_callbacks(Recorder())
    model.fit_transform(X, y)
    assert begun[:4] == ["fit", "fold", "fold", "fold"]
    assert set(begun[4:]) == {"evaluation"}
    assert len(begun[4:]) >= model.n_iter_
    assert sorted(ended) == sorted(begun)
