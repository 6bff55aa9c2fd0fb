"""Run the benchmarks that pages quote, and write one file of results per table: `make tables`.

``make tables ARGS="--only few_rows same_base"`` runs some of the benchmarks of ``tables.toml``.
``ARGS=--quick`` runs those with a small setting, one benchmark per core, and compares the tables with the
tables in the repository; time and memory may differ. ``ARGS=--stale`` runs nothing: it lists the tables whose
files of skuq have changed.

Each file in ``benchmarks/results`` begins with the commit, and with a hash of each file of skuq that its
benchmark loaded. Docstrings and comments do not enter a hash. An interrupted benchmark that stores its rows
resumes, as long as no code of skuq and of the benchmarks and no pinned version changes; with ``--quick``, it
starts anew. The pages read the files when the documentation is built (``docs/measured.py``).

The variable SKUQ_DATA is the folder of the data; without it, many benchmarks end with an error. A table
is not replaced by one with fewer rows, because packages of other methods may be missing.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import tomllib
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
sys.path[:0] = [str(FOLDER)]  # scripts import each other
import measuring  # noqa: E402

RESULTS = {False: FOLDER / "results", True: FOLDER / "results/quick"}
"""Folders of the tables, without and with ``--quick``."""
UNFINISHED = ROOT / "build/tables"
BENCHMARKS: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "tables.toml").read_text(encoding="utf-8"))


def code_hash(path: Path) -> str:
    """Return a hash of the code of a file, without docstrings and comments; empty if there is no file."""
    if not path.is_file():
        return ""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:8]


def hashes_of_skuq() -> dict[str, str]:
    """Return the hash of each file of skuq."""
    return {str(path.relative_to(ROOT)): code_hash(path) for path in sorted((ROOT / "skuq").rglob("*.py"))}


def commit() -> str:
    """Return the last commit, with a plus sign if files of skuq differ from it."""

    def git(*words: str) -> str:
        run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return run.stdout.strip()

    name = git("rev-parse", "--short=8", "HEAD")
    return f"{name}+" if git("status", "--porcelain", "--", "skuq") else name


# --------------------------------------------------------------------------------------------------- runs


def tables_of(name: str, options: str) -> dict[str, Any]:
    """Run one benchmark in this process, and return its tables."""
    benchmark = BENCHMARKS[name]
    if "environment" in benchmark:
        python = ROOT / benchmark["environment"] / "bin/python"
        if not python.is_file():
            raise SystemExit(
                f"{name} needs the environment {benchmark['environment']}: run `make test-automl`."
            )
        subprocess.run([python, FOLDER / f"{name}.py", *shlex.split(options)], cwd=ROOT, check=True)
    sys.argv, measuring.shown = [name, *shlex.split(options)], {}
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    if sorted(measuring.shown) != sorted(benchmark["tables"]):
        raise SystemExit(f"{name}: tables.toml has {benchmark['tables']}, got {list(measuring.shown)}.")
    return measuring.shown


def run_quick(name: str) -> None:
    """Compare the tables of a small setting with those in the repository; write those that are not there."""
    with tempfile.TemporaryDirectory() as folder:
        found = tables_of(name, BENCHMARKS[name]["quick"].format(rows=Path(folder) / name))
    for table, frame in found.items():
        if (RESULTS[True] / f"{table}.csv").is_file():
            compare(read(table, quick=True), frame, table)
        else:
            write(table, frame, quick=True)


def run_full(name: str) -> None:
    """Run one benchmark, and write its tables with a stamp: the commit and the hashes of the loaded files."""
    start, hashes = commit(), hashes_of_skuq()
    scripts = [code_hash(path) for path in sorted(FOLDER.glob("*.py"))]
    versions = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    of_all = hashlib.sha256("".join([*hashes.values(), *scripts, versions]).encode()).hexdigest()[:8]
    rows = UNFINISHED / f"{name}-{of_all}"
    loaded = rows.with_suffix(".loaded")
    UNFINISHED.mkdir(parents=True, exist_ok=True)
    try:
        found = tables_of(name, BENCHMARKS[name]["options"].format(rows=rows))
    finally:  # A run that resumes does not load all files again.
        files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
        files = {file.removeprefix(f"{ROOT}/") for file in files} & set(hashes)
        files |= set(loaded.read_text().split()) if loaded.is_file() else set()
        loaded.write_text("\n".join(sorted(files)))
    stamp = {"commit": start, "files": {file: hashes[file] for file in sorted(files)}}
    for table, frame in found.items():
        path = RESULTS[False] / f"{table}.csv"
        if path.is_file() and len(frame) < len(read(table)):
            raise SystemExit(
                f"{table} has lost rows: install the missing packages, or delete {path.name} first."
            )
        write(table, frame, head=f"# {json.dumps(stamp)}\n")


def write(table: str, frame: Any, quick: bool = False, head: str = "") -> None:
    """Write the cells of a table, after the first line `head` if there is one."""
    path = RESULTS[quick] / f"{table}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + frame.to_csv(index=False), encoding="utf-8")


def read(table: str, quick: bool = False) -> Any:
    """Return the cells of a table as text."""
    import pandas as pd

    return pd.read_csv(RESULTS[quick] / f"{table}.csv", comment="#", dtype=str, keep_default_na=False)


def compare(expected: Any, found: Any, name: str) -> None:
    """Raise an error if a cell of no time or memory differs by more than one unit of its last digit."""
    kept = [column for column in expected if not re.search("second|times|, (m?s|[kM]B)$", column)]
    if list(expected) != list(found) or len(expected) != len(found):
        raise SystemExit(f"{name}: the table has other rows or columns now:\n{found.to_string()}")
    for column in kept:
        for row, (old, new) in enumerate(zip(expected[column], found[column], strict=True)):
            if old != new and not close(old, new):
                raise SystemExit(f"{name}, row {row + 1}, {column!r}: {new} instead of {old}.")


def close(old: str, new: str) -> bool:
    """Return whether two numbers differ by at most one unit of their last digit."""
    try:
        first, second = Decimal(old), Decimal(new)
    except InvalidOperation:
        return False
    return abs(first - second) <= Decimal(1).scaleb(max(one.as_tuple().exponent for one in (first, second)))


# ------------------------------------------------------------------------------------------------- stamps


def stamp_of(path: Path) -> dict[str, Any]:
    """Return the commit and the hashes with which a file of results begins; empty without them."""
    line = path.read_text(encoding="utf-8").partition("\n")[0] if path.is_file() else ""
    return json.loads(line[1:]) if line.startswith("# {") else {}


def stale(name: str) -> list[str]:
    """Return a line for each table of a benchmark that does not come from the code that is there."""
    lines = []
    for table in BENCHMARKS[name]["tables"]:
        stamp = stamp_of(RESULTS[False] / f"{table}.csv")
        known = stamp.get("files", {})
        changed = [file for file, value in known.items() if code_hash(ROOT / file) != value]
        if not known:
            lines.append(f"{table}: no file, or no hashes")
        elif changed:
            lines.append(f"{table}: measured at {stamp['commit']}; since then changed: {', '.join(changed)}")
    return [f"{name}: {line}" for line in lines]


def main(given: list[str] | None = None) -> int:
    parser = measuring.arguments(__doc__)
    able = list(BENCHMARKS)
    parser.add_argument("--only", nargs="+", choices=able, default=able, metavar="NAME", help=", ".join(able))
    parser.add_argument("--quick", action="store_true", help="small settings; compare with the repository")
    parser.add_argument("--stale", action="store_true", help="only list tables that the code has outdated")
    parser.add_argument("--here", action="store_true", help="run in this process")
    chosen = parser.parse_args(given)
    if chosen.stale:
        lines = [line for name in chosen.only for line in stale(name)]
        print("\n".join(lines) or "All tables come from the code that is there.")
        return 0
    if chosen.here:
        run_one = run_quick if chosen.quick else run_full
        for name in chosen.only:
            run_one(name)
        return 0
    names = [name for name in chosen.only if not chosen.quick or "quick" in BENCHMARKS[name]]
    minutes = sum(BENCHMARKS[name]["quick_minutes" if chosen.quick else "minutes"] for name in names)
    print(f"{len(names)} benchmarks, about {minutes / 60:.2f} hours on one core.", flush=True)
    command = [sys.executable, "-m", "benchmarks.tables", "--here", *(["--quick"] if chosen.quick else [])]

    def run(name: str) -> int:
        return subprocess.run([*command, "--only", name], cwd=ROOT, check=False).returncode

    # Full runs measure times, so they run one after another.
    codes = Parallel(n_jobs=-1 if chosen.quick else 1, prefer="threads")(map(delayed(run), names))
    failed = [name for name, code in zip(names, codes, strict=True) if code]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())
