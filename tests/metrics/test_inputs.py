"""Bad input through every metric, and absurd but legal input."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse, stats

from skuq.distributions import Empirical, Normal, ScipyDistribution, StudentT
from skuq.exceptions import NoDensityError
from skuq.metrics import (
    auucc_gain_score,
    crps_loss,
    expected_normalized_calibration_error,
    interval_coverage_error,
    interval_score_loss,
    mean_absolute_calibration_error,
    mean_interval_width,
    nll_loss,
    pinball_loss,
    prediction_interval_coverage,
    regression_calibration_curve,
    sharpness,
)
from tests.metrics.options import forecast_specs, required

SPECS = list(forecast_specs().values())
Y = np.linspace(-1, 1, 5)
DIST = Normal(np.zeros(5), np.ones(5))


@pytest.fixture
def refused(subtests):
    """Return a function that asserts that every metric, or every one of some kinds, raises this error."""

    def check(error, message, *arguments, kinds=None, **options):
        for spec in SPECS:
            if kinds is None or spec.needs in kinds:
                with subtests.test(msg=spec.abbreviation), pytest.raises(error, match=message):
                    spec.function(*arguments, **required(spec), **options)

    return check


def test_bad_targets(refused):
    for y, error, message in (
        (np.where(Y == 0, np.nan, Y), ValueError, "`y_true` must be finite, got nan at row 2"),
        (np.where(Y == 0, np.inf, Y), ValueError, "`y_true` must be finite, got inf at row 2"),
        (Y[:4], ValueError, "`y_true` must have 5 rows, one per sample, got 4"),
        (np.empty(0), ValueError, "`y_true` must have at least one row"),
        (np.column_stack([Y, Y]), ValueError, "`y_true` must have one column"),
        (["a", "b", "c", "d", "e"], TypeError, "`y_true` must hold real numbers"),
        (sparse.csr_matrix(Y[:, np.newaxis]), TypeError, "`y_true` must be a dense array"),
        (DIST, TypeError, "`y_true` must be observed values, got the distribution Normal"),
        (1e101 * Y, ValueError, "`y_true` must have a largest absolute value from 1e-100 to 1e.100"),
        (1e-101 * Y, ValueError, "`y_true` must have a largest absolute value from 1e-100 to 1e.100"),
    ):
        refused(error, message, y, DIST)


def test_bad_forecasts(refused):
    refused(ValueError, "`y_true` must have 4 rows", Y, DIST[:4])
    refused(TypeError, "`y_pred` must be a Distribution", DIST, Y)


def test_bad_weights(refused):
    for weight, message in (
        (np.ones(4), "`sample_weight` must have 5 rows"),
        (np.zeros(5), "`sample_weight` must have a positive sum"),
        (np.array([1, 1, -1, 1, 1]), "`sample_weight` must be non-negative, got -1.0 at row 2"),
        (np.array([1, 1, np.nan, 1, 1]), "`sample_weight` must be finite"),
        (np.ones((5, 2)), "`sample_weight` must have shape"),
    ):
        refused(ValueError, message, Y, DIST, sample_weight=weight)


def test_what_is_no_distribution_is_refused_with_the_way_out(refused):
    for y_pred in (None, "normal", 3.0, {"loc": Y}):
        refused(TypeError, r"`y_pred` must be .*Distribution.*`Normal\(mean, std\)`", Y, y_pred)


def test_bad_bounds(refused):
    for y_pred, message in (
        (np.column_stack([Y, Y - 0.5]), "lower bounds .first column. that are at most the upper bounds"),
        (np.column_stack([Y, np.full(5, np.nan)]), "must not contain NaN"),
        (np.zeros((4, 2)), "`y_true` must have 4 rows"),
        (np.zeros((0, 2)), "`y_pred` must have at least one row"),
        (np.full((5, 2), np.inf), "`y_pred` must hold intervals that contain a number"),
        (np.full((5, 2), -np.inf), "`y_pred` must hold intervals that contain a number"),
    ):
        refused(ValueError, message, Y, y_pred, kinds={"interval"})


def test_bad_coverage(refused):
    for coverage in (0.0, 1.0, -0.1, 90, np.nan, [[0.5]], []):
        refused(ValueError, "`coverage` must", Y, DIST, kinds={"interval"}, coverage=coverage)


def test_a_target_that_is_none_is_named():
    with pytest.raises(ValueError, match="`y_true` must hold observed values, one per row, got None"):
        crps_loss(None, DIST)


def test_bad_levels_and_numbers_of_bins():
    for levels in (0, -1, [0.0, 0.5], [0.5, 1.0], [1.5], [], [[0.5]], [np.nan], "all", True):
        with pytest.raises((ValueError, TypeError), match="`levels`"):
            pinball_loss(Y, DIST, levels=levels)
    for metric in (mean_absolute_calibration_error, regression_calibration_curve):
        for levels in (0, [-0.1], [1.5], [], [[0.5]], [np.nan]):
            with pytest.raises(ValueError, match="`levels`"):
                metric(Y, DIST, levels=levels)
    for n_bins in (2.5, "10", True):
        with pytest.raises(TypeError, match="`n_bins` must be an integer"):
            expected_normalized_calibration_error(Y, DIST, n_bins=n_bins)


def test_bad_options():
    for metric, option, value in (
        (crps_loss, "crps_estimator", "pwm"),
        (sharpness, "kind", "mean"),
        (mean_absolute_calibration_error, "kind", "both"),
        (regression_calibration_curve, "kind", None),
        (expected_normalized_calibration_error, "strategy", "kmeans"),
        (expected_normalized_calibration_error, "n_bins", 0),
        (auucc_gain_score, "denominator", "both"),
    ):
        with pytest.raises(ValueError, match=f"`{option}` must be"):
            metric(Y, DIST, **{option: value})


def test_forecasts_without_a_density_have_no_log_score():
    for dist in (Normal(np.zeros(5), [1, 1, 0, 1, 1]), Empirical(np.zeros((5, 3)))):
        with pytest.raises(NoDensityError, match="no density"):
            nll_loss(Y, dist)
    assert nll_loss([2.0], stats.uniform([0.0], [1.0])) == np.inf  # a target outside the support


def test_infinite_moments_are_refused_with_the_requirement_and_an_alternative(refused):
    finite = "`y_pred` must have a finite standard deviation in every row, got inf at row 1"
    one_row = StudentT(np.zeros(5), np.ones(5), df=[3.0, 1.5, 3.0, 3.0, 3.0])
    for metric in (sharpness, auucc_gain_score, expected_normalized_calibration_error):
        with pytest.raises(ValueError, match=finite):
            metric(Y, one_row)
    message = r"`y_pred` must have a finite (mean|standard deviation) in every row.*`crps_loss`"
    cauchy = ScipyDistribution(stats.cauchy(np.zeros(5), 1.0))
    for dist in (StudentT(np.zeros(5), 1.0, 1.0), StudentT(np.zeros(5), 1.0, 2.0), cauchy):
        refused(ValueError, message, Y, dist, kinds={"moments"})
        assert np.isfinite(crps_loss(Y, dist))
    for scale in (1e-101, 1e101):
        message = r"`y_pred.std\(\)` must have a largest absolute value from 1e-100 to 1e.100"
        for metric in (sharpness, expected_normalized_calibration_error):
            with pytest.raises(ValueError, match=message):
                metric(Y, Normal(np.zeros(5), np.full(5, scale)))


def test_few_rows_constant_targets_and_point_forecasts_give_a_number(few_rows, subtests):
    for spec in SPECS:
        metric = partial(spec.function, **required(spec))
        with subtests.test(msg=spec.abbreviation):
            for n in (1, 2, 7):
                for scale in (1e-100, 1.0, 1e100):
                    assert not np.isnan(metric(np.ones(n), Normal(np.zeros(n), np.full(n, scale))))
            if spec.needs != "density":
                point = Normal(Y, np.zeros(5))
                assert not np.isnan(metric(Y, point))
                assert not np.isnan(metric(Y + np.array([0, 0, 0, 1, -1]), point))


@pytest.mark.parametrize("n", [1, 2000])
@pytest.mark.parametrize("kind", ["quantile", "interval"])
def test_the_smallest_scale_there_is(n, kind, few_rows):
    """Standardized errors are infinite then, which is no reason to warn."""
    y, dist = np.ones(n), Normal(np.zeros(n), np.full(n, 5e-324))
    assert mean_absolute_calibration_error(y, dist, kind=kind) == pytest.approx(0.5)
    assert pinball_loss(y, dist) == pytest.approx(0.5)


def test_perfect_and_wrong_point_forecasts_and_infinite_intervals(few_rows):
    ence, point = expected_normalized_calibration_error, Normal(Y, np.zeros(5))
    zero = (
        crps_loss,
        pinball_loss,
        interval_score_loss,
        mean_interval_width,
        sharpness,
        ence,
        auucc_gain_score,
    )
    assert [metric(Y, point) for metric in zero] == [0] * 7
    assert prediction_interval_coverage(Y, point) == 1
    wrong = Normal(Y + 1, np.zeros(5))  # infinitely overconfident
    assert ence(Y, wrong) == np.inf
    assert auucc_gain_score(Y, wrong) == -np.inf
    assert auucc_gain_score(Y, wrong, denominator="model") == -1
    assert interval_coverage_error(Y, wrong, coverage=0.8) == pytest.approx(0.8)
    assert crps_loss(Y, wrong) == pytest.approx(1)
    bounds = np.tile([-np.inf, np.inf], (5, 1))
    assert prediction_interval_coverage(Y, bounds) == 1
    assert mean_interval_width(Y, bounds) == interval_score_loss(Y, bounds) == np.inf
