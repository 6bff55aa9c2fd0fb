"""Content of a page, its findings, and the files of the page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from skuq._versioned import installed_versions
from skuq.evaluation._report.table import UncertaintyReport
from skuq.report._advice import Finding, findings
from skuq.report._evidence import Evidence
from skuq.report._figures import Figure
from skuq.report._files import write_together
from skuq.report._measure import Diagnostics
from skuq.report._page import check_jinja2, models_of, render, summaries_of, to_json, values_of

Parts = Mapping[str, Mapping[str, pd.DataFrame]]


@dataclass(kw_only=True, eq=False, repr=False)
class Page:
    """Base class of `HTMLReport`, which documents the parameters."""

    report: UncertaintyReport
    figures: Sequence[Figure] = ()
    slices: Parts = field(default_factory=dict)
    diagnostics: Mapping[str, Diagnostics] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    title: str = "Uncertainty report"
    created: datetime | str | None = None

    def __post_init__(self) -> None:
        check_jinja2("HTMLReport")
        if self.created is None:
            self.created = datetime.now(UTC)
        self.findings: dict[str, list[Finding]] = {
            name: findings(self._evidence(name, table)) for name, table in models_of(self.report).items()
        }

    @property
    def summaries(self) -> dict[str, str]:
        """Sentence about each model, without a period."""
        return summaries_of(self.report)

    def _evidence(self, name: str, table: pd.DataFrame) -> Evidence:
        parts = {by: tables[name] for by, tables in self.slices.items()}
        attrs = self.report.attrs
        diagnostics = self.diagnostics.get(name, Diagnostics())
        return Evidence(
            attrs["headlines"][name], table, attrs["rows"], attrs["of_classes"], parts, diagnostics
        )

    @property
    def html(self) -> str:
        """The page as one text."""
        return render(figures=self.figures, **self._content())

    @property
    def values(self) -> dict[str, Any]:
        """All values of the page, without the figures."""
        return values_of(**self._content())

    def _content(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "created": self._time(),
            "report": self.report,
            "findings": self.findings,
            "slices": self.slices,
            "facts": self.facts,
            "trace": {**self.origin, "Created": self._time(), **installed_versions()},
        }

    def _time(self) -> str:
        if isinstance(self.created, datetime):
            aware = self.created if self.created.tzinfo else self.created.replace(tzinfo=UTC)
            return f"{aware.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        return str(self.created)

    def __repr__(self) -> str:
        faults = sum(each.severity == "wrong" for found in self.findings.values() for each in found)
        return f"HTMLReport({len(self.findings)} models, {self.report.attrs['rows']:g} rows, {faults} faults)"

    def _repr_html_(self) -> str:
        """Return the page in a frame, so that its style does not change the notebook."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="{escape(self.title)}" sandbox="allow-scripts" '
            'style="width:100%;height:40rem;border:1px solid #8a8f98"></iframe>'
        )

    def save(self, path: str | os.PathLike[str], *, json: bool = True) -> Path:
        """Write the page, and a JSON file with the same values next to it.

        Each file is complete or absent: it is written under another name and then renamed.

        Parameters
        ----------
        path : str or path-like
            File of the page. The JSON file has the same name with the suffix ``.json``.
        json : bool, default=True
            Whether to write the JSON file.

        Returns
        -------
        path : Path
            File of the page.
        """
        page = Path(path)
        if page.suffix == ".json":
            raise ValueError(f"`path` must not have the suffix .json, got {str(page)!r}. Use .html.")
        texts = {page: self.html}
        if json:
            texts[page.with_suffix(".json")] = to_json(self.values)
        write_together(texts)
        return page
