"""Rows, published results and tables of the benchmark on published splits."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from skuq.datasets import fetch_gal
from skuq.distributions import Normal
from skuq.regressors import LeastSquaresRegressor

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
FILES = {
    "abalone": "paper001/abalone",
    "white_wine": "paper001/wine_quality",
    "protein": "gal/gal_protein",
    "kin8nm": "gal/gal_kin8nm",
    "grid_stability": "paper001/grid_stability",
    "naval": "gal/gal_naval",
}
NAMES = {
    "Abalone": "abalone",
    "WhiteWine": "white_wine",
    "Protein": "protein",
    "Kin8nm": "kin8nm",
    "GridStability": "grid_stability",
    "NavalPropulsion": "naval",
}
METHODS = {"TabICL-Quantiles": "TabICLv2", "best-GLM": "best GLM"}


@pytest.fixture(scope="module")
def published() -> Iterator[ModuleType]:
    """Return the benchmark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("published")


@pytest.fixture(scope="module")
def tables(published) -> ModuleType:
    """Return the module that reads and writes tables."""
    return importlib.import_module("benchmarks.tables")


@pytest.fixture
def results(published) -> pd.DataFrame:
    """Return results of two pools that have 0.5 and 0.6 times the CRPS of one published method."""
    reference = published.published().query("method in ('deep ensemble', 'TabPFN-2.5') and split < 5")
    rows = [
        reference[list(published.Case._fields)].assign(
            model=model,
            n_train=100,
            n_test=100,
            crps=factor * reference["crps"],
            crps_se=0.01 * reference["crps"],
            crps_grid=0.4 * reference["crps"],
            coverage_90=0.9,
            fit_seconds=2.0,
            predict_seconds=0.3,
        )
        for model, factor in (("fast pool", 0.6), ("pool", 0.5))
    ]
    return pd.concat(rows, ignore_index=True)


# ------------------------------------------------------------------------------------- published results


def test_published_means_of_easyuq(published):
    means = published.published().groupby(["set", "method"])["crps"].mean()
    assert means["boston", "EasyUQ"] == pytest.approx(1.692, abs=5e-4)
    assert means["protein", "Smooth EasyUQ"] == pytest.approx(2.289, abs=5e-4)
    assert means["yacht", "deep ensemble"] == pytest.approx(0.455, abs=5e-4)


def test_every_published_split_has_three_methods(published):
    easyuq = published.published().query("table == 'easyuq'")
    assert easyuq.groupby("set")["split"].nunique().to_dict() == {
        name: 5 if name == "protein" else 20 for name in published.EASYUQ
    }
    assert (easyuq.groupby(["set", "split"]).size() == 3).all()


def test_published_scores_of_foundation_models(published, shared_data):
    table = shared_data("other/foundation_models_reference")
    table = table.replace({"dataset": NAMES, "method": METHODS})
    theirs = table.pivot_table(index=["dataset", "n", "method"], columns="metric", values="value")
    ours = published.published().query("table == 'foundation'").set_index(["set", "n", "method"])
    ours = ours.loc[theirs.index]
    for column, metric, sign in (
        ("crps", "CRPS", 1),
        ("nll", "log_lik", -1),
        ("coverage_90", "coverage_90", 1),
    ):
        np.testing.assert_allclose(ours[column], sign * theirs[metric], rtol=1e-5, atol=1e-9)


# ------------------------------------------------------------------------------------------------- rows


def test_rows_of_easyuq_are_the_published_split(published):
    rows = published.easyuq_rows(published.Case("easyuq", "concrete", 1030, 3))
    data = fetch_gal("concrete")  # ships with skuq
    train, test = data.splits[3]
    pd.testing.assert_frame_equal(rows.X, data.data.iloc[train])
    np.testing.assert_array_equal(rows.y_test, data.target.to_numpy()[test])


def test_rows_of_foundation_models(published):
    rows = published.foundation_rows(published.Case("foundation", "abalone", 1000, 4))
    assert (len(rows.X), len(rows.X_test)) == (750, 250)
    assert [name for name in rows.X if name.startswith("Sex")] == ["Sex_F", "Sex_I", "Sex_M"]
    np.testing.assert_allclose(rows.X.mean(), 0, atol=1e-12)
    np.testing.assert_allclose(rows.X.std(ddof=0), 1)
    target = published.fetch_uci("abalone").target.to_numpy()
    drawn = target[np.random.RandomState(42).permutation(4177)[:1000]]
    assert sorted(np.concatenate([rows.y, rows.y_test])) == sorted(drawn)


@pytest.mark.parametrize("name", FILES)
def test_linear_regression_has_the_published_crps(published, shared_data, name):
    shared_data(FILES[name])
    reference = published.published().query("method == 'LinearGauss-Homo' and set == @name")
    for n, crps in zip(reference["n"], reference["crps"], strict=True):
        rows = published.foundation_rows(published.Case("foundation", name, n, 4))
        model = LinearRegression().fit(rows.X, rows.y)
        scale = np.std(rows.y - model.predict(rows.X))
        dist = Normal(model.predict(rows.X_test), scale)
        assert published.grid_crps(rows.y_test, dist, rows.y) == pytest.approx(crps, rel=0.007)


def test_crps_on_a_grid_is_close_to_the_exact_crps(published):
    rng = np.random.default_rng(0)
    y_train, y = rng.uniform(-8, 8, 100), rng.normal(size=50)
    dist = Normal(np.zeros(50), 1.0)
    assert published.grid_crps(y, dist, y_train) == pytest.approx(dist.crps(y).mean(), rel=0.01)


# ---------------------------------------------------------------------------------------------- results


def test_a_run_is_continued(published, monkeypatch, tmp_path):
    models = {"pool": LeastSquaresRegressor(), "fast pool": LeastSquaresRegressor()}
    monkeypatch.setattr(published, "models", lambda: models)
    path = tmp_path / "results.csv"
    chosen = published.selected(["easyuq", "foundation"], ["concrete", "abalone"], [500], 2)
    assert [tuple(case) for case in chosen] == [
        ("easyuq", "concrete", 1030, 0),
        ("easyuq", "concrete", 1030, 1),
        ("foundation", "abalone", 500, 4),
    ]
    first = published.missing(chosen[1:], ["pool"], path)
    assert len(list(published.run(first, path, jobs=1))) == 2
    todo = published.missing(chosen, ["pool", "fast pool"], path)
    assert todo == [(chosen[0], "pool"), *((case, "fast pool") for case in chosen)]
    list(published.run(todo, path, jobs=1))
    assert published.missing(chosen, ["pool", "fast pool"], path) == []
    results = published.read(path)
    assert len(results) == 5 + 1
    assert results["coverage_90"].between(0.8, 1).all()
    assert results.loc[results["n"] == 500, "n_train"].tolist() == [375, 375]


def test_the_command_line_prints_the_tables(published, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(published, "models", lambda: {"pool": LeastSquaresRegressor()})
    path = tmp_path / "results.csv"
    published.main(["--sets", "concrete", "--splits", "1", "--output", str(path)])
    assert "1 of 1: easyuq concrete 1030 0 pool, CRPS" in capsys.readouterr().out
    published.main(["--summary", "--output", str(path)])
    assert "geometric mean, without naval" in capsys.readouterr().out


# ----------------------------------------------------------------------------------------------- tables


def test_ratio_of_proportional_scores_has_no_error(published):
    theirs = pd.Series([1.0, 2.0, 4.0])
    ratio, error = published.paired_ratio(0.5 * theirs, theirs)
    assert (ratio, error) == (0.5, 0.0)
    ratio, error = published.paired_ratio(pd.Series([1.0, 3.0], index=[0, 2]), theirs)  # splits 0 and 2
    assert ratio == pytest.approx(0.8)
    assert error == pytest.approx(np.std([0.2, -0.2], ddof=1) / np.sqrt(2) / 2.5)


def test_ratios_of_easyuq(published, results):
    table = published.easyuq_table(results).set_index("set")
    assert table.loc["yacht", "ratio"] == pytest.approx(0.5)  # the deep ensemble is the best
    easyuq = published.published().query("set == 'energy' and method == 'Smooth EasyUQ' and split < 5")[
        "crps"
    ]
    pool = results.query("set == 'energy' and model == 'pool'")["crps"]
    assert table.loc["energy", "ratio"] == pytest.approx(pool.mean() / easyuq.mean())
    sets = table.loc[list(published.EASYUQ), "ratio"]
    assert table.loc["geometric mean, all sets", "ratio"] == pytest.approx(np.exp(np.log(sets).mean()))
    others = sets.drop("naval")
    assert table.loc["geometric mean, without naval", "ratio"] == pytest.approx(np.exp(np.log(others).mean()))
    assert set(table["band"].dropna()) == {"inside"}


def test_ratios_of_foundation_models(published, results):
    table = published.foundation_table(results)
    of_sets = table[~table["set"].str.startswith("geometric")]
    np.testing.assert_allclose(of_sets["ratio"], 0.5)
    np.testing.assert_allclose(of_sets["error"], 0.01)
    np.testing.assert_allclose(of_sets["on the grid"], 0.4)
    assert not of_sets["its name"].isin(published.FOUNDATION_MODELS).any()
    means = table[table["set"].str.startswith("geometric")]
    assert means["n"].tolist() == [500, 500, 1000, 1000, 5000, 5000]
    np.testing.assert_allclose(means["ratio"], 0.5)


def test_seconds_and_the_pool_without_networks(published, results):
    easyuq = published.easyuq_table(results)
    of_sets = easyuq[~easyuq["set"].str.startswith("geometric")]
    np.testing.assert_allclose(of_sets["fit, s"], 2.0)
    np.testing.assert_allclose(of_sets["fast / fit, s"], 1.0)
    for table in (easyuq, published.foundation_table(results)):
        np.testing.assert_allclose(table["fast pool"], 1.2)


def test_findings_of_the_page(tables):
    rows = tables.read("published-foundation").set_index(["set", "n"])["ratio"].astype(float)
    assert rows["protein"].idxmax() == "5000"
    assert (rows["protein"] > 1).all()
    assert (rows["naval"] < 1).all()
    easyuq = tables.read("published-easyuq").set_index("set")["ratio"].astype(float)
    assert (easyuq < 1).all()
