"""UCE, QCE and the tables behind the metrics of conditional calibration."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skuq.distributions import Empirical, Normal, Quantiles, StudentT
from skuq.metrics import (
    conditional_coverage,
    expected_coverage_probability_error,
    expected_normalized_calibration_error,
    mean_interval_width,
    prediction_interval_coverage,
    quantile_calibration_error,
    reliability_table,
    uncertainty_calibration_error,
)

pytestmark = pytest.mark.usefixtures("few_rows")

uce, qce = uncertainty_calibration_error, quantile_calibration_error
ence = expected_normalized_calibration_error


@pytest.fixture
def weight(forecast):
    return np.random.default_rng(0).integers(0, 4, size=forecast[0].size)


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_are_readings_of_the_table(forecast, weight, strategy, weighted):
    y, dist = forecast
    options = {"n_bins": 7, "strategy": strategy, "sample_weight": weight if weighted else None}
    table = reliability_table(y, dist, coverage=0.6, **options)
    share = table["n"] / table["n"].sum()
    gap = (table["rmv"] - table["rmse"]).abs() / table["rmv"]
    assert expected_normalized_calibration_error(y, dist, **options) == pytest.approx(gap.mean(), rel=1e-10)
    expected = (share * (table["coverage"] - 0.6).abs()).sum()
    assert qce(y, dist, levels=0.6, **options) == pytest.approx(expected, rel=1e-10)
    square = (share * (table["rmse"] ** 2 - table["rmv"] ** 2).abs()).sum()
    assert uce(y, dist, on="std", **options) == pytest.approx(square, rel=1e-10)
    table = reliability_table(y, dist, on="variance", **options)
    square = (table["n"] / table["n"].sum() * (table["rmse"] ** 2 - table["rmv"] ** 2).abs()).sum()
    assert uce(y, dist, **options) == pytest.approx(square, rel=1e-10)


@pytest.mark.parametrize("family", ["normal", "student", "quantiles", "ensemble"])
def test_quantile_calibration_by_hand(forecast, weight, family):
    y, dist = forecast
    scale = np.random.default_rng(0).permutation(np.linspace(0.5, 3.0, 600))
    dist = {
        "normal": Normal(dist.loc, scale),
        "student": StudentT(dist.loc, scale, df=5.0),
        "quantiles": Quantiles([0.1, 0.5, 0.9], Normal(dist.loc, scale).quantile([0.1, 0.5, 0.9])),
        "ensemble": Empirical(Normal(dist.loc, scale).sample(15, random_state=0)),
    }[family]
    lower, upper = dist.interval(0.7).T
    inside = (lower <= y) & (y <= upper)
    gaps = [abs(inside[rows].mean() - 0.7) for rows in np.array_split(np.argsort(dist.std()), 6)]
    assert qce(y, dist, levels=0.7, n_bins=6) == pytest.approx(np.mean(gaps), rel=1e-10)
    if family == "normal":  # eq. 21-22 of the paper, with chi square of one degree
        error = np.mean((y - dist.loc) ** 2 / scale**2 <= stats.chi2.ppf(0.7, df=1))
        assert qce(y, dist, levels=0.7, n_bins=1) == pytest.approx(abs(error - 0.7), rel=1e-12)
    # Several levels are averaged, and the marginal error is that of one bin.
    assert qce(y, dist) == qce(y, dist, levels=np.arange(1, 10) / 10)
    for options in ({}, {"sample_weight": weight}):
        each = [qce(y, dist, levels=p, **options) for p in (0.9, 0.2, 0.5)]
        assert qce(y, dist, levels=[0.9, 0.2, 0.5], **options) == pytest.approx(np.mean(each), rel=1e-12)
        if family != "ensemble":
            marginal = qce(y, dist, marginal=True, **options)
            ecpe = expected_coverage_probability_error(y, dist, levels=9, **options)
            assert marginal == pytest.approx(ecpe) == pytest.approx(qce(y, dist, n_bins=1, **options))


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@pytest.mark.parametrize("noise", [0.0, 1e-13])
def test_constant_sigma_is_one_bin_even_if_rounding_tells_rows_apart(strategy, noise):
    rng = np.random.default_rng(0)
    y, scale = rng.normal(size=400), 2.0 * (1 + noise * rng.normal(size=400))
    for metric in (uce, qce):
        value = metric(y, Normal(np.zeros(400), scale), strategy=strategy)
        expected = metric(y, Normal(np.zeros(400), np.full(400, 2.0)), n_bins=1)
        assert value == pytest.approx(expected, rel=1e-9)
    expected = abs(2.0 - np.sqrt(np.mean(y**2))) / 2.0
    assert ence(y, Normal(np.zeros(400), scale), strategy=strategy) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_more_bins_than_rows_and_one_row(strategy):
    y, dist = np.array([1.0, -3.0]), Normal([0.0, 0.0], [1.0, 2.0])
    assert uce(y, dist, strategy=strategy) == pytest.approx((0 + 5) / 2)
    assert ence(y, dist, strategy=strategy) == pytest.approx((0 + 0.5) / 2)
    assert uce(y[1:], dist[1:], strategy=strategy) == pytest.approx(5)
    assert qce(y[1:], dist[1:], levels=0.9, strategy=strategy) == pytest.approx(0.1)


def test_calibrated_forecast_scores_what_the_docstring_says():
    rng = np.random.default_rng(0)
    n, values = 1000, []
    for _ in range(200):
        scale = np.exp(0.2 * rng.normal(size=n))
        y, dist = scale * rng.normal(size=n), Normal(np.zeros(n), scale)
        values.append((qce(y, dist, levels=0.9), ence(y, dist)))
    expected = np.sqrt([2 * 0.09 * 10 / (np.pi * n), 10 / (np.pi * n)])
    np.testing.assert_allclose(np.mean(values, axis=0), expected, rtol=0.08)


def test_bad_options(forecast):
    for metric, options in (
        (uce, [("on", "range"), ("strategy", "kmeans"), ("n_bins", 0)]),
        (qce, [("marginal", "yes"), ("strategy", "kmeans"), ("levels", [1.1]), ("n_bins", -1)]),
        (reliability_table, [("on", "range"), ("n_bins", 0), ("strategy", "kmeans"), ("coverage", 1.0)]),
        (conditional_coverage, [("coverage", 90), ("strategy", "kmeans"), ("n_bins", 0)]),
    ):
        for option, value in options:
            with pytest.raises(ValueError, match=f"`{option}` must"):
                metric(*forecast, **{option: value})


def test_table_of_equal_width_bins(forecast):
    y, dist = forecast
    table = reliability_table(y, dist, strategy="uniform", n_bins=5)
    edges = np.linspace(dist.scale.min(), dist.scale.max(), 6)
    count = np.histogram(dist.scale, edges)[0]
    np.testing.assert_allclose(table["lower"], edges[:-1][count > 0])
    np.testing.assert_allclose(table["upper"], edges[1:][count > 0])
    np.testing.assert_allclose(table["n"], count[count > 0])
    by_variance = reliability_table(y, dist, strategy="uniform", n_bins=5, on="variance")
    np.testing.assert_allclose(by_variance["upper"].iloc[-1], dist.scale.max())
    np.testing.assert_allclose(by_variance["lower"].iloc[0], dist.scale.min())


def test_table_does_not_depend_on_order_and_weights_repeat(forecast, weight):
    y, dist = forecast
    rows = np.random.default_rng(1).permutation(y.size)
    pd.testing.assert_frame_equal(reliability_table(y[rows], dist[rows]), reliability_table(y, dist))
    repeated = np.repeat(np.arange(y.size), weight)
    for table in (reliability_table, conditional_coverage):
        pd.testing.assert_frame_equal(
            table(y, dist, sample_weight=weight), table(y[repeated], dist[repeated]), rtol=1e-9
        )


def test_coverage_by_width(forecast):
    y, dist = forecast
    table = conditional_coverage(y, dist, n_bins=4)
    assert list(table.columns) == ["lower", "upper", "n", "coverage", "standard_error", "mean_width"]
    width = np.diff(dist.interval(0.9))[:, 0]
    assert table["lower"].iloc[0] == pytest.approx(width.min())
    assert table["upper"].iloc[-1] == pytest.approx(width.max())
    np.testing.assert_allclose(table["standard_error"], np.sqrt(0.09 / table["n"]))
    share = table["n"] / y.size
    assert share @ table["coverage"] == pytest.approx(prediction_interval_coverage(y, dist))
    assert share @ table["mean_width"] == pytest.approx(mean_interval_width(y, dist))
    bounds = conditional_coverage(y, dist.interval(0.9), n_bins=4)
    pd.testing.assert_frame_equal(bounds, table)


def test_coverage_by_feature_and_by_group(forecast, weight):
    y, dist = forecast
    feature = np.random.default_rng(0).permutation(np.arange(-300.0, 300.0))
    lower, upper = dist.interval(0.9).T
    inside = (lower <= y) & (y <= upper)
    expected = [inside[rows].mean() for rows in np.array_split(np.argsort(feature), 3)]
    table = conditional_coverage(y, dist, feature=feature, n_bins=3)
    np.testing.assert_allclose(table["coverage"], expected)
    weighted = conditional_coverage(y, dist, feature=list(feature), n_bins=3, sample_weight=weight)
    assert weighted["n"].sum() == pytest.approx(weight.sum())
    assert len(conditional_coverage(y, dist, feature=np.zeros(600))) == 1
    groups = np.random.default_rng(0).choice(["b", "a", "c"], size=600)
    for given in (None, weight):
        table = conditional_coverage(y, dist, groups=groups, sample_weight=given)
        assert list(table.index) == ["a", "b", "c"]
        for label in "abc":
            rows = groups == label
            part = {"sample_weight": None if given is None else weight[rows]}
            covered, width = prediction_interval_coverage, mean_interval_width
            for name, metric in (("coverage", covered), ("mean_width", width)):
                assert table.loc[label, name] == pytest.approx(metric(y[rows], dist[rows], **part))
        again = conditional_coverage(y, dist, groups=pd.Series(groups), sample_weight=given)
        pd.testing.assert_frame_equal(again, table)


def test_bad_features_and_groups(forecast):
    for options, error, message in (
        ({"feature": forecast[0], "groups": forecast[0]}, TypeError, "must not both be given"),
        ({"feature": forecast[0][:3]}, ValueError, "`feature` must have 600 rows"),
        ({"feature": np.full(600, np.nan)}, ValueError, "`feature` must be finite"),
        ({"groups": ["a", "b"]}, ValueError, r"`groups` must have shape \(600,\)"),
        ({"groups": np.array([None] + ["a"] * 599, dtype=object)}, ValueError, "a label in every row"),
    ):
        with pytest.raises(error, match=message):
            conditional_coverage(*forecast, **options)
    bounds = np.array([[0.0, 1.0], [-np.inf, 2.0]])  # An infinite width has no bin.
    with pytest.raises(ValueError, match="`y_pred` must be finite"):
        conditional_coverage([0.5, 0.5], bounds)
    assert conditional_coverage([0.5, 0.5], bounds, groups=[0, 1])["coverage"].tolist() == [1.0, 1.0]


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


@pytest.mark.parametrize("unit", [0.1, 1 / 3, 7.0, 1e-3, 2.0**-320, 2.0**320])
def test_bins_do_not_depend_on_the_units_of_y(unit):
    """Sigmas of 1 to 11 lie on the edges of ten bins, by their root mean square or by their variance."""
    rng = np.random.default_rng(0)
    whole = rng.integers(1, 12, size=600).astype(float)
    noise = rng.normal(size=600)
    for metric, scale, power in ((ence, whole, 0), (uce, np.sqrt(whole), 2)):
        y = scale * noise
        for n_bins in (3, 5, 10):
            plain, other = (
                metric(u * y, Normal(0 * y, u * scale), n_bins=n_bins, strategy="uniform")
                for u in (1.0, unit)
            )
            assert other == pytest.approx(plain * unit * unit if power else plain, rel=1e-9)
    for options in ({}, {"on": "variance", "strategy": "uniform"}, {"strategy": "uniform"}):
        plain, table = (
            reliability_table(u * whole * noise, Normal(0 * whole, u * whole), **options) for u in (1.0, unit)
        )
        plain[["lower", "upper", "rmv", "rmse"]] *= unit
        pd.testing.assert_frame_equal(table, plain, rtol=1e-12)


def test_equal_count_bins_by_hand_where_nothing_ties():
    rng = np.random.default_rng(0)
    scale = rng.permutation(np.arange(1.0, 61.0))
    y = scale * rng.normal(size=60)
    gaps = []
    for rows in np.array_split(np.argsort(scale), 6):
        rmv, rmse = np.sqrt(np.mean(scale[rows] ** 2)), np.sqrt(np.mean(y[rows] ** 2))
        gaps.append(abs(rmv - rmse) / rmv)
    assert ence(y, Normal(np.zeros(60), scale), n_bins=6) == pytest.approx(np.mean(gaps), rel=1e-12)


def test_sigmas_of_an_ensemble_that_differ_by_rounding_are_tied():
    rng = np.random.default_rng(0)
    offset = 1000 * rng.normal(size=(300, 1))
    members = offset + np.array([-0.7, 0.1, 1.3])
    y = offset[:, 0] + rng.normal(size=300)
    assert np.unique(Empirical(members).std()).size > 1
    error = np.sqrt(np.mean((y - members.mean(axis=1)) ** 2))
    sigma = np.std([-0.7, 0.1, 1.3])
    assert ence(y, Empirical(members)) == pytest.approx(abs(sigma - error) / sigma, rel=1e-9)


def test_an_outlier_in_one_bin_does_not_leak_into_the_others():
    scale = np.repeat(np.arange(1.0, 11.0), 60)
    y = scale.copy()
    assert ence(y, Normal(0 * scale, scale)) == pytest.approx(0, abs=1e-12)
    y[0] = 1e12
    assert ence(y, Normal(0 * scale, scale)) == pytest.approx((np.sqrt((1e24 + 59) / 60) - 1) / 10, rel=1e-9)
