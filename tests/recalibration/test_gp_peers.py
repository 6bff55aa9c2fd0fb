"""The Gaussian process recalibrators beside netcal: the same formulas, and what is not shared."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skuq.distributions import Normal
from skuq.distributions._beta_recalibrated import BetaRecalibrated
from skuq.recalibration._gp_recalibrators import BetaLikelihood, CauchyLikelihood, NormalLikelihood
from tests.metrics.peers import load

pytestmark = pytest.mark.laws  # torch takes seconds to import

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
