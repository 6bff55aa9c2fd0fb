"""The Gaussian process recalibrators beside netcal: the same formulas, and what is not shared."""

import contextlib
import io
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skuq.distributions import BetaRecalibrated, Normal
from skuq.recalibration import GPNormalRecalibrator
from skuq.recalibration._gp.kernel import correlate
from skuq.recalibration._gp_beta import BetaLikelihood
from skuq.recalibration._gp_cauchy import CauchyLikelihood
from skuq.recalibration._gp_normal import NormalLikelihood
from tests.metrics.peers import load

N = 40
RNG = np.random.default_rng(0)
LOC, SCALE = RNG.normal(size=N), 0.3 + RNG.random(N)
Y = RNG.normal(LOC + 0.3, SCALE)
LATENT = 0.5 * RNG.normal(size=(3, N))  # log a, log b and c


@pytest.fixture(scope="module")
def likelihoods():
    load("torch")
    return load("netcal.regression.gp.likelihood")


def tensor(values):
    import torch

    return torch.tensor(np.reshape(values, (N, -1)))


def theirs(cls, latent):
    """A likelihood of netcal's, which takes the log variance and a row of parameters each."""
    return cls(tensor(LOC), tensor(2 * np.log(SCALE)), tensor(np.transpose(latent)))


def no_uncertainty(latents):
    return np.zeros((latents, latents, N))


def test_density_and_cdf_of_the_beta_link(likelihoods):
    peer = theirs(likelihoods.BetaLikelihood, LATENT)
    own = BetaRecalibrated(Normal(LOC, SCALE), np.exp(LATENT[0]), np.exp(LATENT[1]), LATENT[2])
    assert_allclose(own.logpdf(Y), np.ravel(peer.log_prob(tensor(Y)).numpy()), rtol=1e-10)
    assert_allclose(own.cdf(Y), np.ravel(peer.cdf(tensor(Y))[1].numpy()), rtol=1e-10)


def test_the_likelihood_that_the_beta_map_is_fitted_by(likelihoods):
    peer = theirs(likelihoods.BetaLikelihood, LATENT)
    dist = Normal(LOC, SCALE)
    own = BetaLikelihood(np.log(dist.cdf(Y)), np.log(dist._sf(Y)))
    mean = np.stack(
        [(LATENT[0] + LATENT[1]) / 2, (LATENT[0] - LATENT[1]) / 2, LATENT[2]]
    )  # scale, skew, shift
    value = own.variational_expectations(slice(None), mean, no_uncertainty(3))[0]
    expected = np.ravel(peer.log_prob(tensor(Y)).numpy())
    assert_allclose(value + dist.logpdf(Y), expected, atol=1e-8)


def test_the_scaled_normal_likelihood(likelihoods):
    peer = theirs(likelihoods.ScaledNormalLikelihood, LATENT[:1])
    own = NormalLikelihood(2 * np.log(np.abs((Y - LOC) / SCALE)))
    value = own.variational_expectations(slice(None), LATENT[:1], no_uncertainty(1))[0]
    constant = np.log(SCALE) + 0.5 * np.log(2 * np.pi)
    assert_allclose(value - constant, np.ravel(peer.log_prob(tensor(Y)).numpy()), rtol=1e-10)


def test_the_scaled_cauchy_likelihood(likelihoods):
    peer = theirs(likelihoods.CauchyLikelihood, LATENT[:1])
    own = CauchyLikelihood(np.log(np.abs((Y - LOC) / SCALE)))
    value = own.variational_expectations(slice(None), LATENT[:1], no_uncertainty(1))[0]
    assert_allclose(
        value - np.log(np.pi * SCALE), np.ravel(peer.log_prob(tensor(Y)).numpy()), rtol=1e-6, atol=1e-6
    )


def test_the_published_kernel_hardly_distinguishes_predicted_spreads():
    """With a lengthscale that lets the factor vary smoothly with the mean, .2 and .8 are nearly the same."""
    torch = load("torch")
    kernel = load("netcal.regression.gp.kernel").GaussianRBFKernel(cov=False)
    kernel.lengthscale = 2.0
    scale = np.array([0.2, 0.8])
    rows = torch.tensor(np.column_stack([np.zeros(2), 2 * np.log(scale)]), dtype=torch.float32)
    matrix = kernel(rows, rows).to_dense().detach().numpy()
    # theta / sqrt(s_i^2 + s_j^2 + theta^2) at equal means
    expected = 2.0 / np.sqrt(scale[:, np.newaxis] ** 2 + scale**2 + 4.0)
    assert_allclose(matrix, expected, rtol=1e-5)
    published = matrix[0, 1] / np.sqrt(matrix[0, 0] * matrix[1, 1])
    own = correlate(*(np.column_stack([[0.0], [np.log(s)]]) for s in scale), np.array([2.0, 1.0]))[0, 0]
    assert published > 0.99
    assert own < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_netcals_factor_depends_on_the_unit_of_y(unit):
    torch = load("torch")
    peer = load("netcal.regression").GPNormal(n_epochs=60)
    rng = np.random.default_rng(0)
    loc = rng.normal(size=1000)
    truth = 0.3 + 0.5 * np.abs(loc)
    scale, y = 0.7 * (1 + 0.01 * rng.uniform(size=1000)), rng.normal(loc, truth)
    torch.manual_seed(0)
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit((unit * loc, unit * scale), unit * y)
        theirs = np.ravel(peer.transform((unit * loc, unit * scale)))
    dist = Normal(unit * loc, unit * scale)
    own = GPNormalRecalibrator().fit(dist, unit * y).transform(dist).std()
    assert abs(np.corrcoef(theirs, truth)[0, 1]) < 0.3  # no more than one factor for all rows
    assert np.corrcoef(own, truth)[0, 1] > 0.9
