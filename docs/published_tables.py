"""Tables of the published benchmarks, generated from their results when the documentation is built."""

from pathlib import Path

import published
from metric_tables import table

NO_RESULTS = "There are no results yet."
MEAN = "geometric mean"


def shown(cells):
    """Return the columns without scores whose ratio is in another column, because a page is too narrow."""
    return cells.drop(columns=[name for name in cells if f"to {name}" in cells])


def lines_of(name):
    """Return a table of the benchmark as lines of reStructuredText; rows of means are bold."""
    cells = shown(published.texts(published.TABLES[name](published.read(published.RESULTS))))
    if cells.empty:
        return [NO_RESULTS]
    cells["set"] = [f"**{name}**" if name.startswith(MEAN) else name for name in cells["set"]]
    return table(tuple(cells), cells.to_numpy(), style="many-columns")


def write_tables(app):
    """Write the tables that the page on published benchmarks includes."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    for name in published.TABLES:
        text = "\n".join(lines_of(name))
        (folder / f"published-{name}.inc").write_text(text, encoding="utf-8")
