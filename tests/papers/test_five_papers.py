"""The numbers of the page on the five papers come from the studies that the page links to."""

import re
from pathlib import Path

import pytest

from benchmarks.tables import read

pytestmark = pytest.mark.docs

REPLICATIONS = Path(__file__).resolve().parents[2] / "docs" / "replications"


def words(page):
    return " ".join((REPLICATIONS / f"{page}.rst").read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def claims():
    return words("five-papers")


def test_proper_scores(claims):
    table = read("chung_2021_losses-1").set_index(["trained with", "source"])
    crps = table["CRPS"].str.split(" ").str[0]
    raw, paper = crps["nll", "raw units"], crps["nll", "the paper"]
    assert f"a CRPS of {raw}, compared with {paper} in the paper" in claims
    assert (
        f"the same network has a CRPS of {crps['nll', 'skuq']}, and the network trained with the CRPS has "
        f"{crps['crps', 'skuq']}."
    ) in claims


def test_recalibration(claims):
    tau = read("wibbeke_2025_metrics-groups").set_index(["sets", "version"])
    tau = tau.loc[("real", "as it should be"), "group 1 with group 2"]
    assert f"the mean of Kendall's tau between the paper's groups 1 and 2 is {tau}" in claims
    study = words("wibbeke-2025-metrics")
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
    assert len(ours) == 8
    assert f"covers {100 * min(ours):.0f} to {100 * max(ours):.0f} % on all eight data sets" in claims


def test_shift(claims):
    table = read("kompa_2021_regression_shift-airfoil").set_index("method")
    table = table.apply(lambda column: column.str.split(" ").str[0]).astype(float)
    noise = (100 * table["noise 0.3"]).round()
    assert (
        f"90 % intervals of split conformal prediction then cover {noise['forest, conformal']:.0f} %"
        in claims
    )
    assert f"a calibrated deep ensemble cover {noise['deep ensemble']:.0f} %" in claims
    by_features = ["forest, residuals", "forest, bootstrap", "forest, UncertaintyRegressor", "deep ensemble"]
    lost = table["tilt 0"] - table["tilt 2"]
    assert lost[by_features].max() < lost[["least squares", "forest, conformal"]].min()


def test_operating_points(claims):
    gains = read("navratil_2023_traffic-gains").set_index("model")
    whole, few = (
        gains[part].str.split(" ").str[0] for part in ("bandwidth, miss_rate", "miss rate up to 0.2")
    )
    assert f"a gain of {whole['LSTM of the paper']} % over constant bands" in claims
    assert (
        f"is small: {whole['LSTM']} % for our LSTM. Up to a miss rate of 0.2, the same intervals gain "
        f"{few['LSTM']} %" in claims
    )
    costs = read("navratil_2023_traffic-costs").set_index(["cost of a miss", "model"])["saved"]
    saved = {cost: costs[cost, "LSTM"].split(" ")[0] for cost in ("4", "16")}
    assert f"saves {saved['16']} % of the cost of its 90 % intervals" in claims
    assert f"the operating point saves {saved['4']} %" in claims
    crps = read("navratil_2023_traffic-scores").set_index("model")["CRPS"][1:].astype(float)
    assert crps.idxmax() == "LSTM"
    assert few[1:].index.tolist() == crps.index.tolist()
    assert len(crps) == 5
    assert few[1:].astype(float).idxmax() == "LSTM"


def test_coverage_at_each_x(claims):
    rows = read("sluijterman_2024_simulation-figure-7").set_index("method")
    brier, picp = rows["PICF Brier"], (100 * rows["PICP"].astype(float)).map("{:.1f} %".format)
    first, second = "bootstrap", "dropout, 80 epochs"
    assert f"bootstrapped networks cover {picp[first]} of the rows" in claims
    assert f"intervals of dropout cover {picp[second]}." in claims
    assert f"is {brier[first]} for the bootstrap and {brier[second]} for dropout" in claims
    brier = read("sluijterman_2024_simulation-defaults").set_index("method")["PICF Brier"]
    errors = sorted(brier.astype(float))
    assert len(errors) == 6
    assert errors[1] < 0.0015
    assert errors[2] > 0.01
    for method in ("deep ensemble", "residual, boosting"):
        assert f"({brier[method]})" in claims
    assert f"a Brier score of {brier['conformal, boosting']}" in claims
