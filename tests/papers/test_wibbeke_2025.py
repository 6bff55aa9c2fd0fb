"""The script that trains the ensembles of Wibbeke et al. (2025), as published and corrected."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.tables import read
from benchmarks.wibbeke_2025_shared import GROUPS

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

pytestmark = pytest.mark.docs

SCRIPT = "wibbeke_2025_ensembles"
WITH_DEFECT, WITHOUT = "as published", "corrected"


# ---------------------------------------------------------------------------------------------- the defect


def test_the_defect_is_that_of_torch(study):
    """A loss given outputs (B, 1) and targets (B,) averages over all pairs, and torch only warns."""
    generator = torch.Generator().manual_seed(0)
    loc, raw = (torch.randn(32, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    variance, y = raw.exp(), torch.randn(32, 3, generator=generator, dtype=torch.float64)
    ours = study.BroadcastNLL().score(loc, variance, y).mean(dim=0)
    criterion = torch.nn.GaussianNLLLoss(full=True, eps=0)
    for member in range(3):
        published = criterion(loc[:, [member]], y[:, member], variance[:, [member]])
        assert float(ours[member]) == pytest.approx(float(published), rel=1e-12)
        right = criterion(loc[:, member], y[:, member], variance[:, member])
        assert abs(float(published - right)) > 0.01


def test_with_the_defect_a_network_learns_one_part_in_32(study):
    """Even where y is a function of X."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1000, 2))
    y = X.sum(axis=1)
    split = study.Split(X, y, np.arange(700), np.arange(700, 1000))
    r2 = {name: study.measure(y[700:], dist)["R2"] for name, dist in study.train(split, 15).items()}
    assert r2[WITHOUT] > 0.99
    assert -0.05 < r2[WITH_DEFECT] < 0.15


# ------------------------------------------------------------------------------------------------ the data


@pytest.mark.parametrize("name", ["servo", "computer_hardware", "energy_efficiency", "airfoil_self_noise"])
def test_data_are_prepared_as_in_the_paper(study, folder, name):
    split = study.prepare(folder, name)
    recipe = json.loads((folder / f"{name}.json").read_text())["paper001"]
    n = recipe["n_after_cleaning"]
    assert split.X.shape == (n, recipe["n_columns_incl_target"] - 1)
    assert len(split.train) == int(0.7 * n)
    assert sorted([*split.train, *split.test]) == list(range(n))
    assert split.X.min() >= 0
    assert split.X.max() <= 1
    assert 0 <= split.y.min() < split.y.max() <= 1


# ---------------------------------------------------------------------------------------------- the script


def test_a_short_run(study, folder, capsys, monkeypatch):
    names = ["servo", "computer_hardware", "forest_fires", "facebook_metrics"]
    monkeypatch.setattr(study, "QUICK_EPOCHS", 2)
    results = study.main(["--sets", *names])
    assert results.shape == (8, 16)
    assert np.isfinite(results.to_numpy()).all()
    assert "wibbeke_2025_ensembles-ranks" in capsys.readouterr().out


def test_the_correction_improves_the_ensemble(study, folder):
    split = study.prepare(folder, "energy_efficiency")
    y = split.y[split.test]
    rows = {name: study.measure(y, dist) for name, dist in study.train(split, 20).items()}
    assert rows[WITHOUT]["R2"] > 0.85
    assert rows[WITH_DEFECT]["R2"] < 0.15
    assert rows[WITHOUT]["NLL"] < rows[WITH_DEFECT]["NLL"] - 1
    assert rows[WITH_DEFECT]["Variation"] < 0.1 < rows[WITHOUT]["Variation"]


def test_agreement_is_one_for_equal_ranks(study):
    index = pd.MultiIndex.from_product([["a", "b", "c", "d"], list(study.VERSIONS)], names=["set", "version"])
    columns = [name for names in GROUPS.values() for name in names]
    values = np.repeat(np.arange(4.0), 2)
    results = pd.DataFrame(dict.fromkeys(columns, values), index=index)
    results["PICP"] = 0.95 + 0.01 * values
    for name in GROUPS["group 2"]:
        results[name] = -values
    table = study.agreement(results)
    assert table["within group 1"].tolist() == table["within group 2"].tolist() == [1.0, 1.0]
    assert table["group 1 with group 2"].tolist() == [-1.0, -1.0]
    assert table["group 1 with the rest"].tolist() == [1.0, 1.0]


# -------------------------------------------------------------------------------- the sentences of the page


@pytest.fixture(scope="module")
def results(study):
    """Return the metrics of all sets, by version."""
    frame = read("wibbeke_2025_ensembles")
    frame["set"] = frame["set"].str.replace(" ", "_")
    frame = frame.set_index(["version", "set"]).astype(float)
    return {version: frame.loc[version] for version in study.VERSIONS}


def test_r2_of_all_sets(study, results):
    """As published near 0 on every set; corrected, far above it on most."""
    assert set(results[WITHOUT].index) == {*study.FULL, *study.LARGE}
    bound = 1 - (1 - 1 / study.BATCH) ** 2
    assert results[WITH_DEFECT]["R2"].between(-0.2, bound + 0.01).all()
    r2 = results[WITHOUT]["R2"]
    assert (r2 > 0.5).sum() >= 12
    assert r2.idxmin() == "forest_fires"


def test_ensembles_as_published_have_errors_of_the_size_of_their_sharpness(results):
    rows = results[WITH_DEFECT].drop(index="forest_fires")
    assert (rows["Sharpness"] / rows["RMSE"]).between(0.85, 1.5).all()


def test_the_correction_decreases_uce_on_all_sets_and_ence_on_most(results):
    before, after = results[WITH_DEFECT], results[WITHOUT]
    assert (after["UCE"] < before["UCE"]).all()
    assert (after["ENCE"] < before["ENCE"]).sum() > 7
    assert before["Variation"].median() < 0.03 < after["Variation"].min()


def test_corrected_ensembles_are_not_calibrated(results):
    coverage = results[WITHOUT]["PICP"]
    assert max(coverage["servo"], coverage["auction_verification"]) < 0.93
    assert min(coverage["steel_industry"], coverage["grid_stability"]) > 0.97


def test_groups_of_metrics(study):
    ranks = read("wibbeke_2025_ensembles-ranks").set_index("version").astype(float)
    for version in study.VERSIONS:
        assert ranks.loc[version, ["within group 1", "within group 2"]].min() > 0.9
        assert abs(ranks.loc[version, "within the rest"]) < 0.3
    assert ranks.loc[WITHOUT, "group 1 with group 2"] < ranks.loc[WITH_DEFECT, "group 1 with group 2"] < 0
    assert ranks.loc[WITHOUT, "within group 1"] < ranks.loc[WITH_DEFECT, "within group 1"]
