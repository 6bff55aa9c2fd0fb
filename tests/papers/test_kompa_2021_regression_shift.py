"""The study of regressors under shift, which the paper did not make."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

for package in ("torch", "skorch"):
    pytest.importorskip(package)

pytestmark = pytest.mark.docs

SCRIPT = "kompa_2021_regression_shift"


def test_a_method_runs_on_all_sets_and_is_not_run_twice(study, shared_data, tmp_path, capsys, monkeypatch):
    for name in ("paper001/airfoil_self_noise", "paper001/wine_quality", "other/metro_traffic"):
        shared_data(name)  # skips where there are no data
    out = tmp_path / "out.json"
    arguments = ["--methods", "least squares", "--splits", "2", "--out", str(out)]
    study.main(arguments)
    results = json.loads(out.read_text())
    found = {
        column: np.array([row[column] for row in rows]) for rows in results.values() for column in rows[0]
    }
    assert set(found) == set(study.COLUMNS)
    coverage = {column: values[:, 0].mean() for column, values in found.items()}
    width = {column: values[:, 1].mean() for column, values in found.items()}
    for column in ("airfoil, tilt 0", "wine, red", "traffic, same year"):  # where the data are as in training
        assert coverage[column] == pytest.approx(0.9, abs=0.04)
    assert coverage["airfoil, noise 1"] < 0.8
    assert coverage["wine, white"] < 0.88
    assert width["airfoil, noise 1"] < 1.1 * width["airfoil, tilt 0"]
    capsys.readouterr()
    monkeypatch.setattr(study, "SETS", dict.fromkeys(study.SETS, None))
    study.main([*arguments, "--rst"])
    printed = capsys.readouterr().out
    assert printed.startswith(".. list-table:: airfoil")
    assert "    * - least squares\n      - 0.9" in printed


FAST = ("least squares", "forest, conformal", "forest, UncertaintyRegressor")
SLOW = (
    "forest, residuals",
    "forest, bootstrap",
    "sparse GP",
    "deep ensemble",
    "MC dropout",
    "last-layer Laplace",
)


@pytest.mark.parametrize("method", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_no_method_keeps_its_coverage_where_features_are_noisy(study, shared_data, method):
    shared_data("paper001/airfoil_self_noise")  # skips where there are no data
    assert {*FAST, *SLOW} == set(study.METHODS)
    found = study.airfoil(Path(os.environ["SKUQ_DATA"]), method, 0)
    assert found["airfoil, tilt 0"][0] > 0.86
    assert found["airfoil, noise 1"][0] < 0.8
