"""Print the size of skuq, and the modules and functions that some calls enter.

``python .ci/house.py`` prints one line for each number. A code line has code: comments, docstrings and empty
lines are not counted. Calls are counted after one equal call, so imports and caches are not counted.
``--functions "Ridge()).fit"`` prints the functions that the calls with this text in their name enter, and
``--helpers`` prints the helpers with one caller and the small modules.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "skuq"
SMALL_MODULE, SMALL_FUNCTION = 40, 3
TOPICS = {
    "several targets": r"joint|several_targets|_region|copula|dependence",
    "censored targets": r"censor|surviv|kaplan",
}
"""Patterns of the names of modules whose main subject is the topic."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that have code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {
        line
        for token in tokens
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and type(node.value.value) is str
        ):
            lines -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines


def helpers_with_one_caller(sources: dict[Path, str]) -> list[str]:
    """Return the places and names of small functions whose name is defined once and used once."""
    defined: Counter[str] = Counter()
    used: Counter[str] = Counter()
    small: dict[str, str] = {}
    for path, source in sources.items():
        lines = code_lines(source)
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    defined[name] += 1
                    body = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
                    if len(lines & set(body)) <= SMALL_FUNCTION and not name.startswith("__"):
                        small[name] = f"{path.relative_to(PACKAGE)}:{node.lineno} {name}"
                case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                    used[name] += 1
    return [place for name, place in small.items() if defined[name] == 1 and used[name] == 1]


def public_names() -> int:
    """Return the number of names that the public packages export."""
    packages = [path.parent for path in PACKAGE.glob("*/__init__.py") if not path.parent.name.startswith("_")]
    names = [import_module("skuq").__all__]
    names += [getattr(import_module(f"skuq.{path.name}"), "__all__", []) for path in packages]
    names += [import_module("skuq.exceptions").__all__]
    return len({name for each in names for name in each if not name.startswith("__")})


class Entered:
    """The modules, functions and calls of skuq in one call."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.functions: set[tuple[str, int, str]] = set()
        self.calls = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
            sys.setprofile(self._note)
            try:
                call()
            finally:
                sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            self.calls += 1
            if code.co_name not in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>"):
                self.functions.add((code.co_filename, code.co_firstlineno, code.co_qualname))

    def __str__(self) -> str:
        modules = {file for file, *_ in self.functions}
        return f"{len(modules)} modules, {len(self.functions)} functions, {self.calls} calls"


def calls() -> dict[str, Callable[[], Any]]:
    """Return the calls that are counted, by their names."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import Ridge

    from skuq import UncertaintyRegressor, get_scorer
    from skuq.distributions import Normal
    from skuq.evaluation import uncertainty_report

    conformal = import_module("skuq.conformal" if (PACKAGE / "conformal").is_dir() else "skuq.regressors")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + rng.normal(size=200)
    forest = RandomForestRegressor(50, random_state=0)
    fitted = UncertaintyRegressor(Ridge(), random_state=0).fit(X, y)
    few = slice(60)
    entered: dict[str, Callable[[], Any]] = {
        "UncertaintyRegressor(Ridge()).fit": lambda: UncertaintyRegressor(Ridge(), random_state=0).fit(X, y),
        "UncertaintyRegressor(forest).fit": lambda: UncertaintyRegressor(forest, random_state=0).fit(X, y),
        "ConformalRegressor(Ridge()).fit": lambda: conformal.ConformalRegressor(Ridge(), random_state=0).fit(
            X, y
        ),
        'get_scorer("neg_ence") and one score': lambda: get_scorer("neg_ence")(fitted, X, y),
        "uncertainty_report of 60 rows": lambda: uncertainty_report(
            y[few], Normal(X[few, 0], np.ones(60)), random_state=0
        ),
    }
    try:
        from skuq.neural import DeepEnsembleRegressor
    except ImportError:
        print("DeepEnsembleRegressor is not counted: torch or skorch is missing.")
    else:
        net = DeepEnsembleRegressor(n_estimators=2, max_epochs=2, random_state=0)
        entered["DeepEnsembleRegressor.fit"] = lambda: net.fit(X, y)
    return entered


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--functions", metavar="TEXT", help="print the functions of the calls with this text")
    parser.add_argument("--helpers", action="store_true", help="print helpers with one caller, small modules")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if options.functions:
        for name, call in calls().items():
            if options.functions in name:
                entered = Entered(call)
                print(f"{name}: {entered}")
                for file, line, function in sorted(entered.functions):
                    print(f"  {Path(file).relative_to(PACKAGE)}:{line} {function}")
        return
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    lines = {path: len(code_lines(source)) for path, source in sources.items()}
    own = [path for path in sources if path.name != "__init__.py"]
    small = [str(path.relative_to(PACKAGE)) for path in own if lines[path] <= SMALL_MODULE]
    helpers = helpers_with_one_caller(sources)
    if options.helpers:
        print(*helpers, *small, sep="\n")
        return
    print(f"{sum(lines.values())} code lines, {len(sources)} modules")
    print(f"{len(small)} modules of at most {SMALL_MODULE} code lines")
    print(f"{len(helpers)} helpers with one caller and at most {SMALL_FUNCTION} lines")
    print(f"{public_names()} public names")
    for topic, pattern in TOPICS.items():
        about = {
            path.relative_to(PACKAGE) for path in own if re.search(pattern, str(path.relative_to(PACKAGE)))
        }
        rooms = sorted({path.parts[0].removesuffix(".py") for path in about})
        print(f"{topic}: {len(about)} modules in {len(rooms)} rooms ({', '.join(rooms)})")
    print("Code lines of each room:")
    rooms_lines: Counter[str] = Counter()
    for path, count in lines.items():
        rooms_lines[path.relative_to(PACKAGE).parts[0].removesuffix(".py")] += count
    print("  " + ", ".join(f"{room} {count}" for room, count in rooms_lines.most_common()))
    for name, call in calls().items():
        print(f"{name}: {Entered(call)}")


if __name__ == "__main__":
    main()
