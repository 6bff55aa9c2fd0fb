"""Agreement of metrics and recalibration (Wibbeke et al. 2025, sections 4.1 to 4.3): code and claims."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq.distributions import Normal

SCRIPT = "wibbeke_2025_metrics"
PROPER = ["NLL", "CRPS", "IS", "Pinball"]


@pytest.fixture(scope="module")
def folder(shared_data):
    """Return the folder of the data, or skip where there are none."""
    shared_data("paper001/servo")
    return Path(os.environ["SKUQ_DATA"]) / "paper001"


@pytest.fixture(scope="module")
def table(study):
    """Return the results of the full run."""
    return study.read_results()


# --------------------------------------------------------------------------------------------- recalibration


@pytest.mark.parametrize("n", [50, 200])
def test_isotonic_regression_has_the_moments_of_netcal(study, n):
    netcal = pytest.importorskip("netcal")
    from netcal.regression import IsotonicRegression

    rng = np.random.default_rng(0)
    loc, scale = rng.uniform(0.3, 0.7, n), rng.uniform(0.05, 0.2, n)
    y = rng.normal(loc, 1.5 * scale)
    t, _, cdf = IsotonicRegression().fit((loc, scale), y).transform((loc, scale))
    mean, variance = (np.ravel(each) for each in netcal.cumulative_moments(t, cdf))
    made = study.isotonic_of_netcal(Normal(loc, scale), y)
    np.testing.assert_allclose(made.mean(), mean, rtol=1e-12)
    np.testing.assert_allclose(made.std(), np.sqrt(variance), rtol=1e-12)


def test_the_moments_of_netcal_depend_on_the_origin_of_y(study):
    rng = np.random.default_rng(0)
    y = rng.normal(size=100)
    near, far = (study.isotonic_of_netcal(Normal(np.full(100, at), np.ones(100)), y + at) for at in (0, 100))
    assert near.std()[0] == pytest.approx(1, abs=0.2)
    assert far.std()[0] > 10


def test_other_rows_are_not_used_in_the_fit(study):
    rng = np.random.default_rng(0)
    y, dist = 2 * rng.normal(size=400), Normal(np.zeros(400), np.ones(400))
    made = {"as published": dist, "corrected": dist}
    first = study.measure_all("real", y, made, 1.0)
    y[200:] *= 3
    second = study.measure_all("real", y, made, 1.0)
    key = "real", *study.OTHER_ROWS, "variance scaling"
    assert first[key]["Sharpness"] == pytest.approx(second[key]["Sharpness"])
    assert first[key]["RMSE"] == pytest.approx(second[key]["RMSE"] / 3)
    same = "real", *study.SAME_ROWS, "variance scaling"
    assert second[same]["Sharpness"] > 1.5 * first[same]["Sharpness"]


# -------------------------------------------------------------------------------------------------- the runs


def test_a_short_run(study, folder, capsys, monkeypatch):
    monkeypatch.setattr(study, "QUICK_EPOCHS", 2)
    monkeypatch.setattr(study, "SMALL", ("servo", "computer_hardware"))
    monkeypatch.setattr(study, "SMALL_SYNTHETIC", ("arctan",))
    table = study.main(["--data", str(folder.parent)])
    assert table.shape == (2 * 16 + 3, len(study.METRICS))
    assert np.isfinite(table.to_numpy()).all()
    assert "Median change by recalibration in percent, as it should be" in capsys.readouterr().out


@pytest.mark.slow
def test_the_full_run_is_reproduced(study, folder, table):
    """Weights of networks differ between machines, so only the scores are compared, and only roughly."""
    found = study.run(folder, ("servo",), ("arctan",), study.EPOCHS)
    expected = table.loc[found.index]
    np.testing.assert_allclose(found[["RMSE", "CRPS"]], expected[["RMSE", "CRPS"]], rtol=0.3)


def test_the_full_run_has_every_set(study, table):
    counts = table.groupby(level=["study", "set"]).size()
    assert dict(counts["real"]) == dict.fromkeys((*study.FULL, *study.LARGE), 16)
    assert dict(counts["synthetic"]) == dict.fromkeys(study.SYNTHETIC, 3)
    assert np.isfinite(table.to_numpy()).all()


@pytest.mark.parametrize("name", ["euclidean", "sparse_uncorrelated"])
def test_synthetic_sets_are_prepared_like_the_real_ones(study, name):
    split = study.synthetic(name)
    assert 0.9 * 1000 < len(split.y) <= 1000
    assert len(split.train) == int(0.7 * len(split.y))
    assert split.X.min() >= 0
    assert split.X.max() <= 1


# ------------------------------------------------------------------------------------------------ summaries


def test_means_of_groups(study):
    tau = pd.DataFrame(0.0, index=study.METRICS, columns=study.METRICS)
    tau.loc["CalS", "ECPE"] = tau.loc["ECPE", "CalS"] = 0.9
    tau.loc["RMSE", "CalS"] = tau.loc["CalS", "RMSE"] = -0.9
    means = study.group_means(tau)
    assert means["within group 2"] == pytest.approx(0.3)
    assert means["group 1 with group 2"] == pytest.approx(-0.05)
    assert means["within group 1"] == means["group 2 with the rest"] == 0


def test_changes_are_relative_to_the_forecasts_before(study, table):
    found = study.changes(table, study.OTHER_ROWS)
    rows = table.xs(("real", *study.OTHER_ROWS), level=study.KEYS[:4])
    before, after = rows.loc[("before", "servo")], rows.loc[("isotonic", "servo")]
    assert found.loc[("isotonic", "servo"), "CRPS"] == pytest.approx(100 * (after / before - 1)["CRPS"])
    distance = 100 * (abs(after["PICP"] - 0.95) - abs(before["PICP"] - 0.95))
    assert found.loc[("isotonic", "servo"), "PICP"] == pytest.approx(distance)
