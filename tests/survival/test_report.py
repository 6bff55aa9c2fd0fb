"""The report of censored targets."""

import numpy as np
import pandas as pd
import pytest

from skuq.distributions import Empirical, Normal
from skuq.metrics import crps_loss, nll_loss
from skuq.survival import concordance_score, ipcw_crps_loss, survival_report
from tests.survival.worlds import waiting_times


@pytest.fixture(scope="module")
def world():
    return waiting_times(1000, 0)


def test_the_table_has_the_metrics_of_each_model(world):
    y, event = np.log(world.y), world.event
    models = {"truth": world.log_truth, "wide": Normal(world.loc, 2 * world.scale)}
    report = survival_report(y, models, event=event, upper=1.5)
    assert list(report.table.columns) == ["truth", "wide", "kaplan_meier"]
    for name, dist in models.items():
        column = report.table[name]
        assert column["ipcw_crps"] == ipcw_crps_loss(y, dist, event=event, upper=1.5)
        assert column["nll"] == nll_loss(y, dist, event=event)
        assert column["concordance"] == concordance_score(y, dist, event=event)
    better = ["ipcw_crps", "localized_crps", "ipcw_brier", "nll", "calibration_error"]
    assert (report.table["truth"] < report.table["wide"])[better].all()
    assert (report.table.loc["ipcw_crps"] <= report.table.loc["ipcw_crps", "kaplan_meier"]).all()
    assert report.table.loc["concordance", "kaplan_meier"] == 0.5
    assert (report.n_rows, report.n_events) == (1000, event.sum())
    assert "1000 rows" in repr(report)


def test_without_censoring_it_has_the_usual_scores(world):
    time, dist = np.log(world.time)[:100], world.log_truth[:100]
    report = survival_report(time, dist, n_resamples=0)
    same = survival_report(time, dist, event=np.ones(100, dtype=bool), n_resamples=0)
    pd.testing.assert_frame_equal(report.table, same.table, check_exact=True)
    assert report.table.loc["localized_crps", "model"] == crps_loss(time, dist)
    assert report.table.loc["coverage_low", "model"] == report.table.loc["coverage_high", "model"]


@pytest.mark.laws
def test_intervals_contain_the_value_of_many_rows(world):
    """Bounds of 40 samples of rows contain the value of all rows in about 95 % of the samples."""
    big = waiting_times(8000, 2)
    y, dist = np.log(big.y), Normal(big.loc, 1.2 * big.scale)
    truth = survival_report(y[:3000], dist[:3000], event=big.event[:3000], upper=1.5, n_resamples=0).table
    inside = []
    for start in range(0, 8000, 200):
        rows = slice(start, start + 200)
        report = survival_report(
            y[rows], dist[rows], event=big.event[rows], upper=1.5, n_resamples=60, random_state=0
        )
        assert report.low.loc["calibration_error"].isna().all()
        inside.append((report.low <= truth)["model"] & (truth <= report.high)["model"])
    share = np.mean(inside, axis=0)[truth.index != "calibration_error"]
    assert (share >= 0.8).all()
    assert share.mean() < 0.99


def test_intervals_are_reproducible_and_optional(world):
    given = {"event": world.event[:60], "upper": 1.1}
    y, dist = np.log(world.y[:60]), world.log_truth[:60]
    one, same = (survival_report(y, dist, n_resamples=5, random_state=1, **given) for _ in range(2))
    pd.testing.assert_frame_equal(one.low, same.low)
    assert "[" in repr(one)
    assert "95 % confidence intervals" in repr(one)
    none = survival_report(y, dist, n_resamples=0, **given)
    assert none.low.isna().all(axis=None)
    assert "[" not in repr(none)
    pd.testing.assert_frame_equal(none.table, one.table)


def test_weights_count_repetitions(world):
    y, event, dist = np.log(world.y[:60]), world.event[:60], world.log_truth[:60]
    weight = np.arange(60) % 3
    rows = np.repeat(np.arange(60), weight)
    given = {"upper": 1.2, "n_resamples": 0}
    weighted = survival_report(y, dist, event=event, sample_weight=weight, **given)
    repeated = survival_report(y[rows], dist[rows], event=event[rows], **given)
    pd.testing.assert_frame_equal(weighted.table, repeated.table)


def test_times_of_which_many_are_censored_at_the_end():
    """74 % of the persons in the Rossi data of lifelines are censored at the last week."""
    pytest.importorskip("lifelines")
    from lifelines.datasets import load_rossi

    table = load_rossi()
    y, event = table["week"], table["arrest"] == 1
    report = survival_report(y, Normal(np.full(432, 60.0), np.full(432, 20.0)), event=event, n_resamples=0)
    assert report.upper < 52
    assert np.isfinite(report.table["model"]).all()
    assert report.table.loc["calibration_error", "kaplan_meier"] < 1e-12
    assert report.table.loc["coverage", "kaplan_meier"] == pytest.approx(0.9)


def test_many_times_have_few_steps(world):
    report = survival_report(np.log(world.time), world.log_truth, n_resamples=0)
    assert report.table.loc["ipcw_crps", "kaplan_meier"] == pytest.approx(
        ipcw_crps_loss(
            np.log(world.time), Empirical(np.tile(np.log(world.time), (1000, 1))), upper=report.upper
        ),
        rel=1e-4,
    )


def test_the_default_time_counts_repetitions():
    y = np.array([1.0, 2.0, 3.0, 4.0, 50.0])
    dist, weight = Normal(y, np.ones(5)), np.array([1, 1, 1, 1, 6])
    weighted = survival_report(y, dist, sample_weight=weight, n_resamples=0)
    repeated = survival_report(np.repeat(y, weight), dist[np.repeat(np.arange(5), weight)], n_resamples=0)
    assert weighted.upper == repeated.upper == 50.0
    assert survival_report(y, dist, n_resamples=0).upper == np.quantile(y, 0.8)
    assert (weighted.n_rows, weighted.n_events) == (10, 10)
