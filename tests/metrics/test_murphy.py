"""Murphy curves against the definition row by row, and their integrals against the scores."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skuq.distributions import Empirical, Normal
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import murphy_curve, pinball_loss

# the small data set of the reference page, with oracles of `scores` for half of the score of the mean
Y = np.array([1.0, 2, 4, 3, 7, 5, 8, 6])
M = np.array([1.5, 1, 3, 3.5, 5, 6, 6.5, 9])
THETAS = [1, 1.2, 3, 3.2, 5, 6, 6.2, 8.5]
POINTS = Normal(M, np.zeros(8))


def one_row(x, y, theta, functional, level):
    """Return the elementary score of one row from its definition."""
    if not min(x, y) <= theta < max(x, y):
        return 0.0
    if functional != "quantile":
        return abs(y - theta)
    return 1 - level if y < x else level


def brute_force(x, y, thetas, functional, level, weight=None):
    rows = [[one_row(a, b, theta, functional, level) for a, b in zip(x, y, strict=True)] for theta in thetas]
    return np.average(rows, axis=1, weights=weight)


def test_the_values_of_the_reference():
    half = [0.0625, 0.0625, 0.0625, 0.0625, 0.125, 0.0625, 0.0625, 0.15625]
    assert_allclose(murphy_curve(Y, POINTS, theta=THETAS).scores, 2 * np.array(half), rtol=1e-14)
    median = murphy_curve(Y, POINTS, functional="quantile", theta=THETAS)
    assert_allclose(median.scores, [0.125] * 7 + [0.0625], rtol=1e-14)
    high = murphy_curve(Y, POINTS, functional="quantile", levels=0.9, theta=THETAS)
    assert_allclose(high.scores, [0.125] * 7 + [0.0125], rtol=1e-14)


def test_intervals_are_closed_on_the_left_and_open_on_the_right():
    below = murphy_curve([2.0], Normal([1.0], [0.0]), theta=[1.0, 2.0])
    above = murphy_curve([1.0], Normal([2.0], [0.0]), theta=[1.0, 1.5, 2.0])
    assert_array_equal(below.scores, [1.0, 0.0])
    assert_array_equal(above.scores, [0.0, 0.5, 0.0])
    curve = murphy_curve([1.0], Normal([2.0], [0.0]), functional="quantile", levels=0.25)
    assert_array_equal(curve.theta, [1.0, 1.0, 2.0, 2.0])
    assert_array_equal(curve.scores, [0.0, 0.75, 0.75, 0.0])


@pytest.mark.parametrize("functional", ["mean", "quantile", "probability"])
@pytest.mark.parametrize("ties", [False, True])
def test_the_curve_is_the_mean_over_the_rows(functional, ties):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 60))
    if ties:
        x, y = np.round(x), np.round(y)
    weight = rng.integers(0, 3, size=60)
    dist, options = Normal(x, np.full(60, 0.3)), {"functional": functional}
    if functional == "quantile":
        options["levels"], x = 0.3, dist.ppf(0.3)
    elif functional == "probability":
        options["threshold"] = 0.5
        x, y_event = stats.norm.sf(0.5, x, 0.3), (y > 0.5).astype(float)
    target = y_event if functional == "probability" else y
    thetas = np.concatenate([np.linspace(-3, 3, 41), x, target])
    for w in (None, weight):
        curve = murphy_curve(y, dist, theta=thetas, sample_weight=w, **options)
        expected = brute_force(x, target, thetas, functional, 0.3, w)
        assert_allclose(curve.scores, expected, rtol=1e-12, atol=1e-14)
    curve = murphy_curve(y, dist, **options)
    assert_allclose(
        curve.scores[1::2], brute_force(x, target, curve.theta[1::2], functional, 0.3), atol=1e-14
    )
    left = brute_force(x, target, np.nextafter(curve.theta[::2], -np.inf), functional, 0.3)
    assert_allclose(curve.scores[::2], left, atol=1e-14)


def test_the_area_is_the_score(forecast):
    y, dist = forecast

    def area(**options):
        curve = murphy_curve(y, dist, **options)
        return np.trapezoid(curve.scores, curve.theta)

    assert_allclose(area(), np.mean((y - dist.mean()) ** 2) / 2, rtol=1e-12)
    for level in (0.1, 0.5, 0.95):
        expected = pinball_loss(y, dist, levels=[level])
        assert_allclose(area(functional="quantile", levels=level), expected, rtol=1e-12)
    brier = np.mean(((y > 0.3) - (1 - dist.cdf(0.3))) ** 2)
    assert_allclose(area(functional="probability", threshold=0.3), brier / 2, rtol=1e-12)


@pytest.mark.parametrize("functional", ["mean", "quantile"])
def test_differences_from_a_reference_are_paired(functional, forecast):
    y, dist = (part[:100] for part in forecast)
    other, thetas = Normal(dist.loc + np.where(y > 0, 0.4, -2.0), dist.scale), np.linspace(-3, 3, 25)

    def difference(theta, a, r, b):
        return one_row(a, b, theta, functional, 0.5) - one_row(r, b, theta, functional, 0.5)

    rows = [
        [difference(theta, *each) for each in zip(dist.loc, other.loc, y, strict=True)] for theta in thetas
    ]
    options = {"functional": functional, "theta": thetas}
    curve = murphy_curve(y, dist, reference=other, **options)
    assert_allclose(curve.scores, np.mean(rows, axis=1), atol=1e-13)
    errors = np.std(rows, axis=1, ddof=1) / np.sqrt(y.size)
    assert_allclose(curve.standard_errors, errors, rtol=1e-6, atol=1e-9)
    same = murphy_curve(y, dist, functional=functional, reference=dist)
    assert_allclose(same.scores, 0.0, atol=1e-15)
    assert_allclose(same.standard_errors, 0.0, atol=1e-8)
    one_for_all = murphy_curve(y, dist, reference=Normal(0.2, 1.0), **options)
    repeated = murphy_curve(y, dist, reference=Normal(np.full(100, 0.2), np.ones(100)), **options)
    assert_array_equal(one_for_all.scores, repeated.scores)


def test_standard_errors_and_repetitions():
    thetas = np.linspace(0, 9, 12)
    curve = murphy_curve(Y, POINTS, theta=thetas)
    rows = np.array(
        [[one_row(x, y, theta, "mean", 0.5) for x, y in zip(M, Y, strict=True)] for theta in thetas]
    )
    assert_allclose(curve.standard_errors, rows.std(axis=1, ddof=1) / np.sqrt(8), rtol=1e-7, atol=1e-9)
    weight = np.array([1, 2, 0, 1, 3, 1, 1, 2])
    again = np.repeat(np.arange(8), weight)
    weighted = murphy_curve(Y, POINTS, theta=thetas, sample_weight=weight)
    repeated = murphy_curve(Y[again], POINTS[again], theta=thetas)
    assert_allclose(weighted.scores, repeated.scores, rtol=1e-13)
    assert_allclose(weighted.standard_errors, repeated.standard_errors, rtol=1e-7, atol=1e-9)
    assert np.isnan(murphy_curve([1.0], Normal([2.0], [1.0])).standard_errors).all()


@pytest.mark.parametrize(("unit", "shift"), [(2.0**-320, 0.0), (2.0**320, 0.0), (1.0, 2.0**30)])
def test_large_and_small_units_and_a_large_shift(unit, shift):
    plain = murphy_curve(Y, POINTS)
    moved = murphy_curve(unit * (Y + shift), Normal(unit * (M + shift), np.zeros(8)))
    assert_allclose(moved.theta / unit - shift, plain.theta, rtol=1e-12)
    assert_allclose(moved.scores / unit, plain.scores, rtol=1e-12, atol=1e-14)
    assert_allclose(moved.standard_errors / unit, plain.standard_errors, rtol=1e-7, atol=1e-8)


def test_an_infinite_quantile_is_a_forecast_above_every_threshold():
    dist = ConformalPredictive([0.0, 0.0], [1.0, 1.0], [-1.0, 0.0, 2.0])
    with pytest.warns(SmallSampleWarning):
        curve = murphy_curve([0.5, 1.0], dist, functional="quantile", levels=0.95, theta=[0.0, 0.7, 99.0])
    assert_allclose(curve.scores, [0.0, 0.025, 0.05])


def test_bad_input_is_named():
    given = "`threshold` must be given if and only if functional='probability'"
    for options, message in (
        ({"functional": "expectile"}, "`functional` must be one of"),
        ({"functional": "probability"}, given),
        ({"threshold": 1.0}, "got threshold=1.0 with functional='mean'"),
        ({"functional": "quantile", "levels": 1.0}, "`levels` must lie strictly between 0 and 1"),
        ({"theta": []}, "`theta` must be a number or a non-empty 1-D array"),
        ({"theta": [np.nan]}, "`theta` must be finite"),
        ({"reference": Normal([0.0, 1.0], 1.0)}, "`reference` must have 8 rows or one row, got 2"),
        ({"sample_weight": -np.ones(8)}, "`sample_weight`"),
    ):
        with pytest.raises(ValueError, match=message):
            murphy_curve(Y, POINTS, **options)


def test_constant_targets_and_one_row():
    assert_array_equal(murphy_curve([1.0, 1.0], Normal([1.0, 1.0], [0.5, 0.5])).scores, [0.0, 0.0])
    assert_array_equal(murphy_curve([1.0], Empirical([[0.0, 4.0]])).theta, [1.0, 1.0, 2.0, 2.0])
