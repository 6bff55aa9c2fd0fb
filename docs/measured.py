"""Measured tables and numbers in pages, read from benchmarks/results when the documentation is built.

The directive ``.. measured:: few_rows-linear`` shows a table. The role
:measured:`few_rows-linear; forest; 20` shows the cell of a row and a column. A row is given by its first
cell, or by its first cells with commas between them. `make tables` writes the files.
"""

import csv
import itertools
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from metric_tables import table

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks/results"
BOLD = ("geometric mean", "all")
"""Beginnings of the rows of means."""


def rows_of(name):
    """Return the rows of a file of results as mappings from columns to texts."""
    lines = (RESULTS / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def cell(text):
    """Return the text of one cell: table; row; column."""
    name, row, column = (" ".join(part.split()) for part in text.split(";"))  # a page breaks lines anywhere
    found = [each for each in rows_of(name) if row in itertools.accumulate(each.values(), "{}, {}".format)]
    if len(found) != 1 or column not in found[0]:
        raise LookupError(f"{text!r}: {len(found)} rows; columns {list(rows_of(name)[0])}.")
    return found[0][column]


class MeasuredTable(Directive):
    """Table of a file of results."""

    required_arguments = 1
    option_spec: ClassVar = {"caption": directives.unchanged}

    def run(self):
        """Insert the table as reStructuredText."""
        name = self.arguments[0]
        path = RESULTS / f"{name}.csv"
        if not path.is_file():
            raise self.error(f"There are no results of {name!r}. Run `make tables`.")
        self.state.document.settings.record_dependencies.add(str(path))
        self.state.document.settings.env.note_dependency(str(path))
        rows = rows_of(name)
        columns = list(rows[0])
        cells = [list(row.values()) for row in rows]
        bold = [[f"**{row[0]}**", *row[1:]] if row[0].startswith(BOLD) else row for row in cells]
        lines = table(columns, bold, style="many-columns")
        lines[0] += f" {self.options.get('caption', '')}"
        self.state_machine.insert_input(lines, str(path))
        return []


def role(name, rawtext, text, lineno, inliner, options=None, content=None):
    """Return the text of one cell."""
    return [nodes.Text(cell(text))], []


def setup(app):
    """Register the directive and the role."""
    app.add_directive("measured", MeasuredTable)
    app.add_role("measured", role)
