"""Translation of the Markdown of CHANGELOG.md to a page, when the documentation is built."""

import re
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"
UNDERLINES = {1: "=", 2: "-", 3: "~"}


def to_rst(markdown):
    """Return reStructuredText for headings, lists, tables, links and code in a line."""
    lines, in_table = [], False
    for line in markdown.replace("<!-- news -->\n\n", "").splitlines():  # the place of new versions
        heading = re.fullmatch(r"(#+) (.*)", line)
        is_row = line.lstrip().startswith("|")
        if heading:
            title = _inline(re.sub(r"^\[([^\]]+)\]", r"\1", heading[2]))  # [1.0] - 2026-12-01
            lines += [title, UNDERLINES[len(heading[1])] * len(title)]
        elif is_row:
            indent = line[: -len(line.lstrip())]
            lines += _table_row(_cells(line), indent, first=not in_table)
        else:
            lines.append(_inline(line))
        in_table = is_row
    return "\n".join([*lines, ""])


def _inline(text):
    """Translate code and links; bold text is the same in both."""
    parts = re.split(r"(`[^`]+`)", text)
    for k in range(1, len(parts), 2):
        # An escaped space separates code from a letter directly before or after it.
        before = "\\ " if re.search(r"\w$", parts[k - 1]) else ""
        after = "\\ " if re.match(r"\w", parts[k + 1]) else ""
        parts[k] = f"{before}`{parts[k]}`{after}"
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r"`\1 <\2>`__", parts[k])
    return "".join(parts)


def _cells(line):
    return [_inline(cell.strip()) for cell in line.strip().strip("|").split("|")]


def _table_row(cells, indent, *, first):
    """Return the lines of a row; the first row of a table is its header, and rules have no lines."""
    if all(re.fullmatch(r":?-+:?", cell) for cell in cells):
        return []
    start = [f"{indent}.. list-table::", f"{indent}    :header-rows: 1", ""] if first else []
    bullets = ["* -", *["  -"] * (len(cells) - 1)]
    return start + [f"{indent}    {bullet} {cell}" for bullet, cell in zip(bullets, cells, strict=True)]


def write_changelog(app):
    """Write the page's text, for docs/changelog.rst."""
    path = Path(app.srcdir) / "reference" / "generated" / "changelog.inc"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_rst(CHANGELOG.read_text(encoding="utf-8")), encoding="utf-8")
