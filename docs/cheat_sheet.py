"""Cheat sheet of the public names, as a page and as a PDF of one page."""

import textwrap
from pathlib import Path

from matplotlib.figure import Figure
from public_names import sections, start

INCHES, MARGIN, N_COLUMNS, GAP = (11.69, 8.27), 0.35, 3, 0.2
"""A4 in landscape format."""
ADVANCE, LEADING = 0.603, 1.22
"""Width of a character of DejaVu Sans Mono and height of a line, in units of the font size."""
SIZES = (8.0, 7.5, 7.0, 6.5, 6.0, 5.5)
"""Font sizes from which the largest that fits is chosen."""
COLORS = {"title": "#0b5394", "code": "#7a3e00", "names": "#111111"}


def page():
    """Return the page as reStructuredText: the code of the front row, and links to all names."""
    lines = [".. rubric:: Start here", "", ".. code-block:: python", "", *(f"    {x}" for x in start()), ""]
    for section in sections():
        links = ", ".join(f":obj:`{name} <{section.module}.{name}>`" for name in section.names)
        lines += [f".. rubric:: {section.heading}", "", links, ""]
    return "\n".join(lines)


def columns(size):
    """Return the lines of each column, as pairs of style and text, or None if the text does not fit."""
    width = ((INCHES[0] - 2 * MARGIN - (N_COLUMNS - 1) * GAP) / N_COLUMNS) * 72
    n_characters = int(width / (ADVANCE * size))
    n_lines = int((INCHES[1] - 2 * MARGIN - 0.3) * 72 / (LEADING * size))
    blocks = [("Start here", "code", start())]
    blocks += [(section.heading, "names", [", ".join(section.names)]) for section in sections()]
    filled = [[]]
    for title, style, texts in blocks:
        lines = [("title", title)]
        lines += [(style, part) for text in texts for part in textwrap.wrap(text, n_characters)]
        if len(filled[-1]) + len(lines) > n_lines:
            filled.append([])
        filled[-1] += [*lines, ("names", "")]
    return filled if len(filled) <= N_COLUMNS else None


def draw():
    """Return the figure of the PDF in the largest font that fits."""
    size, filled = next((size, found) for size in SIZES if (found := columns(size)))
    figure = Figure(figsize=INCHES)
    top = INCHES[1] - MARGIN
    figure.text(MARGIN / INCHES[0], top / INCHES[1], "skuq cheat sheet", size=12, weight="bold", va="top")
    step = (INCHES[0] - 2 * MARGIN + GAP) / N_COLUMNS
    for k, lines in enumerate(filled):
        for row, (style, text) in enumerate(lines):
            figure.text(
                (MARGIN + k * step) / INCHES[0],
                (top - 0.3 - row * LEADING * size / 72) / INCHES[1],
                text,
                size=size,
                family="DejaVu Sans Mono",
                weight="bold" if style == "title" else "normal",
                color=COLORS[style],
                va="top",
                parse_math=False,
            )
    return figure


def write_cheat_sheet(app):
    """Write the text of the page and the PDF."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cheat-sheet.inc").write_text(page(), encoding="utf-8")
    draw().savefig(folder / "skuq-cheat-sheet.pdf", metadata={"CreationDate": None})
