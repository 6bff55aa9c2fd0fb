"""The scripts that reproduce the papers, as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "papers"


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
