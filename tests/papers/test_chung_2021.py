"""The script that reproduces tables 1 and 2 of Chung et al. (2021)."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.tables import read

for package in ("torch", "skorch"):
    pytest.importorskip(package)

pytestmark = pytest.mark.docs

SCRIPT = "chung_2021_losses"


# ---------------------------------------------------------------------------------- what the paper prints


def test_the_papers_tables_agree_with_its_text(study):
    first, second = study.TABLE_1, study.TABLE_2
    assert all(len(row) == len(study.COLUMNS) for table in (first, second) for row in table.values())
    # Section 4: the likelihood is too wide, the others too sharp, and each score has its own ranking.
    sharp = study.COLUMNS.index("Sharpness")
    assert first["nll"][sharp] > first[study.TRUTH][sharp]
    assert all(first[loss][sharp] < first[study.TRUTH][sharp] for loss in ("crps", "check", "interval"))
    best = {
        column: min(study.LOSSES, key=lambda loss: first[loss][k]) for k, column in enumerate(study.COLUMNS)
    }
    assert (best["NLL"], best["CRPS"], best["Interval"]) == ("interval", "crps", "interval")


def test_ground_truth_of_table_1_to_every_digit(study):
    assert tuple(round(value, 3) for value in study.truth(0)) == study.TABLE_1[study.TRUTH]


def test_ground_truth_of_table_2_to_every_digit(study):
    mean, error = study.table_2({}, study.TRUTH)
    assert tuple(mean.round(3)) == study.TABLE_2[study.TRUTH]
    assert tuple(error.round(3)) == study.TABLE_2_ERRORS[study.TRUTH]


# ---------------------------------------------------------------------------------------------- the script


def test_all_splits_come_from_one_process(study):
    X, y, dist = study.simulate(3)
    assert X.shape == (400, 1)
    assert len(y) == len(dist) == 400
    inside = (X[:, 0] >= -5) & (X[:, 0] < 0)
    assert np.abs(y - dist.mean())[inside].max() < 0.05
    assert set(dist.std()) == {1.0, 0.01, 1.5, 0.5}


def test_a_short_run_shows_all_tables(study, capsys, monkeypatch):
    monkeypatch.setattr(study, "STARTS", 2)
    networks = study.plan()
    assert len(set(networks)) == 40
    monkeypatch.setattr(study, "QUICK", 2)
    results = study.main([])
    assert capsys.readouterr().out.count("ground truth the paper") == 2
    assert set(results) == {"skuq", "raw units"}
    for rows in results.values():
        assert set(rows) == set(networks)
        assert np.isfinite(list(rows.values())).all()
        assert all(0 <= number <= 32 for number in study.agreement(rows).values())


def test_a_star_stands_where_a_network_is_far_from_the_papers(study):
    near = {key: list(study.TABLE_2[key[0]]) for key in study.plan()}
    assert study.distance_2(near, "crps") == pytest.approx(np.zeros(8), abs=1e-9)
    far = {key: [row[0] + 1, *row[1:]] for key, row in near.items()}
    row = study.table({"far": far}, 2).loc[("nll", "far")]
    assert [cell.endswith("*") for cell in row] == [True, *[False] * 7]


# -------------------------------------------------------------------------------- the sentences of the page


@pytest.fixture(scope="module")
def tables(study):
    """Return texts, means and errors of both tables, by loss and source."""
    found = {}
    for number in (1, 2):
        texts = read(f"chung_2021_losses-{number}").set_index(["trained with", "source"])
        split = texts.stack().str.rstrip("*").str.split(" ± ", expand=True).astype(float)
        found[number] = texts, *(split[part].unstack()[texts.columns] for part in (0, 1))
    return found


def test_the_paper_and_the_truth_are_in_the_tables(study, tables):
    for number, paper in ((1, study.TABLE_1), (2, study.TABLE_2)):
        _, mean, _ = tables[number]
        for name, row in paper.items():
            assert tuple(mean.loc[(name, "the paper")]) == row
        assert tuple(mean.loc[(study.TRUTH, "skuq")]) == paper[study.TRUTH]


def test_the_likelihood_fails_because_of_the_units(study, tables):
    for number in (1, 2):
        texts, mean, _ = tables[number]
        trained = mean.drop(index=study.TRUTH)
        assert trained["NLL"].idxmin() == ("nll", "skuq")
        assert mean["NLL"].idxmin()[0] == study.TRUTH
        others = mean.xs("skuq", level="source").drop(index=[study.TRUTH, "nll"])
        assert mean.loc[("nll", "skuq"), "RMSE"] < 1.05 * others["RMSE"].max()
        worst = mean.xs("raw units", level="source")
        assert worst["RMSE"].idxmax() == worst["CRPS"].idxmax() == "nll"
        assert mean.loc[("nll", "skuq"), "RMSE"] < 0.7 * worst.loc["nll", "RMSE"]
    starred = texts.xs("skuq", level="source").drop(index=study.TRUTH)
    for loss, row in starred.iterrows():
        for column, cell in row.drop(["ECE", "Sharpness"]).items():
            better = mean.loc[(loss, "skuq"), column] < mean.loc[(loss, "the paper"), column]
            assert better or not cell.endswith("*"), (loss, column)


def test_networks_trained_with_crps_or_check_loss_are_sharper_than_the_truth(study, tables):
    for number in (1, 2):
        _, mean, error = tables[number]
        truth = mean.loc[(study.TRUTH, "skuq"), "Sharpness"]
        for source in ("skuq", "raw units"):
            for loss in ("crps", "check"):
                gap = truth - mean.loc[(loss, source), "Sharpness"]
                assert gap > 0
                assert number == 1 or gap < error.loc[(loss, source), "Sharpness"]
            assert mean.loc[("interval", source), "Sharpness"] > truth


def test_average_calibration_does_not_detect_the_wrong_mean(tables):
    _, mean, _ = tables[2]
    for source in ("the paper", "raw units"):
        rows = mean.xs(source, level="source").drop(index="ground truth", errors="ignore")
        assert rows["ECE"].idxmin() == rows["CRPS"].idxmax() == "nll"


def test_losses_hardly_differ_with_standardized_targets(study, tables):
    _, mean, error = tables[2]
    rows, errors = (each.xs("skuq", level="source").drop(index=study.TRUTH) for each in (mean, error))
    for column in rows.columns.drop(["NLL", "ECE"]):
        assert np.ptp(rows[column]) < 1.2 * errors[column].max(), column
