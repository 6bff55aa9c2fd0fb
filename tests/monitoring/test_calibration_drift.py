"""The table of periods: its numbers are those of the metrics, and its flags have the stated rate."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, binomtest, kstest

from skuq.distributions import Empirical, Normal, Quantiles
from skuq.metrics import crps_loss, mean_interval_width, prediction_interval_coverage
from skuq.monitoring import MetricAccumulator, calibration_drift

LEVELS = np.arange(1, 100) / 100
PARTS = {"curves": ["calibration", "reliability"]}


def rows(n, rng, noise=1.0):
    """Return targets with this much more noise than forecast, and the forecasts."""
    scale = rng.uniform(0.5, 2.0, n)
    return noise * scale * rng.normal(size=n), Normal(np.zeros(n), scale)


def period(n, rng, noise=1.0, **arguments):
    return MetricAccumulator("crps", "mpiw", **PARTS, **arguments).update(*rows(n, rng, noise))


def table_of(noises, rng, n=500, **arguments):
    return calibration_drift({i: period(n, rng, noise) for i, noise in enumerate(noises)}, **arguments)


def noise_for(coverage):
    """Return the noise at which the 90 % intervals have this coverage."""
    return Normal(0.0, 1.0).ppf(0.95) / Normal(0.0, 1.0).ppf((1 + coverage) / 2)


def test_each_number_is_that_of_the_rows():
    y, dist = rows(2000, np.random.default_rng(0), 1.1)
    halves = [MetricAccumulator().update(y[i::2], dist[i::2]) for i in range(2)]
    row = calibration_drift({"all": halves[0] + halves[1]}, false_alarm=0.1).loc["all"]
    assert row["n"] == 2000
    assert row["coverage"] == pytest.approx(prediction_interval_coverage(y, dist), rel=1e-12)
    assert row["crps"] == pytest.approx(crps_loss(y, dist), rel=1e-12)
    error = dist.crps(y).std() / np.sqrt(2000)
    assert row["crps_standard_error"] == pytest.approx(error, rel=1e-9)
    errors = (halves[0] + halves[1]).standard_errors()
    assert errors["crps"] == pytest.approx(error, rel=1e-9)
    assert np.isnan([errors[name] for name in ("auucc", "ence", "mace")]).all()
    assert row["width"] == pytest.approx(mean_interval_width(y, dist), rel=1e-12)
    ratio = np.sqrt(np.square(y).mean() / dist.var().mean())
    assert row["rmse_to_rmv"] == pytest.approx(ratio, rel=1e-9)
    exact = kstest(dist.cdf(y), "uniform")
    assert exact.statistic - 0.01 < row["pit_distance"] <= exact.statistic
    test = binomtest(round(2000 * row["coverage"]), 2000, 0.9)
    assert tuple(row[["low", "high"]]) == pytest.approx(tuple(test.proportion_ci(0.95)), rel=1e-9)


@pytest.mark.laws
def test_p_values_are_adjusted_by_the_method_of_holm_of_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    table = table_of(NOISES, np.random.default_rng(1), false_alarm=0.05)
    raw = [binomial_and_distance(row, 0.9) for _, row in table.iterrows()]
    np.testing.assert_allclose(
        table[P_VALUES].to_numpy().ravel(),
        multitest.multipletests(np.ravel(raw), method="holm")[1],
        rtol=1e-9,
    )


NOISES, P_VALUES = [1.0, 1.05, 1.1, 1.15, 1.2], ["p_coverage", "p_pit"]


def test_p_values_are_adjusted_by_the_method_of_holm():
    table = table_of(NOISES, np.random.default_rng(1), false_alarm=0.05)
    raw = np.ravel([binomial_and_distance(row, 0.9) for _, row in table.iterrows()])
    order = np.argsort(raw)
    stepwise = np.minimum(np.maximum.accumulate(raw[order] * np.arange(10, 0, -1)), 1)
    np.testing.assert_allclose(table[P_VALUES].to_numpy().ravel()[order], stepwise, rtol=1e-9)
    assert table["flag"].tolist() == (table[P_VALUES].min(axis=1) <= 0.05).tolist()


def binomial_and_distance(row, coverage):
    """Return the p-values of one period before they are adjusted."""
    n, hits = int(row["n"]), round(row["n"] * row["coverage"])
    sides = [binomtest(hits, n, coverage, side).pvalue for side in ("less", "greater")]
    # The distribution of the distance: of uniform numbers on a line whose farthest point is this far away.
    sample = (np.arange(n) + 0.5) / n
    shifted = np.clip(sample + row["pit_distance"] - 0.5 / n, 0, 1)
    return min(1.0, 2 * min(sides)), kstest(shifted, "uniform", method="exact").pvalue


def test_intervals_are_those_of_clopper_and_pearson_and_flag_without_the_nominal_coverage():
    rng = np.random.default_rng(2)
    for noise, n in [(1.0, 30), (0.05, 30), (1e9, 30), (1.2, 1000)]:
        row = table_of([noise], rng, n, false_alarm=0.02).iloc[0]
        expected = binomtest(round(n * row["coverage"]), n).proportion_ci(0.99)
        assert (row["low"], row["high"]) == pytest.approx(tuple(expected), rel=1e-9)
    table = table_of(rng.uniform(0.9, 1.2, 40), rng, 300)
    outside = (table["low"] > 0.9) | (table["high"] < 0.9)
    assert 0 < outside.sum() < 40
    assert table.loc[outside, "flag"].all()


def test_a_table_of_calibrated_periods_is_flagged_as_rarely_as_stated():
    rng = np.random.default_rng(3)
    assert sum(table_of([1.0] * 4, rng, 100, false_alarm=0.1)["flag"].any() for _ in range(30)) <= 3


@pytest.mark.parametrize(
    "dist",
    [
        Empirical([np.arange(9)], [binom.pmf(np.arange(9), 8, 0.4)]),
        Quantiles(LEVELS, np.maximum(Normal(0.5, 1.0).quantile(LEVELS), 0.0)),
    ],
    ids=["counts", "half of the targets zero"],
)
def test_calibrated_forecasts_with_atoms_are_flagged_as_rarely_as_stated(dist):
    rng = np.random.default_rng(12)
    periods = {
        day: MetricAccumulator("crps", "mpiw", **PARTS).update(
            dist.quantile(rng.uniform(size=500))[0], dist[np.zeros(500, dtype=int)]
        )
        for day in range(15)
    }
    table = calibration_drift(periods, false_alarm=0.1)
    assert table["low"].max() > 0.9  # more than nominal
    assert not table["flag"].any()


@pytest.mark.parametrize("error", [-1.0, 1.0])
def test_forecasts_with_atoms_that_lost_their_calibration_are_flagged(error):
    rng = np.random.default_rng(13)
    probability = 1 / (1 + np.exp(-error))
    dist = Empirical(
        np.tile(np.arange(31.0), (1000, 1)), np.tile(binom.pmf(np.arange(31), 30, 0.5), (1000, 1))
    )
    shifted = MetricAccumulator("crps", "mpiw", **PARTS).update(rng.binomial(30, probability, 1000), dist)
    wide = MetricAccumulator("crps", "mpiw", **PARTS).update(rng.integers(13, 18, 1000), dist)
    assert calibration_drift({"shifted": shifted, "too wide": wide})["flag"].all()


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 400])
def test_false_alarms_of_400_streams(n):
    rng = np.random.default_rng(4)
    flagged = [table_of([1.0] * 12, rng, n, false_alarm=0.05)["flag"].any() for _ in range(400)]
    assert sum(flagged) <= 20


def test_a_drop_of_coverage_is_found_within_1500_rows():
    rng, found = np.random.default_rng(5), []
    for _ in range(15):
        table = table_of([1.0] * 4 + [noise_for(0.85)] * 3, rng)
        flagged = np.flatnonzero(table["flag"][4:])
        found.append(500 * (flagged[0] + 1) if flagged.size else np.inf)
    assert np.median(found) <= 1500
    days = pd.period_range("2026-01", periods=8, freq="D")
    periods = {day: period(400, rng, 1.0 if day.day < 4 else 1.25) for day in days}
    table = calibration_drift(periods)
    assert isinstance(table.index, pd.PeriodIndex)
    assert table["flag"].tolist() == [False] * 3 + [True] * 5


def test_a_shift_shows_in_the_pit_though_the_coverage_is_right():
    rng = np.random.default_rng(6)
    scale = np.ones(1000)
    # Narrower noise makes up for the shift in the share of targets inside.
    y = 0.4 + 0.9 * rng.normal(size=1000)
    table = calibration_drift({"shifted": MetricAccumulator().update(y, Normal(0 * scale, scale))})
    assert table.loc["shifted", "p_coverage"] > 0.01 > table.loc["shifted", "p_pit"]
    assert table.loc["shifted", "flag"]


def test_weights_count_repetitions():
    rng = np.random.default_rng(8)
    y, dist = rows(300, rng)
    weight = rng.integers(0, 4, 300)
    again = np.repeat(np.arange(300), weight)
    weighted = MetricAccumulator().update(y, dist, weight)
    repeated = MetricAccumulator().update(y[again], dist[again])
    pd.testing.assert_frame_equal(calibration_drift({0: weighted}), calibration_drift({0: repeated}))


def test_a_standard_deviation_of_zero_in_every_row():
    y = np.array([0.0, 1.0, 2.0])
    degenerate = MetricAccumulator("crps", "mpiw", **PARTS).update(y, Normal(y + 1, 0 * y))
    labels = [(2025, 12), (2026, 1)]  # tuples stay tuples
    table = calibration_drift(dict.fromkeys(labels, degenerate))
    assert table.index.tolist() == labels
    assert (table["rmse_to_rmv"] == np.inf).all()
    assert (table[["coverage", "low"]] == 0).all(axis=None)


def test_periods_without_what_the_table_needs_raise():
    several = {coverage: period(50, np.random.default_rng(11), coverage=coverage) for coverage in (0.9, 0.8)}
    for periods, error, message in (
        ([MetricAccumulator()], TypeError, "`periods` must be a mapping of labels to accumulators, got list"),
        ({}, ValueError, "at least one period"),
        ({"May": {"crps": 1.0}}, TypeError, "must hold accumulators, got dict for 'May'"),
        ({"May": MetricAccumulator()}, ValueError, "rows in every period, got none for 'May'"),
        ({"May": MetricAccumulator("crps")}, ValueError, "without 'mpiw' for 'May'"),
        ({"May": MetricAccumulator(curves=[])}, ValueError, "without 'calibration' for 'May'"),
        (several, ValueError, r"one nominal coverage, got 0\.8 and 0\.9\. Create all"),
    ):
        with pytest.raises(error, match=message):
            calibration_drift(periods)
    with pytest.raises(ValueError, match="`false_alarm` must lie strictly between 0 and 1"):
        calibration_drift({0.9: several[0.9]}, false_alarm=0.0)
