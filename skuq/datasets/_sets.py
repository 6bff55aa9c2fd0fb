"""Descriptions of the data sets, from ``sets.toml``."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class DataSet:
    """Name, columns, sources and license of a data set."""

    name: str
    title: str
    n_rows: int
    license: str
    file: str  # path in a mirror, without extension
    units: dict[str, str]  # unit of each column, in the order of the table; the target is last
    sha256: str = ""  # checksum of the values; empty if the table of the papers is not available
    doi: str = ""
    note: str = ""
    bundled: str = ""  # file in the package
    openml: int = 0  # number of the data set on OpenML
    uci: int = 0  # number of the data set in the UCI repository
    gal: str = ""  # folder in Gal's repository
    n_splits: int = 0
    text: tuple[str, ...] = ()  # columns that are not numeric
    dates: dict[str, str] = field(default_factory=dict)  # date format of each column of dates
    ordered: dict[str, tuple[str, ...]] = field(default_factory=dict)  # ordered categories of columns

    @property
    def target(self) -> str:
        return list(self.units)[-1]

    @property
    def features(self) -> list[str]:
        return list(self.units)[:-1]

    @property
    def source(self) -> str:
        """Address of the web page of the data set."""
        return f"https://doi.org/{self.doi}" if self.doi else f"https://www.openml.org/d/{self.openml}"


@cache
def _all_sets() -> dict[str, dict[str, Any]]:
    return tomllib.loads((FOLDER / "sets.toml").read_text(encoding="utf-8"))


def find_set(family: str, name: Any) -> DataSet:
    """Return a data set by name. If the name is unknown, the error contains the most similar name."""
    known = _all_sets()[family]
    if not isinstance(name, str) or name not in known:
        names = ", ".join(sorted(known))
        raise ValueError(
            f"`name` must be the name of a data set, got {name!r}.{_hint(name, family)} Known: {names}."
        )
    return DataSet(name=name, **known[name])


def _hint(name: Any, family: str) -> str:
    """Return a hint with another loader that has a data set of this name, or with the most similar name."""
    if not isinstance(name, str) or not name:
        return ""
    wanted = re.sub("[^a-z0-9]+", "_", name.lower())
    for other, sets in _all_sets().items():
        if other != family and wanted in sets:
            return f" fetch_{other} has {wanted!r}."
    known = _all_sets()[family]
    near = [each for each in known if each.startswith(wanted) or wanted.startswith(each)]
    near += [each for each in known if wanted in each]
    near += difflib.get_close_matches(wanted, known, n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""
