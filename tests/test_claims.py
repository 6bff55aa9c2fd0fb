"""Numbers of the most used docstrings and first pages, compared with tables, simulations or examples."""

from __future__ import annotations

import contextlib
import csv
import importlib
import inspect
import math
import re
from pathlib import Path

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
from skuq.neural import (
    BootstrapNetRegressor,
    DeepEnsembleRegressor,
    LastLayerLaplaceRegressor,
    VariationalRegressor,
)
from skuq.recalibration import IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import MixtureRegressor, MultiQuantileRegressor, UncertaintyRegressor

pytestmark = pytest.mark.docs

DOCS = Path(__file__).resolve().parent.parent / "docs"


def read_table(page: str, caption: str) -> list[list[str]]:
    """Return the cells of a csv-table with ``|`` between cells."""
    text = (DOCS / page).read_text(encoding="utf-8").split(f".. csv-table:: {caption}\n")[1]
    body = text.split("\n\n")[1]
    return [[cell.strip() for cell in row] for row in csv.reader(body.splitlines(), delimiter="|")]


def words(page: str) -> str:
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


def claims(estimator: type, sentence: str) -> bool:
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
    assert claims(
        UncertaintyRegressor,
        f"On 21 data sets, the CRPS is {crps:.2f} times the CRPS of scikit-learn's boosting without "
        f"recalibration, and the interval score at 90 % is {score:.2f} times.",
    )
    pool, recalibrated = (
        100 * number[f"skuq, pool{end}"]["coverage"] for end in (" without recalibrator", "")
    )
    assert claims(
        MixtureRegressor,
        f"cover {pool:.1f} % of the test rows without this recalibrator, and {recalibrated:.1f} % with it",
    )
    assert round(fitted["coverage"], 1) == 0.8
    assert claims(MultiQuantileRegressor, "90 % intervals of gradient boosting cover about 80 %")
    assert (
        f"cover {pool:.1f} % of the test rows without a recalibrator and {recalibrated:.1f} % with it"
        in words("explanation/pools.rst")
    )
    guide = words("guides/how_to/choose_a_method.py").replace(" # ", " ")
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
    high, low = (100 * (number[f"skuq, boosting, effort {name}"]["CRPS"] - 1) for name in ("high", "low"))
    assert (
        f'``effort="high"`` lowers the CRPS of the reference by {-high:.0f} %, and ``effort="low"`` '
        f"increases it by {low:.0f} %"
    ) in guide
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
    assert claims(
        UncertaintyRegressor,
        'With 12 or more rows, the coverage of 90 % intervals of "forest" and "residual" is '
        f"{100 * min(coverage):.0f} to {100 * max(coverage):.0f} %",
    )


def test_other_values_of_the_defaults_of_networks():
    _, *rows = read_table("replications/networks.rst", "CRPS relative to the default")
    ratio = {tuple(row[:3]): row[3] for row in rows}

    def of(network: str, parameter: str, value: str) -> str:
        return ratio[network, f"``{parameter}``", f"``{value}``"]

    ensemble = [of("DeepEnsembleRegressor", "keep_best", value) for value in ('"nll"', "False")]
    assert claims(
        DeepEnsembleRegressor,
        f'the CRPS of the forecasts is {ensemble[0]} times as large with "nll" as with "crps", and '
        f'{ensemble[1]} times as large with False as with "crps"',
    )
    best = of("BootstrapNetRegressor", "keep_best", '"squared_error"')
    assert claims(
        BootstrapNetRegressor,
        f"On four small data sets, the CRPS of the forecasts is {best} times as large with "
        '"squared_error" as with False',
    )
    rate = of("BootstrapNetRegressor", "learning_rate", "0.003")
    assert claims(BootstrapNetRegressor, f"the CRPS with 0.003 is {rate} times the CRPS with 0.001")
    assert of("LastLayerLaplaceRegressor", "keep_best", '"squared_error"') == "1.00"
    assert claims(LastLayerLaplaceRegressor, 'the CRPS is the same with False and "squared_error"')
    rate = of("VariationalRegressor", "learning_rate", "0.003")
    last = of("VariationalRegressor, ``last_layer=True``", "learning_rate", "0.01")
    assert claims(
        VariationalRegressor,
        f"the CRPS with 0.003 is {rate} times the CRPS with the default 0.01. With `last_layer`, the CRPS "
        f"with 0.01 is {last} times",
    )


def test_layers_of_the_deep_ensemble():
    text = (DOCS / "replications/networks.rst").read_text(encoding="utf-8")
    body = text.split(".. csv-table:: CRPS relative to plain layers\n")[1].split("\n\n")[1]
    ratio = {row[0]: row[1] for row in csv.reader(body.splitlines(), skipinitialspace=True)}
    before, after = (
        float(ratio[name])
        for name in ("frequencies and scale", "the same, learning rate 0.008, batches of 64")
    )
    assert claims(
        DeepEnsembleRegressor,
        "The defaults of single networks are a learning rate of 0.003 and batches of 32 rows. On seven "
        "data sets, the CRPS with these values is 1.08 times the CRPS with the defaults of this class.",
    )
    assert before / after == pytest.approx(1.08, abs=0.02)  # both ratios are rounded
    times = re.findall(r"([0-9.]+)(?: times as long| times)? with \d+ columns", " ".join(text.split()))
    assert len(times) == 4
    assert claims(
        DeepEnsembleRegressor,
        f"The default layers take {min(times)} to {max(times)} times as long as plain layers",
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
