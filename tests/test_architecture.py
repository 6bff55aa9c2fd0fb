"""The rules of docs/development/architecture.rst, checked on the syntax tree of every module.

`violations` walks a package and returns one line for each breach. The tests run it on skuq itself, where
it must find nothing, and on small trees that break one rule each, where it must find just that.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAX_MODULE_LINES = 700
MAX_FUNCTION_LINES = 100

BASE = {"exceptions", "_typing", "_compat", "_numeric"}
CHECKED = BASE | {"_validation", "_prediction_sets", "_censoring"}
ALL_BUT_NEURAL = CHECKED | {
    "distributions",
    "prediction",
    "_fitting",
    "metrics",
    "recalibration",
    "conformal",
    "regressors",
}
EVERYTHING = ALL_BUT_NEURAL | {
    "evaluation",
    "monitoring",
    "neural",
    "model_selection",
    "simulation",
    "displays",
    "multivariate",
    "survival",
    "report",
}

# The packages that each package may import; a package may always import itself.
ALLOWED = {
    "exceptions": set(),
    "_typing": set(),
    "_compat": {"exceptions"},
    "_numeric": {"_typing"},
    "_validation": BASE,
    "_censoring": BASE | {"_validation"},
    "_prediction_sets": BASE | {"_validation"},
    "distributions": CHECKED,
    "prediction": CHECKED | {"distributions"},
    "_fitting": CHECKED | {"distributions", "prediction"},
    "metrics": CHECKED | {"distributions", "prediction", "_fitting"},
    "evaluation": CHECKED | {"distributions", "_fitting", "metrics"},
    "monitoring": CHECKED | {"distributions", "metrics", "evaluation"},
    "recalibration": CHECKED | {"distributions", "_fitting", "metrics"},
    "conformal": CHECKED | {"distributions", "prediction", "_fitting", "recalibration"},
    "regressors": CHECKED
    | {"distributions", "prediction", "_fitting", "metrics", "recalibration", "conformal"},
    "neural": ALL_BUT_NEURAL | {"multivariate"},
    "model_selection": ALL_BUT_NEURAL,
    "simulation": ALL_BUT_NEURAL,
    "displays": CHECKED | {"distributions", "prediction", "metrics", "evaluation", "monitoring"},
    "datasets": CHECKED | {"distributions"},
    "integrations": EVERYTHING,
    "multivariate": ALL_BUT_NEURAL | {"evaluation", "displays"},
    "survival": ALL_BUT_NEURAL | {"evaluation", "displays"},
    "report": CHECKED | {"distributions", "prediction", "metrics", "evaluation", "monitoring", "displays"},
    "__main__": {"report"},
    "__init__": {"_compat"},
}
# In metrics, only the modules that predict by a model, or cross-fit one, may import `prediction`.
PREDICTING = {"prediction", "_fitting"}
METRICS_THAT_PREDICT = {"_conditional_coverage", "_scorer"}
# The modules that import by a name in a string: packages on their first use, and rooms above the module.
BY_NAME = {
    "__init__",
    "integrations",
    "neural",
    "displays._drawing",
    "metrics._spec",
    "prediction._register",
    "regressors._default_estimators",
}
# Packages that calibrate or fit use the formulas of metrics, not what is built around them.
CALIBRATING = {"recalibration", "conformal", "regressors", "neural"}

# The places of the command line, which are the only ones that may print.
PRINTING = {"skuq.report._cli", "skuq._compat", "skuq.__main__"}
# Packages without public names; all others with a leading underscore are modules.
PRIVATE_PACKAGES = {"_fitting"}

# threadpoolctl comes with scikit-learn.
CORE = {"numpy", "scipy", "sklearn", "threadpoolctl", "pandas", *sys.stdlib_module_names}
# Optional dependencies and where each may be imported: a package of skuq, or one of its modules; None means
# anywhere inside a function. The sparse Gaussian process is a regressor whose kernels and bound are those of
# gpytorch, so that one module of `regressors` imports it, and torch beneath it.
OPTIONAL = {
    "torch": ("neural", "regressors._sparse_gaussian_process"),
    "skorch": ("neural",),
    "gpytorch": ("regressors._sparse_gaussian_process",),
    "linear_operator": ("regressors._sparse_gaussian_process",),
    "matplotlib": ("displays", "report", "multivariate", "survival", "model_selection._auto_uncertainty"),
    "jinja2": ("report",),
    "pyarrow": ("report._cli_tables",),
    "rich": None,
    "dask": ("integrations",),
    "distributed": ("integrations", "_compat"),
    "flaml": ("integrations",),
    "tpot": ("integrations",),
    "ConfigSpace": ("integrations",),
    "mlflow": ("integrations",),
    "optuna": ("model_selection._auto_search",),
    "lightgbm": ("regressors._default_estimators", "survival._censored_boosting"),
    "catboost": ("model_selection._auto_space",),
    "ngboost": ("model_selection._auto_space",),
}
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
EXPERIMENTAL = {"sklearn.experimental", "sklearn.callback"}


@dataclass(frozen=True)
class Import:
    """One imported name: ``from module import name``, or ``import module`` where name is empty."""

    line: int
    module: str
    name: str
    in_function: bool
    for_types: bool


def inside(name: str) -> str:
    """Return a module's name inside its package, as _numerics.ranks; empty for the package itself."""
    return ".".join(name.split(".")[2:])


def statements(body: list[ast.stmt], where: tuple[bool, bool] = (False, False)) -> Iterator[Any]:
    """Yield each statement, and whether it is in a function and only for type checkers."""
    for node in body:
        yield node, *where
        in_function, for_types = where
        below = in_function or isinstance(node, FUNCTION), for_types or is_for_types(node)
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, name, []), below)


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


class Module:
    """A parsed module: its dotted name, its path in the package, and what the rules examine.

    Parameters
    ----------
    path : str
        As skuq/metrics/_crps.py.
    text : str
    """

    def __init__(self, path: str, text: str) -> None:
        parts = path.removesuffix(".py").split("/")
        self.path, self.text, self.tree = path, text, ast.parse(text)
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self.package = (*self.name.split("."), "__init__")[1]
        self.inside = inside(self.name)
        self.place = ".".join(self.name.split(".")[:3])  # its sub-package, or the module itself
        self.imports: list[Import] = []
        self.functions: list[ast.FunctionDef] = []
        self.asserts: list[int] = []
        for node, *where in statements(self.tree.body):
            if isinstance(node, ast.Import):
                self.imports += [Import(node.lineno, alias.name, "", *where) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                self.imports += [Import(node.lineno, source, alias.name, *where) for alias in node.names]
            elif isinstance(node, FUNCTION):
                self.functions.append(node)
            elif isinstance(node, ast.Assert):
                self.asserts.append(node.lineno)


def parse(files: dict[str, str]) -> dict[str, Module]:
    """Parse the modules of a package, by dotted name."""
    return {module.name: module for module in itertools.starmap(Module, files.items())}


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    """Return the modules of skuq."""
    paths = sorted((ROOT / "skuq").rglob("*.py"))
    return parse({path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths})


def target(found: Import, modules: dict[str, Module]) -> str:
    """Return the module that an import reaches: skuq.metrics._crps for ``from skuq.metrics import _crps``."""
    full = f"{found.module}.{found.name}"
    return full if full in modules else found.module


def rule_imports_of_skuq(module: Module, modules: dict[str, Module]) -> Iterator[tuple[int, str]]:
    for found in module.imports:
        if found.module.startswith("."):
            yield found.line, "relative import"
        if found.module.split(".")[0] != "skuq":
            continue
        reached = target(found, modules)
        if found.in_function:
            yield found.line, f"imports {reached} inside a function"
        if reached == "skuq":
            yield found.line, "imports from the top of skuq"
            continue
        other, own = reached.split(".")[1], module.package
        if other == own or (own == "__init__" and found.for_types):
            continue
        if other not in ALLOWED.get(own, set()):
            yield found.line, f"{own} may not import {other}"
        elif own == "metrics" and other in PREDICTING and module.inside not in METRICS_THAT_PREDICT:
            yield found.line, f"metrics may import {other} only in {', '.join(sorted(METRICS_THAT_PREDICT))}"
        elif own in CALIBRATING and other == "metrics" and not inside(reached):
            yield found.line, f"{own} may import only kernels of metrics, not the package"


def rule_imports_by_name(module: Module, modules: dict[str, Module]) -> Iterator[tuple[int, str]]:
    if f"{module.package}.{module.inside}".strip(".") not in BY_NAME:
        for line in lines_with(r"\b(?:import_module|__import__)\(", module.text):
            yield line, "only a few modules import by name"


def rule_other_packages(module: Module, modules: dict[str, Module]) -> Iterator[tuple[int, str]]:
    for found in module.imports:
        package = found.module.split(".")[0]
        if package in ("", "skuq"):
            continue
        if package == "joblib" or found.module == "sklearn.utils.parallel":
            if module.package != "_compat":
                yield found.line, "parallel work goes through _compat"
        elif package in OPTIONAL:
            homes = OPTIONAL[package]
            if homes is not None and not {module.package, f"{module.package}.{module.inside}"} & set(homes):
                yield found.line, f"{package} may be imported only in {' and '.join(homes)}"
            elif not (found.in_function or found.for_types or (homes and module.package == "neural")):
                yield found.line, f"the optional {package} must be imported inside a function"
        elif package not in CORE:
            yield found.line, f"{package} is no dependency"
        elif found.in_function:
            yield found.line, f"imports {package} inside a function"


def is_private(found: Import) -> bool:
    """Return whether an import of scikit-learn reaches a private or experimental name."""
    full = f"{found.module}.{found.name}" if found.name else found.module
    private = any(part.startswith("_") and not part.startswith("__") for part in full.split("."))
    return private or any(full == name or full.startswith(name + ".") for name in EXPERIMENTAL)


def rule_private_scikit_learn(module: Module, modules: dict[str, Module]) -> Iterator[tuple[int, str]]:
    if module.package == "_compat":
        return
    bound = set()
    for found in module.imports:
        if found.module.split(".")[0] == "sklearn":
            bound.add(found.name or "sklearn")
            if is_private(found):
                yield found.line, "private or experimental names of scikit-learn belong into _compat"
    private = rf"\b(?:{'|'.join(filter(str.islower, bound)) or '(?!)'})(?:\.\w+)*\._(?!_)\w"
    for line in lines_with(private, module.text):  # sklearn.utils._name, or _name of an imported module
        yield line, "private or experimental names of scikit-learn belong into _compat"


def lines_with(pattern: str, text: str) -> Iterator[int]:
    """Yield the numbers of the lines in which a pattern begins."""
    for match in re.finditer(pattern, text):
        yield text.count("\n", 0, match.start()) + 1


def rule_statements(module: Module, modules: dict[str, Module]) -> Iterator[tuple[int, str]]:
    for line in module.asserts:
        yield line, "assert statement"
    if module.place not in PRINTING:
        for line in lines_with(r"(?m)^(?! *(?:>>>|\.\.\.|#)).*(?<![\w.`])print\(", module.text):
            yield line, "print"
    for line in lines_with(r"\btorch\.backends\b", module.text):
        yield line, "torch.backends holds settings of the whole process"


def rule_length(module: Module, modules: dict[str, Module]) -> Iterator[tuple[int, str]]:
    lines = module.text.count("\n")
    if lines > MAX_MODULE_LINES:
        yield lines, f"more than {MAX_MODULE_LINES} lines"
    for node in module.functions:
        body = node.body[1:] if ast.get_docstring(node) else node.body
        lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
        if lines > MAX_FUNCTION_LINES:
            yield node.lineno, f"{node.name} has {lines} lines, more than {MAX_FUNCTION_LINES}"


def module_edges(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Return which modules each module imports."""
    return {
        name: {target(found, modules) for found in module.imports} & set(modules)
        for name, module in modules.items()
    }


def place_edges(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Return the same with each sub-package as one place, which imports of its own modules do not leave."""
    edges: dict[str, set[str]] = {module.place: set() for module in modules.values()}
    for name, reached in module_edges(modules).items():
        place = modules[name].place
        edges[place] |= {modules[other].place for other in reached} - {place}
    return edges


def cycles(edges: dict[str, set[str]]) -> Iterator[str]:
    """Yield each chain of modules or places that ends where it began."""
    done: set[str] = set()

    def visit(name: str, chain: list[str]) -> Iterator[str]:
        if name in chain:
            yield "cycle: " + " -> ".join([*chain[chain.index(name) :], name])
        elif name not in done:
            for reached in sorted(edges[name]):
                yield from visit(reached, [*chain, name])
            done.add(name)

    for name in edges:
        yield from visit(name, [])


RULES = (
    rule_imports_of_skuq,
    rule_imports_by_name,
    rule_other_packages,
    rule_private_scikit_learn,
    rule_statements,
    rule_length,
)


def violations(modules: dict[str, Module]) -> list[str]:
    """Return one line for each breach of the rules."""
    found = [
        f"{module.path}:{line}: {message}"
        for module in modules.values()
        for rule in RULES
        for line, message in rule(module, modules)
    ]
    unknown = sorted({module.package for module in modules.values()} - set(ALLOWED))
    found += [f"no rule for the package {package}" for package in unknown]
    found += cycles(module_edges(modules))
    # a cycle of modules within one place, or of modules alone, has been found already
    if not any(line.startswith("cycle") for line in found):
        found += cycles(place_edges(modules))
    return found


def test_skuq_keeps_the_rules(modules):
    assert violations(modules) == []
    names = {"skuq", "skuq.exceptions", "skuq.distributions", "skuq.metrics", "skuq.prediction"}
    assert names <= set(modules)  # the tree is really read


def grow(files: dict[str, str]) -> dict[str, Module]:
    """Return the modules of a small skuq in which all packages exist, with ``files`` in it."""
    tree = {}
    for package in ALLOWED:
        is_module = package == "exceptions" or (package.startswith("_") and package not in PRIVATE_PACKAGES)
        tree[f"skuq/{package}.py" if is_module else f"skuq/{package}/__init__.py"] = ""
    return parse(tree | {f"skuq/{name}": text for name, text in files.items()})


def test_a_clean_tree_passes():
    files = {
        "_validation.py": "from skuq.exceptions import SkuqError\nfrom skuq import _typing\n",
        "distributions/_base.py": "import abc\nimport numpy as np\nfrom skuq._validation import check\n",
        "distributions/_normal.py": "from skuq.distributions._base import Distribution\n",
        "distributions/__init__.py": "from skuq.distributions._normal import Normal\n",
        "metrics/_scorer.py": "from skuq.prediction import predict_dist\n",
        "metrics/_crps.py": "from sklearn.utils.validation import check_is_fitted\n",
        "metrics/__init__.py": "from skuq.metrics._crps import loss\nfrom skuq.metrics import _scorer\n",
        "metrics/_binning.py": "from skuq.metrics._kernels import mean",
        "metrics/_kernels.py": "",
        "metrics/_ucc/__init__.py": "",
        "metrics/_ucc/area.py": "from skuq.metrics._kernels import mean",
        "metrics/_ucc/curve.py": "from skuq.metrics._ucc_curve import area\nfrom skuq.metrics import _crps",
        "recalibration/_isotonic.py": "from skuq.metrics._binning import mean\n",
        "_fitting/seeds.py": "from skuq.distributions import Normal\n",
        "simulation/_fits.py": "from skuq._fitting.seeds import seed\n",
        "regressors/_uncertainty.py": "import sklearn.utils\nimport skuq.recalibration\n",
        "displays/_curve.py": "def draw():\n    import matplotlib.pyplot as plt\n    return plt\n",
        "displays/_band.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import matplotlib\n",
        "regressors/_sparse_gaussian_process.py": "def fit():\n    import gpytorch\n    import torch\n",
        "integrations/dask.py": "def f():\n    from dask import delayed\n    return delayed\n",
        "neural/_net.py": "import torch\nfrom skuq.regressors import Base\n",
        "neural/__init__.py": "from skuq.neural._net import Net\n",
        "report/_cli.py": "import skuq.displays\nprint(1)\n",
        "__main__.py": "from skuq.report._cli import main\nprint(main())\n",
        "_compat.py": "import joblib\nimport sklearn.callback\nfrom sklearn.utils._tags import x\n",
        "__init__.py": "import typing\nif typing.TYPE_CHECKING:\n    from skuq.prediction import register\n",
    }
    assert violations(grow(files)) == []


# A module, its text, and a part of the message about it.
BREACHES = [
    ("exceptions.py", "import skuq._typing", "exceptions may not import _typing"),
    ("_compat.py", "from skuq import _validation", "_compat may not import _validation"),
    ("_validation.py", "from skuq.distributions import Normal", "_validation may not import distributions"),
    ("distributions/a.py", "import skuq.prediction", "distributions may not import prediction"),
    ("prediction/a.py", "from skuq.metrics import crps_loss", "prediction may not import metrics"),
    ("prediction/a.py", "from skuq import recalibration", "prediction may not import recalibration"),
    ("metrics/_crps.py", "import skuq.prediction", "metrics may import prediction only in"),
    ("metrics/a.py", "import skuq.regressors", "metrics may not import regressors"),
    ("recalibration/a.py", "import skuq.prediction", "recalibration may not import prediction"),
    ("recalibration/a.py", "import skuq.conformal", "recalibration may not import conformal"),
    ("conformal/a.py", "import skuq.regressors", "conformal may not import regressors"),
    ("recalibration/a.py", "from skuq.metrics import crps_loss", "only kernels of metrics, not the package"),
    ("metrics/_crps.py", "import skuq._fitting.seeds", "metrics may import _fitting only in"),
    ("_fitting/a.py", "import skuq.recalibration", "_fitting may not import recalibration"),
    ("displays/a.py", "import skuq._fitting.seeds", "displays may not import _fitting"),
    ("regressors/a.py", "import skuq.neural", "regressors may not import neural"),
    ("model_selection/a.py", "import skuq.neural", "model_selection may not import neural"),
    (
        "model_selection/_auto_candidates.py",
        "from skuq.neural import Net",
        "model_selection may not import neural",
    ),
    ("metrics/a.py", "import skuq.multivariate", "metrics may not import multivariate"),
    ("prediction/a.py", "import skuq.multivariate", "prediction may not import multivariate"),
    ("multivariate/a.py", "import skuq.neural", "multivariate may not import neural"),
    ("metrics/a.py", "import skuq.survival", "metrics may not import survival"),
    ("regressors/a.py", "import skuq.survival", "regressors may not import survival"),
    ("displays/a.py", "import skuq.regressors", "displays may not import regressors"),
    ("datasets/a.py", "import skuq.metrics", "datasets may not import metrics"),
    ("simulation/a.py", "import skuq.datasets", "simulation may not import datasets"),
    ("simulation/a.py", "import skuq.integrations", "simulation may not import integrations"),
    ("metrics/a.py", "import skuq.integrations", "metrics may not import integrations"),
    ("integrations/dask.py", "import dask", "the optional dask must be imported inside a function"),
    ("metrics/a.py", "def f():\n    import dask", "dask may be imported only in integrations"),
    ("metrics/a.py", "def f():\n    import flaml", "flaml may be imported only in integrations"),
    ("integrations/tpot.py", "import tpot", "the optional tpot must be imported inside a function"),
    ("__init__.py", "import skuq.metrics", "__init__ may not import metrics"),
    ("metrics/a.py", "from skuq import __version__", "imports from the top of skuq"),
    ("metrics/a.py", "from . import b", "relative import"),
    ("metrics/a.py", "def f():\n    from skuq.distributions import Normal", "inside a function"),
    ("metrics/a.py", "class A:\n    def f(self):\n        import numpy", "imports numpy inside a function"),
    (
        "regressors/a.py",
        "import torch",
        "torch may be imported only in neural and regressors._sparse_gaussian_process",
    ),
    ("regressors/a.py", "def f():\n    import torch", "torch may be imported only in neural"),
    ("regressors/_sparse_gaussian_process.py", "import torch", "torch must be imported inside a function"),
    (
        "neural/a.py",
        "import gpytorch",
        "gpytorch may be imported only in regressors._sparse_gaussian_process",
    ),
    (
        "regressors/a.py",
        "def f():\n    from skorch import NeuralNet",
        "skorch may be imported only in neural",
    ),
    ("metrics/a.py", "def f():\n    import matplotlib", "matplotlib may be imported only in displays"),
    ("displays/a.py", "import matplotlib.pyplot", "matplotlib must be imported inside a function"),
    ("metrics/a.py", "if TYPE_CHECKING:\n    import skuq.regressors", "metrics may not import regressors"),
    ("regressors/a.py", "import xgboost", "xgboost is no dependency"),
    (
        "model_selection/a.py",
        "def f():\n    import optuna",
        "optuna may be imported only in model_selection._auto_search",
    ),
    (
        "regressors/_default_estimators.py",
        "import lightgbm",
        "the optional lightgbm must be imported inside a function",
    ),
    ("regressors/a.py", "from joblib import Parallel", "parallel work goes through _compat"),
    ("metrics/a.py", "from sklearn.metrics._scorer import _BaseScorer", "belong into _compat"),
    ("metrics/a.py", "from sklearn.utils import _safe_indexing", "belong into _compat"),
    (
        "metrics/a.py",
        "from sklearn.experimental import enable_iterative_imputer",
        "belong into _compat",
    ),
    ("metrics/a.py", "from sklearn import callback", "belong into _compat"),
    ("metrics/a.py", "import sklearn\nx = sklearn.utils._tags", "belong into _compat"),
    ("metrics/a.py", "from sklearn import utils\nx = utils._safe_indexing", "belong into _compat"),
    ("metrics/a.py", "x = import_module(name)", "only a few modules import by name"),
    ("metrics/a.py", "assert True", "assert statement"),
    ("metrics/a.py", "print(1)", "print"),
    ("report/_page.py", "print(1)", "print"),
    ("displays/a.py", "import skuq.report", "displays may not import report"),
    ("__main__.py", "import skuq.displays", "__main__ may not import displays"),
    ("report/_page.py", "import skuq.regressors", "report may not import regressors"),
    ("report/_cli_tables.py", "import pyarrow", "the optional pyarrow must be imported inside a function"),
    ("metrics/a.py", "def f():\n    import pyarrow", "pyarrow may be imported only in report._cli_tables"),
    (
        "neural/a.py",
        "import torch\nx = torch.backends.mkldnn.matmul",
        "torch.backends holds settings of the whole process",
    ),
    ("metrics/a.py", "import skuq.metrics.a", "cycle: skuq.metrics.a -> skuq.metrics.a"),
    ("attic.py", "", "no rule for the package attic"),
    ("metrics/a.py", "x = 1\n" * 701, "more than 700 lines"),
    ("metrics/a.py", "def f():\n" + "    x = 1\n" * 101, "f has 101 lines, more than 100"),
]


def test_a_breach_is_found(subtests):
    for file, text, message in BREACHES:
        with subtests.test(f"{file}: {text[:60]}"):
            (found,) = violations(grow({file: text}))
            assert message in found


def test_modules_that_complete_a_class_of_another_module_are_imported(modules):
    """`Distribution._supported = Supported` has an effect only if some module imports this one."""
    imported = set().union(*module_edges(modules).values())
    completing = {
        name
        for name, module in modules.items()
        for node in module.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)
    }
    assert completing
    assert completing <= imported


def test_a_long_cycle_is_found():
    files = {
        "metrics/a.py": "from skuq.metrics.b import f",
        "metrics/b.py": "from skuq.metrics import c",
        "metrics/c.py": "import skuq.metrics.a",
    }
    found = violations(grow(files))
    assert found == ["cycle: skuq.metrics.a -> skuq.metrics.b -> skuq.metrics.c -> skuq.metrics.a"]


def test_two_sub_packages_that_import_each_other_are_found():
    files = {
        "neural/_modules/__init__.py": "",
        "neural/_modules/a.py": "from skuq.neural._training.b import f",
        "neural/_modules/c.py": "",
        "neural/_training/__init__.py": "",
        "neural/_training/b.py": "",
        "neural/_training/d.py": "from skuq.neural._modules.c import f",
    }
    assert violations(grow(files)) == [
        "cycle: skuq.neural._modules -> skuq.neural._training -> skuq.neural._modules"
    ]


def test_a_module_that_imports_its_own_package_is_a_cycle():
    files = {
        "metrics/__init__.py": "from skuq.metrics.a import f",
        "metrics/a.py": "from skuq.metrics import g",
    }
    assert violations(grow(files)) == ["cycle: skuq.metrics -> skuq.metrics.a -> skuq.metrics"]
