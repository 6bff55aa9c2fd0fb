"""Change skuq in one place at a time, and report whether the tests notice.

``python .ci/mutants.py`` draws 40 places with a fixed seed, changes each of them, and runs the tests of the
same package with a limit of 120 seconds. It then runs the whole default tier once with all changes that
survived, and each failing test with each of these changes. The results are in ``.ci/mutants.csv``. The script
works in a copy of the repository, so the working tree is not changed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".ci" / "mutants.csv"
SEED, COUNT, SECONDS = 49, 40, 120

SWAPPED: list[tuple[type, type]] = [
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
    (ast.And, ast.Or),
]
OPERATORS = {one: other for pair in SWAPPED for one, other in (pair, pair[::-1])}


@dataclass
class Mutant:
    """One change of one expression, and the first test that notices it."""

    path: str
    line: int
    column: int
    before: str
    after: str
    noticed_by: str = ""


def changed(node: ast.AST) -> ast.AST | None:
    """Return the changed expression, or None if no change is defined for this kind of node."""
    new: Any = copy.copy(node)
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in OPERATORS:
            new.ops = [OPERATORS[type(operator)]()]
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) if type(operator) in OPERATORS:
            new.op = OPERATORS[type(operator)]()
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            return operand
        case ast.Constant(value=bool(value)):
            new.value = not value
        case ast.Constant(value=int(value) | float(value)):
            new.value = value + 1
        case ast.IfExp(body=body, orelse=orelse):
            new.body, new.orelse = orelse, body
        case _:
            return None
    return new


def places(path: Path) -> Iterator[ast.AST]:
    """Yield each expression of a module that can be changed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    ignored = set()  # Annotations, decorators and messages of errors change no result.
    for node in ast.walk(tree):
        found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        found += getattr(node, "decorator_list", [])
        found += [node] if isinstance(node, ast.Raise | ast.JoinedStr) else []
        found += [node.test] if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) else []
        ignored |= {id(child) for each in found if each is not None for child in ast.walk(each)}
    for node in ast.walk(tree):
        if id(node) not in ignored and changed(node) is not None:
            yield node


def draw() -> list[Mutant]:
    """Return the changes that the seed determines for the present tree."""
    every = [(path, node) for path in sorted((ROOT / "skuq").rglob("*.py")) for node in places(path)]
    print(f"{COUNT} of {len(every)} places")
    return [
        Mutant(
            path.relative_to(ROOT).as_posix(),
            node.lineno,
            node.col_offset,
            ast.unparse(node),
            f"({ast.unparse(changed(node))})",
        )
        for path, node in random.Random(SEED).sample(every, COUNT)
    ]


def apply(mutants: list[Mutant], tree: Path) -> None:
    """Write the original modules and then the changes into the copy."""
    shutil.copytree(ROOT / "skuq", tree / "skuq", dirs_exist_ok=True)
    # Later expressions first, so that the positions of earlier ones remain valid.
    for mutant in sorted(mutants, key=lambda each: (each.path, -each.line, -each.column)):
        path = tree / mutant.path
        source = path.read_text(encoding="utf-8")
        node = next(
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.expr) and (node.lineno, node.col_offset) == (mutant.line, mutant.column)
            if ast.unparse(node) == mutant.before
        )
        lines = source.encode().splitlines(keepends=True)
        start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        stop = sum(map(len, lines[: (node.end_lineno or 0) - 1])) + (node.end_col_offset or 0)
        path.write_bytes(source.encode()[:start] + mutant.after.encode() + source.encode()[stop:])


def failures(tree: Path, arguments: list[str], seconds: float | None) -> list[str]:
    """Run pytest in the copy and return the names of the tests that fail."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    try:
        run = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return ["the limit of time"]
    lines = [line for line in run.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    found = [line.split(" ", 1)[1].split(" - ")[0] for line in lines]
    return found or (["the import of skuq"] if run.returncode not in (0, 5) else [])


def tests_of(mutant: Mutant) -> list[str]:
    """Return the tests of the package of a module, and its doctests."""
    package = mutant.path.split("/")[1]
    room = ROOT / "tests" / package
    own = (
        [f"tests/{package}"] if room.is_dir() else sorted(str(path) for path in ROOT.glob("tests/test_*.py"))
    )
    return [os.path.relpath(ROOT / each, ROOT) for each in own] + [mutant.path]


def main() -> None:
    """Write the list of changes with the tests that notice them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tiers", default="", help="marker expression of the tests; default: the default tier"
    )
    parser.add_argument("--list", action="store_true", help="only print the changes")
    given = parser.parse_args()
    marked = ["-m", given.tiers] if given.tiers else []
    mutants = draw()
    if given.list:
        for mutant in mutants:
            print(f"{mutant.path}:{mutant.line}: {mutant.before} -> {mutant.after}")
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "skuq"
        ignore = shutil.ignore_patterns(".*cache", ".venv*", ".git", "__pycache__", "_build")
        shutil.copytree(ROOT, tree, ignore=ignore)
        for number, mutant in enumerate(mutants):
            apply([mutant], tree)
            found = failures(tree, ["-x", *marked, *tests_of(mutant)], SECONDS)
            mutant.noticed_by = found[0] if found else ""
            print(number, mutant.path, mutant.line, mutant.noticed_by or "survives", flush=True)
            _write(mutants)
        survivors = [mutant for mutant in mutants if not mutant.noticed_by]
        apply(survivors, tree)
        for test in failures(tree, ["-n", "logical", "--dist", "worksteal", *marked], None):
            for mutant in survivors:
                apply([mutant], tree)
                if not mutant.noticed_by and failures(tree, [*marked, test], None):
                    mutant.noticed_by = test
        _write(mutants)
    noticed = sum(bool(mutant.noticed_by) for mutant in mutants)
    print(f"{noticed} of {len(mutants)} changes are noticed")


def _write(mutants: list[Mutant]) -> None:
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Mutant)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(mutant) for mutant in mutants)


if __name__ == "__main__":
    main()
