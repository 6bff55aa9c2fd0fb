"""Each number of the page on the five papers is in a table of the study that the page links to."""

import csv
import re
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks import tables

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


@pytest.fixture(scope="module")
def claims():
    return words(read("five-papers"))


def test_proper_scores(claims):
    table = list_table("chung-2021", "Table 1: seed 0 (skuq: mean and standard deviation over 5 starts)")
    column = table[0].index("CRPS")
    crps = {tuple(row[:2]): row[column].split(" ")[0] for row in table[1:]}
    raw, paper = crps["nll", "raw units"], crps["nll", "the paper"]
    assert f"a CRPS of {raw}, compared with {paper} in the paper" in claims
    assert crps["nll", "skuq"] == crps["crps", "skuq"]
    assert f"has a CRPS of {crps['nll', 'skuq']}. The network trained with the CRPS has the same" in claims
    table = list_table("chung-2021", "Table 2")
    raw = [row for row in table[1:] if row[1] == "raw units"]
    by = {name: [float(row[table[0].index(name)].split(" ")[0]) for row in raw] for name in ("CRPS", "ECE")}
    assert raw[by["CRPS"].index(max(by["CRPS"]))] is raw[by["ECE"].index(min(by["ECE"]))]


def test_recalibration(claims):
    tau = tables.read("wibbeke_2025_metrics-groups").set_index(["sets", "version"])
    tau = tau.loc[("real", "as it should be"), "group 1 with group 2"]
    assert f"the mean of Kendall's tau between the paper's groups 1 and 2 is {tau}" in claims
    study = words(read("wibbeke-2025-metrics"))
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
    coverage = {row[0].strip(): row for row in csv.reader(read("kompa-2021").splitlines()) if len(row) == 5}
    for name in ("wine", "yacht"):
        measured = round(100 * float(coverage[name][3]))
        assert re.search(rf"On {name}, [^.]* cover {measured} %", claims)
    rows = csv.reader(read("kompa-2021").splitlines(), skipinitialspace=True)
    ours = [float(row[1].split()[0]) for row in rows if row[:1] == ["skuq, plain layers"]]
    assert len(ours) == 9
    assert f"covers {100 * min(ours):.0f} to {100 * max(ours):.0f} % on all nine data sets" in claims


def test_shift(claims):
    table = list_table("kompa-2021-shift", "airfoil")
    noise = {row[0]: round(100 * float(row[table[0].index("noise 0.3")].split(" ")[0])) for row in table[1:]}
    conformal = next(value for name, value in noise.items() if "onformal" in name)
    ensemble = next(value for name, value in noise.items() if "nsemble" in name)
    assert f"90 % intervals of split conformal prediction then cover {conformal} %" in claims
    assert f"a calibrated deep ensemble cover {ensemble} %" in claims
    tilt = {row[0]: float(row[table[0].index("tilt 2")].split(" ")[0]) for row in table[1:]}
    by_features = ("forest, residuals", "forest, UncertaintyRegressor", "deep ensemble")
    assert (
        min(tilt[name] for name in by_features) > 0.9 > max(tilt["least squares"], tilt["forest, conformal"])
    )


def test_operating_points(claims):
    gains = tables.read("navratil_2023_traffic-gains").set_index("model")
    whole, few = (
        gains[part].str.split(" ").str[0] for part in ("bandwidth, miss_rate", "miss rate up to 0.2")
    )
    assert f"a gain of {whole['LSTM of the paper']} % over constant bands" in claims
    assert (
        f"is small: {whole['LSTM']} % for our LSTM. Up to a miss rate of 0.2, the same intervals gain "
        f"{few['LSTM']} %" in claims
    )
    costs = tables.read("navratil_2023_traffic-costs").set_index(["cost of a miss", "model"])["saved"]
    saved = {cost: costs[cost, "LSTM"].split(" ")[0] for cost in ("4", "16")}
    assert f"saves {saved['16']} % of the cost of its 90 % intervals" in claims
    assert f"the operating point saves {saved['4']} %" in claims
    crps = tables.read("navratil_2023_traffic-scores").set_index("model")["CRPS"][1:].astype(float)
    assert crps.idxmax() == "LSTM"
    assert few[1:].index.tolist() == crps.index.tolist()
    assert len(crps) == 5
    assert few[1:].astype(float).idxmax() == "LSTM"


def test_coverage_at_each_x(claims):
    text = read("sluijterman-2024")
    figure = text.split("Figure 7: heteroscedastic noise")[1].split("Figures 4 to 6")[0]
    rows = [re.split(r"\n\s+- ?", row) for row in figure.split("* - ")[2:]]
    bootstrap, dropout = rows[0], rows[1]
    for name, row in (("bootstrap", bootstrap), ("dropout", dropout)):
        assert row[2].strip("*") in claims, name
        assert f"{100 * float(row[1]):.1f} %" in claims, name
    defaults = text.split("* - estimator with default parameters")[1].split("\n\n")[0]
    errors = [float(row.split("- ")[2].strip().strip("*")) for row in defaults.split("* - ")[1:]]
    assert len(errors) == 6
    assert sorted(errors)[1] <= 0.001
    assert sorted(errors)[2] > 0.01
    for name in ("DeepEnsembleRegressor", "ResidualRegressor", "ConformalRegressor"):
        row = re.split(r"\n\s+- ?", next(part for part in defaults.split("* - ")[1:] if f".{name}`" in part))
        assert row[2].strip("*") in claims, name
