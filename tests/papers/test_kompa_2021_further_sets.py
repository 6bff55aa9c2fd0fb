"""The script that evaluates the default ensemble on data sets not used to choose its defaults."""

from __future__ import annotations

import json

import numpy as np
import pytest

for package in ("torch", "skorch"):
    pytest.importorskip(package)

pytestmark = pytest.mark.docs

SCRIPT = "kompa_2021_further_sets"


def test_one_set_runs_and_is_not_run_twice(study, shared_data, tmp_path, capsys, monkeypatch):
    shared_data("paper001/servo")  # skips where there are no data
    out = tmp_path / "out.json"
    arguments = ["--sets", "servo", "--splits", "2", "--out", str(out)]
    study.main(arguments)
    rows = json.loads(out.read_text())["servo"]
    assert len(rows) == 2
    for row in rows:
        assert 0.8 < row["95%"] <= 1
        assert row["50%"] < row["95%"] <= row["99%"]
        assert 0.2 < row["width"] < 2
    capsys.readouterr()
    monkeypatch.setattr(study, "measure", lambda *arguments: 1 / 0)
    study.main([*arguments, "--rst"])
    printed = capsys.readouterr().out
    assert printed.startswith(".. list-table::")
    assert "    * - servo\n      - 2\n" in printed


def test_layers_are_plain_as_the_settings_chosen_on_other_data_sets_had_them(study, monkeypatch):
    trained, regressor = [], study.DeepEnsembleRegressor

    def ensemble(**params):
        trained.append(params)
        return regressor(**params | {"n_estimators": 5, "max_epochs": 1})

    monkeypatch.setattr(study, "DeepEnsembleRegressor", ensemble)
    rng = np.random.default_rng(0)
    study.measure(rng.normal(size=(100, 2)), rng.normal(size=100), 1)
    assert [(one["n_frequencies"], one["input_scale"], one["activation"]) for one in trained] == [
        (0, False, "relu")
    ]
