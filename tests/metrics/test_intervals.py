"""Coverage and width of intervals."""

import numpy as np
import pytest

from skuq.distributions import Empirical, Normal, StudentT
from skuq.metrics import (
    crps_loss,
    interval_coverage_error,
    interval_score_loss,
    mean_interval_width,
    prediction_interval_coverage,
    sharpness,
)


def test_bounds_belong_to_the_interval():
    bounds = [[0.0, 1.0]] * 4
    assert prediction_interval_coverage([0.0, 1.0, -1e-9, 1 + 1e-9], bounds) == 0.5


def test_default_coverage_is_ninety_percent(forecast, few_rows):
    y, dist = forecast
    for metric in (
        prediction_interval_coverage,
        interval_coverage_error,
        mean_interval_width,
        interval_score_loss,
    ):
        assert metric(y, dist) == metric(y, dist, coverage=0.9) != metric(y, dist, coverage=0.8)


def test_coverage_error_is_the_distance_either_way():
    y = np.repeat([0.0, 5.0], [850, 150])
    bounds = np.tile([-1.0, 1.0], (1000, 1))
    assert interval_coverage_error(y, bounds, coverage=0.9) == pytest.approx(0.05)
    assert interval_coverage_error(y, bounds, coverage=0.8) == pytest.approx(0.05)
    assert prediction_interval_coverage(y, bounds, coverage=0.8) == pytest.approx(0.85)


def test_width_and_score_of_intervals_by_hand():
    assert mean_interval_width(None, ([0.0, 1.0], [1.0, 2.0])) == pytest.approx(1.5 * 2 * 1.6448536269514722)
    assert mean_interval_width(None, Empirical([[0.0, 1.0, 2.0, 10.0]]), coverage=0.5) == 2.0
    for y, coverage, penalty in ((1.0, 0.9, 0.0), (2.0, 0.9, 0.0), (3.0, 0.9, 20.0), (-3.0, 0.5, 12.0)):
        score = interval_score_loss([y], [[0.0, 2.0]], coverage=coverage)
        assert score == (pytest.approx(2.0 + penalty) if penalty else 2.0)
    with pytest.raises(ValueError, match="`coverage` must be one number"):
        interval_score_loss([0.0], [[0.0, 1.0]], coverage=[0.5, 0.9])


def test_target_is_optional_for_metrics_of_the_forecast_alone(forecast):
    y, dist = forecast
    weight = np.arange(y.size)
    for metric in (mean_interval_width, sharpness):
        assert metric(None, dist, sample_weight=weight) == metric(y, dist, sample_weight=weight)


def test_rows_of_weight_zero_may_be_infinite():
    bounds, weight = [[0.0, 1.0], [-np.inf, np.inf]], [1.0, 0.0]
    assert mean_interval_width(None, bounds, sample_weight=weight) == 1.0
    assert interval_score_loss([0.5, 0.5], bounds, sample_weight=weight) == 1.0
    student = StudentT([0.0, 0.0], [1.0, 1.0], df=[4.0, 1.5])
    assert sharpness(None, student, sample_weight=weight) == student.std()[0]


def test_coverage_error_has_no_fault_to_find_with_useless_intervals():
    rng = np.random.default_rng(0)
    y = rng.normal(size=1000)
    useless = np.tile([-np.inf, np.inf], (1000, 1))
    useless[::10] = 99.0
    calibrated = Normal(np.zeros(1000), np.ones(1000))
    assert interval_coverage_error(y, useless) < interval_coverage_error(y, calibrated)
    assert interval_score_loss(y, calibrated) < interval_score_loss(y, useless)


@pytest.mark.parametrize("tie", [0.0, 3e-7, -3e-7])
def test_a_target_on_the_atom_that_bounds_an_interval_is_covered_within_single_precision(tie):
    rng = np.random.default_rng(0)
    weights = np.array([0.03, 0.47, 0.47, 0.03])
    grades = np.array([4.0, 5.0, 6.0, 7.0])
    dist = Empirical(np.tile(grades + tie, (2000, 1)), weights)
    y = rng.choice(grades, size=2000, p=weights)
    assert prediction_interval_coverage(y, dist) == np.mean((y > 4) & (y < 7))
    # bounds have no information about atoms and are used unchanged
    inside = np.mean((dist.interval()[:, 0] <= y) & (y <= dist.interval()[:, 1]))
    assert prediction_interval_coverage(y, dist.interval()) == inside


def test_no_bound_of_a_continuous_forecast_is_moved():
    y, loc = (
        1.6e9 + np.arange(200.0),
        1.6e9 + np.arange(200.0) + 1.7,
    )  # rounding of single precision is 100 here
    assert prediction_interval_coverage(y, (loc, np.ones(200))) == 0
    members = Empirical(loc[:, np.newaxis] + np.linspace(-1, 1, 41))
    assert prediction_interval_coverage(y, members) == 0


@pytest.mark.parametrize(("kind", "units"), [("std", 1), ("rms", 1), ("variance", 2)])
def test_units_and_weights_of_every_kind_of_sharpness(kind, units, het100):
    scale, weight = np.array([1.0, 2.0, 5.0]), np.array([2, 0, 1])
    value = sharpness(None, (np.zeros(3), scale), kind=kind, sample_weight=weight)
    assert value == pytest.approx(sharpness(None, (np.zeros(3), [1.0, 1.0, 5.0]), kind=kind), rel=1e-14)
    scaled = sharpness(None, (np.zeros(3), 4 * scale), kind=kind, sample_weight=weight)
    assert scaled == pytest.approx(4**units * value, rel=1e-14)
    expected = {
        "std": het100.s.mean(),
        "rms": np.sqrt(np.mean(het100.s**2)),
        "variance": np.mean(het100.s**2),
    }
    assert sharpness(het100.y, (het100.mu, het100.s), kind=kind) == pytest.approx(expected[kind], rel=1e-14)


def test_the_sharpest_forecast_need_not_be_good():
    y = np.random.default_rng(0).normal(size=100)
    truth, certain = (np.zeros(100), np.ones(100)), (np.full(100, 5.0), np.zeros(100))
    assert sharpness(y, certain) < sharpness(y, truth)
    assert crps_loss(y, truth) < crps_loss(y, certain)
