"""The numbers of the peers, under the documented options, wherever the definition is the same."""

import warnings

import numpy as np
import pytest
from scipy import stats

from skuq.distributions import Empirical, Normal
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import (
    adversarial_group_calibration_curve,
    adversarial_group_calibration_error,
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
from skuq.prediction import prediction_set
from tests.metrics.peers import load

UT_LEVELS = np.linspace(0, 1, 100)
PERCENT = np.arange(1, 100) / 100
TENTHS = np.arange(1, 10) / 10

pytestmark = [
    pytest.mark.usefixtures("few_rows"),
    # what the peers themselves do under a new numpy or scipy
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning"),
]


def equal(value, expected):
    assert value == pytest.approx(expected, rel=1e-10, abs=1e-14)


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


# ------------------------------------------------------------------------- Uncertainty Toolbox


@pytest.fixture
def toolbox():
    return load("uncertainty_toolbox")


@pytest.mark.parametrize("kind", ["interval", "quantile"])
def test_average_calibration_of_uncertainty_toolbox(toolbox, case, kind):
    y, mu, s = case
    ours = {"levels": UT_LEVELS, "kind": kind}
    theirs = {"vectorized": True, "prop_type": kind}
    equal(
        mean_absolute_calibration_error(y, (mu, s), **ours),
        toolbox.mean_absolute_calibration_error(mu, s, y, **theirs),
    )
    equal(
        root_mean_squared_calibration_error(y, (mu, s), **ours),
        toolbox.root_mean_squared_calibration_error(mu, s, y, **theirs),
    )
    equal(miscalibration_area(y, (mu, s), **ours), toolbox.miscalibration_area(mu, s, y, **theirs))
    if kind == "interval":
        levels, observed = toolbox.get_proportion_lists_vectorized(mu, s, y, prop_type=kind)
        ours = regression_calibration_curve(y, (mu, s), levels=levels, kind=kind).observed
        np.testing.assert_allclose(ours, observed, atol=1e-12)
        equal(
            expected_coverage_probability_error(y, (mu, s), levels=levels),
            toolbox.mean_absolute_calibration_error(mu, s, y, **theirs),
        )


def test_scores_of_uncertainty_toolbox(toolbox, case):
    y, mu, s = case
    equal(nll_loss(y, (mu, s)), toolbox.nll_gaussian(mu, s, y))
    equal(crps_loss(y, (mu, s)), toolbox.crps_gaussian(mu, s, y))
    equal(pinball_loss(y, (mu, s)), toolbox.check_score(mu, s, y))
    equal(interval_score_loss(y, (mu, s), coverage=PERCENT), toolbox.interval_score(mu, s, y))
    equal(sharpness(y, (mu, s), kind="rms"), toolbox.sharpness(s))


def test_adversarial_groups_of_all_rows_are_uncertainty_toolboxs(toolbox, case):
    y, mu, s = case
    theirs = toolbox.adversarial_group_calibration(mu, s, y, cali_type="mean_abs", num_trials=2)
    curve = adversarial_group_calibration_curve(
        y, (mu, s), fractions=[1.0], levels=UT_LEVELS, kind="interval", n_trials=2, random_state=0
    )
    np.testing.assert_allclose(curve.worst, theirs.score_mean[-1], rtol=1e-10)


@pytest.mark.parametrize(
    ("cali_type", "error", "replace"),
    [("root_mean_sq", "rmsce", False), ("mean_abs", "mace", True)],
)
def test_adversarial_groups_have_uncertainty_toolboxs_distribution(
    toolbox, het100, monkeypatch, cali_type, error, replace
):
    """The groups are random, so means over many trials are compared, in standard errors."""
    state = np.random.RandomState(0)
    monkeypatch.setattr(np.random, "choice", state.choice)
    options = {"num_group_bins": 4, "num_trials": 150, "num_group_draws": 5}
    theirs = toolbox.adversarial_group_calibration(
        het100.mu, het100.s, het100.y, cali_type, draw_with_replacement=replace, **options
    )
    curve = adversarial_group_calibration_curve(
        het100.y,
        (het100.mu, het100.s),
        fractions=np.linspace(0, 1, 4),
        levels=UT_LEVELS,
        kind="interval",
        error=error,
        n_groups=5,
        n_trials=150,
        random_state=0,
        replace=replace,
    )
    np.testing.assert_array_equal(curve.fractions, theirs.group_size)
    worst = curve.worst
    spread = np.sqrt((worst.var(axis=1, ddof=1) + theirs.score_stderr**2) / 150)
    assert (np.abs(worst.mean(axis=1) - theirs.score_mean) <= 4 * spread + 1e-12).all()
    np.testing.assert_allclose(worst.std(axis=1, ddof=1), theirs.score_stderr, rtol=0.25, atol=1e-12)


# ------------------------------------------------------------------------------------- netcal


@pytest.fixture
def netcal():
    return load("netcal.metrics")


def test_binned_calibration_of_netcal(netcal, case):
    y, mu, s = case
    dist = (mu, s)
    equal(
        expected_normalized_calibration_error(y, dist, strategy="uniform"),
        float(netcal.ENCE().measure((mu, s), y).squeeze()),
    )
    equal(uncertainty_calibration_error(y, dist), float(np.squeeze(netcal.UCE().measure((mu, s), y))))
    for n_bins in (3, 15):
        equal(
            uncertainty_calibration_error(y, dist, n_bins=n_bins),
            float(np.squeeze(netcal.UCE(bins=n_bins).measure((mu, s), y))),
        )


@pytest.mark.parametrize("marginal", [False, True])
def test_quantile_calibration_of_netcal(netcal, case, marginal):
    y, mu, s = case
    theirs = netcal.QCE(marginal=marginal)
    ours = quantile_calibration_error(y, (mu, s), strategy="uniform", marginal=marginal)
    equal(ours, theirs.measure((mu, s), y, TENTHS, reduction="mean"))
    each = np.squeeze(theirs.measure((mu, s), y, TENTHS, reduction="none"))
    for level, expected in zip(TENTHS, each, strict=True):
        equal(
            quantile_calibration_error(y, (mu, s), levels=level, strategy="uniform", marginal=marginal),
            expected,
        )


def test_coverage_and_log_score_of_netcal(netcal, case):
    y, mu, s = case
    for coverage in (0.5, 0.95):
        result = netcal.PICP().measure((mu, s), y, np.array([coverage]), reduction="none")
        equal(prediction_interval_coverage(y, (mu, s), coverage=coverage), float(np.squeeze(result.picp)))
        equal(mean_interval_width(y, (mu, s), coverage=coverage), float(np.squeeze(result.mpiw)))
    equal(nll_loss(y, (mu, s)), float(np.squeeze(netcal.NLL().measure((mu, s), y))))


# --------------------------------------------------------------- scoringrules and properscoring


def test_scores_of_scoringrules(case):
    peer = load("scoringrules")
    y, mu, s = case
    equal(crps_loss(y, (mu, s)), peer.crps_normal(y, mu, s).mean())
    equal(nll_loss(y, (mu, s)), peer.logs_normal(y, mu, s).mean())
    quantiles = Normal(mu, s).quantile(PERCENT)
    equal(2 * pinball_loss(y, (mu, s)), peer.crps_quantile(y, quantiles, PERCENT).mean())
    lower, upper = Normal(mu, s).interval(0.8).T
    equal(interval_score_loss(y, (mu, s), coverage=0.8), peer.interval_score(y, lower, upper, 1 - 0.8).mean())


def test_weighted_interval_score_of_scoringrules_where_the_median_is_right():
    """Equal where the median and the target are 0, which hides its defect (see test_defects.py)."""
    peer = load("scoringrules")
    rng = np.random.default_rng(0)
    s = 0.5 + rng.random(50)
    alpha = np.array([0.1, 0.2, 0.5])
    bounds = Normal(np.zeros(50), s).interval(1 - alpha)
    theirs = peer.weighted_interval_score(np.zeros(50), np.zeros(50), bounds[:, 0], bounds[:, 1], alpha)
    ours = weighted_interval_score_loss(np.zeros(50), (np.zeros(50), s), coverage=1 - alpha)
    equal(ours, theirs.mean())


@pytest.mark.parametrize(
    ("ours", "theirs"), [("nrg", "nrg"), ("nrg", "qd"), ("fair", "fair"), ("fair", "pwm")]
)
def test_ensembles_of_scoringrules(ours, theirs):
    peer = load("scoringrules")
    rng = np.random.default_rng(0)
    members, y = rng.normal(size=(40, 23)), rng.normal(size=40)
    members[3] = 0.5  # all members tied
    expected = peer.crps_ensemble(y, members, estimator=theirs).mean()
    equal(crps_loss(y, Empirical(members), estimator=ours), expected)


def test_scores_of_properscoring(case):
    peer = load("properscoring")
    y, mu, s = case
    equal(crps_loss(y, (mu, s)), peer.crps_gaussian(y, mu, s).mean())
    rng = np.random.default_rng(0)
    members, weights = mu[:, np.newaxis] + rng.normal(size=(y.size, 11)), rng.random((y.size, 11))
    equal(crps_loss(y, Empirical(members)), peer.crps_ensemble(y, members).mean())
    equal(
        crps_loss(y, Empirical(members, weights=weights)),
        peer.crps_ensemble(y, members, weights=weights).mean(),
    )


# -------------------------------------------------------------------------------------- MAPIE


@pytest.mark.parametrize(("coverage", "eta"), [(0.9, 30.0), (0.5, 1.0), (0.9, -2.0), (0.8, 0.0)])
def test_coverage_width_criterion_of_mapie(case, coverage, eta):
    peer = load("mapie.metrics.regression")
    y, mu, s = case
    bounds = Normal(mu, s).interval(coverage)
    expected = peer.coverage_width_based(y, bounds[:, 0], bounds[:, 1], eta, coverage)
    equal(coverage_width_loss(y, bounds, coverage=coverage, eta=eta, formula="mapie"), -expected)


def test_interval_metrics_of_mapie(case):
    peer = load("mapie.metrics.regression")
    y, mu, s = case
    bounds = Normal(mu, s).interval(0.9)
    equal(interval_score_loss(y, bounds), peer.regression_mwi_score(y, bounds[:, :, np.newaxis], 0.9))
    equal(prediction_interval_coverage(y, bounds), peer.regression_coverage_score(y, bounds)[0])
    equal(mean_interval_width(y, bounds), peer.regression_mean_width_score(bounds[:, :, np.newaxis])[0])


# ----------------------------------------------------------------------- the code of Wibbeke et al. (2025)


def test_values_of_the_code_of_wibbeke_et_al(het100):
    """Values of reference runs on het100; those on real data are in test_wibbeke_2025_miscalibration.py."""
    y, dist = het100.y, (het100.mu, het100.s)
    fifths = np.linspace(0, 1, 6)
    assert calibration_score_loss(y, dist, levels=fifths, kind="interval", reduction="mean") == pytest.approx(
        0.002150, abs=5e-7
    )
    assert calibration_score_loss(y, dist) == pytest.approx(0.056300, abs=5e-7)
    assert root_mean_squared_calibration_error(y, dist, levels=9) == pytest.approx(0.079092, abs=5e-7)
    assert coverage_width_loss(y, dist, coverage=0.95) == pytest.approx(2.286177, abs=5e-7)
    assert quantile_calibration_error(y, dist, marginal=True) == pytest.approx(0.043333, abs=5e-7)
    assert expected_coverage_probability_error(y, dist, levels=9) == pytest.approx(0.043333, abs=5e-7)
    assert uncertainty_calibration_error(y, dist) == pytest.approx(0.342070, abs=5e-7)
    assert uncertainty_calibration_error(y, dist, strategy="quantile") == pytest.approx(0.313718, abs=5e-7)
    assert miscalibration_area(y, dist) == pytest.approx(0.058680, abs=5e-7)


def test_warnings_of_small_samples_are_all_that_is_silenced(het100):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        adversarial_group_calibration_error(het100.y, (het100.mu, het100.s))
    assert {warning.category for warning in caught} == {SmallSampleWarning}


def test_binned_statistic_of_scipy(forecast):
    y, dist = forecast
    variance = dist.scale**2
    columns = (variance, (y - dist.loc) ** 2)
    mv, mse = (stats.binned_statistic(variance, column, bins=10)[0] for column in columns)
    n = np.histogram(variance, bins=10)[0]
    expected = np.nansum(n / n.sum() * np.abs(mv - mse))
    equal(uncertainty_calibration_error(y, dist), expected)


# -------------------------------------------------------------------------------- metrics of classes


@pytest.fixture
def classes():
    """Labels, probabilities of five classes and their sets."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(5), size=2000)
    return (proba.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1), proba, prediction_set(proba, 0.8)


def test_the_calibration_error_of_netcal(netcal, classes):
    y, proba, _ = classes
    equal(expected_calibration_error(y, proba), netcal.ECE(15).measure(proba, y))


def test_coverage_and_size_of_mapie(classes):
    peer, (y, _, sets) = load("mapie.metrics.classification"), classes
    stacked = sets[:, :, np.newaxis]
    equal(set_coverage_score(y, sets), peer.classification_coverage_score(y, stacked)[0])
    equal(mean_set_size(y, sets), peer.classification_mean_width_score(stacked)[0])


def test_size_stratified_coverage_of_mapie_is_the_least_by_size(classes):
    peer, (y, _, sets) = load("mapie.metrics.classification"), classes
    by_size = conditional_set_coverage(y, sets, by="size", coverage=0.8)
    equal(by_size["coverage"].min(), peer.classification_ssc_score(y, sets[:, :, np.newaxis])[0])


def test_the_calibration_error_of_mapie_is_another(classes):
    """It takes whether the prediction is correct in place of labels, and its bins are closed below."""
    peer, (y, proba, _) = load("mapie.metrics.calibration"), classes
    correct, top = (proba.argmax(axis=1) == y).astype(int), proba.max(axis=1)
    theirs = peer.expected_calibration_error(correct, top, num_bins=15, split_strategy="uniform")
    assert abs(theirs - expected_calibration_error(y, proba)) > 1e-3
