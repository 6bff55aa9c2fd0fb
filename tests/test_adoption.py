"""Facts of the page for teams that review skuq: network access, licenses, packages, size, number of fits."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import metadata, requires
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge

from skuq import UncertaintyRegressor, datasets

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/explanation/adoption.rst").read_text(encoding="utf-8")
NETWORK = {"urllib", "http", "socket", "ssl", "ftplib", "smtplib", "requests", "httpx", "urllib3", "aiohttp"}
PERMISSIVE = re.compile(r"BSD|MIT|Apache")


def imports(path: Path) -> set[str]:
    """Return the first parts of the modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found |= {name.partition(".")[0] for name in names}
    return found


def installed_with_skuq() -> set[str]:
    """Return the packages that pip installs with skuq, without extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found, open_names = set(), list(project["dependencies"])
    while open_names:
        requirement, _, marker = open_names.pop().partition(";")
        name = re.match(r"[\w-]+", requirement)[0].lower()
        if name not in found and not re.search("extra|sys_platform|python_version", marker):
            found.add(name)
            open_names += requires(name) or []
    return found


def test_only_downloads_of_data_access_the_network():
    modules = [path for path in (ROOT / "skuq").rglob("*.py") if imports(path) & NETWORK]
    assert [path.relative_to(ROOT).as_posix() for path in modules] == ["skuq/datasets/_download.py"]


def test_the_package_has_no_compiled_code():
    kinds = {path.suffix for path in (ROOT / "skuq").rglob("*") if path.is_file()}
    assert kinds - {".pyc"} == {".py", ".typed", ".toml", ".gz", ".js", ".jinja"}


def test_the_page_names_every_required_package():
    assert {name for name in installed_with_skuq() if name not in PAGE} == set()


def test_the_page_names_the_packages_of_every_extra_of_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    of_developers = {"docs", "test", "tables", "lint", "release", "dev"}
    users = [extras[name] for name in extras if name not in of_developers]
    names = {re.match(r"[\w-]+", requirement)[0] for extra in users for requirement in extra} - {"skuq"}
    (sentence,) = re.findall(r"The extras install (.*?), which", PAGE, re.DOTALL)
    assert set(re.split(r",\s+|\s+and\s+", sentence)) == names


def test_required_packages_and_data_in_the_wheel_have_a_permissive_license():
    for name in installed_with_skuq():
        of = metadata(name)
        texts = [of.get("License-Expression"), of.get("License"), *(of.get_all("Classifier") or [])]
        assert any(PERMISSIVE.search(text or "") for text in texts), name
    for name in ("abalone", "airfoil", "auto_mpg", "concrete"):
        loaded = getattr(datasets, f"load_{name}")()
        assert loaded.license == "CC BY 4.0"
        assert loaded.source


def test_the_page_states_the_size_of_the_installed_package():
    files = [path for path in (ROOT / "skuq").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    (stated,) = re.findall(r"skuq needs ([\d.]+) MB", PAGE)
    assert float(stated) == pytest.approx(sum(path.stat().st_size for path in files) / 1e6, abs=0.1)


@pytest.mark.parametrize(
    ("model", "fits", "sentence"),
    [
        (KernelRidge(), 5, "fits most models five times instead of once, each time without one fold"),
        (RandomForestRegressor(random_state=0), 1, "A forest with 50 trees or more is fitted once"),
        (
            GradientBoostingRegressor(loss="quantile", n_estimators=5),
            12,
            "quantile loss is fitted twelve times",
        ),
    ],
    ids=["most models", "forest", "quantile loss"],
)
def test_the_page_states_the_number_of_fits(model, fits, sentence, monkeypatch):
    sizes = []
    fit = type(model).fit

    def counted(self, X, *args, **kwargs):
        sizes.append(len(X))
        return fit(self, X, *args, **kwargs)

    monkeypatch.setattr(type(model), "fit", counted)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    UncertaintyRegressor(model, random_state=0).fit(X, X[:, 0] + rng.standard_normal(200))
    assert len(sizes) == fits
    assert sentence in re.sub(r"\s+", " ", PAGE)
    as_long_as = {5: (3.7, 4.0), 1: (1.0, 1.0), 12: (9.7, 10.0)}[fits]  # the page says four, one and ten
    assert as_long_as[0] <= sum(sizes) / 200 <= as_long_as[1]
