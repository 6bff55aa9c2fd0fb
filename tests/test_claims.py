"""Numbers of the most used docstrings and first pages, compared with tables, simulations or examples."""

from __future__ import annotations

import csv
import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor

from skuq.distributions import Normal
from skuq.metrics import nll_loss, prediction_interval_coverage
from skuq.neural import (
    BootstrapNetRegressor,
    DeepEnsembleRegressor,
    LastLayerLaplaceRegressor,
    VariationalRegressor,
)
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    CrossConformalRegressor,
    MixtureRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)

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
    header, *rows = read_table("replications/real-data.rst", "CRPS, score and coverage of 90 % intervals")
    return {row[0].strip("*"): dict(zip(header, row, strict=True)) for row in rows}


def test_21_data_sets(real_data):
    number = {
        name: {
            column: float(row[column] or "nan") for column in ("CRPS", "interval score", "coverage", "fits")
        }
        for name, row in real_data.items()
    }
    forest, residual = number["forest"], number["residuals of a forest"]
    ratio = forest["CRPS"] / residual["CRPS"]
    assert claims(
        UncertaintyRegressor,
        f'the CRPS of "forest" is {ratio:.2f} times the CRPS of "residual" (geometric mean), '
        f"with one fit instead of {residual['fits']:.1f}",
    )
    fitted, shifted = number["quantile boosting as fitted (LightGBM)"], number["quantile boosting (LightGBM)"]
    crps, score = (shifted[column] / fitted[column] for column in ("CRPS", "interval score"))
    assert claims(
        UncertaintyRegressor,
        "relative to LightGBM without recalibration, the CRPS is "
        f"{crps:.2f} and the score of 90 % intervals is {score:.2f}",
    )
    pool, recalibrated = (
        100 * number[f"pool of default estimators{end}"]["coverage"] for end in ("", ", recalibrated")
    )
    assert claims(MixtureRegressor, f"cover {pool:.1f} % of the test rows without and {recalibrated:.1f} %")
    bootstrap = 100 * number["bootstrap of a forest"]["coverage"]
    assert claims(BootstrapRegressor, f"For a default random forest, 90 % intervals cover {bootstrap:.0f} %")


def test_21_data_sets_on_the_landing_page(real_data):
    pool = real_data["pool of default estimators, recalibrated"]
    ngboost, forest = (
        float(pool["CRPS"]) / float(real_data[peer]["CRPS"]) for peer in ("NGBoost", "quantile-forest")
    )
    assert (
        f"the CRPS of a pool of the default models is {ngboost:.2f} times the CRPS of NGBoost and "
        f"{forest:.2f} times the CRPS of quantile-forest. The recalibrated 90 % intervals of the pool cover "
        f"{100 * float(pool['coverage']):.1f} %"
    ) in words("index.rst").replace(" * ", " ")


def test_plot_of_the_first_pages(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    _, economy, both = importlib.import_module("landing_picture").forecasts()
    trees, calibrated = (f"{100 * prediction_interval_coverage(economy, dist):.0f}" for dist in both.values())
    for page in ("index.rst", "../README.md"):
        text = words(page)
        assert f"covers {trees} % of the observations" in text
        assert f"{calibrated} %" in text
    assert (
        f"covers {trees} % of the cars, and ``UncertaintyRegressor(forest)`` covers {calibrated} %"
        in words("index.rst")
    )


def test_few_rows():
    text = (DOCS / "explanation/few-rows.rst").read_text(encoding="utf-8")
    rows = [part.split("\n      - ") for part in text.split("\n    * - ")[1:]]
    cells = [row for row in rows if row[0].startswith(("forest", "residual"))]
    assert len(cells) >= 10
    coverage = [float(cell.split()[0]) for row in cells for cell in row[2:]]  # from 12 rows on
    assert claims(
        UncertaintyRegressor,
        'With 12 rows or more, 90 % intervals of "forest" and "residual" cover '
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
        f'On four small data sets, the CRPS is {ensemble[0]} times as large with "nll" and {ensemble[1]} '
        "times as large with False",
    )
    best = of("BootstrapNetRegressor", "keep_best", '"squared_error"')
    assert claims(
        BootstrapNetRegressor,
        f'On four small data sets, the CRPS is {best} times as large with "squared_error"',
    )
    rate = of("BootstrapNetRegressor", "learning_rate", "0.003")
    assert claims(BootstrapNetRegressor, f"the CRPS on four small data sets is {rate} times as large")
    assert of("LastLayerLaplaceRegressor", "keep_best", '"squared_error"') == "1.00"
    assert claims(LastLayerLaplaceRegressor, 'the CRPS is the same with False and "squared_error"')
    rate = of("VariationalRegressor", "learning_rate", "0.003")
    last = of("VariationalRegressor, ``last_layer=True``", "learning_rate", "0.01")
    assert claims(
        VariationalRegressor,
        f"the CRPS is {rate} times as large with 0.003. With `last_layer` and 0.01, it is {last} times",
    )


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


@pytest.mark.parametrize("n", [200, 1000])
def test_fully_grown_trees_as_scale_of_fully_grown_trees(n):
    assert claims(
        ResidualRegressor, "Around fully grown trees in one dimension, 90 % intervals would cover about 73 %"
    )
    tree = DecisionTreeRegressor(random_state=0)
    model = ResidualRegressor(tree, tree, location="refit", shape="empirical", shrink=False)
    assert mean_coverage(model, n, 1) == pytest.approx(0.73, abs=0.05)


@pytest.mark.parametrize(
    ("n", "smooth", "claimed"), [(20, False, 0.19), (100, False, 0.08), (20, True, 0.08), (100, True, 0.025)]
)
def test_few_rows_of_an_isotonic_recalibrator(n, smooth, claimed):
    assert claims(
        IsotonicRecalibrator, "0.19 with 20 rows and 0.08 with 100; if ``smooth``, by 0.08 and 0.025"
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
