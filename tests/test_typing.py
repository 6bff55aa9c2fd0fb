"""The types that users see: tests/typing is checked by mypy in `make lint`, and by pyright here."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skuq.distributions import Distribution
from skuq.metrics._spec import all_specs
from tests.test_public_api import NAMES, load, methods

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
CASES = sorted((ROOT / "tests" / "typing").glob("*.py"))

# Packages whose `fit` and constructors return the class itself.
WITH_SELF = {
    f"skuq.{name}"
    for name in (
        "displays",
        "report",
        "regressors",
        "recalibration",
        "neural",
        "conformal",
        "survival",
        "multivariate",
    )
}
# Parameters that take an object of scikit-learn, torch or matplotlib, or any object with the right methods.
# These packages ship no types, or only types that exclude valid objects.
OTHER_PACKAGES = {
    "X", "X_test", "callbacks", "censoring_estimator", "classifier", "cv", "estimator", "estimators",
    "fit_params", "frozen", "held_out_size", "kernel", "kwargs", "module", "net_params", "noise_estimator",
    "recalibrator", "regressor", "scorer", "scoring", "y",
    "y_pred", "y_pred_a", "y_pred_b",
}  # fmt: skip
MAX_ANY = 441
MAX_OTHER_ANY = 107


def pyright(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *map(str, files)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def installed_pyright() -> None:
    pytest.importorskip("pyright", reason='pyright is not installed: pip install "pyright[nodejs]"')
    try:  # The first start downloads pyright.
        subprocess.run(
            [sys.executable, "-m", "pyright", "--version"], capture_output=True, check=True, timeout=90
        )
    except subprocess.SubprocessError as error:
        pytest.skip(f"pyright cannot start: {error}")


@pytest.mark.usefixtures("installed_pyright")
def test_pyright_infers_the_same_types(tmp_path):
    for package in ("torch", "matplotlib"):
        pytest.importorskip(package)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import typing\nfrom skuq.metrics import crps_loss\ntyping.assert_type(crps_loss([], []), int)\n"
    )
    result = pyright(*CASES, wrong)
    errors = re.findall(r"^.*error:.*$", result.stdout, re.MULTILINE)
    assert len(errors) == 1, result.stdout + result.stderr
    assert "wrong.py:3" in errors[0]


def test_results_of_every_public_class_and_metric_have_a_type():
    """Type checkers read these annotations; `make lint` compares them with the code."""
    for spec in all_specs().values():
        assert inspect.signature(spec.function).return_annotation == "float", spec.abbreviation
    for module, name in NAMES:
        value = getattr(load(module), name)
        if not inspect.isclass(value) or name == "ProbabilisticNet":  # a class of skorch has its own types
            continue
        names = ("fit", *(each for each in dir(value) if each.startswith("from_")))
        for method in names if module in WITH_SELF else ():
            if hasattr(value, method):
                assert inspect.signature(getattr(value, method)).return_annotation == "Self", (name, method)
        expected = {}
        if module == "skuq.distributions" and issubclass(value, Distribution):
            expected = {"cdf": "FloatArray", "quantile": "FloatArray", "sample": "FloatArray"}
        if module in ("skuq.regressors", "skuq.neural", "skuq.recalibration") and hasattr(value, "transform"):
            expected = {"predict_dist": "Distribution", "transform": "Distribution"}
        for method, annotation in expected.items():
            found = inspect.signature(getattr(value, method)).return_annotation
            assert found == annotation, (name, method)


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every public function, and the constructor and public methods of every public class, once."""
    found = {}
    for module, name in NAMES:
        value = getattr(load(module), name)
        if inspect.isfunction(value):
            found[f"{module}.{name}"] = value
            continue
        for method in ["__init__", *methods(value)] if inspect.isclass(value) else []:
            owner = next((cls for cls in value.__mro__ if method in vars(cls)), object)
            static = inspect.getattr_static(value, method)
            function = getattr(static, "__func__", getattr(static, "fget", static))
            if inspect.isfunction(function) and owner.__module__.startswith("skuq"):
                found[f"{owner.__module__}.{owner.__qualname__}.{method}"] = function
    yield from found.items()


def annotations_with_any() -> Iterator[tuple[str, str]]:
    """Yield the function and the parameter, or "return", of each annotation that contains Any."""
    for path, function in functions():
        signature = inspect.signature(function)
        for parameter in signature.parameters.values():
            if "Any" in str(parameter.annotation) and parameter.name != "self":
                yield path, parameter.name
        if "Any" in str(signature.return_annotation):
            yield path, "return"


def test_number_of_any_only_falls():
    """Lower the limits after a change that replaces Any by a type. Do not raise them."""
    found = list(annotations_with_any())
    other = [(path, name) for path, name in found if name not in OTHER_PACKAGES]
    assert len(found) <= MAX_ANY
    assert len(other) <= MAX_OTHER_ANY, other


@pytest.mark.parametrize(
    ("module", "name"),
    [pair for pair in NAMES if re.search(r"(Regressor|Classifier|Recalibrator|Map)$", pair[1])],
)
def test_types_of_parameters_are_available_at_run_time(module, name):
    """Tools that build a search space or a form from the constructor can read the type of each parameter."""
    cls = getattr(load(module), name)
    hints = typing.get_type_hints(cls.__init__)
    params = [
        parameter for parameter in inspect.signature(cls).parameters if parameter not in {"args", "kwargs"}
    ]
    assert set(params) <= set(hints)
