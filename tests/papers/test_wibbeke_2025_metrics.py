"""Agreement of metrics and recalibration (Wibbeke et al. 2025, sections 4.1 to 4.3): code and claims."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from benchmarks.tables import read
from benchmarks.wibbeke_2025_shared import GROUPS
from skuq.distributions import Normal

pytestmark = pytest.mark.docs

SCRIPT = "wibbeke_2025_metrics"
PROPER = ["NLL", "CRPS", "IS", "Pinball"]


@pytest.fixture(scope="module")
def table(study):
    """Return the results of the full run."""
    return read("wibbeke_2025_metrics").set_index(study.KEYS).astype(float)


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
    table = study.main([])
    assert table.shape == (2 * 16 + 3, len(study.METRICS))
    assert np.isfinite(table.to_numpy()).all()
    assert "wibbeke_2025_metrics" in capsys.readouterr().out


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


# ------------------------------------------------ the claims of docs/replications/wibbeke-2025-metrics.rst

IN_UNITS = ("RMSE", "Sharpness", "NLL", "CRPS", "IS", "Pinball", "CWC", "UCE")
WITHOUT_UNITS = ("CalS", "ECPE", "QCE", "PICP", "ENCE")


def mean_tau(tau, pairs):
    return np.mean([tau.loc[pair] for pair in pairs])


def with_group(study, tau, metric, group):
    return tau.loc[metric, list(GROUPS[group])].mean()


@pytest.mark.parametrize("which", ["real", "synthetic"])
@pytest.mark.parametrize("name", ["as published", "as it should be"])
def test_groups_one_and_two_survive(study, table, which, name):
    means = study.group_means(study.taus(table, which, study.SETTINGS[name]))
    assert means["within group 1"] > 0.85
    assert means["within group 2"] > 0.65
    assert abs(means["within the rest"]) < 0.1


def test_published_synthetic_sets_do_not_have_the_clusters_of_the_real_ones(study, table):
    """Groups 1 and 2 disagree on real sets and agree on synthetic ones; corrected, they disagree on both."""
    signs = {
        name: [
            study.group_means(study.taus(table, which, setting))["group 1 with group 2"]
            for which in ("real", "synthetic")
        ]
        for name, setting in study.SETTINGS.items()
    }
    real, synthetic = signs["as published"]
    assert real < -0.2 < 0.3 < synthetic
    assert max(signs["as it should be"]) < -0.5


@pytest.mark.parametrize("which", ["real", "synthetic"])
def test_as_it_should_be_the_rest_joins_the_groups(study, table, which):
    tau = study.taus(table, which, study.SETTINGS["as it should be"])
    assert mean_tau(tau, combinations(IN_UNITS, 2)) > 0.7
    assert mean_tau(tau, combinations(WITHOUT_UNITS, 2)) > 0.65
    assert mean_tau(tau, product(IN_UNITS, WITHOUT_UNITS)) < -0.45
    column = ("real", "synthetic").index(which)
    expected = {
        ("ENCE", "group 2"): (0.75, 0.63),
        ("PICP", "group 2"): (0.58, 0.48),
        ("CWC", "group 1"): (0.68, 0.79),
        ("UCE", "group 1"): (0.42, 0.81),
    }
    for (metric, name), values in expected.items():
        assert with_group(study, tau, metric, name) == pytest.approx(values[column], abs=0.0051), metric


def test_as_published_ence_belongs_to_no_group(study, table):
    tau = study.taus(table, "real", study.PUBLISHED)
    assert tau.loc["ENCE"].drop("ENCE").max() < 0.1
    assert with_group(study, tau, "UCE", "group 1") == pytest.approx(0.76, abs=0.005)
    for metric in ("PICP", "CWC", "ENCE"):
        assert max(with_group(study, tau, metric, name) for name in ("group 1", "group 2")) < 0.4


@pytest.mark.parametrize("name", ["as published", "as it should be"])
def test_forest_fires_is_among_the_best_by_scores_and_the_worst_by_group_two(study, table, name):
    ranks = study.part(table, "real", study.SETTINGS[name]).rank().loc["forest_fires"]
    best, worst = ((1, 2), 15) if name == "as published" else ((3, 5), 14)
    by_scores = ranks[list(GROUPS["group 1"])]
    assert (by_scores.min(), by_scores.max()) == best
    assert ranks[list(GROUPS["group 2"])].min() == worst


def test_recalibration_changes_metrics_as_the_page_states(study, table):
    """The published means hold a thirty-second of the signal, which beta calibration amplifies."""
    settings = study.PUBLISHED, study.SAME_ROWS, study.OTHER_ROWS
    published, same, other = (study.changes(table, setting) for setting in settings)
    for found, rmse in ((published, -47), (other, -1)):
        assert found.loc["GP beta"].median()["RMSE"] == pytest.approx(rmse, abs=0.5)
    for found, worse in ((published, 0.03), (other, 0.10)):
        assert (found[PROPER] > 3).mean(axis=None) == pytest.approx(worse, abs=0.005)
    assert (same[PROPER] > 3).mean(axis=None) == pytest.approx(1 / 240)
    for found, one, two, contradicts, sharper, unimproved in (
        (published, 0.46, 0.12, 0.65, 34, 10),
        (other, 0.57, 0.06, 0.85, 16, 5),
    ):
        for name, expected in (("group 1", one), ("group 2", two)):
            within = found[list(GROUPS[name])].abs() <= 3
            assert within.mean(axis=None) == pytest.approx(expected, abs=0.01)
        both = (found > 3).any(axis=1) & (found < -3).any(axis=1)
        assert both.mean() == pytest.approx(contradicts, abs=0.01)
        rows = found[found["Sharpness"] < -3]
        assert (len(rows), int((rows["CRPS"] >= -3).sum())) == (sharper, unimproved)


def test_scores_agree_on_the_best_recalibration_and_ence_does_not(study, table):
    tau = study.taus_of_methods(table, study.OTHER_ROWS)
    assert mean_tau(tau, combinations(PROPER, 2)) == pytest.approx(0.66, abs=0.02)
    assert tau.loc["ENCE", PROPER].mean() == pytest.approx(0.10, abs=0.02)
    assert tau.loc["CWC", PROPER].mean() == pytest.approx(0.02, abs=0.02)


# ----------------------------------------------------------------------------------------- the documentation

PAGE = Path(__file__).parents[2] / "docs" / "replications" / "wibbeke-2025-metrics.rst"


def test_the_figures_are_drawn(study, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(Path(study.__file__).parent)
    import wibbeke_2025_figures as figures

    figures.main(["--out", str(tmp_path), "--suffix", "png"])
    drawn = sorted(path.stem for path in tmp_path.iterdir())
    text = PAGE.read_text(encoding="utf-8")
    for name in drawn:
        assert f".. image:: /_static/{name}.svg" in text
        assert (PAGE.parents[1] / "_static" / f"{name}.svg").is_file()
    assert len(drawn) == 5
