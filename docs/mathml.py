"""Formulas as MathML, which browsers draw without a script, a font or a network; conf.py registers it."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError


def mathml(tex, *, block):
    """Return a formula as MathML; one that cannot be converted stops the build."""
    try:
        return tex2mathml(tex, as_block=block)
    except ValueError as error:
        raise ExtensionError(f"The formula {tex!r} cannot be converted to MathML: {error}") from error


def visit_inline(self, node):
    """Write an inline formula."""
    self.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def visit_block(self, node):
    """Write displayed formulas, which blank lines separate."""
    formulas = [part for part in node.astext().split("\n\n") if part.strip()]
    self.body += ['<div class="math">', *(mathml(tex, block=True) for tex in formulas), "</div>\n"]
    raise nodes.SkipNode


def setup(app):
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
