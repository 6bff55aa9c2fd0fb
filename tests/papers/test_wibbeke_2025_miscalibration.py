"""Controlled miscalibration (Wibbeke et al. 2025, section 4.4): the published numbers and the claims."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skuq.metrics import pinball_loss

SCRIPT = "wibbeke_2025_miscalibration"
FIVE = range(5)
READINGS = ("worse", "unchanged", "improved")
COLUMNS = {
    "rmse": "RMSE",
    "sharpness_std": "Sharpness",
    "nll": "NLL",
    "crps": "CRPS",
    "interval": "IS",
    "pinball": "Pinball",
    "cal_score": "CalS",
    "ecpe": "ECPE",
    "qce": "QCE",
    "picp": "PICP",
    "cwc": "CWC",
    "ence": "ENCE",
    "uce": "UCE",
}
SETS = (
    "servo",
    "computer_hardware",
    "energy_efficiency",
    "concrete_compressive_strength",
    "auction_verification",
    "age_prediction",
    "winequality",
    "grid_stability",
)
PUBLISHED, CORRECT = "as published", "as it should be"
PROPER = ["NLL", "CRPS", "IS", "Pinball"]
COVERAGES = ["CalS", "ECPE", "QCE"]


@pytest.fixture(scope="module")
def folder(shared_data):
    """Return the folder of the data, or skip where there are none."""
    shared_data("paper001/servo")
    return Path(os.environ["SKUQ_DATA"]) / "paper001"


@pytest.fixture(scope="module")
def reference(folder):
    """Return the published numbers."""
    return json.loads((folder / "miscalibration_reference.json").read_text())


@pytest.fixture(scope="module")
def shares(study):
    """Return the results of the full run."""
    return pd.read_csv(study.RESULTS, index_col=["set", "design", "scenario", "reading"])


def select(shares, design, scenario, reading):
    return shares.xs((design, scenario, reading), level=("design", "scenario", "reading"))


def rates(shares, file, scenario):
    """Return the shares of one set and scenario as published, by reading."""
    found = shares.loc[file, PUBLISHED, scenario]
    rows = {"worse": found.loc["worse"], "improved": found.loc["improved"]}
    return {**rows, "unchanged": 1 - rows["worse"] - rows["improved"]}


# ------------------------------------------------------------------------------------- the published numbers


@pytest.mark.parametrize("name", SETS)
def test_every_column_of_seed_zero(study, folder, reference, name):
    expected = reference["run0_seed0"][name]
    frame, target = study.read_scaled(folder, reference["file_of"][name])
    y, made = study.published_design(np.sort(study.without_outliers(frame, 0)[target].to_numpy()), 0)
    assert made.keys() == expected.keys()
    for scenario, dist in made.items():
        found = study.as_published(y, dist)
        for column, metric in COLUMNS.items():
            assert found[metric] == pytest.approx(expected[scenario][column], rel=1e-9, abs=0), column
        check = pinball_loss(y, dist, levels=np.linspace(0.01, 0.99, 20))
        assert check == pytest.approx(expected[scenario]["check"], rel=1e-9)


@pytest.mark.parametrize("name", SETS)
def test_the_full_run_has_the_published_rates(shares, reference, name):
    """Figure 6: every share of 100 seeds, in all scenarios, is the published one."""
    for scenario, sets in reference["detection_rates_seeds0to99"].items():
        found = rates(shares, reference["file_of"][name], scenario)
        for column, metric in COLUMNS.items():
            for each in READINGS:
                assert found[each][metric] == pytest.approx(sets[name][column][each], abs=1e-9), column


@pytest.mark.parametrize("name", ["servo", "energy_efficiency", "nhanes_age"])
def test_the_first_five_seeds_are_among_the_hundred(study, folder, shares, name):
    """Of a reading found for r of 100 seeds, five seeds have no more than r and no fewer than r - 95."""
    few = study.count(*study.run(folder, name, FIVE)).drop("detected", level="reading")
    many = shares.loc[name].loc[few.index]
    seen, found = 5 * few, 100 * many[few.columns]
    assert (seen <= np.minimum(5, found) + 1e-9).all(axis=None)
    assert (seen >= np.maximum(0, found - 95) - 1e-9).all(axis=None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["servo", "computer_hardware"])
def test_the_full_run_is_reproduced(study, folder, shares, name):
    table = study.study(folder, (name,), study.SEEDS)
    pd.testing.assert_frame_equal(table, shares.loc[[name]], rtol=1e-6, atol=1e-9, check_like=True)


def test_the_full_run_has_every_set(study, shares):
    assert set(shares.index.unique("set")) == {*study.FULL, *study.LARGE}
    assert np.isfinite(shares.to_numpy()).all()
    counts = 100 * shares.drop("change", level="reading")
    np.testing.assert_allclose(counts, counts.round(), atol=1e-6)


# ---------------------------------------------------------------------------------------------- the designs


def test_netcal_pinball_is_not_the_pinball_loss(study):
    y = np.sort(np.random.default_rng(0).random(500))
    y, made = study.published_design(y, 0)
    panels = [panel(y, made["optimal"])["Pinball"] for panel in (study.as_published, study.by_equations)]
    assert panels[0] < 0.8 * panels[1]


def test_the_published_forecasts_are_not_the_distribution_of_y(study):
    """The slope of y on mu is far below 1, so shrunken means are better forecasts."""
    y = np.sort(np.random.default_rng(0).random(2000))
    assert study.slope(y) < 0.3
    y, made = study.published_design(y, 0)
    scores = {name: study.by_equations(y, dist) for name, dist in made.items()}
    for metric in ("CRPS", "IS", "Pinball", "RMSE"):
        assert scores["lower_pred"][metric] < 0.97 * scores["optimal"][metric]


def test_no_scenario_improves_a_proper_score_of_the_correct_forecast(study):
    y = np.sort(np.random.default_rng(0).random(40_000))
    y, made = study.correct_design(y, 0)
    scores = pd.DataFrame({name: study.by_equations(y, dist) for name, dist in made.items()}).T
    assert (scores.loc[list(made)[1:], PROPER] > scores.loc["optimal", PROPER]).all(axis=None)


def test_a_short_run(study, folder, capsys):
    table = study.main(["--sets", "servo", "--data", str(folder.parent)])
    assert "Fourth scenario, as it should be, share of seeds: detected" in capsys.readouterr().out
    assert table.shape == (4 * 3 + 5 * 4, len(study.METRICS))
    assert table.index.names == ["set", "design", "scenario", "reading"]
