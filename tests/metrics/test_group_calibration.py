"""ENCE: reference values, bins by hand, ties and weights, the counter-example."""

import numpy as np
import pytest
from scipy import stats

from skuq.distributions import Empirical, Normal
from skuq.metrics import (
    _binning,
    crps_loss,
    expected_normalized_calibration_error,
    uncertainty_calibration_error,
)

ence = expected_normalized_calibration_error


def bin_means(key, columns, n_bins, strategy, weight):
    """Call the kernel with whole columns."""
    bins = _binning.make_bins(key, n_bins, strategy, weight)
    return _binning.bin_means(bins, lambda rows: tuple(column[rows] for column in columns))


def test_reference_values(het100, few_rows):
    dist = (het100.mu, het100.s)
    assert ence(het100.y, dist) == pytest.approx(0.173505, abs=5e-7)
    assert ence(het100.y, dist, strategy="uniform") == pytest.approx(0.162956, abs=5e-7)


@pytest.mark.parametrize("n_bins", [1, 3, 10])
def test_equal_width_bins_equal_scipy(forecast, n_bins):
    """The sigmas are tenths: as integers they and the edges that they lie on are exact, for scipy too."""
    y, dist = forecast
    tenths = np.round(10 * dist.scale)
    mean_square = [
        stats.binned_statistic(tenths, values, bins=n_bins)[0]
        for values in (dist.scale**2, (y - dist.loc) ** 2)
    ]
    rmv, rmse = np.sqrt(mean_square)
    expected = np.nanmean(np.abs(rmv - rmse) / rmv)
    assert ence(y, dist, n_bins=n_bins, strategy="uniform") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("metric", [ence, uncertainty_calibration_error])
@pytest.mark.parametrize("unit", [0.1, 1 / 3, 7.0, 1e-3])
@pytest.mark.parametrize("n_bins", [3, 5, 10])
def test_bins_of_equal_width_do_not_depend_on_the_units_of_y(metric, unit, n_bins):
    """Sigmas of 1 to 11 lie on the edges of ten bins, by their root mean square or by their variance."""
    rng = np.random.default_rng(0)
    scale = rng.integers(1, 12, size=600).astype(float)
    if metric is uncertainty_calibration_error:
        scale = np.sqrt(scale)
    y = scale * rng.normal(size=600)
    plain, other = (metric(u * y, (0 * y, u * scale), n_bins=n_bins, strategy="uniform") for u in (1.0, unit))
    power = 0 if metric is ence else 2
    assert other / unit**power == pytest.approx(plain, rel=1e-9)


def test_equal_count_bins_by_hand_where_nothing_ties(few_rows):
    rng = np.random.default_rng(0)
    scale = rng.permutation(np.arange(1.0, 61.0))
    y = scale * rng.normal(size=60)
    gaps = []
    for rows in np.array_split(np.argsort(scale), 6):
        rmv, rmse = np.sqrt(np.mean(scale[rows] ** 2)), np.sqrt(np.mean(y[rows] ** 2))
        gaps.append(abs(rmv - rmse) / rmv)
    assert ence(y, (np.zeros(60), scale), n_bins=6) == pytest.approx(np.mean(gaps), rel=1e-12)


def test_row_on_an_edge_is_shared_in_proportion():
    weight, means = bin_means(np.array([1.0, 2.0, 3.0]), (np.array([10.0, 20.0, 30.0]),), 2, "quantile", None)
    np.testing.assert_allclose(weight, [1.5, 1.5])
    np.testing.assert_allclose(means, [[(10 + 0.5 * 20) / 1.5, (30 + 0.5 * 20) / 1.5]])


def test_tied_rows_on_an_edge_are_shared_as_one():
    key, column = np.array([1.0, 2.0, 2.0, 2.0]), np.array([4.0, 1.0, 2.0, 6.0])
    weight, means = bin_means(key, (column,), 2, "quantile", None)
    np.testing.assert_allclose(weight, [2, 2])
    np.testing.assert_allclose(means, [[(4 + 3) / 2, 3]])


def test_weights_place_the_edges():
    key, column = np.array([3.0, 1.0, 2.0]), np.array([30.0, 10.0, 20.0])
    weight, means = bin_means(key, (column, key), 2, "quantile", np.array([1.0, 4.0, 1.0]))
    np.testing.assert_allclose(weight, [3, 3])
    np.testing.assert_allclose(means, [[10, (10 + 20 + 30) / 3], [1, 2]])


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@pytest.mark.parametrize("noise", [0.0, 1e-13])
def test_constant_sigma_is_one_bin_even_if_rounding_tells_rows_apart(few_rows, strategy, noise):
    rng = np.random.default_rng(0)
    y, scale = rng.normal(size=400), 2.0 * (1 + noise * rng.normal(size=400))
    expected = abs(2.0 - np.sqrt(np.mean(y**2))) / 2.0
    assert ence(y, (np.zeros(400), scale), strategy=strategy) == pytest.approx(expected, rel=1e-9)


def test_sigmas_of_an_ensemble_that_differ_by_rounding_are_tied(few_rows):
    rng = np.random.default_rng(0)
    offset = 1000 * rng.normal(size=(300, 1))
    members = offset + np.array([-0.7, 0.1, 1.3])
    y = offset[:, 0] + rng.normal(size=300)
    assert np.unique(Empirical(members).std()).size > 1
    error = np.sqrt(np.mean((y - members.mean(axis=1)) ** 2))
    sigma = np.std([-0.7, 0.1, 1.3])
    assert ence(y, Empirical(members)) == pytest.approx(abs(sigma - error) / sigma, rel=1e-9)


def test_more_bins_than_rows(few_rows):
    y, dist = np.array([1.0, -3.0]), Normal([0.0, 0.0], [1.0, 2.0])
    assert ence(y, dist, n_bins=10) == pytest.approx((0 + 0.5) / 2)
    assert ence(y, dist, n_bins=10, strategy="uniform") == pytest.approx((0 + 0.5) / 2)


def test_an_outlier_in_one_bin_does_not_leak_into_the_others():
    scale = np.repeat(np.arange(1.0, 11.0), 60)
    y = scale.copy()
    clean = ence(y, (0 * scale, scale))
    assert clean == pytest.approx(0, abs=1e-12)
    y[0] = 1e12
    assert ence(y, (0 * scale, scale)) == pytest.approx((np.sqrt((1e24 + 59) / 60) - 1) / 10, rel=1e-9)
    rmse = bin_means(scale, (y**2,), 10, "quantile", None)[1][0]
    np.testing.assert_allclose(rmse[1:], np.arange(2.0, 11.0) ** 2, rtol=1e-12)


def test_calibrated_forecast_scores_what_the_docstring_says():
    rng = np.random.default_rng(0)
    n, values = 1000, []
    for _ in range(200):
        scale = np.exp(0.2 * rng.normal(size=n))
        values.append(ence(scale * rng.normal(size=n), (np.zeros(n), scale)))
    assert np.mean(values) == pytest.approx(np.sqrt(10 / (np.pi * n)), rel=0.08)


def test_a_forecast_that_ignores_x_beats_a_useful_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=5000)
    y = x + rng.normal(scale=0.3, size=5000)
    useful, ignorant = (x, np.full(5000, 0.4)), (0 * x, np.full(5000, np.sqrt(1.09)))
    assert ence(y, ignorant) < ence(y, useful) / 3
    assert crps_loss(y, useful) < crps_loss(y, ignorant) / 3
