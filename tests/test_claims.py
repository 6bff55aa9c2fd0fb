"""Numbers of the most used docstrings and first pages, compared with tables, simulations or examples."""

from __future__ import annotations

import contextlib
import csv
import importlib
import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor

from benchmarks.tables import read
from skuq.conformal import ConformalRecalibrator, ConformalRegressor, CrossConformalRegressor
from skuq.distributions import Normal
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import nll_loss, prediction_interval_coverage
from skuq.recalibration import (
    IsotonicRecalibrator,
    OnlineRecalibrator,
    ShrunkIsotonicRecalibrator,
    StdScalingRecalibrator,
    SupportMap,
)
from skuq.regressors import (
    HurdleRegressor,
    MixtureRegressor,
    MultiQuantileRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
    default_estimators,
)
from skuq.survival import CensoredBoostingRegressor

pytestmark = pytest.mark.docs

DOCS = Path(__file__).resolve().parent.parent / "docs"


def read_table(page: str, caption: str) -> list[list[str]]:
    """Return the cells of a csv-table with ``|`` between cells."""
    text = (DOCS / page).read_text(encoding="utf-8").split(f".. csv-table:: {caption}\n")[1]
    body = text.split("\n\n")[1]
    return [[cell.strip() for cell in row] for row in csv.reader(body.splitlines(), delimiter="|")]


def words(page: str) -> str:
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


def claims(estimator: Any, sentence: str) -> bool:
    return sentence in " ".join((inspect.getdoc(estimator) or "").split())


# ---------------------------------------------------------------------------- tables of the documentation


@pytest.fixture(scope="module")
def real_data() -> dict[str, dict[str, str]]:
    return read("real_data").set_index("method").to_dict("index")


def test_21_data_sets(real_data):
    number = {
        name: {
            column: float(row[column] or "nan") for column in ("CRPS", "interval score", "coverage", "fits")
        }
        for name, row in real_data.items()
    }
    forest, residual = number["skuq, forest"], number["skuq, residuals of a forest"]
    ratio = forest["CRPS"] / residual["CRPS"]
    fitted, shifted = number["raw quantile boosting"], number["skuq, quantile boosting"]
    crps, score = (shifted[column] / fitted[column] for column in ("CRPS", "interval score"))
    guide = words("guides/how_to/choose_a_method.py").replace(" # ", " ")
    before, after = (100 * one["coverage"] for one in (fitted, shifted))
    assert (
        f"of 90 % intervals of scikit-learn's boosting from {before:.1f} % to {after:.1f} % (21 data sets), "
        f"and multiplies the CRPS by {crps:.2f} and the interval score by {score:.2f}"
    ) in guide
    pool, recalibrated = (
        100 * number[f"skuq, pool{end}"]["coverage"] for end in (" without recalibrator", "")
    )
    assert claims(
        MixtureRegressor,
        f"cover {pool:.1f} % of the test rows without this recalibrator, and {recalibrated:.1f} % with it",
    )
    assert round(fitted["coverage"], 1) == 0.8
    assert claims(MultiQuantileRegressor, "90 % intervals of gradient boosting cover about 80 %")
    quantile_forest = forest["CRPS"] / number["quantile-forest"]["CRPS"]
    below = [round(100 * (1 - value)) for value in (quantile_forest, crps, score)]
    assert (
        f"is {below[0]} % lower than the CRPS of quantile-forest. It is about equal to the CRPS of" in guide
    )
    assert abs(ratio - 1) < 0.015
    assert f"cover {100 * forest['coverage']:.1f} % of the test rows" in guide
    for name, sentence in (
        ("skuq, pool", "is the lowest, {:.0f} % lower than the CRPS"),
        ("skuq, forest", "its CRPS is {:.0f} % lower than the CRPS of the reference"),
    ):
        assert sentence.format(100 * (1 - number[name]["CRPS"])) in guide
    fast = 100 * (1 - number["skuq, fast pool"]["CRPS"])
    others = read("real_data-pools").set_index("set").loc["geometric mean, others"]
    pool_of_others, fast_of_others = (100 * (1 - float(others[name])) for name in ("pool", "fast"))
    assert f"or {pool_of_others:.0f} % without two sets that dominate the mean" in guide
    assert f"contain no networks, it is {fast:.0f} % or {fast_of_others:.0f} % lower, and a fit" in guide
    high, low = (100 * (number[f"skuq, boosting, effort {name}"]["CRPS"] - 1) for name in ("high", "low"))
    assert abs(high) < 1.1
    assert (
        '``effort="high"`` hardly changes the CRPS of the reference, and ``effort="low"`` increases it by '
        f"{low:.0f} %"
    ) in guide
    outside = {name: sum(map(int, row["below, above"].split(", "))) for name, row in real_data.items()}
    assert (
        f"quantile-forest differs significantly from 90 % on {outside['quantile-forest']} of the 21" in guide
    )
    assert outside["skuq, forest"] == 0  # "On each of the 21 sets"
    catboost = number["CatBoost with uncertainty"]["coverage"]
    assert f"90 % intervals of CatBoost cover {100 * catboost:.0f} %" in guide
    default = real_data["skuq, default member boosting"]
    assert claims(default_estimators, f"its CRPS is {default['CRPS']} times the CRPS of scikit-learn's")
    assert claims(default_estimators, f"and {default['dev.']} times on the eleven sets")
    assert f"lowers the CRPS by {below[1]} % and the interval score by {below[2]} %" in guide


def test_plot_of_the_first_pages(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    _, economy, dists = importlib.import_module("landing_picture").forecasts()
    shares = [f"{100 * prediction_interval_coverage(economy, dist):.0f} %" for dist in dists.values()]
    names = "for linear regression, {} for boosting and {} for a neural network"
    contain = "contain {} of {} " + names
    assert contain.format(shares[0], "the observations", *shares[1:]) in words("../README.md")
    for what in ("the observations", "these cars"):
        assert contain.format(shares[0], what, *shares[1:]) in words("index.rst")


def test_few_rows():
    tables = (read(f"few_rows-{process}").set_index("method") for process in ("linear", "skewed"))
    cells = pd.concat(table[table.index.str.match("forest|residual")] for table in tables)
    assert len(cells) >= 10
    coverage = cells.loc[:, "12":].astype(float).to_numpy().ravel()
    assert (
        "With 12 rows or more, its 90 % intervals for forests and with learned errors cover "
        f"{100 * min(coverage):.0f} to {100 * max(coverage):.0f} % of new rows"
    ) in words("guides/how_to/choose_a_method.py").replace(" # ", " ")


def test_kinds_of_target():
    ratio = read("kinds_of_target-zeros").set_index(["process", "model"]).replace("", "nan").astype(float)
    ratio += 1e-9  # halves are rounded up
    smooth, sharp = (ratio.loc[process] for process in ("smooth", "sharp"))
    for row, model, column in (
        ("`UncertaintyRegressor`, all rows", "UncertaintyRegressor", "CRPS / truth"),
        ('hurdle, "default"', "hurdle, default classifier", "CRPS / truth"),
        ('hurdle, "small"', "hurdle, 100 rounds of 8 leaves", "CRPS / truth"),
        ('hurdle, "true"', "hurdle, default classifier", "with the true P(y = 0)"),
    ):
        numbers = f"{smooth.loc[model, column]:.2f} {sharp.loc[model, column]:.2f}"
        assert claims(HurdleRegressor, f"{row} {numbers}")
    counts = read("kinds_of_target-counts").set_index("set")["CRPS / before"].astype(float)
    small = 100 * (1 - counts[counts.index.str.contains(r"mean (?:0\.3|1|2\.5)$")])
    assert len(small) == 6
    assert claims(SupportMap, f"by {min(small):.0f} to {max(small):.0f} % for means below 5")
    assert counts[counts.index.str.endswith("mean 200")].round(3).eq(1).all()


def test_any_regressor():
    table = read("any_regressor-development").set_index("regressor").drop("all")
    coverage = 100 * table["90 %"].astype(float)
    assert claims(
        UncertaintyRegressor,
        f"around {len(coverage)} regressors cover {min(coverage):.0f} to {max(coverage):.0f} % of the test",
    )
    center = read("any_regressor-center").set_index("regressor")["CRPS"].astype(float)
    assert claims(ResidualRegressor, f"data sets, the CRPS is {center['boosting']:.1f} times the CRPS of")
    assert claims(ResidualRegressor, f"which are biased, it is {center['linear']:.1f} times the CRPS of")


def test_extrapolation():
    tables = [read(f"extrapolation-{kind}").set_index("method") for kind in ("gap", "tail")]
    gap, tail = (table.replace("", np.nan).astype(float) for table in tables)
    wider = gap.index[gap["width"] > 7 / 6]
    assert wider.tolist() == ["skuq, conformal, density ratio"]
    ours = gap[gap.index.str.startswith("skuq")]
    assert ours["control"].between(0.88, 0.92).all()
    notice = ["skuq, pool", "skuq, deep ensemble", "skuq, sparse Gaussian process"]
    others = tail.drop(index=["skuq, conformal, density ratio", *notice])
    assert tail.loc[notice, "width"].min() > others["width"].max()
    assert tail.loc[notice, "outside"].min() > others["outside"].max()


def test_same_model_on_sets_without_choices():
    table = read("same_base-confirmation").set_index(["model", "package"])
    ratios = table[["interval score", "width"]].astype(float).drop(index="own", level="model")
    assert (ratios.drop(index="skuq", level="package") > 1).all(axis=None)


def test_shrinkage_of_levels():
    found = read("level_shrinkage-development").set_index("recalibrator")
    shares = found.drop(columns="cases").astype(float)
    shrunk, isotonic = shares.loc["shrunk"], shares.loc["isotonic"]
    assert claims(ShrunkIsotonicRecalibrator, "the CRPS increased in none of the cases")
    assert shrunk["worst CRPS"] <= 1 < isotonic["worst CRPS"]
    assert shrunk["PIT worse"] == 0
    assert 0.5 < shrunk["PIT better"] < isotonic["PIT better"]
    assert shrunk["not changed"] == pytest.approx(1 - shrunk["PIT better"])


def test_censored_targets():
    models = read("censored-models").set_index("model").astype(float).round(2)
    ratio = models["CRPS / truth"]
    for words_before, name in (
        (
            "the CRPS of the logarithm was {:.2f} times the CRPS of the true distribution",
            "boosting, LightGBM",
        ),
        ("the ratio was {:.2f} if it was fitted without the censored rows", "observed rows only"),
        ("and {:.2f} if censored times were treated as observed times", "censored as observed"),
        ("For `CensoringWeightedRegressor`, the ratio was {:.2f}", "weighted rows"),
    ):
        assert claims(CensoredBoostingRegressor, words_before.format(ratio[name]))
    covered = models.loc["boosting, LightGBM", "coverage"]
    assert claims(CensoredBoostingRegressor, f"and {100 * covered:.0f} % of the new times were in the 90 %")
    engines = read("censored-rows").set_index(["rows", "model"])["CRPS / truth"].astype(float)
    for _, pair in engines.groupby("rows"):
        assert pair.iloc[0] == pytest.approx(pair.iloc[1], rel=0.02)  # "equally good"
    best = read("censored-scores").set_index("score")["best factor"].astype(float)
    assert best["nll"] == pytest.approx(1, abs=0.05)


def test_levels_that_follow_a_sequence():
    found = read("sequences-distributions").set_index("forecast").astype(float)
    forest, ridge = 100 * (1 - found["CRPS ratio"].loc[["forest", "ridge"]])
    error = found["largest level error"].max()
    assert claims(OnlineRecalibrator, f"differed from its level by at most {error:.3f}")
    assert claims(
        OnlineRecalibrator, f"It was {forest:.1f} % lower with a forest, and {ridge:.1f} % lower with a ridge"
    )


# ----------------------------------------------------------------------------------- formulas, the package


def test_constants_of_docstrings():
    median = norm.ppf(0.75)  # of the absolute standardized residual
    assert claims(StdScalingRecalibrator, f":math:`{median:.4f}\\,\\sigma_i` for a normal distribution")
    # relative variances, times n: of the sample median by its density, and of the root mean square
    ratio = 1 / (4 * median * norm.pdf(median)) ** 2 / 0.5
    assert claims(StdScalingRecalibrator, f"is {ratio:.1f} times the variance of the other factor")


def test_rows_that_conformal_intervals_require():
    text = (DOCS / "explanation/conformal.rst").read_text(encoding="utf-8")
    rows = [part.split("\n      - ") for part in text.split("    * - ")]
    table = {row[0]: [int(cell.split()[0]) for cell in row[1:5]] for row in rows if len(row) == 5}
    table.pop("minimum number of rows")
    one, two = (
        [math.ceil(round(level / (1 - level), 9)) for level in levels]
        for levels in ((0.8, 0.9, 0.95, 0.99), (0.9, 0.95, 0.975, 0.995))
    )
    assert table == {"one guarantee for the interval": one, "two guarantees, one for each bound": two}
    for estimator in (ConformalRegressor, CrossConformalRegressor):
        assert claims(estimator, f"at least {two[1]} for a coverage of 90 %")
    y = np.random.default_rng(0).standard_normal(two[1])
    for n, finite in ((two[1], True), (two[1] - 1, False)):
        recalibrator = ConformalRecalibrator(symmetric=False).fit(Normal(np.zeros(n), 1.0), y[:n])
        with contextlib.nullcontext() if finite else pytest.warns(SmallSampleWarning):
            bounds = recalibrator.transform(Normal(np.zeros(1), 1.0)).interval(0.9)
        assert np.isfinite(bounds).all() == finite


def test_standard_error_of_the_tutorial():
    tutorial = words("guides/tutorials/getting_started.py").replace(" # ", " ")
    assert f"With 300 rows, the standard error of the coverage is {np.sqrt(0.9 * 0.1 / 300):.2f}." in tutorial


# --------------------------------------------------------------------------------------------- simulations


def wave(n: int, n_columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, n_columns))
    return X, np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def mean_coverage(model, n: int, n_columns: int) -> float:
    """Return the coverage of 90 % intervals for new rows, averaged over ten training sets."""
    covered = []
    for seed in range(10):
        X, y = wave(n + 1000, n_columns, seed)
        fitted = clone(model).set_params(random_state=seed).fit(X[:n], y[:n])
        covered.append(prediction_interval_coverage(y[n:], fitted.predict_interval(X[n:])))
    return float(np.mean(covered))


@pytest.mark.parametrize(("method", "claimed"), [("cv+", 0.96), ("jackknife+ab", 0.90)])
def test_single_trees_in_cross_conformal_prediction(method, claimed):
    assert claims(
        CrossConformalRegressor,
        'for single trees and a nominal coverage of 90 %, "cv+" covers about 96 % and "jackknife+ab" about '
        "90 %",
    )
    model = CrossConformalRegressor(DecisionTreeRegressor(random_state=0), method)
    assert mean_coverage(model, 200, 3) == pytest.approx(claimed, abs=0.02)


@pytest.mark.parametrize(
    ("n", "smooth", "claimed"), [(20, False, 0.19), (100, False, 0.08), (20, True, 0.08), (100, True, 0.025)]
)
def test_few_rows_of_an_isotonic_recalibrator(n, smooth, claimed):
    assert claims(
        IsotonicRecalibrator,
        "by 0.19 with 20 rows and by 0.08 with 100 rows. With ``smooth=True``, the increase is 0.08 with 20 "
        "rows and 0.025 with 100 rows",
    )
    rng = np.random.default_rng(n)
    y_new = norm.ppf((np.arange(400) + 0.5) / 400)
    new, known = Normal(np.zeros(400), 1.0), Normal(np.zeros(n), 1.0)
    loss = nll_loss(y_new, new)
    increase = [
        nll_loss(y_new, IsotonicRecalibrator(smooth=smooth).fit(known, y).transform(new)) - loss
        for y in rng.standard_normal((300, n))
    ]
    assert np.mean(increase) == pytest.approx(claimed, rel=0.1)
