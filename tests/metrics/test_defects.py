"""Defects of the peers that skuq does not share: each is shown in the peer, where it is installed, and here.

The order is that in which they were found; the name of a test is the defect of the peer.
"""

import numpy as np
import pytest
from scipy import stats

from skuq.distributions import Normal
from skuq.metrics import (
    auucc_gain_score,
    calibration_score_loss,
    coverage_width_loss,
    crps_loss,
    expected_coverage_probability_error,
    expected_normalized_calibration_error,
    mean_absolute_calibration_error,
    miscalibration_area,
    nll_loss,
    pinball_loss,
    prediction_interval_coverage,
    quantile_calibration_error,
    regression_calibration_curve,
    sharpness,
    weighted_interval_score_loss,
)
from skuq.recalibration import IsotonicRecalibrator, StdScalingRecalibrator
from tests.metrics.peers import load

pytestmark = [
    pytest.mark.usefixtures("few_rows"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning"),
]

UT_LEVELS = np.linspace(0, 1, 100)
TENTHS = np.arange(1, 10) / 10


@pytest.fixture
def biased():
    """Targets one standard deviation above a forecast: 16 % lie below its median."""
    y = np.random.default_rng(0).normal(size=4000)
    return y, np.full(4000, -1.0), np.ones(4000)


# ------------------------------------------------------------------- 1. Uncertainty Toolbox


def test_quantile_curve_is_mirrored_in_uncertainty_toolbox(biased):
    y, mu, s = biased
    toolbox = load("uncertainty_toolbox")
    levels, theirs = toolbox.get_proportion_lists_vectorized(mu, s, y, prop_type="quantile")
    ours = regression_calibration_curve(y, (mu, s), levels=levels).observed
    truth = np.array([np.mean(y <= stats.norm.ppf(p, mu, s)) for p in levels])
    np.testing.assert_allclose(ours, truth, atol=1e-12)
    np.testing.assert_allclose(theirs, 1 - truth[::-1], atol=1e-12)  # of the quantile at 1 - p, from above
    assert np.abs(theirs - truth).max() > 0.3


def test_recalibration_by_the_mirrored_curve_makes_a_biased_forecast_worse(biased):
    y, mu, s = biased
    toolbox = load("uncertainty_toolbox.recalibration")
    theirs = toolbox.get_quantile_recalibrator(mu, s, y)
    assert np.mean(y <= theirs(mu, s, 0.5)) < 0.05 < stats.norm.cdf(-1)
    ours = IsotonicRecalibrator().fit(Normal(mu, s), y).transform(Normal(mu, s))
    for level in (0.1, 0.5, 0.9):
        assert np.mean(y <= ours.quantile(level)) == pytest.approx(level, abs=0.02)


# ------------------------------------------------------------------- 2. Uncertainty Toolbox


def test_scale_search_of_uncertainty_toolbox_starts_on_a_plateau():
    """Its search for the best scale gives up on a sigma far too wide; the closed form does not."""
    toolbox = load("uncertainty_toolbox")
    rng = np.random.default_rng(0)
    mu, s = rng.normal(size=500), np.full(500, 50.0)
    y = mu + rng.normal(size=500)
    assert toolbox.optimize_recalibration_ratio(mu, s, y) == pytest.approx(100.0, rel=0.05)
    ours = StdScalingRecalibrator().fit(Normal(mu, s), y).transform(Normal(mu, s))
    np.testing.assert_allclose(ours.std(), s * np.sqrt(np.mean(((y - mu) / s) ** 2)), rtol=1e-12)
    assert nll_loss(y, ours) < min(nll_loss(y, (mu, factor * s)) for factor in (0.5, 1.0, 100.0))
    assert mean_absolute_calibration_error(y, ours) < 0.05


# ------------------------------------------------------------------- 3. Uncertainty Toolbox


def test_sharpness_is_a_root_mean_square_in_uncertainty_toolbox(het100):
    toolbox = load("uncertainty_toolbox")
    ours = sharpness(het100.y, (het100.mu, het100.s))
    assert ours == pytest.approx(het100.s.mean(), rel=1e-14)  # as in the text of its paper
    assert toolbox.sharpness(het100.s) > ours


# ----------------------------------------------------------------------------- 4. level grids


@pytest.mark.parametrize(("grid", "shrinks"), [(UT_LEVELS, 0.98), (np.linspace(0, 1, 10), 0.8)])
def test_levels_that_cannot_err_shrink_the_error(het100, grid, shrinks):
    """Levels 0 and 1 come true for any forecast; no default of skuq holds them."""
    dist = (het100.mu, het100.s)
    with_ends = expected_coverage_probability_error(het100.y, dist, levels=grid)
    without = expected_coverage_probability_error(het100.y, dist, levels=grid[1:-1])
    assert with_ends == pytest.approx(shrinks * without, rel=1e-12)
    for metric in (expected_coverage_probability_error, mean_absolute_calibration_error):
        own = metric(het100.y, dist)
        assert own == metric(het100.y, dist, levels=np.arange(1, 100) / 100)


def test_calibration_score_has_no_degenerate_levels(het100):
    """Of the six levels in the code of Wibbeke et al. two cannot err, and its sum became a mean."""
    dist = (het100.mu, het100.s)
    with_ends = calibration_score_loss(het100.y, dist, levels=np.linspace(0, 1, 6), reduction="mean")
    inner = calibration_score_loss(het100.y, dist, levels=4, reduction="mean")
    assert with_ends == pytest.approx(inner * 4 / 6, rel=1e-12)
    observed = regression_calibration_curve(het100.y, dist, levels=9).observed
    assert calibration_score_loss(het100.y, dist) == pytest.approx(np.sum((observed - TENTHS) ** 2))


# --------------------------------------------------------------------------------- 5. netcal


def test_pinball_loss_of_netcal_is_something_else(het100):
    netcal = load("netcal.metrics")
    y, dist = het100.y, (het100.mu, het100.s)
    for level, wrong, right in ((0.1, 0.07045, 0.1466), (0.9, 0.1322, 0.1815)):
        error = y - stats.norm.ppf(level, *dist)
        truth = np.mean(np.maximum(level * error, (level - 1) * error))
        theirs = float(np.squeeze(netcal.PinballLoss().measure(dist, y, np.array([level]))))
        assert theirs == pytest.approx(wrong, abs=5e-5)
        assert truth == pytest.approx(right, abs=5e-5)
        assert pinball_loss(y, dist, levels=level) == pytest.approx(truth, rel=1e-12)


# --------------------------------------------------------------------------------- 6. netcal


def test_quantile_calibration_of_netcal_has_no_bins_by_default(het100):
    """So the QCE of Wibbeke et al. (2025) is its ECPE under another name; skuq takes the equations."""
    netcal = load("netcal.metrics")
    y, dist = het100.y, (het100.mu, het100.s)
    theirs = netcal.QCE().measure(dist, y, TENTHS, reduction="mean")
    assert theirs == pytest.approx(expected_coverage_probability_error(y, dist, levels=9), rel=1e-12)
    assert quantile_calibration_error(y, dist, marginal=True) == pytest.approx(theirs, rel=1e-12)
    assert quantile_calibration_error(y, dist) > 2 * theirs


def test_quantile_calibration_detects_errors_that_balance_out():
    """Half the rows too narrow and half too wide: right on average, wrong everywhere."""
    rng = np.random.default_rng(0)
    s = np.repeat([0.5, 2.0], 10_000) * np.exp(0.01 * rng.normal(size=20_000))
    y = rng.normal(size=20_000)
    marginal = quantile_calibration_error(y, (0 * y, s), levels=0.6, marginal=True)
    conditional = quantile_calibration_error(y, (0 * y, s), levels=0.6)
    assert conditional > 3 * marginal


@pytest.mark.parametrize("levels", [0.9, [0.9], np.array([0.9])])
def test_one_level_may_be_a_number_which_netcal_refuses(het100, levels):
    value = quantile_calibration_error(het100.y, (het100.mu, het100.s), levels=levels, marginal=True)
    expected = abs(np.mean(np.abs(het100.y - het100.mu) / het100.s <= stats.norm.ppf(0.95)) - 0.9)
    assert value == pytest.approx(expected, rel=1e-12)


# --------------------------------------------------------------------------------- 7. netcal


def test_constant_sigma_breaks_netcal():
    netcal = load("netcal.metrics")
    y = np.random.default_rng(0).normal(size=200)
    mu, s = np.zeros(200), np.full(200, 2.0)
    with pytest.raises(ValueError):  # noqa: PT011 - the message is numpy's
        netcal.ENCE().measure((mu, s), y)
    ence = expected_normalized_calibration_error(y, (mu, s), strategy="uniform")
    assert ence == pytest.approx(abs(2 - np.sqrt(np.mean(y**2))) / 2, rel=1e-12)
    qce = quantile_calibration_error(y, (mu, s), strategy="uniform")
    assert qce == pytest.approx(quantile_calibration_error(y, (mu, s), marginal=True), rel=1e-12)


def test_bins_of_equal_width_hold_few_rows_and_skuqs_default_does_not():
    """With a skewed sigma most bins of netcal hold a handful of rows, whose chance counts like the rest."""
    netcal = load("netcal.metrics")
    rng = np.random.default_rng(0)
    theirs, ours = [], []
    for _ in range(50):
        s = np.exp(rng.normal(size=200))
        y = s * rng.normal(size=200)
        theirs.append(float(np.squeeze(netcal.ENCE().measure((0 * s, s), y))))
        ours.append(expected_normalized_calibration_error(y, (0 * s, s)))
    assert np.mean(ours) < 0.7 * np.mean(theirs)  # of a forecast that is the truth
    assert np.std(ours) < 0.7 * np.std(theirs)


# --------------------------------------------------------------------------------- 8. netcal


def test_bins_that_netcal_drops_raise_its_error():
    """A bin with too few rows is scored there as if nothing were covered; skuq leaves empty bins out."""
    netcal = load("netcal.metrics")
    rng = np.random.default_rng(0)
    s = np.exp(rng.normal(size=300))
    y = s * rng.normal(size=300)
    scores = [
        float(
            np.squeeze(netcal.QCE(marginal=False, sample_threshold=t).measure((0 * s, s), y, TENTHS)).mean()
        )
        for t in (1, 5, 20)
    ]
    assert scores[0] < scores[1] < scores[2]  # fewer bins, and a larger error each time
    assert quantile_calibration_error(y, (0 * s, s), strategy="uniform") == pytest.approx(
        scores[0], rel=1e-10
    )


def test_empty_bins_count_for_nothing():
    s = np.repeat([1.0, 10.0], 500)
    y = np.tile(stats.norm.ppf((np.arange(500) + 0.5) / 500), 2) * s
    assert quantile_calibration_error(y, (0 * s, s), strategy="uniform") == pytest.approx(0, abs=1e-12)
    assert expected_normalized_calibration_error(y, (0 * s, s), strategy="uniform") < 0.01


# ---------------------------------------------------------------------------------- 9. UQ360


def test_gain_is_relative_to_the_constant_band(forecast):
    """UQ360 divides by the model's own area, which turns a gain of g into g / (1 - g)."""
    y, dist = forecast
    gain = auucc_gain_score(y, dist)
    error = np.abs(y - dist.loc)
    area = dist.scale.mean() * np.mean(error / dist.scale)  # from bandwidth 0 on, not from the first scale
    assert gain == pytest.approx((error.mean() - area) / error.mean(), rel=1e-12)
    assert auucc_gain_score(y, dist, denominator="model") == pytest.approx(gain / (1 - gain), rel=1e-12)


# --------------------------------------------------------------- 10. Navratil et al. (2023) and UQ360


def test_gain_is_a_covariance_and_not_proper():
    """Neither the paper nor UQ360 mentions it: the true sigma gains nothing, its square root does."""
    rng = np.random.default_rng(0)
    sigma = np.exp(rng.normal(size=50_000))
    y = sigma * rng.normal(size=50_000)
    k = np.abs(y) / sigma
    covariance = np.mean(k * sigma) - np.mean(k) * np.mean(sigma)
    gains = {a: auucc_gain_score(y, (0 * y, sigma**a)) for a in (0.0, 0.5, 1.0)}
    assert gains[1.0] == pytest.approx(covariance / np.mean(np.abs(y)), rel=1e-9)
    assert gains[1.0] == pytest.approx(0, abs=0.02)
    assert gains[0.0] == pytest.approx(0, abs=1e-12)
    assert gains[0.5] > 0.1
    assert "not proper" in auucc_gain_score.__doc__


# -------------------------------------------------------------------------------- 11. netcal


def test_recalibrated_moments_do_not_depend_on_where_the_target_lies():
    """netcal loses 2/n of the mass, so that 100 units from zero a standard deviation of 0.5 becomes 14."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=100)
    peer, netcal = load("netcal.regression").IsotonicRegression(), load("netcal")
    inputs = (np.full(100, 100.0), np.full(100, 0.5))
    peer.fit(inputs, 100 + 0.5 * noise)
    points, _, cdf = peer.transform(inputs)
    theirs = np.sqrt(netcal.cumulative_moments(points, cdf)[1])
    assert theirs.min() > 13  # of a standard deviation of 0.5
    here, there = (
        IsotonicRecalibrator(n_knots=None).fit(dist, at + 0.5 * noise).transform(dist)
        for at, dist in ((at, Normal(np.full(100, at), 0.5)) for at in (0.0, 100.0))
    )
    np.testing.assert_allclose(there.std(), here.std(), rtol=1e-9)
    np.testing.assert_allclose(there.mean(), 100 + here.mean(), rtol=1e-12)
    assert 0.3 < here.std()[0] < 0.8
    y = 100 + 0.5 * rng.normal(size=100)
    for metric in (crps_loss, expected_normalized_calibration_error, sharpness):
        assert metric(y, there) == pytest.approx(metric(y - 100, here), rel=1e-8)


# -------------------------------------------------------------------------- 12. scoringrules


def test_weighted_interval_score_of_scoringrules_forgets_the_target():
    """Without numba it adds half the median instead of half its distance from the target."""
    peer = load("scoringrules")
    alpha = np.array([0.1, 0.5])
    bounds = Normal([1.0], [1.0]).interval(1 - alpha)
    theirs = peer.weighted_interval_score(
        np.array([3.0]), np.array([1.0]), bounds[:, 0], bounds[:, 1], alpha, backend="numpy"
    )
    assert float(np.squeeze(theirs)) == pytest.approx(1.073, abs=5e-4)
    interval = [
        upper - lower + 2 / a * max(3.0 - upper, 0)
        for a, lower, upper in zip(alpha, bounds[0, 0], bounds[0, 1], strict=True)
    ]
    truth = (0.5 * abs(3.0 - 1.0) + alpha / 2 @ interval) / 2.5
    assert weighted_interval_score_loss([3.0], ([1.0], [1.0]), coverage=1 - alpha) == pytest.approx(truth)
    assert truth == pytest.approx(1.273, abs=5e-4)


# --------------------------------------------------------- hazards found on the way: bad input


def test_negative_scale_gives_a_plausible_number_elsewhere():
    toolbox, peer = load("uncertainty_toolbox"), load("scoringrules")
    y, mu, s = np.array([0.1, 0.2]), np.zeros(2), np.array([-1.0, 1.0])
    assert np.isfinite(toolbox.crps_gaussian(mu, s, y))
    assert peer.crps_normal(y, mu, s)[0] < 0
    for metric in (crps_loss, nll_loss, pinball_loss, miscalibration_area, coverage_width_loss):
        with pytest.raises(ValueError, match=r"`scale` must be non-negative, got -1\.0 at row 0"):
            metric(y, (mu, s))


def test_nan_targets_count_as_misses_elsewhere(het100):
    toolbox, netcal = load("uncertainty_toolbox"), load("netcal.metrics")
    y = het100.y.copy()
    y[3] = np.nan
    dist = (het100.mu, het100.s)
    assert np.isfinite(toolbox.mean_absolute_calibration_error(*dist, y, vectorized=True))
    assert np.isfinite(netcal.ENCE().measure(dist, y)).all()
    for metric in (
        mean_absolute_calibration_error,
        prediction_interval_coverage,
        expected_normalized_calibration_error,
        quantile_calibration_error,
        miscalibration_area,
    ):
        with pytest.raises(ValueError, match="`y_true` must be finite, got nan at row 3"):
            metric(y, dist)


def test_a_point_forecast_has_a_crps_which_is_nan_elsewhere():
    toolbox, peer = load("uncertainty_toolbox"), load("scoringrules")
    y, mu, s = np.array([1.0, 2.5]), np.array([1.0, 2.0]), np.zeros(2)
    assert np.isnan(peer.crps_normal(y, mu, s)).any()
    assert np.isnan(toolbox.crps_gaussian(mu, s, y))
    assert crps_loss(y, (mu, s)) == pytest.approx(0.25)
