"""Public names of skuq in the sections of docs/reference/api.rst, and the result objects."""

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import NamedTuple

REFERENCE = Path(__file__).with_name("reference") / "api.rst"
RESULTS = REFERENCE.with_name("results.rst")


class Section(NamedTuple):
    """Names of a module below one heading."""

    module: str
    title: str
    names: tuple[str, ...]

    @property
    def heading(self):
        """The module and the title."""
        return f"{self.module}: {self.title[0].lower()}{self.title[1:]}" if self.title else self.module


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


def start():
    """Return the lines of code below the heading Start here, without imports and data."""
    front = REFERENCE.read_text(encoding="utf-8").partition("\nskuq\n----\n")[0]
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:(?: {4}.*)?\n)+)", front, re.MULTILINE)[1:]
    lines = [line[4:] for block in blocks for line in block.splitlines()]
    return tuple(line for line in lines if line and not line.startswith("from "))


def results():
    """Return the modules and names of the classes that functions return and no package exports."""
    found = re.findall(r"^    ~(skuq\.[\w.]+)\.(\w+)$", RESULTS.read_text(encoding="utf-8"), re.MULTILINE)
    return tuple(found)


@functools.cache
def homes():
    """Return the modules of the result objects and of the public names, by name."""
    exported = {name: section.module for section in sections() for name in section.names}
    returned = {name: module for module, name in results()}
    return exported, returned


def link_result(app, env, node, contnode):
    """Resolve the plain names of result objects on all pages, and plain public names on pages of results."""
    target = node["reftarget"].removeprefix("~")
    exported, returned = homes()
    known = exported | returned if "._" in node["refdoc"] or node["refdoc"].endswith("/results") else returned
    module = known.get(target.partition(".")[0])
    if module is None or node.get("refdomain") != "py":
        return None
    return env.get_domain("py").resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], f"{module}.{target}", node, contnode
    )


def summary(module, name):
    """Return the first line of the docstring of a name, without the marks of reStructuredText."""
    first = inspect.getdoc(getattr(importlib.import_module(module), name)).partition("\n")[0]
    return re.sub(r":\w+:`|`", "", first)
