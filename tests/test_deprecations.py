"""A deprecated name warns and is removed in time, and the page of the policy has the minimum versions."""

from __future__ import annotations

import ast
import re
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.version import Version

import skuq
from tests.test_docs import blocks

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/development/deprecations.rst"
END = re.compile(r"will be removed in version (\d+\.\d+)\.")


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the code of each deprecation, by ``deprecated`` or by ``warn_user``."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        warns = name == "warn_user" and any(ast.unparse(each) == "FutureWarning" for each in node.args)
        if name == "deprecated" or warns:
            yield node.lineno, ast.unparse(node)


def faults(source: str, version: str) -> list[str]:
    """Return the deprecations without the version of their removal, or that this version has to remove."""
    found = []
    for line, text in messages(source):
        end = END.search(text)
        if not end:
            found.append(f"line {line}: no version of the removal")
        elif Version(version) >= Version(end[1]):
            found.append(f"line {line}: to be removed in {end[1]}")
    return found


def test_deprecations_of_skuq_name_a_later_version():
    for path in (ROOT / "skuq").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "deprecated(" in text or "FutureWarning" in text:
            assert faults(text, skuq.__version__) == [], path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("@deprecated('use `b`. It will be removed in version 0.3.')\ndef a(): pass", []),
        ("@deprecated('use `b`')\ndef a(): pass", ["line 1: no version of the removal"]),
        ("warn_user('It will be removed in version 0.2.', FutureWarning)", ["line 1: to be removed in 0.2"]),
        ("warn_user('Few rows.', SmallSampleWarning)", []),
    ],
)
def test_a_deprecation_without_its_end_is_found(source, expected):
    assert faults(source, "0.2.0") == expected


@pytest.fixture(scope="module")
def policy():
    """Return the names of the example of the page."""
    (code,) = (code for _, code, _ in blocks(PAGE))
    names = {"__name__": "example"}
    exec(code, names)
    assert faults(code, skuq.__version__) == []
    return names


def test_a_deprecated_name_warns_and_does_what_the_new_one_does(policy):
    with pytest.warns(FutureWarning, match="old_loss is deprecated; use `new_loss`") as caught:
        old = policy["old_loss"](None, None, coverage=0.8)
    assert END.search(str(caught[0].message))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert policy["new_loss"](None, None, coverage=0.8) == old


def test_a_deprecated_parameter_warns_at_the_line_of_the_user(policy):
    with pytest.warns(FutureWarning, match="`level` is deprecated: use `coverage`"):
        assert policy["Model"](level=0.8).fit(None, None).coverage_ == 0.8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert policy["Model"](coverage=0.8).fit(None, None).coverage_ == 0.8


def test_the_page_has_the_minimum_versions_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    expected = dict(name.split(">=") for name in project["dependencies"])
    expected["Python"] = project["requires-python"].removeprefix(">=")
    rows = re.findall(
        r"^    \* - (\w[\w-]+)\n      - ([\d.]+)\n", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert dict(rows) == expected
