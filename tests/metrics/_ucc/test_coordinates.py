"""Widths, misses, excess and deficit of intervals, and the criterion made of width and coverage."""

import numpy as np
import pytest
from scipy import stats

from skuq.distributions import Empirical, Normal, Quantiles
from skuq.metrics import (
    coverage_width_loss,
    interval_deficit,
    interval_excess,
    interval_miss_rate,
    interval_score_loss,
    mean_interval_half_width,
    mean_interval_width,
    normalized_mean_interval_width,
    prediction_interval_coverage,
)

pytestmark = pytest.mark.usefixtures("few_rows")

nmpiw, cwc = normalized_mean_interval_width, coverage_width_loss
BOUNDS = np.array([[0.0, 2.0], [1.0, 5.0], [0.0, 10.0], [3.0, 3.0]])
Y = np.array([1.5, 6.0, -2.0, 3.0])


def test_bands_by_hand():
    assert interval_miss_rate(Y, BOUNDS) == 0.5
    assert mean_interval_half_width(Y, BOUNDS) == mean_interval_half_width(None, BOUNDS) == 2.0
    assert interval_excess(Y, BOUNDS) == pytest.approx((0.5 + 0 + 0 + 0) / 4)
    assert interval_deficit(Y, BOUNDS) == pytest.approx((0 + 1 + 2 + 0) / 4)
    weight = [2, 1, 0, 1]
    assert interval_miss_rate(Y, BOUNDS, sample_weight=weight) == 0.25
    assert mean_interval_half_width(Y, BOUNDS, sample_weight=weight) == pytest.approx((2 + 2 + 4) / 2 / 4)
    assert interval_excess(Y, BOUNDS, sample_weight=weight) == 0.25
    assert interval_deficit(Y, BOUNDS, sample_weight=weight) == 0.25


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_identities(forecast, coverage):
    y, dist = forecast
    weight = np.random.default_rng(0).random(y.size)
    for member in (dist, dist.interval(coverage), Empirical(dist.sample(9, random_state=0))):
        options = {"coverage": coverage, "sample_weight": weight}
        assert interval_miss_rate(y, member, **options) == pytest.approx(
            1 - prediction_interval_coverage(y, member, **options)
        )
        width = mean_interval_width(y, member, **options)
        assert mean_interval_half_width(y, member, **options) == pytest.approx(width / 2)
        alpha = 1 - coverage
        score = width + 2 / alpha * interval_deficit(y, member, **options)
        assert interval_score_loss(y, member, **options) == pytest.approx(score, rel=1e-12)


def test_excess_on_the_active_side_is_uq360s():
    dist = Quantiles([0.05, 0.5, 0.95], [[-0.1, 0.0, 10.0]] * 3)
    y, (lower, upper) = np.array([dist.mean()[0] + 0.5, 0.0, 11.0]), dist.interval(0.9)[0]
    assert y[1] < dist.mean()[0] < y[0]
    active, nearest = upper - y[0], min(y[0] - lower, upper - y[0]) + min(y[1] - lower, upper - y[1])
    assert interval_excess(y, dist, side="active") == pytest.approx((active + y[1] - lower) / 3)
    assert interval_excess(y, dist) == pytest.approx(nearest / 3)
    weighted = interval_excess(y, dist, side="active", sample_weight=[0, 1, 1])
    assert weighted == pytest.approx((y[1] - lower) / 2)
    symmetric, y = Normal([0.0, 1.0], [1.0, 2.0]), [0.3, -0.5]
    assert interval_excess(y, symmetric, side="active") == pytest.approx(interval_excess(y, symmetric))
    with pytest.raises(ValueError, match="`side` must be 'nearest' for bounds"):
        interval_excess(Y, BOUNDS, side="active")
    with pytest.raises(ValueError, match="`side` must be one of"):
        interval_excess(Y, BOUNDS, side="far")


def test_infinite_bounds():
    whole, half = [[-np.inf, np.inf]], [[-np.inf, 3.0]]
    assert interval_miss_rate([1.0], whole) == interval_deficit([1.0], whole) == 0
    assert mean_interval_half_width([1.0], whole) == interval_excess([1.0], whole) == np.inf
    assert interval_excess([1.0], half) == 2
    assert interval_deficit([5.0], half) == 2


def test_units_of_width(forecast):
    y, dist = forecast
    train, width = np.random.default_rng(0).normal(5, 7, size=40), mean_interval_width(y, dist)
    for options, unit in (
        ({}, np.ptp(y)),
        ({"scale": "std"}, y.std()),
        ({"scale": 2.5}, 2.5),
        ({"y_train": train}, np.ptp(train)),
        ({"scale": "std", "y_train": train}, train.std()),
        ({"scale": "std", "y_train": train[:, np.newaxis]}, train.std()),
    ):
        assert nmpiw(y, dist, **options) == pytest.approx(width / unit)
    # Kompa et al. (2021) measure width in training standard deviations.
    kompa = nmpiw([1.0, 9.0], Normal([0.0, 0.0], [1.0, 3.0]), coverage=0.95, scale="std", y_train=[0.0, 4.0])
    assert kompa == pytest.approx(2 * 2 * stats.norm.ppf(0.975) / 2)
    # The spread is that of the rows that count.
    weight = np.random.default_rng(0).integers(0, 3, size=y.size)
    rows = np.repeat(np.arange(y.size), weight)
    for scale in ("range", "std"):
        value = nmpiw(y, dist, scale=scale, sample_weight=weight)
        assert value == pytest.approx(nmpiw(y[rows], dist[rows], scale=scale), rel=1e-12)


def test_targets_that_do_not_vary():
    bounds = [[0.0, 1.0], [0.0, 1.0]]
    for scale in ("range", "std"):
        assert nmpiw([0.1, 0.1], bounds, scale=scale) == np.inf
        assert nmpiw([0.1, 0.1], [[0.1, 0.1]] * 2, scale=scale) == 0
        assert cwc([0.1, 0.1], bounds, scale=scale) == np.inf
        assert cwc([9.0, 9.0], bounds, scale=scale, formula="mapie") == np.inf
    assert nmpiw([0.1, 0.1], bounds, scale=4) == 0.25


def test_criterion_by_hand():
    y = np.repeat([0.0, 5.0], [85, 15])
    bounds = np.tile([-1.0, 1.0], (100, 1))
    assert cwc(y, bounds, coverage=0.8) == pytest.approx(2 / 5)
    assert cwc(y, bounds, coverage=0.85) == pytest.approx(2 / 5)
    assert cwc(y, bounds, coverage=0.9) == pytest.approx(2 / 5 * (1 + np.exp(50 * 0.05)))
    assert cwc(y, bounds, coverage=0.9, eta=10) == pytest.approx(2 / 5 * (1 + np.exp(10 * 0.05)))
    assert cwc(y, bounds, coverage=0.9, scale=4.0) == pytest.approx(2 / 4 * (1 + np.exp(50 * 0.05)))
    mapie = -(1 - 2 / 5) * np.exp(-50 * 0.05**2)
    assert cwc(y, bounds, coverage=0.9, formula="mapie") == pytest.approx(mapie)
    assert cwc(y, bounds, coverage=0.8, formula="mapie") == pytest.approx(mapie)


def test_criterion_of_absurd_forecasts():
    y = np.linspace(-1, 1, 50)
    nothing = np.full((50, 2), 99.0)
    assert cwc(y, nothing) == 0  # the optimum, which is why it is not proper
    assert cwc(y, nothing, eta=1e6) == 0
    assert cwc(y, nothing + np.array([0, 1])) == pytest.approx(0.5 * (1 + np.exp(45)))
    assert cwc(y, nothing + np.array([0, 1]), eta=1e6) == np.inf
    assert cwc(y, np.tile([-np.inf, np.inf], (50, 1))) == np.inf
    assert cwc(y, np.column_stack([y, y])) == 0
    assert cwc(y, np.column_stack([y, y]), formula="mapie") == pytest.approx(-np.exp(-50 * 0.1**2))
    assert cwc(y, nothing + np.array([0, 3]), formula="mapie", eta=1e9) == 0


@pytest.mark.parametrize("weight", [0.1, 0.3, 0.7, 1 / 3, 1e-3])
@pytest.mark.parametrize(("inside", "coverage"), [(9, 0.9), (7, 0.7), (3, 0.3), (1, 0.1)])
def test_a_weighted_coverage_that_equals_the_nominal_one_has_reached_it(weight, inside, coverage):
    """The share 0.9 of ten equal weights is 0.8999999999999999."""
    y = np.repeat([0.0, 5.0], [inside, 10 - inside])
    bounds = np.tile([-1.0, 1.0], (10, 1))
    for weights in (None, np.full(10, weight)):
        assert cwc(y, bounds, coverage=coverage, sample_weight=weights) == pytest.approx(2 / 5)
    less = np.where(np.arange(10) == 0, weight * (1 - 1e-9), weight)
    assert cwc(y, bounds, coverage=coverage, sample_weight=less) > 0.79


def test_bad_options_of_width_and_criterion():
    for metric in (nmpiw, cwc):
        for scale, error in (("iqr", ValueError), (0.0, ValueError), (-1, ValueError), (None, TypeError)):
            with pytest.raises(error, match="`scale` must be"):
                metric(Y, BOUNDS, scale=scale)
        with pytest.raises(ValueError, match="`y_train` must be omitted if `scale` is a number"):
            metric(Y, BOUNDS, scale=2.0, y_train=Y)
        with pytest.raises(ValueError, match="`y_train` must be finite"):
            metric(Y, BOUNDS, y_train=[np.nan, 1.0])
    for option, value, error, message in (
        ("formula", "wibbeke", ValueError, "be"),
        ("eta", np.inf, ValueError, "be"),
        ("eta", "50", TypeError, "be"),
        ("eta", -1, ValueError, "be non-negative, got -1"),
    ):
        with pytest.raises(error, match=f"`{option}` must {message}"):
            cwc(Y, BOUNDS, **{option: value})
