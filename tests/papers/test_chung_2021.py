"""The script that reproduces tables 1 and 2 of Chung et al. (2021)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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


def test_a_short_run_prints_both_tables_and_raw_networks(study, capsys, monkeypatch):
    monkeypatch.setattr(study, "STARTS", 2)
    networks = study.plan()
    assert len(set(networks)) == 40
    monkeypatch.setattr(study, "QUICK", 2)
    results = study.main(["--raw"])
    printed = capsys.readouterr().out
    assert printed.count("ground truth") == 2
    assert set(results) == {"skuq", "raw units"}
    for rows in results.values():
        assert set(rows) == set(networks)
        assert np.isfinite(list(rows.values())).all()
    assert "of 32 numbers" in " ".join(printed.split())


def test_a_star_stands_where_a_network_is_far_from_the_papers(study):
    near = {key: list(study.TABLE_2[key[0]]) for key in study.plan()}
    assert study.distance_2(near, "crps") == pytest.approx(np.zeros(8), abs=1e-9)
    far = {key: [row[0] + 1, *row[1:]] for key, row in near.items()}
    cells = study.lines({"far": far}, 2)[2]
    assert [cell.endswith("*") for cell in cells] == [False, False, True, *[False] * 7]


def test_the_documentation_has_what_the_script_prints(study):
    """The rows of the paper and of the truth, which no training changes, cell by cell."""
    page = (Path(study.__file__).parents[1] / "docs" / "replications" / "chung-2021.rst").read_text(
        encoding="utf-8"
    )
    for table in (1, 2):
        for row in study.lines({}, table):
            assert "\n".join(f"     - {cell}".rstrip() for cell in row[1:]) in page


# ----------------------------------------------------------------------------------------- the full protocol


@pytest.fixture(scope="module")
def full(study):
    """Return the rows of 100 networks in the paper's units, and of as many that skuq standardizes."""
    networks = study.plan()
    return {
        name: study.rows_of(networks, train(networks, 2000))
        for name, train in {"raw": study.raw, "skuq": study.standardized}.items()
    }


@pytest.mark.slow
def test_networks_are_within_two_standard_errors(study, full):
    """All 32 of table 2, in the paper's units."""
    for loss in study.LOSSES:
        assert np.abs(study.distance_2(full["raw"], loss)).max() < 2, loss


@pytest.mark.slow
def test_standardized_networks_do_not_fail_by_the_likelihood(study, full):
    """What the paper finds of the likelihood comes from its units."""
    rmse = {name: study.table_2(rows, "nll")[0][0] for name, rows in full.items()}
    assert rmse["skuq"] < 0.7 * rmse["raw"]
    by_score = study.table_2(full["skuq"], "nll")[0]
    assert all(by_score[4] < study.TABLE_2[loss][4] for loss in study.LOSSES)
