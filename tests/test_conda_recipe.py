"""The conda recipe has the fields of its schema and agrees with pyproject.toml."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import skuq
from tests.test_public_api import PUBLIC

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Modules that need an extra.
WITH_EXTRAS = ("skuq.neural", "skuq.displays", "skuq.integrations")


@pytest.fixture(scope="module")
def recipe():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / "conda/recipe.yaml").read_text(encoding="utf-8"))


def requirements(listed: list[str]) -> dict[str, str]:
    """Return the lower bounds by name."""
    return {name: bound for name, _, bound in (line.partition(" >=") for line in listed)}


def python_bound() -> str:
    return PROJECT["project"]["requires-python"].removeprefix(">=")


def test_fields_are_those_of_the_schema(recipe):
    assert recipe.keys() == {
        "schema_version",
        "context",
        "package",
        "source",
        "build",
        "requirements",
        "tests",
        "about",
    }
    assert recipe["schema_version"] == 1
    assert recipe["build"].keys() == {"number", "noarch", "script"}
    assert recipe["build"]["noarch"] == "python"
    assert recipe["requirements"].keys() == {"host", "run"}
    assert [list(test) for test in recipe["tests"]] == [["python"], ["script"]]
    assert recipe["tests"][0]["python"].keys() == {"imports", "pip_check"}
    assert recipe["about"].keys() == {"summary", "license", "license_file"}


def test_the_version_and_the_sdist_are_those_of_the_project(recipe):
    assert recipe["context"]["version"] == PROJECT["project"]["version"] == skuq.__version__
    assert recipe["package"] == {"name": "skuq", "version": "${{ version }}"}
    assert recipe["source"] == {"path": "../dist/skuq-${{ version }}.tar.gz"}


def test_requirements_are_those_of_the_project(recipe):
    run, host = (requirements(recipe["requirements"][part]) for part in ("run", "host"))
    expected = dict(name.split(">=") for name in PROJECT["project"]["dependencies"])
    assert run == expected | {"python": python_bound()}
    backend = dict(name.split(">=") for name in PROJECT["build-system"]["requires"])
    assert host == backend | {"python": python_bound(), "pip": ""}


def test_every_module_without_an_extra_is_imported(recipe):
    modules = {module for module in PUBLIC if not module.startswith(WITH_EXTRAS)}
    assert set(recipe["tests"][0]["python"]["imports"]) == modules


def test_the_command_of_the_recipe_prints_the_version(recipe):
    (command,) = recipe["tests"][1]["script"]
    program, *arguments = command.split()
    assert program == "python"
    printed = subprocess.check_output([sys.executable, *arguments], text=True, cwd=ROOT)
    assert skuq.__version__ in printed


def test_the_license_is_that_of_the_project(recipe):
    assert recipe["about"]["license"] == PROJECT["project"]["license"]
    assert (ROOT / recipe["about"]["license_file"]).is_file()
