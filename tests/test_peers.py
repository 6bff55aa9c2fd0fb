"""Every tick of the tables of related packages names an object that the package has."""

from __future__ import annotations

import inspect
import pkgutil
import re
import runpy
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
MODULES = {
    "Uncertainty Toolbox": "uncertainty_toolbox",
    "scikit-learn": "sklearn",
    "quantile-forest": "quantile_forest",
}


def load() -> dict[str, Any]:
    """Return the names of docs/peer_tables.py, which imports other modules of docs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        return runpy.run_path(str(DOCS / "peer_tables.py"))


TABLES = load()
FEATURES = {feature: cells for rows in TABLES["features"]().values() for feature, cells in rows.items()}
PACKAGES = ["skuq", *(package for group in TABLES["PACKAGES"].values() for package in group)]


def module_of(package: str) -> str:
    return MODULES.get(package, package.lower())


def resolve(evidence: str) -> Any:
    """Return the object of ``module:object`` or ``module:object(parameter)``, and check the parameter."""
    name, parameter = re.fullmatch(r"~?([\w.]+:[\w.]+)(?:\((\w+)\))?", evidence).groups()
    found = pkgutil.resolve_name(name)
    if parameter:
        assert parameter in inspect.signature(found).parameters, evidence
    return found


@pytest.mark.parametrize(
    "package",
    [  # `make test-foundation` runs those of its environment
        pytest.param(package, marks=() if package in ("TabPFN", "TabICL") else pytest.mark.docs)
        for package in PACKAGES
    ],
)
def test_an_installed_package_has_the_objects_behind_its_ticks(package):
    if find_spec(module_of(package)) is None:
        pytest.skip(f"{package} is not installed")
    ticks = {feature: cells[package] for feature, cells in FEATURES.items() if package in cells}
    assert ticks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the package are not the subject
        for feature, evidence in ticks.items():
            assert evidence.lstrip("~").split(":")[0].split(".")[0] == module_of(package), feature
            if "skuq.neural" in evidence and not (find_spec("torch") and find_spec("skorch")):
                continue
            assert resolve(evidence) is not None, feature


def test_every_cell_belongs_to_a_column():
    for feature, cells in FEATURES.items():
        assert set(cells) <= set(PACKAGES), feature


@pytest.mark.parametrize("evidence", ["json:missing", "json:dumps(missing)", "no_such_module:name"])
def test_a_tick_without_its_object_is_found(evidence):
    with pytest.raises((AttributeError, AssertionError, ImportError)):
        resolve(evidence)


@pytest.mark.docs
def test_skpro_has_more_than_fifty_families():
    registry = pytest.importorskip("skpro.registry")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(registry.all_objects("distribution")) > 50


@pytest.mark.docs
def test_regressors_of_mapie_are_cloned_only_for_time_series():
    regression = pytest.importorskip("mapie.regression")
    assert not hasattr(regression.SplitConformalRegressor, "get_params")
    assert not hasattr(regression.CrossConformalRegressor, "get_params")


def test_a_table_has_a_row_for_each_feature_and_a_mark_for_each_package():
    text = TABLES["feature_table"](("MAPIE", "crepes"))
    cells = [[cell.strip() for cell in row.split("|")] for row in text.splitlines() if "|" in row]
    rows = {name: marks for name, *marks in cells}
    assert rows[""] == ["skuq", "MAPIE", "crepes"]
    assert rows["split"] == ["✓", "✓", "✓"]
    assert rows["CRPS"] == ["✓", "", "(✓)"]
    assert set(FEATURES) <= set(rows)
