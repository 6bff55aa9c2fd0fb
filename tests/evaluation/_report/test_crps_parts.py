"""Rows of the parts of the CRPS in a report."""

import numpy as np
import pytest

from skuq.distributions import Normal
from skuq.evaluation import score_decomposition, uncertainty_report
from skuq.metrics._decomposition.sections import QuantileSections

NAMES = ["crps_miscalibration", "crps_discrimination", "crps_uncertainty"]
RANGE = ["calibrated", "calibrated_low", "calibrated_high"]


def rows(n, bias=0.0):
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=n), np.exp(0.4 * rng.normal(size=n))
    return loc + scale * rng.normal(size=n), Normal(loc + bias, scale)


def test_the_rows_show_where_the_loss_comes_from():
    y, dist = rows(600, bias=0.5)
    report = uncertainty_report(y, dist, metrics=["crps", *NAMES], random_state=0)
    values = report["value"]
    whole = score_decomposition(y, dist, random_state=0)
    assert values["crps_miscalibration"] == pytest.approx(whole.miscalibration, rel=1e-12)
    assert values[NAMES] @ [1, -1, 1] == pytest.approx(values["crps"], rel=0.005)
    # a bootstrap interval would be too high
    assert report.loc[NAMES, ["low", "high"]].isna().all(axis=None)
    assert report.loc["crps", ["low", "high"]].notna().all()
    miscalibration = report.loc["crps_miscalibration"]
    assert miscalibration["calibrated_high"] == pytest.approx(whole.miscalibration_limit, rel=0.15)
    assert miscalibration["calibrated_high"] < miscalibration["value"]
    assert "worse than a calibrated model" in miscalibration["reading"]
    assert "lower the CRPS by 0.1" in miscalibration["reading"]


def test_all_parts_are_computed_once_for_each_draw(monkeypatch):
    y, dist = rows(50)
    repetitions = []
    parts = QuantileSections.parts

    def counting(self, y, weight=None):
        repetitions.append(len(y))
        return parts(self, y, weight)

    monkeypatch.setattr(QuantileSections, "parts", counting)
    uncertainty_report(y, dist, metrics=NAMES, n_simulations=20, random_state=0)
    assert sum(repetitions) == 1 + 20


def test_options_of_one_part_leave_the_others():
    y, dist = rows(60)
    options = {"crps_miscalibration": {"levels": [0.5]}}
    report = uncertainty_report(y, dist, metrics=NAMES, options=options, n_simulations=5, random_state=0)
    median = score_decomposition(y, dist, levels=[0.5], n_redraws=0)
    default = score_decomposition(y, dist, n_redraws=0)
    assert report.loc["crps_miscalibration", "value"] == pytest.approx(median.miscalibration, rel=1e-12)
    assert report.loc["crps_discrimination", "value"] == pytest.approx(default.discrimination, rel=1e-12)


def test_weights_are_repetitions():
    y, dist = rows(60)
    weight = np.random.default_rng(1).integers(0, 4, size=60)
    repeated = np.repeat(np.arange(60), weight)
    arguments = {"metrics": NAMES, "n_simulations": 10, "random_state": 0}
    weighted = uncertainty_report(y, dist, sample_weight=weight, **arguments)
    expected = uncertainty_report(y[repeated], dist[repeated], **arguments)
    columns = ["value", *RANGE]
    np.testing.assert_allclose(
        weighted[columns].to_numpy(float), expected[columns].to_numpy(float), rtol=1e-11
    )


@pytest.mark.parametrize(("n", "simulated"), [(10_000, True), (10_001, False)])
def test_the_parts_of_many_rows_are_not_simulated(n, simulated):
    y, dist = Normal(np.zeros(4), np.ones(4)).sample(1, 0)[:, 0], Normal(np.zeros(4), np.ones(4))
    weight = np.full(4, n / 4)
    report = uncertainty_report(y, dist, sample_weight=weight, metrics=NAMES, n_simulations=2, random_state=0)
    assert report[RANGE].notna().all(axis=None) == simulated
    assert report["reading"].str.contains("by chance|than").any() == simulated


def test_bounds_have_no_parts():
    y, dist = rows(60)
    report = uncertainty_report(y, dist.interval(0.9), n_resamples=0)
    assert not set(NAMES) & set(report.index)
