"""Numbers of papers and peers, and the defects of the peers that skuq does not share.

Peers that take seconds to import run with the laws. Their numbers for two small data sets are stored here.
"""

from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from skuq.conformal import prediction_set
from skuq.distributions import Empirical, Normal, StudentT
from skuq.metrics import (
    adversarial_group_calibration_curve,
    calibration_score_loss,
    conditional_set_coverage,
    coverage_width_loss,
    crps_loss,
    expected_calibration_error,
    expected_coverage_probability_error,
    expected_normalized_calibration_error,
    interval_score_loss,
    mean_absolute_calibration_error,
    mean_interval_width,
    mean_set_size,
    miscalibration_area,
    nll_loss,
    pinball_loss,
    prediction_interval_coverage,
    quantile_calibration_error,
    regression_calibration_curve,
    root_mean_squared_calibration_error,
    set_coverage_score,
    sharpness,
    uncertainty_calibration_error,
    weighted_interval_score_loss,
)
from skuq.recalibration import IsotonicRecalibrator
from tests.metrics.peers import load

UT_LEVELS = np.linspace(0, 1, 100)
PERCENT = np.arange(1, 100) / 100
TENTHS = np.arange(1, 10) / 10
mace, qce = mean_absolute_calibration_error, quantile_calibration_error

pytestmark = [
    pytest.mark.usefixtures("few_rows"),
    # what the peers themselves do under a new numpy or scipy
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning"),
]


def equal(value, expected):
    assert value == pytest.approx(expected, rel=1e-10, abs=1e-14)


def number(value):
    return float(np.squeeze(value))


@pytest.fixture(params=["het100", "forecast", "small", "far"])
def case(request, het100, forecast):
    """Targets, means and standard deviations: well specified, wrong in scale, three rows, biased by 1e6."""
    rng = np.random.default_rng(7)
    y, dist = forecast
    return {
        "het100": (het100.y, het100.mu, het100.s),
        "forecast": (y, dist.loc, dist.scale),
        "small": (np.array([1.5, 3.0, 2.0]), np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.5, 1.0])),
        "far": (1e6 + rng.normal(size=300), 1e6 + rng.normal(size=300), 0.2 + rng.random(300)),
    }[request.param]


# ------------------------------------------------------------------------------- stored numbers


def test_values_of_the_reference_runs(het100):
    """Values of reference runs on het100; those on real data are in test_wibbeke_2025_miscalibration.py."""
    y, dist, fifths = het100.y, Normal(het100.mu, het100.s), np.linspace(0, 1, 6)
    interval = {"kind": "interval"}
    for metric, options, expected in (
        (crps_loss, {}, 0.529822),
        (nll_loss, {}, 1.283381),
        (pinball_loss, {"levels": TENTHS}, 0.288766),
        (interval_score_loss, {"coverage": 0.95}, 5.201693),
        (interval_score_loss, {"coverage": PERCENT}, 2.673036),
        (mace, {}, 0.059293),
        (mace, {"levels": UT_LEVELS, **interval}, 0.042336),
        (mace, {"levels": UT_LEVELS}, 0.057808),
        (mace, {"levels": TENTHS, **interval}, 0.043333),
        (mace, {"levels": fifths, **interval}, 0.031667),
        (sharpness, {"kind": "rms"}, 0.881711),
        (expected_normalized_calibration_error, {}, 0.173505),
        (expected_normalized_calibration_error, {"strategy": "uniform"}, 0.162956),
        (calibration_score_loss, {"levels": fifths, "reduction": "mean", **interval}, 0.002150),
        (calibration_score_loss, {}, 0.056300),
        (root_mean_squared_calibration_error, {"levels": 9}, 0.079092),
        (coverage_width_loss, {"coverage": 0.95}, 2.286177),
        (qce, {"marginal": True}, 0.043333),
        (expected_coverage_probability_error, {"levels": 9}, 0.043333),
        (uncertainty_calibration_error, {}, 0.342070),
        (uncertainty_calibration_error, {"strategy": "quantile"}, 0.313718),
        (miscalibration_area, {}, 0.058680),
    ):
        assert metric(y, dist, **options) == pytest.approx(expected, abs=5e-7), (metric.__name__, options)
    assert 2 * pinball_loss(y, dist) == pytest.approx(0.535029, abs=5e-7)


def test_three_row_values_of_uncertainty_toolbox():
    y, dist = [1.5, 3.0, 2.0], Normal([1.0, 2.0, 3.0], [0.1, 0.5, 1.0])
    for metric, options, expected in (
        (nll_loss, {}, 4.920361108686675),
        (pinball_loss, {}, 0.29801437323836477),
        (interval_score_loss, {"coverage": PERCENT}, 3.20755700861995),
        (mace, {"kind": "interval", "levels": UT_LEVELS}, 0.3733333333333335),
        (mace, {"levels": UT_LEVELS}, 0.23757575757575758),
        (sharpness, {"kind": "rms"}, 0.648074069840786),
    ):
        assert metric(y, dist, **options) == pytest.approx(expected, abs=1e-12), metric.__name__
    assert crps_loss(y, dist) == pytest.approx(0.59080610693, abs=1e-10)
    levels = [0, 0.25, 0.5, 0.75, 1]
    inside = regression_calibration_curve(y, dist, kind="interval", levels=levels).observed
    np.testing.assert_allclose(inside, [0, 0, 0, 1 / 3, 1])
    below = regression_calibration_curve(y, dist, levels=levels).observed
    # The curve is not mirrored. The test of the peer fixes 0, 2/3, 2/3, 2/3, 1.
    np.testing.assert_allclose(below, [0, 1 / 3, 1 / 3, 1 / 3, 1])


def ground_truth(seed):
    """Return the test targets of section 4 of Chung et al. (2021), third draw, and their distribution."""
    rng = np.random.RandomState(seed)
    for n in (200, 100, 100):
        x = rng.uniform(-10, 10, n)
        mean = np.sin(x / 2) + x * np.cos(0.8 * x)
        noise = np.select([x < -5, x < 0, x < 5], [1.0, 0.01, 1.5], 0.5)
        y = mean + noise * rng.randn(n)
    return y, Normal(mean, noise)


def row_of_chung(seed):
    """Return RMSE, MAE, ECE, sharpness, NLL, CRPS, check and interval score, as they were printed.

    ECE is that of central intervals at 100 levels from 0 to 1, sharpness the root mean square.
    """
    y, dist = ground_truth(seed)
    return [
        root_mean_squared_error(y, dist.loc),
        mean_absolute_error(y, dist.loc),
        mace(y, dist, levels=UT_LEVELS, kind="interval"),
        sharpness(y, dist, kind="rms"),
        nll_loss(y, dist),
        crps_loss(y, dist),
        pinball_loss(y, dist),
        interval_score_loss(y, dist, coverage=PERCENT),
    ]


def test_the_ground_truth_rows_of_tables_1_and_2_of_chung_et_al():
    rows = np.array([row_of_chung(seed) for seed in range(5)])
    assert rows[0].round(3).tolist() == [0.824, 0.530, 0.013, 0.831, -0.083, 0.370, 0.187, 1.758]
    table_2 = [0.962, 0.618, 0.019, 0.925, 0.187, 0.435, 0.219, 2.122]
    assert rows.mean(axis=0).round(3).tolist() == table_2
    errors = rows.std(axis=0, ddof=1) / np.sqrt(5)
    assert errors.round(3).tolist() == [0.064, 0.042, 0.002, 0.052, 0.115, 0.033, 0.017, 0.177]
    # The text has one-sided quantiles at 99 levels, and sharpness as the mean.
    worlds = [ground_truth(seed) for seed in range(5)]
    assert round(np.mean([sharpness(y, dist) for y, dist in worlds]), 3) == 0.748
    assert round(np.mean([mace(y, dist) for y, dist in worlds]), 3) == 0.021


# ------------------------------------------------------------------------- Uncertainty Toolbox


@pytest.fixture(scope="module")
def toolbox():
    return load("uncertainty_toolbox")


@pytest.mark.laws
@pytest.mark.parametrize("kind", ["interval", "quantile"])
def test_average_calibration_of_uncertainty_toolbox(toolbox, case, kind):
    y, mu, s = case
    ours, theirs = {"levels": UT_LEVELS, "kind": kind}, {"vectorized": True, "prop_type": kind}
    for metric in (mace, root_mean_squared_calibration_error):
        equal(metric(y, Normal(mu, s), **ours), getattr(toolbox, metric.__name__)(mu, s, y, **theirs))
    equal(miscalibration_area(y, Normal(mu, s), **ours), toolbox.miscalibration_area(mu, s, y, **theirs))
    if kind == "interval":
        levels, observed = toolbox.get_proportion_lists_vectorized(mu, s, y, prop_type=kind)
        ours = regression_calibration_curve(y, Normal(mu, s), levels=levels, kind=kind).observed
        np.testing.assert_allclose(ours, observed, atol=1e-12)
        equal(
            expected_coverage_probability_error(y, Normal(mu, s), levels=levels),
            toolbox.mean_absolute_calibration_error(mu, s, y, **theirs),
        )


@pytest.mark.laws
def test_scores_of_uncertainty_toolbox_and_netcal(toolbox, netcal, case):
    y, mu, s = case
    equal(nll_loss(y, Normal(mu, s)), toolbox.nll_gaussian(mu, s, y))
    equal(crps_loss(y, Normal(mu, s)), toolbox.crps_gaussian(mu, s, y))
    equal(pinball_loss(y, Normal(mu, s)), toolbox.check_score(mu, s, y))
    equal(interval_score_loss(y, Normal(mu, s), coverage=PERCENT), toolbox.interval_score(mu, s, y))
    equal(sharpness(y, Normal(mu, s), kind="rms"), toolbox.sharpness(s))
    equal(nll_loss(y, Normal(mu, s)), number(netcal.NLL().measure((mu, s), y)))
    for coverage in (0.5, 0.95):
        result = netcal.PICP().measure((mu, s), y, np.array([coverage]), reduction="none")
        equal(prediction_interval_coverage(y, Normal(mu, s), coverage=coverage), number(result.picp))
        equal(mean_interval_width(y, Normal(mu, s), coverage=coverage), number(result.mpiw))


@pytest.mark.laws
@pytest.mark.parametrize(
    ("cali_type", "error", "replace"),
    [("root_mean_sq", "rmsce", False), ("mean_abs", "mace", True)],
)
def test_adversarial_groups_have_uncertainty_toolboxs_distribution(
    toolbox, het100, monkeypatch, cali_type, error, replace
):
    """The groups are random, so means over many trials are compared, in standard errors."""
    y, mu, s = het100.y, het100.mu, het100.s
    monkeypatch.setattr(np.random, "choice", np.random.RandomState(0).choice)
    sizes = {"num_group_bins": 4, "num_trials": 150, "num_group_draws": 5}
    theirs = toolbox.adversarial_group_calibration(
        mu, s, y, cali_type, draw_with_replacement=replace, **sizes
    )
    options = {"fractions": np.linspace(0, 1, 4), "levels": UT_LEVELS, "kind": "interval", "n_groups": 5}
    options |= {"n_resamples": 150, "random_state": 0, "replace": replace, "error": error}
    curve = adversarial_group_calibration_curve(y, Normal(mu, s), **options)
    np.testing.assert_array_equal(curve.fractions, theirs.group_size)
    worst = curve.worst
    spread = np.sqrt((worst.var(axis=1, ddof=1) + theirs.score_stderr**2) / 150)
    assert (np.abs(worst.mean(axis=1) - theirs.score_mean) <= 4 * spread + 1e-12).all()
    np.testing.assert_allclose(worst.std(axis=1, ddof=1), theirs.score_stderr, rtol=0.25, atol=1e-12)


@pytest.mark.laws
def test_the_quantile_curve_of_uncertainty_toolbox_is_mirrored(toolbox):
    """Targets one standard deviation above a forecast: 16 % lie below its median."""
    y, mu, s = np.random.default_rng(0).normal(size=4000), np.full(4000, -1.0), np.ones(4000)
    levels, theirs = toolbox.get_proportion_lists_vectorized(mu, s, y, prop_type="quantile")
    ours = regression_calibration_curve(y, Normal(mu, s), levels=levels).observed
    truth = np.array([np.mean(y <= stats.norm.ppf(p, mu, s)) for p in levels])
    np.testing.assert_allclose(ours, truth, atol=1e-12)
    np.testing.assert_allclose(theirs, 1 - truth[::-1], atol=1e-12)  # of the quantile at 1 - p, from above
    assert np.abs(theirs - truth).max() > 0.3
    # A recalibration by the mirrored curve makes a biased forecast worse.
    theirs = load("uncertainty_toolbox.recalibration").get_quantile_recalibrator(mu, s, y)
    assert np.mean(y <= theirs(mu, s, 0.5)) < 0.05 < stats.norm.cdf(-1)
    ours = IsotonicRecalibrator().fit(Normal(mu, s), y).transform(Normal(mu, s))
    for level in (0.1, 0.5, 0.9):
        assert np.mean(y <= ours.quantile(level)) == pytest.approx(level, abs=0.02)


# ----------------------------------------------------------------------------------- level grids


def test_levels_that_cannot_err_shrink_the_error(het100):
    """Levels 0 and 1 come true for any forecast; no default of skuq holds them.

    Of the six levels in the code of Wibbeke et al. two cannot err, and its sum became a mean.
    """
    y, dist, ecpe = het100.y, Normal(het100.mu, het100.s), expected_coverage_probability_error
    mean = partial(calibration_score_loss, reduction="mean")
    for metric, n, shrinks in ((ecpe, 100, 0.98), (ecpe, 10, 0.8), (mean, 6, 4 / 6)):
        grid = np.linspace(0, 1, n)
        with_ends, without = (metric(y, dist, levels=levels) for levels in (grid, grid[1:-1]))
        assert with_ends == pytest.approx(shrinks * without, rel=1e-12)
    for metric in (ecpe, mace):
        assert metric(y, dist) == metric(y, dist, levels=PERCENT)


# ------------------------------------------------------------------------------------- netcal


@pytest.fixture(scope="module")
def netcal():
    return load("netcal.metrics")


@pytest.mark.laws
def test_binned_calibration_of_netcal(netcal, case):
    y, mu, s = case
    ence = expected_normalized_calibration_error(y, Normal(mu, s), strategy="uniform")
    equal(ence, number(netcal.ENCE().measure((mu, s), y)))
    for n_bins in (3, 10, 15):
        theirs = number(netcal.UCE(bins=n_bins).measure((mu, s), y))
        equal(uncertainty_calibration_error(y, Normal(mu, s), n_bins=n_bins), theirs)
    for marginal in (False, True):
        theirs, options = netcal.QCE(marginal=marginal), {"strategy": "uniform", "marginal": marginal}
        equal(qce(y, Normal(mu, s), **options), theirs.measure((mu, s), y, TENTHS, reduction="mean"))
        each = np.squeeze(theirs.measure((mu, s), y, TENTHS, reduction="none"))
        for level, expected in zip(TENTHS, each, strict=True):
            equal(qce(y, Normal(mu, s), levels=level, **options), expected)


def test_the_pinball_loss_is_that_of_its_definition(het100):
    """netcal's, .0704 and .1322 here, is the distance to the nearest bound of a central interval."""
    y, dist = het100.y, Normal(het100.mu, het100.s)
    for level, expected in ((0.1, 0.1466), (0.9, 0.1815)):
        error = y - stats.norm.ppf(level, dist.loc, dist.scale)
        truth = np.mean(np.maximum(level * error, (level - 1) * error))
        assert truth == pytest.approx(expected, abs=5e-5)
        assert pinball_loss(y, dist, levels=level) == pytest.approx(truth, rel=1e-12)


@pytest.mark.laws
def test_the_defects_of_netcal(netcal, het100):
    y, dist, moments = het100.y, Normal(het100.mu, het100.s), (het100.mu, het100.s)
    for level, wrong in ((0.1, 0.07045), (0.9, 0.1322)):
        theirs = number(netcal.PinballLoss().measure(moments, y, np.array([level])))
        assert theirs == pytest.approx(wrong, abs=5e-5)
    # Its quantile calibration has no bins by default. So the QCE of Wibbeke et al. (2025) is its ECPE under
    # another name; skuq takes the equations.
    theirs = netcal.QCE().measure(moments, y, TENTHS, reduction="mean")
    assert theirs == pytest.approx(expected_coverage_probability_error(y, dist, levels=9), rel=1e-12)
    assert qce(y, dist, marginal=True) == pytest.approx(theirs, rel=1e-12)
    assert qce(y, dist) > 2 * theirs
    rng = np.random.default_rng(0)
    # A constant sigma breaks it.
    with pytest.raises(ValueError):  # noqa: PT011 - the message is numpy's
        netcal.ENCE().measure((np.zeros(200), np.full(200, 2.0)), rng.normal(size=200))
    # With a skewed sigma most bins hold a handful of rows, whose chance counts like the rest.
    theirs, ours = [], []
    for _ in range(50):
        s = np.exp(rng.normal(size=200))
        y = s * rng.normal(size=200)
        theirs.append(number(netcal.ENCE().measure((0 * s, s), y)))
        ours.append(expected_normalized_calibration_error(y, Normal(0 * s, s)))
    assert np.mean(ours) < 0.7 * np.mean(theirs)  # of a forecast that is the truth
    assert np.std(ours) < 0.7 * np.std(theirs)
    # A bin with too few rows is scored as if nothing were covered; skuq leaves empty bins out.
    rng = np.random.default_rng(0)
    s = np.exp(rng.normal(size=300))
    y = s * rng.normal(size=300)
    peers = (netcal.QCE(marginal=False, sample_threshold=t) for t in (1, 5, 20))
    scores = [np.squeeze(peer.measure((0 * s, s), y, TENTHS)).mean() for peer in peers]
    assert scores[0] < scores[1] < scores[2]  # fewer bins, and a larger error each time
    assert qce(y, Normal(0 * s, s), strategy="uniform") == pytest.approx(scores[0], rel=1e-10)


def test_quantile_calibration_detects_errors_that_balance_out_and_ignores_empty_bins():
    """Half the rows too narrow and half too wide: right on average, wrong everywhere."""
    rng = np.random.default_rng(0)
    s = np.repeat([0.5, 2.0], 10_000) * np.exp(0.01 * rng.normal(size=20_000))
    y = rng.normal(size=20_000)
    assert qce(y, Normal(0 * y, s), levels=0.6) > 3 * qce(y, Normal(0 * y, s), levels=0.6, marginal=True)
    s = np.repeat([1.0, 10.0], 500)
    y = np.tile(stats.norm.ppf((np.arange(500) + 0.5) / 500), 2) * s
    assert qce(y, Normal(0 * s, s), strategy="uniform") == pytest.approx(0, abs=1e-12)
    assert expected_normalized_calibration_error(y, Normal(0 * s, s), strategy="uniform") < 0.01


# --------------------------------------------------------------- scoringrules and properscoring


def test_scores_of_scoringrules(case):
    peer = load("scoringrules")
    y, mu, s = case
    equal(crps_loss(y, Normal(mu, s)), peer.crps_normal(y, mu, s).mean())
    equal(crps_loss(y, StudentT(mu, s, df=5.0)), peer.crps_t(y, 5.0, mu, s).mean())
    equal(nll_loss(y, Normal(mu, s)), peer.logs_normal(y, mu, s).mean())
    quantiles = Normal(mu, s).quantile(PERCENT)
    equal(2 * pinball_loss(y, Normal(mu, s)), peer.crps_quantile(y, quantiles, PERCENT).mean())
    for coverage in (0.5, 0.8, 0.9):
        bounds = Normal(mu, s).interval(coverage)
        expected = peer.interval_score(y, bounds[:, 0], bounds[:, 1], 1 - coverage).mean()
        equal(interval_score_loss(y, Normal(mu, s), coverage=coverage), expected)
        equal(interval_score_loss(y, bounds, coverage=coverage), expected)


def test_weighted_interval_score_of_scoringrules():
    """Equal where the median and the target are 0.

    Without numba it adds half the median instead of half its distance from the target.
    """
    peer = load("scoringrules")
    s = 0.5 + np.random.default_rng(0).random(50)
    alpha = np.array([0.1, 0.2, 0.5])
    bounds = Normal(np.zeros(50), s).interval(1 - alpha)
    theirs = peer.weighted_interval_score(np.zeros(50), np.zeros(50), bounds[:, 0], bounds[:, 1], alpha)
    equal(
        weighted_interval_score_loss(np.zeros(50), Normal(np.zeros(50), s), coverage=1 - alpha), theirs.mean()
    )
    alpha = np.array([0.1, 0.5])
    bounds = Normal([1.0], [1.0]).interval(1 - alpha)
    theirs = peer.weighted_interval_score(
        np.array([3.0]), np.array([1.0]), bounds[:, 0], bounds[:, 1], alpha, backend="numpy"
    )
    assert number(theirs) == pytest.approx(1.073, abs=5e-4)
    interval = [
        upper - lower + 2 / a * max(3.0 - upper, 0)
        for a, lower, upper in zip(alpha, bounds[0, 0], bounds[0, 1], strict=True)
    ]
    truth = (0.5 * abs(3.0 - 1.0) + alpha / 2 @ interval) / 2.5
    assert weighted_interval_score_loss([3.0], Normal([1.0], [1.0]), coverage=1 - alpha) == pytest.approx(
        truth
    )
    assert truth == pytest.approx(1.273, abs=5e-4)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("nrg", "nrg"), ("nrg", "qd"), ("fair", "fair"), ("fair", "pwm")]
)
def test_ensembles_of_scoringrules(ours, theirs):
    peer = load("scoringrules")
    rng = np.random.default_rng(0)
    members, y = rng.normal(size=(40, 23)), rng.normal(size=40)
    members[3] = 0.5  # all members tied
    expected = peer.crps_ensemble(y, members, estimator=theirs).mean()
    equal(crps_loss(y, Empirical(members), crps_estimator=ours), expected)


def test_scores_of_properscoring(case):
    peer = load("properscoring")
    y, mu, s = case
    equal(crps_loss(y, Normal(mu, s)), peer.crps_gaussian(y, mu, s).mean())
    rng = np.random.default_rng(0)
    members, weights = mu[:, np.newaxis] + rng.normal(size=(y.size, 11)), rng.random((y.size, 11))
    equal(crps_loss(y, Empirical(members)), peer.crps_ensemble(y, members).mean())
    expected = peer.crps_ensemble(y, members, weights=weights).mean()
    equal(crps_loss(y, Empirical(members, weights=weights)), expected)


@pytest.mark.laws
def test_bad_input_has_a_plausible_number_elsewhere(toolbox, netcal, het100):
    """skuq refuses negative scales and NaN, and gives point forecasts a CRPS: see test_inputs.py."""
    peer = load("scoringrules")
    y, mu, s = np.array([0.1, 0.2]), np.zeros(2), np.array([-1.0, 1.0])
    assert np.isfinite(toolbox.crps_gaussian(mu, s, y))
    assert peer.crps_normal(y, mu, s)[0] < 0
    y, mu, s = np.array([1.0, 2.5]), np.array([1.0, 2.0]), np.zeros(2)
    assert np.isnan(peer.crps_normal(y, mu, s)).any()
    assert np.isnan(toolbox.crps_gaussian(mu, s, y))
    assert crps_loss(y, Normal(mu, s)) == pytest.approx(0.25)
    y, dist = het100.y.copy(), (het100.mu, het100.s)
    y[3] = np.nan
    assert np.isfinite(toolbox.mean_absolute_calibration_error(*dist, y, vectorized=True))
    assert np.isfinite(netcal.ENCE().measure(dist, y)).all()


# -------------------------------------------------------------------------------------- MAPIE


@pytest.mark.laws
def test_interval_metrics_of_mapie(case):
    peer = load("mapie.metrics.regression")
    y, mu, s = case
    bounds = Normal(mu, s).interval(0.9)
    equal(interval_score_loss(y, bounds), peer.regression_mwi_score(y, bounds[:, :, np.newaxis], 0.9))
    equal(prediction_interval_coverage(y, bounds), peer.regression_coverage_score(y, bounds)[0])
    equal(mean_interval_width(y, bounds), peer.regression_mean_width_score(bounds[:, :, np.newaxis])[0])
    for coverage, eta in ((0.9, 30.0), (0.5, 1.0), (0.9, -2.0), (0.8, 0.0)):
        bounds = Normal(mu, s).interval(coverage)
        expected = peer.coverage_width_based(y, bounds[:, 0], bounds[:, 1], eta, coverage)
        equal(coverage_width_loss(y, bounds, coverage=coverage, eta=eta, formula="mapie"), -expected)


@pytest.mark.laws
def test_metrics_of_classes_of_netcal_and_mapie(netcal):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(5), size=2000)
    y, sets = (proba.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1), prediction_set(proba, 0.8)
    equal(expected_calibration_error(y, proba), netcal.ECE(15).measure(proba, y))
    peer, stacked = load("mapie.metrics.classification"), sets[:, :, np.newaxis]
    equal(set_coverage_score(y, sets), peer.classification_coverage_score(y, stacked)[0])
    equal(mean_set_size(y, sets), peer.classification_mean_width_score(stacked)[0])
    by_size = conditional_set_coverage(y, sets, by="size", coverage=0.8)
    equal(by_size["coverage"].min(), peer.classification_ssc_score(y, stacked)[0])
    # Its calibration error is another: it takes whether the prediction is correct in place of labels, and its
    # bins are closed below.
    peer = load("mapie.metrics.calibration")
    correct, top = (proba.argmax(axis=1) == y).astype(int), proba.max(axis=1)
    theirs = peer.expected_calibration_error(correct, top, num_bins=15, split_strategy="uniform")
    assert abs(theirs - expected_calibration_error(y, proba)) > 1e-3
