"""No-break spaces between numbers and percent signs, so that lines do not end between them."""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

SPACE = re.compile(r"(?<=\d) (?=%)")
LITERAL = (nodes.literal, nodes.math, nodes.FixedTextElement)


class NoBreakTransform(SphinxTransform):
    """Replacement of the space in all text except code and formulas."""

    default_priority = 900  # after the transforms that create text

    def apply(self, **kwargs):
        for text in list(self.document.findall(nodes.Text)):
            if SPACE.search(text) and not isinstance(text.parent, LITERAL):
                text.parent.replace(text, nodes.Text(SPACE.sub("\N{NO-BREAK SPACE}", text)))
