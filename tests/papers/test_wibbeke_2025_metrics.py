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
PAGE = "wibbeke-2025-metrics.rst"
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


def with_group(tau, metric, group):
    return tau.loc[metric, list(GROUPS[group])].mean()


@pytest.fixture(scope="module")
def claims(page):
    return " ".join(page.split())


@pytest.mark.parametrize("which", ["real", "synthetic"])
@pytest.mark.parametrize("name", ["as published", "as it should be"])
def test_groups_one_and_two_survive(study, table, which, name):
    means = study.group_means(study.taus(table, which, study.SETTINGS[name]))
    assert means["within group 1"] > 0.85
    assert means["within group 2"] > 0.65
    assert -0.2 < means["within the rest"] < 0.1


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


def test_the_rest_joins_the_groups_as_the_page_states(study, table, claims):
    real, synthetic = (
        study.taus(table, which, study.SETTINGS["as it should be"]) for which in ("real", "synthetic")
    )
    ence, picp = (
        [with_group(tau, name, "group 2") for tau in (real, synthetic)] for name in ("ENCE", "PICP")
    )
    cwc, uce = ([with_group(tau, name, "group 1") for tau in (real, synthetic)] for name in ("CWC", "UCE"))
    assert (
        f"the mean tau with group 2 is {ence[0]:.2f} for ENCE and {picp[0]:.2f} for PICP (synthetic data: "
        f"{ence[1]:.2f} and {picp[1]:.2f}). The mean tau with group 1 is {cwc[0]:.2f} for CWC and "
        f"{uce[0]:.2f} for UCE (synthetic data: {cwc[1]:.2f} and {uce[1]:.2f})"
    ) in claims


def test_as_published_ence_belongs_to_no_group(study, table, claims):
    tau = study.taus(table, "real", study.PUBLISHED)
    assert tau.loc["ENCE"].drop("ENCE").max() < 0.2
    most = max(
        with_group(tau, name, group) for name in ("PICP", "CWC", "ENCE") for group in ("group 1", "group 2")
    )
    uce = with_group(tau, "UCE", "group 1")
    assert (
        f"UCE has a mean tau of {uce:.2f} with group 1. The other three metrics have a mean tau of at most "
        f"{most:.2f} with each group."
    ) in claims


@pytest.mark.parametrize("name", ["as published", "as it should be"])
def test_forest_fires_is_among_the_best_by_scores_and_the_worst_by_group_two(study, table, name):
    ranks = study.part(table, "real", study.SETTINGS[name]).rank().loc["forest_fires"]
    best, worst = ((1, 2), 15) if name == "as published" else ((3, 6), 14)
    by_scores = ranks[list(GROUPS["group 1"])]
    assert (by_scores.min(), by_scores.max()) == best
    assert ranks[list(GROUPS["group 2"])].min() == worst


def test_recalibration_changes_metrics_as_the_page_states(study, table, claims):
    """The published means hold a thirty-second of the signal, which beta calibration amplifies."""
    settings = study.PUBLISHED, study.SAME_ROWS, study.OTHER_ROWS
    published, same, other = (study.changes(table, setting) for setting in settings)
    rmse = [found.loc["GP beta"].median()["RMSE"] for found in (published, other)]
    assert f"beta calibration reduces RMSE by {-rmse[0]:.0f} %" in claims
    assert abs(rmse[1]) < 1  # hardly changes
    worse = [100 * (found[PROPER] > 3).mean(axis=None) for found in (published, other)]
    assert f"On the rows of the fit, {worse[0]:.0f} % of the values of NLL, CRPS, IS and Pinball" in claims
    assert f"On other rows, {worse[1]:.0f} % of these values become worse by more than 3 %." in claims
    assert (same[PROPER] > 3).to_numpy().sum() == 1
    assert same[PROPER].size == 240
    for found in (published, other):
        assert len(found) == 60
        within = [100 * (found[list(GROUPS[f"group {k}"])].abs() <= 3).mean(axis=None) for k in (1, 2)]
        both = 100 * ((found > 3).any(axis=1) & (found < -3).any(axis=1)).mean()
        sharper = found[found["Sharpness"] < -3]
        unimproved = (sharper["CRPS"] >= -3).sum()
        for sentence in (
            f"{within[0]:.0f} % of the changes of group 1 and {within[1]:.0f} % of the changes of group 2",
            f"This is true of {both:.0f} % of the 60 recalibrations",
            f"{len(sharper)} of 60 recalibrations are sharper by more than 3 %; {unimproved} of them",
        ):
            assert sentence in claims


def test_scores_agree_on_the_best_recalibration_and_ence_does_not(study, table, claims):
    tau = study.taus_of_methods(table, study.OTHER_ROWS)
    ence, cwc = (tau.loc[name, PROPER].mean() for name in ("ENCE", "CWC"))
    proper = mean_tau(tau, combinations(PROPER, 2))
    assert (
        f"the four proper scores have a mean tau of {proper:.2f} with each other. The mean tau of the proper "
        f"scores is {ence:.2f} with ENCE and {cwc:.2f} with CWC."
    ) in claims


# ----------------------------------------------------------------------------------------- the documentation


def test_the_figures_are_drawn(study, page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    folder = Path(study.__file__).parent
    monkeypatch.syspath_prepend(folder)
    import wibbeke_2025_figures as figures

    figures.main(["--out", str(tmp_path), "--suffix", "png"])
    drawn = sorted(path.stem for path in tmp_path.iterdir())
    for name in drawn:
        assert f".. image:: /_static/{name}.svg" in page
        assert (folder.parent / "docs" / "_static" / f"{name}.svg").is_file()
    assert len(drawn) == 5
