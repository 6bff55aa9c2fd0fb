"""The study of regressors under shift, which the paper did not make."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.tables import read

for package in ("torch", "skorch"):
    pytest.importorskip(package)

pytestmark = pytest.mark.docs

SCRIPT = "kompa_2021_regression_shift"
GROWING = ["forest, residuals", "forest, bootstrap", "deep ensemble", "forest, UncertaintyRegressor"]


def test_a_method_runs_on_all_sets_and_is_not_run_twice(study, shared_data, tmp_path, capsys, monkeypatch):
    for name in ("paper001/airfoil_self_noise", "paper001/wine_quality", "other/metro_traffic"):
        shared_data(name)  # skips where there are no data
    out = tmp_path / "out.json"
    arguments = ["--methods", "least squares", "--splits", "2", "--out", str(out)]
    study.main(arguments)
    printed = capsys.readouterr().out
    results = json.loads(out.read_text())
    found = {
        column: np.array([row[column] for row in rows]) for rows in results.values() for column in rows[0]
    }
    assert len(found) == 5 + 2 + 4
    coverage = {column: values[:, 0].mean() for column, values in found.items()}
    width = {column: values[:, 1].mean() for column, values in found.items()}
    for column in ("tilt 0", "red", "2012/13"):  # where the data are as in training
        assert coverage[column] == pytest.approx(0.9, abs=0.04)
    assert coverage["noise 1"] < 0.8
    assert coverage["white"] < 0.88
    assert width["noise 1"] < 1.1 * width["tilt 0"]
    monkeypatch.setattr(study, "SETS", dict.fromkeys(study.SETS, None))
    study.main(arguments)
    assert capsys.readouterr().out == printed


# -------------------------------------------------------------------------------- the sentences of the page


def numbers(study, name, part=0):
    """Return the coverage (part 0) or the width (part 1) of each method and shift."""
    frame = read(f"kompa_2021_regression_shift-{name}").set_index("method")
    assert set(frame.index) == set(study.METHODS)
    return frame.map(lambda cell: float(cell.split(", ")[part].split(" ± ")[0]))


def test_all_methods_are_nearly_nominal_without_a_shift(study):
    for name, column in (("airfoil", "tilt 0"), ("wine", "red"), ("traffic", "2012/13")):
        assert numbers(study, name)[column].between(0.87, 0.96).all()


def test_widths_that_depend_on_features_help_under_the_tilt(study):
    coverage, width = (numbers(study, "airfoil", part) for part in (0, 1))
    assert coverage.loc[GROWING, "tilt 2"].min() > 0.87
    growth = width["tilt 2"] / width["tilt 0"]
    assert growth[GROWING].min() > 1.15 > growth.drop(GROWING).max()
    assert (coverage["tilt 2"] < coverage["tilt 0"]).drop(GROWING).all()


def test_noise_lowers_the_coverage_of_all_methods(study):
    coverage, width = (numbers(study, "airfoil", part) for part in (0, 1))
    assert coverage["noise 0.3"].drop("least squares").max() < 0.8
    assert coverage.loc["least squares", "noise 0.3"] > 0.88
    others = width["noise 0.3"].drop("least squares")
    assert (width.loc["least squares", "noise 0.3"] > 2 * others).sum() > 4
    assert coverage["noise 1"].max() < 0.8
    growth = width["noise 1"] / width["tilt 0"]
    assert set(growth.index[growth > 2]) == {"sparse GP", "deep ensemble"}


def test_white_wines_and_later_years_are_covered_less(study):
    wine, traffic, width = numbers(study, "wine"), numbers(study, "traffic"), numbers(study, "traffic", 1)
    assert (wine["white"] < wine["red"]).all()
    kept = ["least squares", "sparse GP"]
    assert traffic.loc[kept, "2014":].min(axis=None) > 0.89
    others = traffic.drop(kept)
    assert (others["2016"] < others["2012/13"] - 0.04).all()
    assert (traffic.drop("least squares").idxmin(axis=1) == "2016").all()
    assert width["2016"].idxmax() == "least squares"
    sharpest = {"forest, residuals", "deep ensemble"}
    assert set(others["2016"].nsmallest(2).index) == set(width["2012/13"].nsmallest(2).index) == sharpest
