"""Both sides of every line of the benchmark compute the same; how long they take is no test."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import skuq.conformal
import skuq.displays
import skuq.multivariate
import skuq.recalibration
import skuq.regressors
import skuq.survival
from benchmarks import tables
from skuq.metrics._spec import all_specs

pytestmark = pytest.mark.docs

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def script() -> Iterator[Callable[[str], ModuleType]]:
    """Return ``script(name)``, which returns a script of benchmarks as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)  # scripts import each other

        @functools.cache
        def load(name: str) -> ModuleType:
            spec = importlib.util.spec_from_file_location(f"skuq_{name}", FOLDER / f"{name}.py")
            module = importlib.util.module_from_spec(spec)
            patch.setitem(sys.modules, spec.name, module)  # its dataclasses look it up
            spec.loader.exec_module(module)
            return module

        yield load


@pytest.mark.filterwarnings("ignore")
def test_both_sides_of_a_line_agree(script):
    metrics = script("metrics")
    lines = [
        *metrics.distribution_lines(1000),
        *metrics.average_calibration(1000),
        *metrics.proper_scores(1000),
    ]
    assert sum(line.same for line in lines) > 12
    table = metrics.compared(lines, quick=True, memory=True)
    assert (table.loc[:, "skuq, MB":].astype(float) > 0).all(axis=None)
    assert (table[["skuq, ms", "ref., ms", "times faster"]] == "nan").all(axis=None)  # nothing is timed
    wrong = metrics.Line("sum", 2, "other", lambda: 1.0, lambda: 1.1, same=True)
    with pytest.raises(AssertionError, match="sum"):
        wrong.row(quick=True, memory=False)


def test_a_full_run_times_both_sides(script):
    line = script("metrics").Line("sum", 100, "other", np.ones(100).sum, np.ones(10).sum, repeats=10)
    row = line.row(quick=False, memory=False)
    own, ref, ratio = (float(row[name]) for name in ("skuq, ms", "ref., ms", "times faster"))
    assert min(own, ref) > 0
    assert ref / own / ratio == pytest.approx(1, abs=0.1)


@pytest.fixture(scope="module")
def million(script) -> ModuleType:
    pytest.importorskip("matplotlib.pyplot").switch_backend("Agg")
    return script("million")


def test_every_public_name_has_a_line_at_a_million_rows(million):
    lines = " ".join(line.what for group in million.GROUPS for line in group())
    public = [
        *(name for name in skuq.conformal.__all__ if name[0].isupper()),
        *(name for name in skuq.displays.__all__ if name not in million.NO_ROWS),
        *(
            name
            for name in (*skuq.survival.__all__, *skuq.multivariate.__all__)
            if name.endswith(("Display", "Regressor"))
        ),
        *(name for name in skuq.recalibration.__all__ if not name.startswith("Base")),
        *(name for name in skuq.regressors.__all__ if not name.startswith("Base") and name[0].isupper()),
        *(f"metric {spec.abbreviation}" for spec in all_specs(rooms=True).values() if spec.ready_made),
    ]
    without_gpytorch = {"SparseGaussianProcessRegressor"} if find_spec("gpytorch") is None else set()
    assert {name for name in public if name not in lines} == without_gpytorch


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(7))
def test_every_line_at_a_million_rows_runs_on_few(million, number):
    assert len(million.GROUPS) == 7
    for line in million.GROUPS[number]():
        line.make(600)()


def test_one_row_is_timed_against_the_base(script):
    one_row = script("one_row")
    X, y = one_row.simulate(80, 0)
    model, base = one_row.cases()["default around ``Ridge``"]
    cells = one_row.row(model.fit(X, y), base.fit(X, y), calls=1)
    assert len(cells) == 7
    assert all(float(cell) > 0 for cell in cells.values())


def test_every_method_forecasts_a_small_set(script, monkeypatch):
    real_data = script("real_data")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(180, 2))
    monkeypatch.setattr(real_data, "load", lambda name: (X, X[:, 0] + rng.normal(size=180)))
    # Networks and NGBoost are dear, and have no code of their own in the benchmark.
    installed = real_data.installed(real_data.METHODS, "")
    methods = [method for method in installed if method.package not in ("torch", "ngboost")]
    results = pd.DataFrame([real_data.evaluate(method, "made", 0, 120) for method in methods])
    assert len(results) > 8
    assert (results["crps"].isna() == results["method"].str.startswith("MAPIE")).all()
    assert results.loc[0, "fits"] == pytest.approx(3.75, abs=0.1)
    table = real_data.table(results)
    assert table.loc[methods[0].name, "CRPS"] == 1.0
    pd.testing.assert_frame_equal(real_data.table(results[::-1]).loc[table.index], table)
    assert table["coverage"].between(0, 1, inclusive="right").all()
    assert (table.loc[[name for name in table.index if name.startswith("skuq")], "coverage"] > 0.8).all()


def test_coverage_and_crps_of_any_regressor_are_compared(script, monkeypatch):
    any_regressor = script("any_regressor")
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=180), rng.integers(0, 4, size=180)])
    y = X[:, 0] + rng.normal(size=180)
    monkeypatch.setattr(any_regressor, "split", lambda *_: (X[:120], y[:120], X[120:], y[120:]))
    results = pd.DataFrame(
        [
            any_regressor.evaluate(method, base, "made", 0, 120)
            for method in ("skuq", "center model", "split")
            for base in ("linear", "words")
        ]
    )
    assert (results["crps"].isna() == (results["method"] == "split")).all()
    table = any_regressor.table(results, "skuq", "center model")
    assert table.index.tolist() == ["linear", "words", "all"]
    assert table["90 %"].between(0.7, 1).all()
    assert table["CRPS"].between(0.5, 1.5).all()
    assert (
        table["outside"]["all"] == any_regressor.cells(results[results["method"] == "skuq"])["outside"].sum()
    )


def test_the_table_of_few_rows_has_a_row_for_each_method(script, monkeypatch):
    few_rows = script("few_rows")
    monkeypatch.setattr(few_rows, "TEST_ROWS", 20)
    results = [few_rows.evaluate(name, "skewed, 8", 0) for name in few_rows.METHODS]
    table = few_rows.table(pd.DataFrame(results))
    assert table.index.tolist() == list(few_rows.METHODS)
    assert table[8].between(0, 1).all()
    assert table.loc["conformal, Ridge (CV+)", 8] == 1  # eight rows have no rank for 90 %


def test_a_search_is_compared_with_its_peers(script):
    automl = script("automl")
    crps = {automl.SEARCH: (1.0, 4.0, 8.0), "FLAML": (2.0, 2.0, 1.0)}
    results = pd.DataFrame(
        [
            {"budget": 20.0, "set": name, "method": method, "crps": value}
            for method, of_sets in crps.items()
            for name, value in zip(("a", "b", automl.DECISIVE[0]), of_sets, strict=True)
        ]
    )
    results["tried"] = 1.0
    assert automl.table(results).loc["20 s"].to_dict() == pytest.approx(
        {"FLAML, 3 sets": 2.0, "FLAML, 2 sets": 1.0, "base models": 1.0}
    )


def test_the_band_is_that_of_split_conformal_prediction(script):
    one = pd.DataFrame({"n_train": [100], "n_test": [1000], "covered": [900]})
    assert [script("real_data").outside_of_the_band(one.assign(covered=c)) for c in (700, 900, 990)] == [
        -1,
        0,
        1,
    ]


def test_every_network_has_a_line_on_the_gpu(script):
    pytest.importorskip("torch")
    pytest.importorskip("skorch")
    from tests.neural.estimators import CLASSIFIERS, ESTIMATORS

    gpu = script("gpu")
    assert set(gpu.NAMES) == {cls.__name__ for cls in (*ESTIMATORS, *CLASSIFIERS)}
    X, y = gpu.data(100)
    times = gpu.best(gpu.networks()["PNNRegressor"].set_params(max_epochs=1), X, y, ("cpu",), 1)
    assert times.shape == (1, 2)


def test_a_commit_is_slower_only_outside_the_noise(script):
    compare = script("compare")
    for ratios, expected in (
        ([1.0, 1.01, 0.99, 1.0, 1.02], "same"),
        ([1.3, 1.31, 1.29, 1.3, 1.32], "slower"),
        ([0.8, 0.81, 0.79, 0.8, 0.82], "faster"),
        ([1.1, 0.8, 1.5, 1.2, 0.9], "same"),
        ([1.04, 1.04, 1.04], "same"),
    ):
        ratio, low, high = compare.band(ratios)
        assert low <= ratio <= high
        assert compare.verdict(low, high) == expected


def test_noise_band_of_commits_contains_no_difference(script):
    """The median of nine ratios is between the second and the eighth with a probability of 96 %."""
    rng = np.random.default_rng(0)
    bands = [script("compare").band(list(1 + 0.05 * rng.standard_normal(9))) for _ in range(500)]
    assert 0.93 < np.mean([low <= 1 <= high for _, low, high in bands]) < 0.99


def test_results_in_a_file_are_not_computed_again(script, tmp_path):
    measuring, path = script("measuring"), tmp_path / "results.jsonl"

    def evaluate(method, name, seed):
        computed.append((method, name, seed))
        return {"method": method, "set": name, "seed": seed}

    computed: list[tuple[str, str, int]] = []
    tasks = [(method, "a", seed) for seed in (0, 1) for method in ("forest", "ridge")]
    measuring.missing(measuring.stored(path), tasks, evaluate, path, most=3)
    results = measuring.stored(path)
    measuring.missing(results, tasks, evaluate, path)
    assert computed == tasks
    assert results == measuring.stored(path)


# ---------------------------------------------------------------------------------------- tables of the pages


def test_every_table_has_a_file_and_a_page():
    docs, known = FOLDER.parent / "docs", set()
    tests = Path(__file__).parent
    files = tests / "test_claims.py", *sorted((tests / "papers").glob("*.py"))
    claims = "".join(file.read_text(encoding="utf-8") for file in files)
    for name, benchmark in tables.BENCHMARKS.items():
        assert (FOLDER / f"{name}.py").is_file(), name
        pages = [docs / f"{page}.rst" for page in benchmark.get("pages", ())]
        text = "".join(page.read_text(encoding="utf-8") for page in pages)
        for table in benchmark["tables"]:
            shown = f"measured:: {table}\n" in text or f":measured:`{table};" in text
            assert shown or f'read("{table}")' in claims, table
            assert len(tables.read(table)) > 0
            assert "quick" not in benchmark or len(tables.read(table, quick=True)) > 0
            assert benchmark.get("quick_minutes", 0) <= 1
            known.add(table)
    assert {path.stem for path in (FOLDER / "results").glob("*.csv")} == known


def test_a_page_shows_the_cells_of_its_table(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(FOLDER.parent / "docs")
    text = ".. measured:: few_rows-skewed\n\nforest: :measured:`few_rows-skewed; forest; 20`\n"
    (tmp_path / "index.rst").write_text(text)
    folders = (tmp_path, None, tmp_path / "out", tmp_path / "doctrees", "text")
    make = pytest.importorskip("sphinx.application").Sphinx
    make(*folders, confoverrides={"extensions": ["measured"]}, status=None, warningiserror=True).build()
    words = (tmp_path / "out/index.txt").read_text().split()
    frame = tables.read("few_rows-skewed").set_index("method")
    cells = [cell for row in frame.to_numpy() for cell in row]
    assert [word for word in words if "." in word] == [*cells, frame.loc["forest", "20"]]
    measured = importlib.import_module("measured")
    with pytest.raises(LookupError, match="0 rows"):
        measured.cell("few_rows-skewed; oak; 20")


def test_quick_tables_agree_with_the_repository(capfd):
    assert tables.main(["--quick", "--only", "few_rows"]) == 0
    assert "1 benchmarks, about 0.00 hours" in capfd.readouterr().out


def test_benchmarks_that_fail_are_named(monkeypatch, capsys):
    def run(command, **_):
        return SimpleNamespace(returncode=command[-1] != "few_rows")

    monkeypatch.setattr(tables.subprocess, "run", run)
    assert tables.main(["--quick", "--only", "few_rows", "basis", "scale"]) == 2
    assert capsys.readouterr().out.endswith("failed: basis, scale\n")


def test_a_table_that_differs_is_reported():
    old = pd.DataFrame({"method": ["a", "b"], "crps": ["1.20", "1.30"]})
    times = [
        "seconds",
        "skuq, ms",
        "ref., MB",
        "times faster",
        "one row, times base",
        "million rows per second",
    ]
    old[times] = "1"
    tables.compare(old, old.assign(crps=["1.21", "1.30"], **dict.fromkeys(times, "9")), "made")
    with pytest.raises(SystemExit, match=r"made, row 2, 'crps': 1\.32 instead of 1\.30"):
        tables.compare(old, old.assign(crps=["1.20", "1.32"]), "made")
    with pytest.raises(SystemExit, match="other rows"):
        tables.compare(old, old[:1], "made")


def test_a_table_without_the_rows_of_a_package_is_not_written(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "UNFINISHED", tmp_path)
    monkeypatch.setattr(tables, "RESULTS", {False: tmp_path})
    monkeypatch.setattr(tables, "BENCHMARKS", {"made": {"tables": ["made"], "options": ""}})
    (tmp_path / "made.csv").write_text("method\nskuq\nMAPIE\n")

    def run_path(*_, **__):
        tables.measuring.shown = {"made": pd.DataFrame({"method": ["skuq"]})}

    monkeypatch.setattr(tables.runpy, "run_path", run_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(tables.measuring, "shown", None)
    with pytest.raises(SystemExit, match="made has lost rows: install the missing packages"):
        tables.run_full("made")
    assert len(tables.read("made")) == 2


def test_prose_does_not_make_a_table_stale(tmp_path):
    code = "def double(x):\n    {}\n    return {} * x\n"
    hashes = []
    for prose, factor in (('"""Return twice x."""', 2), ("# twice", 2), ("# thrice", 3)):
        (tmp_path / "file.py").write_text(code.format(prose, factor))
        hashes.append(tables.code_hash(tmp_path / "file.py"))
    assert hashes[0] == hashes[1] != hashes[2]
    assert tables.code_hash(tmp_path / "none.py") == ""


def test_a_table_of_other_code_is_stale(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "RESULTS", {False: tmp_path})
    monkeypatch.setattr(tables, "BENCHMARKS", {"made": {"tables": ["made"]}})
    file = "skuq/__init__.py"
    for value, changed in ((tables.code_hash(tables.ROOT / file), False), ("0", True)):
        stamp = {"commit": "abc", "files": {file: value}}
        (tmp_path / "made.csv").write_text(f"# {json.dumps(stamp)}\na,b\n1,2\n")
        assert tables.stale("made") == [f"made: made: measured at abc; since then changed: {file}"] * changed
    assert tables.read("made").to_dict("list") == {"a": ["1"], "b": ["2"]}
    (tmp_path / "made.csv").unlink()
    assert tables.stale("made") == ["made: made: no file, or no hashes"]
