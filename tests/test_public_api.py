"""The public names of skuq are those of docs/reference/api.rst; each, and each result, is documented."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import skuq

ROOT = Path(__file__).resolve().parent.parent

# What the page of the reference lists is public; the names of skuq itself are aliases.
REFERENCE = (ROOT / "docs" / "reference" / "api.rst").read_text(encoding="utf-8")
ALIASES = [
    "RecalibratedRegressor",
    "UncertaintyRegressor",
    "__version__",
    "get_scorer",
    "predict_dist",
    "register",
    "show_versions",
    "supports_dist",
]


def documented() -> dict[str, list[str]]:
    """Return the names that docs/reference/api.rst lists, by module."""
    found: dict[str, list[str]] = {}
    module = ""
    for line in REFERENCE.splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.match(r"    (\w+)$", line):
            found.setdefault(module, []).append(match[1])
    return {module: sorted(names) for module, names in found.items()}


PUBLIC = documented() | {"skuq": ALIASES}

# Modules and names of the classes that functions return and no package exports.
RESULTS = re.findall(
    r"^    ~(skuq\.[\w.]+)\.(\w+)$",
    (ROOT / "docs" / "reference" / "results.rst").read_text(encoding="utf-8"),
    re.MULTILINE,
)

# Names of skuq itself, without another module.
OWN = {"__version__", "show_versions"}

# Packages whose names are modules.
ROOMS = {"skuq.integrations"}

# What numpydoc must not find: https://numpydoc.readthedocs.io/en/latest/validation.html
FORBIDDEN = {
    "GL05",  # tabs
    "GL06",  # a section of unknown name
    "GL07",  # sections out of order
    "GL08",  # no docstring
    "SS01",  # no summary
    "SS03",  # a summary without its period
    "SS06",  # a summary of several lines
    "PR01",  # a parameter that is not documented
    "PR02",  # a documented parameter that does not exist
    "PR03",  # parameters in another order
    "PR04",  # a parameter without its type
    "PR07",  # a parameter without a description
    "PR10",  # no space before the colon
    "RT01",  # no Returns
    "RT03",  # a return value without a description
}
FORBIDDEN_AT_THE_TOP = FORBIDDEN | {"EX01"}  # functions and classes have an example, methods need none

NAMES = [(module, name) for module, names in PUBLIC.items() if module != "skuq" for name in names]
NAMES += RESULTS


def load(module: str) -> ModuleType:
    if module == "skuq.neural":
        pytest.importorskip("torch")
        pytest.importorskip("skorch")
    if module == "skuq.integrations.dask":
        pytest.importorskip("dask")
    return importlib.import_module(module)


@functools.cache
def public_modules() -> set[str]:
    """Return every module of skuq whose name and parents do not start with an underscore, but for rooms."""
    found = {"skuq"}
    for info in pkgutil.walk_packages(skuq.__path__, "skuq."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            found.add(info.name)
    return found - ROOMS


def methods(cls: type) -> list[str]:
    """Return the public methods and properties that a class takes from skuq."""
    return sorted(
        name
        for name in dir(cls)
        if not name.startswith("_")
        for owner in [next((c for c in cls.__mro__ if name in vars(c)), object)]
        if owner.__module__.startswith("skuq.")
        and (inspect.isfunction(inspect.getattr_static(cls, name)) or is_method_like(cls, name))
    )


def is_method_like(cls: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(cls, name), classmethod | staticmethod | property)


def documenting_class(cls: type, method: str) -> type:
    """Return the first class along the MRO that documents a method; an override need not repeat it."""
    return next((c for c in cls.__mro__ if getattr(vars(c).get(method), "__doc__", None)), cls)


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """Import all packages; the time is not that of a test."""
    public_modules()


def test_the_reference_lists_every_public_module():
    assert public_modules() == set(PUBLIC)


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_the_public_names_are_those_of_the_reference(module):
    assert sorted(load(module).__all__) == PUBLIC[module]


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_nothing_else_looks_public(module):
    """What a module imports for itself does not show, so that tab completion gives only what is meant."""
    if module == "skuq.exceptions":
        visible = {name for name in vars(load(module)) if not name.startswith("_")} - {"NotFittedError"}
    else:
        visible = {
            name
            for name in dir(load(module))  # for skuq itself, also what is loaded on its first use
            for value in [getattr(load(module), name)]
            if not name.startswith("_")
            and not (inspect.ismodule(value) and value.__name__ in {*PUBLIC, *ROOMS})
        }
    assert visible == set(PUBLIC[module]) - {"__version__"}


def test_result_objects_are_in_the_modules_of_their_page_and_not_exported():
    assert len(RESULTS) == len({name for _, name in RESULTS}) > 20
    assert all(load(module).__name__ == getattr(load(module), name).__module__ for module, name in RESULTS)
    assert not {name for _, name in RESULTS} & {name for names in PUBLIC.values() for name in names}


@pytest.mark.parametrize("name", [name for name in PUBLIC["skuq"] if name not in OWN])
def test_a_name_of_the_quick_start_is_that_of_its_module(name):
    homes = [module for module, names in PUBLIC.items() if module != "skuq" and name in names]
    assert [getattr(load(module), name) for module in homes] == [getattr(skuq, name)]


def test_types_and_run_time_have_the_same_names():
    """The imports for type checkers are those that `__getattr__` performs on the first use of a name."""
    (block,) = (
        node for node in ast.parse(inspect.getsource(skuq)).body if isinstance(node, ast.If) and node.orelse
    )
    homes = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    packages = {name for name, home in homes.items() if home == "skuq"}
    assert packages == set(skuq._PACKAGES)
    assert {name: home for name, home in homes.items() if home != "skuq"} == skuq._HOMES
    assert {f"skuq.{name}" for name in packages} == {
        module for module in {*PUBLIC, *ROOMS} if module.count(".") == 1
    }
    assert {*packages, *ALIASES} <= {*dir(skuq), "neural"}
    with pytest.raises(AttributeError, match="module 'skuq' has no attribute 'metric'"):
        skuq.metric  # noqa: B018


def test_connections_to_other_packages_are_loaded_on_their_first_use():
    folder = Path(skuq.integrations.__file__).parent
    assert set(skuq.integrations._PACKAGES) == {path.parent.name for path in folder.glob("*/__init__.py")}
    # tests/test_packaging.py loads one in a new process.
    with pytest.raises(AttributeError, match=r"module 'skuq.integrations' has no attribute 'scikit'"):
        skuq.integrations.scikit  # noqa: B018


def test_the_version_is_that_of_the_project():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{skuq.__version__}"' in text
    assert f"version: {skuq.__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def complaints(path: str, forbidden: set[str]) -> list[str]:
    validate = pytest.importorskip("numpydoc.validate")
    return [f"{path}: {code} {text}" for code, text in validate.validate(path)["errors"] if code in forbidden]


@pytest.mark.docs
@pytest.mark.parametrize(("module", "name"), NAMES)
def test_the_docstring_is_complete(module, name):
    value = getattr(load(module), name)
    if inspect.isclass(value) and issubclass(value, Exception):
        assert (inspect.getdoc(value) or "").endswith(".")
        return
    found = complaints(f"{module}.{name}", FORBIDDEN_AT_THE_TOP)
    if inspect.isclass(value):
        for method in methods(value):
            owner = documenting_class(value, method)
            found += complaints(f"{owner.__module__}.{owner.__qualname__}.{method}", FORBIDDEN)
    assert found == []


MAX_OWN_BASES = 3
"""Classes of skuq above any of its classes: a base, one base below it, and a mixin."""


def classes_of(module: ModuleType) -> list[type]:
    return [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
    ]


def own_bases(cls: type) -> list[str]:
    """Return the names of the classes of skuq above another, without stand-ins for scikit-learn's classes."""
    bases = cls.__mro__[1:]
    return [
        base.__name__
        for base in bases
        if base.__module__.startswith("skuq.") and base.__module__ != "skuq._compat"
    ]


def test_inheritance_is_flat():
    deep = {}
    for info in pkgutil.walk_packages(skuq.__path__, "skuq."):
        try:
            module = importlib.import_module(info.name)
        except ImportError:  # an optional dependency is missing
            continue
        deep |= {
            f"{cls.__module__}.{cls.__qualname__}": own_bases(cls)
            for cls in classes_of(module)
            if len(own_bases(cls)) > MAX_OWN_BASES
        }
    assert not deep


def packages() -> set[str]:
    """Return the names of the public modules below skuq."""
    return {name.split(".")[1] for name in public_modules() - {"skuq"}}


def test_the_docstring_of_skuq_names_every_package():
    assert set(re.findall(r"^- ``skuq\.(\w+)``: ", skuq.__doc__, re.MULTILINE)) == packages()
