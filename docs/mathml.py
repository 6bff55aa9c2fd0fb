"""Renderer of formulas as MathML, which browsers draw without a script or a network."""

from pathlib import Path

import ziamath
from docutils import nodes
from latex2mathml.converter import convert

FONTS = Path(ziamath.__file__).parent / "fonts"
"""Folder of STIX Two Math, for systems without a font for formulas; style.css names the file."""


def formula(tex):
    """Return a displayed formula; alignment marks divide it into lines."""
    return convert(rf"\begin{{align*}}{tex}\end{{align*}}" if "&" in tex else tex, display="block")


def visit_inline(self, node):
    """Write an inline formula."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_block(self, node):
    """Write displayed formulas, which blank lines separate."""
    parts = [part for part in node.astext().split("\n\n") if part.strip()]
    self.body += ['<div class="formula">', *map(formula, parts), "</div>\n"]
    raise nodes.SkipNode


def setup(app):
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
