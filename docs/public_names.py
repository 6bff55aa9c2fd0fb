"""Public names of skuq in the sections of docs/reference/api.rst."""

import importlib
import inspect
import re
from pathlib import Path
from typing import NamedTuple

REFERENCE = Path(__file__).with_name("reference") / "api.rst"


class Section(NamedTuple):
    """Names of a module below one heading."""

    module: str
    title: str
    names: tuple[str, ...]


def sections():
    """Return the sections of the reference in their order."""
    found, module, title, names = [], "", "", []
    for line in [*REFERENCE.read_text(encoding="utf-8").splitlines(), ".. currentmodule:: "]:
        heading = re.fullmatch(r"\.\. (currentmodule|rubric):: (.*)", line)
        if heading:
            if names:
                found.append(Section(module, title, tuple(names)))
            module, title = (heading[2], "") if heading[1] == "currentmodule" else (module, heading[2])
            names = []
        elif re.fullmatch(r"    \w+", line):
            names.append(line.strip())
    return found


def summary(module, name):
    """Return the first line of the docstring of a name, without the marks of reStructuredText."""
    first = inspect.getdoc(getattr(importlib.import_module(module), name)).partition("\n")[0]
    return re.sub(r":\w+:`|`", "", first)
