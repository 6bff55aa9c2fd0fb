"""The Gaussian process recalibrators: what they learn, at any unit of y, beside truth and formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from skuq.distributions import BetaRecalibrated, Empirical, Normal, StudentT
from skuq.metrics import nll_loss
from skuq.recalibration import (
    GPBetaRecalibrator,
    GPCauchyRecalibrator,
    GPNormalRecalibrator,
    StdScalingRecalibrator,
)
from skuq.recalibration._gp_beta import BetaLikelihood
from skuq.recalibration._gp_cauchy import CauchyLikelihood
from skuq.recalibration._gp_normal import NormalLikelihood

ALL = [GPNormalRecalibrator, GPBetaRecalibrator, GPCauchyRecalibrator]
every_class = pytest.mark.parametrize("cls", ALL)


def rows(rng, n, unit=1.0, offset=0.0):
    """Predictions of one width, about .7, where the true one is .3 + .5 |mean|."""
    mean = rng.normal(size=n)
    truth = Normal(offset + unit * mean, unit * (0.3 + 0.5 * np.abs(mean)))
    predicted = unit * 0.7 * (1 + 0.01 * rng.uniform(size=n))
    return Normal(truth.loc, predicted), truth.loc + truth.scale * rng.normal(size=n), truth


def excess(recalibrator, seed, unit, offset):
    rng = np.random.default_rng(seed)
    dist, y, _ = rows(rng, 1000, unit, offset)
    new, observed, truth = rows(rng, 20_000, unit, offset)
    after = recalibrator.fit(dist, y).transform(new)
    return nll_loss(observed, after) - nll_loss(observed, truth)


def check_the_learned_scale(seeds, unit, offset):
    corrected = np.mean([excess(GPNormalRecalibrator(), seed, unit, offset) for seed in seeds])
    scaled = np.mean([excess(StdScalingRecalibrator(), seed, unit, offset) for seed in seeds])
    assert corrected <= 0.02
    assert scaled > 0.15


@pytest.mark.parametrize(("unit", "offset"), [(1.0, 0.0), (1e-3, 0.0), (1e3, 5e4)])
def test_a_width_that_depends_on_the_mean_is_learned(unit, offset):
    check_the_learned_scale(range(2), unit, offset)


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "offset"), [(1.0, 0.0), (1e-3, 0.0), (1e3, 5e4), (1e-9, 1e-6)])
def test_a_width_that_depends_on_the_mean_is_learned_over_ten_seeds(unit, offset):
    check_the_learned_scale(range(10), unit, offset)


def test_batches_reach_the_same_function():
    dist, y, _ = rows(np.random.default_rng(0), 3000)
    new = Normal(np.linspace(-2, 2, 9), 0.7)
    whole = GPNormalRecalibrator().fit(dist, y).transform(new).std()
    batched = GPNormalRecalibrator(batch_size=256, random_state=0).fit(dist, y).transform(new).std()
    assert_allclose(batched, whole, rtol=0.1)
    again = GPNormalRecalibrator(batch_size=256, random_state=0).fit(dist, y).transform(new).std()
    assert_array_equal(again, batched)


def test_the_normal_factor_leaves_means_to_the_last_bit():
    dist, y, _ = rows(np.random.default_rng(0), 300)
    assert_array_equal(GPNormalRecalibrator().fit(dist, y + 1).predict(dist), dist.mean())


def test_bias_and_scale_in_one_region_are_corrected_by_the_beta_map():
    rng = np.random.default_rng(0)
    loc = rng.uniform(-4, 4, size=5000)
    right = loc > 0
    y = loc - right + np.where(right, 0.5, 1.0) * rng.normal(size=5000)
    dist = Normal(loc, 1.0)
    after = GPBetaRecalibrator().fit(dist[:1500], y[:1500]).transform(dist[1500:])
    for region in (right[1500:], ~right[1500:]):
        observed = (y[1500:][region, np.newaxis] <= after[region].quantile([0.05, 0.5, 0.95])).mean(axis=0)
        assert_allclose(observed, [0.05, 0.5, 0.95], atol=0.04)
    assert after.crps(y[1500:]).mean() < 0.85 * dist[1500:].crps(y[1500:]).mean()


def test_skew_of_the_maps_own_form_is_corrected():
    rng = np.random.default_rng(0)
    loc = rng.normal(size=4000)
    dist = Normal(loc, 1.0)
    y = BetaRecalibrated(dist, 2.0, 0.6, 0.5).sample(1, random_state=0)[:, 0]
    after = GPBetaRecalibrator().fit(dist[:2000], y[:2000]).transform(dist[2000:])
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    observed = (y[2000:, np.newaxis] <= after.quantile(levels)).mean(axis=0)
    assert_allclose(observed, levels, atol=0.035)  # three standard errors of 2000 rows
    truth = BetaRecalibrated(dist[2000:], 2.0, 0.6, 0.5)
    assert nll_loss(y[2000:], after) < nll_loss(y[2000:], truth) + 0.02


def test_skew_with_an_edge_is_corrected_as_far_as_three_numbers_can():
    rng = np.random.default_rng(0)
    loc = rng.normal(size=4000)
    y = loc + rng.gamma(2.0, size=4000) - 2.0
    dist = Normal(loc, np.sqrt(2.0))
    after = GPBetaRecalibrator().fit(dist[:2000], y[:2000]).transform(dist[2000:])
    assert nll_loss(y[2000:], after) < nll_loss(y[2000:], dist[2000:]) - 0.1
    assert after.crps(y[2000:]).mean() < dist[2000:].crps(y[2000:]).mean()


def test_the_scale_of_a_cauchy_law_is_learned():
    rng = np.random.default_rng(0)
    loc = rng.uniform(-3, 3, size=3000)
    truth = np.where(loc < 0, 0.2, 1.0)
    y = loc + truth * rng.standard_cauchy(size=3000)
    after = GPCauchyRecalibrator().fit(Normal(loc, 1.0), y).transform(Normal([-2.0, 2.0], 1.0))
    assert isinstance(after, StudentT)
    assert_array_equal(after.df, 1.0)
    assert_allclose(after.scale, [0.2, 1.0], rtol=0.15)


def test_the_expected_normal_likelihood_is_its_closed_form():
    z, mean, variance = 1.7, 0.4, 0.3
    value, by_mean, twice_by_variance = NormalLikelihood(np.log([z**2])).variational_expectations(
        slice(None), np.array([[mean]]), np.array([[[variance]]])
    )

    def integral(m, v):
        # of log N(y | 0, exp(w)) at z, w ~ N(m, v), without the terms that w does not enter
        return integrate.quad(
            lambda w: -0.5 * (w + z**2 * np.exp(-w)) * stats.norm.pdf(w, m, np.sqrt(v)), -12, 12, limit=200
        )[0]

    step = 1e-4
    slope = (integral(mean + step, variance) - integral(mean - step, variance)) / (2 * step)
    curve = (integral(mean, variance + step) - integral(mean, variance - step)) / (2 * step)
    assert_allclose(value[0], integral(mean, variance), rtol=1e-8)
    assert_allclose(by_mean[0, 0], slope, rtol=1e-5)
    assert_allclose(twice_by_variance[0, 0, 0], 2 * curve, rtol=1e-5)


def test_the_beta_likelihood_is_the_slope_of_the_map():
    level, (w1, w2, w3) = 0.3, (0.2, -0.4, 0.7)
    a, b = np.exp(w1 + w2), np.exp(w1 - w2)

    def beta_map(t):
        return 1 / (1 + np.exp(-(a * np.log(t) - b * np.log(1 - t) + w3)))  # Song et al., eq. 5

    slope = (beta_map(level + 1e-6) - beta_map(level - 1e-6)) / 2e-6
    likelihood = BetaLikelihood(np.log([level]), np.log([1 - level]))
    value, _ = likelihood.at(np.array([w1, w2, w3]).reshape(3, 1, 1))
    assert_allclose(value[0, 0], np.log(slope), rtol=1e-8)


def test_the_cauchy_likelihood_is_that_of_the_scaled_law():
    # E log Cauchy(z | 0, exp(w)) less the terms without w, by brute force against 16 nodes
    z, mean, variance = 2.5, 0.3, 0.2
    value, _, _ = CauchyLikelihood(np.log([z])).variational_expectations(
        slice(None), np.array([[mean]]), np.array([[[variance]]])
    )
    draws = mean + np.sqrt(variance) * stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    direct = stats.cauchy.logpdf(z, scale=np.exp(draws)).mean()
    other, _, _ = CauchyLikelihood(np.log([z])).variational_expectations(
        slice(None), np.array([[mean + 1]]), np.array([[[variance]]])
    )
    moved = stats.cauchy.logpdf(z, scale=np.exp(draws + 1)).mean()
    assert_allclose(other[0] - value[0], moved - direct, rtol=1e-4)


def test_the_posterior_average_of_the_beta_map_is_that_of_many_draws():
    dist, y, _ = rows(np.random.default_rng(0), 200)
    recalibrator = GPBetaRecalibrator().fit(dist, y)
    new = Normal([-1.5, 0.0, 2.0], 0.7)
    mean, covariance = recalibrator._process.at(new.mean(), new.std())
    rng = np.random.default_rng(1)
    at = new.mean() + 0.5
    log_lower, log_upper = stats.norm.logcdf(0.5 / 0.7), stats.norm.logsf(0.5 / 0.7)
    for row in range(3):
        w = rng.multivariate_normal(mean[:, row], covariance[:, :, row], size=100_000).T
        z = np.exp(w[0] + w[1]) * log_lower - np.exp(w[0] - w[1]) * log_upper + w[2]
        assert_allclose(recalibrator.transform(new).cdf(at)[row], (1 / (1 + np.exp(-z))).mean(), atol=2e-3)


@every_class
def test_a_feature_that_hardly_varies_changes_nothing(cls):
    rng = np.random.default_rng(0)
    loc = rng.normal(size=400)
    y = rng.normal(loc, 0.3 + 0.5 * np.abs(loc))
    jitter = 1 + 1e-9 * rng.normal(size=400)
    new = Normal(np.linspace(-2, 2, 5), 0.7)
    plain = cls().fit(Normal(loc, 0.7), y).transform(new).quantile([0.1, 0.9])
    noisy = cls().fit(Normal(loc, 0.7 * jitter), y).transform(new).quantile([0.1, 0.9])
    assert_allclose(noisy, plain, rtol=1e-4)


@every_class
@pytest.mark.parametrize("constant", ["loc", "scale", "both"])
def test_constant_predictions(cls, constant):
    rng = np.random.default_rng(0)
    loc = np.zeros(100) if constant != "scale" else rng.normal(size=100)
    scale = np.ones(100) if constant != "loc" else 0.5 + rng.random(100)
    dist = Normal(loc, scale)
    after = cls().fit(dist, rng.normal(loc, scale)).transform(dist)
    assert np.isfinite(after.quantile([0.05, 0.5, 0.95])).all()


@every_class
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_inducing_points": 0}, ValueError, "`n_inducing_points` must be at least 1"),
        ({"batch_size": 2.5}, TypeError, "`batch_size` must be an integer"),
        ({"max_iter": 0}, ValueError, "`max_iter` must be at least 1"),
    ],
)
def test_bad_parameters_are_named(cls, options, error, message):
    dist, y, _ = rows(np.random.default_rng(0), 20)
    with pytest.raises(error, match=message):
        cls(**options).fit(dist, y)


@every_class
def test_a_certain_prediction_that_is_wrong_raises(cls):
    with pytest.raises(ValueError, match="certain"):
        cls().fit(Normal([0.0, 1.0, 2.0], [0.0, 1.0, 1.0]), [0.5, 1.0, 2.0])


@every_class
def test_relative_weights_raise(cls):
    dist, y, _ = rows(np.random.default_rng(0), 20)
    with pytest.raises(ValueError, match="counts repetitions"):
        cls().fit(dist, y, sample_weight=np.full(20, 0.05))


def test_rows_outside_an_ensemble_are_counted():
    rng = np.random.default_rng(0)
    members, y = rng.normal(size=(400, 60)), rng.normal(size=400)
    outside = np.mean((y < members.min(axis=1)) | (y > members.max(axis=1)))
    assert GPBetaRecalibrator().fit(Empirical(members), y).outside_share_ == outside > 0
    with pytest.raises(ValueError, match=r"in .* of the rows, `y` is outside the support"):
        GPBetaRecalibrator().fit(Empirical(members[:, :5]), 2 * y)
