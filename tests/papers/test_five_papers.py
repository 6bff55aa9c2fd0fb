"""Each number of the page on the five papers is in a table of the study that the page links to."""

import csv
import re
from itertools import pairwise
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

REPLICATIONS = Path(__file__).resolve().parents[2] / "docs" / "replications"


def read(page):
    return (REPLICATIONS / f"{page}.rst").read_text(encoding="utf-8")


def words(text):
    return " ".join(text.split())


def list_table(page, caption):
    """Return the rows of a list-table; an empty first cell repeats the cell above."""
    body = read(page).split(f".. list-table:: {caption}")[1]
    body = re.split(r"\n(?=\S)", body)[0]
    rows = [re.split(r"\n\s+- ?", "\n  - " + row)[1:] for row in re.split(r"\n\s+\* - ?", body)[1:]]
    found = [[words(cell) for cell in row] for row in rows]
    for above, row in pairwise(found):
        row[0] = row[0] or above[0]
    return found


def csv_table(page, caption):
    body = read(page).split(f".. csv-table:: {caption}\n")[1].split("\n\n")[1]
    return list(csv.reader(body.splitlines(), skipinitialspace=True))


@pytest.fixture(scope="module")
def claims():
    return words(read("five-papers"))


def test_proper_scores(claims):
    table = read("chung_2021_losses-1").set_index(["trained with", "source"])
    crps = table["CRPS"].str.split(" ").str[0]
    raw, paper = crps["nll", "raw units"], crps["nll", "the paper"]
    assert f"a CRPS of {raw}, compared with {paper} in the paper" in claims
    assert crps["nll", "skuq"] == crps["crps", "skuq"]
    assert f"has a CRPS of {crps['nll', 'skuq']}. The network trained with the CRPS has the same" in claims


def test_recalibration(claims):
    page = "wibbeke-2025-metrics"
    table = list_table(page, "Mean of Kendall's tau over pairs of metrics")
    tau = next(row for row in table if row[:2] == ["real", "as it should be"])[
        table[0].index("group 1 with group 2")
    ]
    assert f"the mean of Kendall's tau between the paper's groups 1 and 2 is {tau}" in claims
    study = words(read(page))
    assert (
        "10 % of these values become worse by more than 3 %. If the corrected ensembles are scored on"
        in study
    )
    assert "rows of the fit, only 1 of 240 values becomes" in study
    assert "only 1 of 240 proper scores becomes worse by more than 3 %. On other rows, 10 % do." in claims
    assert (
        "In all seeds and all sets, ENCE and UCE are better for the constant distribution than for the true"
        in study
    )


def test_noise(claims):
    members = read("kompa_2021_coverage-noise").set_index("set")["measured"].astype(float)
    for name in ("wine", "yacht"):
        assert re.search(rf"On {name}, [^.]* cover {100 * members[name]:.0f} %", claims)
    table = read("kompa_2021_coverage").set_index(["method", "set"]).loc["skuq", "coverage"]
    ours = table.str.split(" ").str[0].astype(float)
    assert len(ours) == 9
    assert f"covers {100 * min(ours):.0f} to {100 * max(ours):.0f} % on all nine data sets" in claims


def test_shift(claims):
    table = read("kompa_2021_regression_shift-airfoil").set_index("method")
    table = table.apply(lambda column: column.str.split(" ").str[0]).astype(float)
    noise = (100 * table["noise 0.3"]).round()
    assert (
        f"90 % intervals of split conformal prediction then cover {noise['forest, conformal']:.0f} %"
        in claims
    )
    assert f"a calibrated deep ensemble cover {noise['deep ensemble']:.0f} %" in claims
    by_features = ["forest, residuals", "forest, UncertaintyRegressor", "deep ensemble"]
    constant = ["least squares", "forest, conformal"]
    assert table.loc[by_features, "tilt 2"].min() > table.loc[constant, "tilt 2"].max()


def test_operating_points(claims):
    page = "navratil-2023"
    gains = {row[0]: row for row in csv_table(page, "gain over constant bands in percent, and 95 % interval")}
    whole, few = (gains["LSTM"][k].split(" ")[0] for k in (1, -1))
    assert f"a gain of {gains['LSTM of the paper'][1]} % over constant bands" in claims
    assert (
        f"is small: {whole} % for our LSTM. Up to a miss rate of 0.2, the same intervals gain {few} %"
        in claims
    )
    saved = {
        cost: next(row for row in csv_table(page, f"cost where a miss costs {cost}") if row[0] == "LSTM")[
            -2
        ].split(" ")[0]
        for cost in (4, 16)
    }
    assert f"saves {saved[16]} % of the cost of its 90 % intervals" in claims
    assert f"the operating point saves {saved[4]} %" in claims
    scores = csv_table(page, "scores")
    crps = {row[0]: float(row[2]) for row in scores[2:]}
    assert max(crps, key=crps.get) == "LSTM"
    up_to_a_fifth = {
        name: float(row[-1].split(" ")[0]) for name, row in gains.items() if row[-1][:1].isdigit()
    }
    assert len(up_to_a_fifth) == len(crps) == 5
    assert max(up_to_a_fifth, key=up_to_a_fifth.get) == "LSTM"


def test_coverage_at_each_x(claims):
    rows = read("sluijterman_2024_simulation-figure-7").set_index("method")
    for method in ("bootstrap", "dropout, 80 epochs"):
        assert rows.loc[method, "PICF Brier"] in claims
        assert f"{100 * float(rows.loc[method, 'PICP']):.1f} %" in claims
    brier = read("sluijterman_2024_simulation-defaults").set_index("method")["PICF Brier"]
    errors = sorted(brier.astype(float))
    assert len(errors) == 6
    assert errors[1] < 0.0015
    assert errors[2] > 0.01
    for method in ("deep ensemble", "residual, boosting"):
        assert f"({brier[method]})" in claims
    assert f"a Brier score of {brier['conformal, boosting']}" in claims
