"""The Gaussian process behind three recalibrators: against exact regression, and every derivative."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from skuq.recalibration import _gp as engine
from skuq.recalibration import _gp_fit as search
from skuq.recalibration._gp import (
    Basis,
    LatentPrior,
    VariationalProcess,
    correlate,
    gauss_hermite,
    icosahedron,
    place_inducing_points,
)
from skuq.recalibration._gp_recalibrators import BetaLikelihood, CauchyLikelihood, NormalLikelihood

STEP = 1e-6


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) * [1.0, 0.5], rng.normal(size=n)


def likelihoods(n):
    z = rows(n)[1]
    return {
        "normal": (NormalLikelihood(2 * np.log(np.abs(z))), LatentPrior(np.array([3.0]), np.array([1.0]))),
        "cauchy": (CauchyLikelihood(np.log(np.abs(z))), LatentPrior(np.array([1.5]), np.array([2.0]))),
        "beta": (
            BetaLikelihood(stats.norm.logcdf(z), stats.norm.logsf(z)),
            LatentPrior(np.array([1.5, 1.0, 3.0]), np.array([2.0, 4.0, 1.0])),
        ),
    }


def problem(name, n=60, m=8, weight=None):
    x, _ = rows(n)
    likelihood, prior = likelihoods(n)[name]
    weight = np.ones(n) if weight is None else weight
    return VariationalProcess(x, weight, likelihood, place_inducing_points(x, weight, m), prior)


every_likelihood = pytest.mark.parametrize("name", ["normal", "cauchy", "beta"])


# ------------------------------------------------------------------------------------------------ kernel


def test_the_correlation_is_scikit_learns_matern():
    x, points = rows(20)[0], rows(7, 1)[0]
    expected = Matern([0.7, 1.9], nu=2.5)(x, points)
    assert_allclose(correlate(x, points, np.array([0.7, 1.9])), expected, rtol=1e-12, atol=1e-15)


def test_the_basis_and_its_slopes():
    x, points, log = rows(30)[0], rows(6, 1)[0], np.log([0.7, 1.9])
    outer = np.random.default_rng(2).normal(size=(30, 6))

    def weighted(parameters):
        return np.sum(outer * Basis(points, np.exp(parameters)).functions(x)[0][:, 1:])

    basis = Basis(points, np.exp(log))
    functions, left = basis.functions(x)
    # correlations between rows by the functions are Nystrom's approximation
    inside = correlate(points, points, np.exp(log)) + 1e-6 * np.eye(6)
    across = correlate(x, points, np.exp(log))
    nystrom = across @ np.linalg.solve(inside, across.T)
    assert_allclose(functions[:, 1:] @ functions[:, 1:].T, nystrom, atol=1e-10)
    assert_allclose(left, 1 - np.diag(nystrom), atol=1e-10)
    assert_allclose(basis.functions(points)[1], 0, atol=2e-6)
    slope = basis.slope(x, functions, outer)
    for d in range(2):
        move = STEP * np.eye(2)[d]
        assert slope[d] == pytest.approx((weighted(log + move) - weighted(log - move)) / (2 * STEP), rel=1e-7)


def test_inducing_points_cover_the_rows_and_nothing_else():
    x, _ = rows(3000)
    points = place_inducing_points(x, np.ones(3000), 24)
    assert points.shape == (24, 2)
    assert all((point == x).all(axis=1).any() for point in points)
    gaps = np.linalg.norm(points[:, np.newaxis] - points, axis=2)[np.triu_indices(24, 1)]
    assert gaps.min() > 0.2
    lengthscales = np.array([0.6, 0.6])
    left = Basis(points, lengthscales).functions(x)[1].mean()
    by_chance = [Basis(x[i : i + 24], lengthscales).functions(x)[1].mean() for i in range(0, 480, 24)]
    assert left < 0.7 * np.mean(by_chance)
    assert left < 0.85 * min(by_chance)


def test_few_inducing_points_of_copies_and_heavy_rows_first():
    for x, most in (
        (np.zeros((50, 2)), 1),
        (np.repeat([[0.0, 0.0], [3.0, 0.0]], 20, axis=0), 2),
        (np.column_stack([np.zeros(40), np.linspace(0, 0.001, 40)]), 1),
    ):
        assert len(place_inducing_points(x, np.ones(len(x)), 24)) == most
    x = np.array([[-5.0, 0.0], [0.0, 0.0], [5.0, 0.0]])
    assert_array_equal(place_inducing_points(x, np.array([1.0, 2.0, 9.0]), 1), x[[2]])


# ---------------------------------------------------------------------------------------------- cubature


@pytest.mark.parametrize(("rule", "degree"), [(gauss_hermite(16), 9), (icosahedron(), 5)])
def test_a_rule_is_exact_to_its_degree(rule, degree):
    nodes, weights = rule
    latents = nodes.shape[1]
    moment = [1, 0, 1, 0, 3, 0, 15, 0, 105, 0]  # of a standard normal variable
    for powers in np.ndindex(*[degree + 1] * latents):
        if sum(powers) <= degree:
            expected = np.prod([moment[power] for power in powers])
            assert weights @ np.prod(nodes**powers, axis=1) == pytest.approx(expected, abs=1e-10)


@every_likelihood
def test_derivatives_of_the_expected_likelihood(name):
    likelihood, prior = likelihoods(6)[name]
    latents = len(prior.rates)
    rng = np.random.default_rng(1)
    mean, root = 0.5 * rng.normal(size=(latents, 6)), 0.4 * rng.normal(size=(latents, latents, 6))
    covariance = np.einsum("pqn,rqn->prn", root, root) + 0.1 * np.eye(latents)[:, :, np.newaxis]
    _, gradient, hessian = likelihood.variational_expectations(slice(None), mean, covariance)

    def value(mean, covariance):
        return likelihood.variational_expectations(slice(None), mean, covariance)[0]

    for p in range(latents):
        move = np.zeros((latents, 6))
        move[p] = STEP
        difference = value(mean + move, covariance) - value(mean - move, covariance)
        assert_allclose(gradient[p], difference / (2 * STEP), rtol=1e-6, atol=1e-8)
        for q in range(latents):
            move = np.zeros((latents, latents, 6))
            move[p, q] += STEP / 2
            move[q, p] += STEP / 2
            difference = value(mean, covariance + move) - value(mean, covariance - move)
            assert_allclose(hessian[p, q] / 2, difference / (2 * STEP), rtol=1e-5, atol=1e-7)


# ------------------------------------------------------------------------------------------------ engine


class Gaussian:
    """Noise of known standard deviation about the latent value, for which everything is exact."""

    def __init__(self, y, noise):
        self.y, self.noise = y, noise

    def start(self, weight):
        return np.zeros(1)

    def take(self, rows):
        return Gaussian(self.y[rows], self.noise)

    def variational_expectations(self, rows, mean, covariance):
        error, precision = self.y[rows] - mean[0], self.noise**-2
        value = -0.5 * (np.log(2 * np.pi / precision) + precision * (error**2 + covariance[0, 0]))
        return value, (precision * error)[np.newaxis], np.full((1, 1, len(error)), -precision)


@pytest.mark.parametrize("block", [7, 4096])
def test_with_gaussian_noise_it_is_exact_regression(monkeypatch, block):
    monkeypatch.setattr(engine, "BLOCK", block)
    x, y = rows(40)
    new = rows(15, 3)[0]
    lengthscales, constant, deviation, noise = [0.8, 1.7], 2.0, 0.9, 0.6
    kernel = ConstantKernel(constant**2) + deviation**2 * Matern(lengthscales, nu=2.5) + WhiteKernel(noise**2)
    exact = GaussianProcessRegressor(kernel, optimizer=None).fit(x, y)
    own = VariationalProcess(
        x, np.ones(40), Gaussian(y, noise), x, LatentPrior(np.array([constant]), np.ones(1))
    )
    state = own.best(np.log([*lengthscales, deviation]), None, 1e-10)
    assert state.elbo == pytest.approx(exact.log_marginal_likelihood_value_, abs=1e-3)
    mean, std = exact.predict(new, return_std=True)
    own_mean, own_covariance = state.process.predict(new)
    assert_allclose(own_mean[0], mean, atol=1e-4)
    assert_allclose(own_covariance[0, 0], std**2 - noise**2, atol=1e-4)


def test_few_inducing_points_bound_the_evidence_from_below():
    x, y = rows(200)
    kernel = ConstantKernel(4.0) + Matern([0.8, 1.7], nu=2.5) + WhiteKernel(0.36)
    exact = GaussianProcessRegressor(kernel, optimizer=None).fit(x, y).log_marginal_likelihood_value_
    prior, bounds = LatentPrior(np.array([2.0]), np.ones(1)), []
    for m in (2, 12, 150):
        points = place_inducing_points(x, np.ones(200), m)
        own = VariationalProcess(x, np.ones(200), Gaussian(y, 0.6), points, prior)
        bounds.append(own.best(np.log([0.8, 1.7, 1.0]), None, 1e-10).elbo)
    assert bounds[0] < bounds[1] < bounds[2] < exact
    assert bounds[2] > exact - 1


@every_likelihood
def test_the_gradient_of_the_bound(name):
    own = problem(name)
    parameters = np.concatenate([[0.1, -0.2], np.full(len(own.latents.rates), -0.7)])

    def bound(moved):
        return own.best(moved, None, 1e-11).elbo

    gradient = search.elbo_gradient(own.best(parameters, None, 1e-11))
    for i, slope in enumerate(gradient):
        move = 1e-4 * np.eye(len(gradient))[i]
        difference = (bound(parameters + move) - bound(parameters - move)) / 2e-4
        assert slope == pytest.approx(difference, rel=1e-5, abs=1e-6)


@every_likelihood
def test_no_other_distribution_of_the_coefficients_has_a_higher_bound(name):
    own = problem(name)
    parameters = np.concatenate([[0.1, -0.2], np.full(len(own.latents.rates), -0.7)])
    best = own.best(parameters, None, 1e-11)
    rng = np.random.default_rng(0)
    size = len(best.coefficients.mean)
    for scale in (1e-3, 0.1):
        for _ in range(5):
            root = rng.normal(size=(size, size)) * scale
            other = engine.Coefficients(
                best.coefficients.precision + root @ root.T,
                best.coefficients.shift + scale * rng.normal(size=size),
            )
            assert own.state_on_all(parameters, other).elbo < best.elbo


@pytest.mark.laws
def test_memory_is_that_of_a_block(monkeypatch):
    monkeypatch.setattr(engine, "MAX_CACHED_VALUES", 0)
    own = problem("beta", n=60_000, m=24)
    parameters = np.array([0.1, -0.2, -0.7, -0.7, -0.7])
    monkeypatch.setattr(engine, "MOST_STEPS", 1)
    own.thinned(500).best(parameters, None, 1e-3)  # what is imported or cached on first use
    tracemalloc.start()
    try:
        own.best(parameters, None, 1e-3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (
        peak < 12e6
    )  # the basis functions of all rows alone would take 12 MB, with three latents 13 times that


# ------------------------------------------------------------------------------------------------ search


def test_the_peak_of_a_quadratic_is_found_and_a_wrong_gradient_ends_the_search():
    form = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 0.1]])
    peak = np.array([1.0, -3.0, 4.0])

    def function(x):
        return -0.5 * (x - peak) @ form @ (x - peak), -form @ (x - peak)

    found = search.maximize(function, search.Peak(np.zeros(3)), 100, 1e-9)
    assert found.converged
    assert_allclose(found.x, peak, atol=1e-7)
    assert search.maximize(function, found, 100, 1e-9).n_iter == 0
    assert not search.maximize(function, search.Peak(np.zeros(3)), 2, 1e-9).converged
    wrong = search.maximize(lambda x: (-float(x @ x), 2 * x + 1.0), search.Peak(np.ones(2)), 50, 1e-9)
    assert not wrong.converged


def test_prior_and_its_gradient():
    parameters, rates = np.array([0.4, -0.3, -1.0, 0.5]), np.array([1.0, 4.0])
    gradient = search.log_prior(parameters, rates)[1]
    for i, slope in enumerate(gradient):
        move = STEP * np.eye(4)[i]
        difference = (
            search.log_prior(parameters + move, rates)[0] - search.log_prior(parameters - move, rates)[0]
        )
        assert slope == pytest.approx(difference / (2 * STEP), rel=1e-6)


# -------------------------------------------------------------------------------------------------- rows
