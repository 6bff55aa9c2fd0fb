"""The scripts that reproduce the papers, as modules."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def study(request: pytest.FixtureRequest) -> ModuleType:
    """Return the script that the test file names by ``SCRIPT``."""
    name = request.module.SCRIPT
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)  # scripts of one paper import each other
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(shared_data) -> Path:
    """Return the folder of the data of Wibbeke et al. (2025), or skip where there are none."""
    shared_data("paper001/servo")
    return Path(os.environ["SKUQ_DATA"]) / "paper001"


@pytest.fixture(scope="module")
def page(request: pytest.FixtureRequest) -> str:
    """Return the text of the page that the test file names by ``PAGE``."""
    return (FOLDER.parent / "docs" / "replications" / request.module.PAGE).read_text(encoding="utf-8")
