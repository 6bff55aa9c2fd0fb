"""AUUCC gain: the paper's definition, its identities and its impropriety."""

import numpy as np
import pytest

from skuq.distributions import Normal, StudentT
from skuq.metrics import auucc_gain_score, auucc_loss, crps_loss, uncertainty_characteristics_curve
from skuq.metrics._ucc.kernels import critical_scales


def step_area(error, lower, upper):
    """Area under the curve of mean bandwidth and miss rate, each point counted as in algorithm 1."""
    k = np.sort(critical_scales(error, lower, upper))
    bandwidth = np.mean((lower + upper) / 2) * k
    miss_before = 1 - np.arange(k.size) / k.size
    return np.sum(np.diff(bandwidth, prepend=0) * miss_before)


@pytest.fixture
def bands():
    rng = np.random.default_rng(0)
    return rng.normal(size=300), rng.random(300) + 0.1, rng.random(300) + 0.1


def area_of(error, lower, upper):
    """Area under the curve of bands around predictions of 0."""
    bounds = np.column_stack([-lower, upper])
    return uncertainty_characteristics_curve(error, bounds, point=np.zeros(error.size)).area()


def test_area_is_that_under_the_step_curve(bands):
    error, band, _ = bands
    assert area_of(*bands) == pytest.approx(step_area(*bands), rel=1e-12)
    assert auucc_loss(error, (0 * error, band)) == pytest.approx(step_area(error, band, band), rel=1e-12)


def test_gain_is_the_covariance_over_the_mean_absolute_error(forecast):
    y, dist = forecast
    error = np.abs(y - dist.loc)
    covariance = np.cov(error / dist.scale, dist.scale, ddof=0)[0, 1]
    gain = auucc_gain_score(y, dist)
    assert gain == pytest.approx(covariance / error.mean(), rel=1e-9)
    # The denominators are those of the paper and of UQ360, which turns a gain of g into g / (1 - g).
    assert gain == pytest.approx(1 - auucc_loss(y, dist) / error.mean(), rel=1e-12)
    assert auucc_gain_score(y, dist, denominator="model") == pytest.approx(gain / (1 - gain), rel=1e-9)
    assert auucc_gain_score(y, Normal(dist.loc, 3.0)) == pytest.approx(0, abs=1e-14)


def test_gain_ignores_a_common_factor_of_the_scales(forecast):
    y, dist = forecast
    assert auucc_gain_score(y, (dist.loc, 7.0 * dist.scale)) == pytest.approx(
        auucc_gain_score(y, dist), rel=1e-9
    )
    student = StudentT(dist.loc, dist.scale, df=5.0)
    assert auucc_gain_score(y, student) == pytest.approx(auucc_gain_score(y, dist), rel=1e-9)


def test_critical_scales_of_vanishing_bands():
    error, band = np.array([0.0, 1.0, -1.0, -2.0]), np.array([0.0, 0.0, 1.0, 4.0])
    np.testing.assert_array_equal(critical_scales(error, band, band), [0.0, np.inf, 1.0, 0.5])


def test_truth_gains_nothing_and_the_square_root_gains_much():
    """Neither the paper nor UQ360 mentions that the gain is not proper."""
    rng = np.random.default_rng(0)
    sigma = np.exp(rng.normal(size=50_000))
    y = sigma * rng.normal(size=50_000)
    gains = {power: auucc_gain_score(y, (0 * y, sigma**power)) for power in (0.0, 0.5, 1.0)}
    assert gains[1.0] == pytest.approx(0, abs=0.02)
    assert gains[0.0] == pytest.approx(0, abs=1e-12)
    assert gains[0.5] > 0.2
    assert crps_loss(y, (0 * y, sigma)) < crps_loss(y, (0 * y, sigma**0.5))
