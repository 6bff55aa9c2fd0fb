"""No line ends between a number and its per cent sign: the space before the sign becomes a no-break space."""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

SPACE = re.compile(r"(?<=\d) (?=%)")
LITERAL = (nodes.literal, nodes.math, nodes.FixedTextElement)


class NoBreakTransform(SphinxTransform):
    """Replaces the space in all text but code and formulas."""

    default_priority = 900  # after the transforms that make text

    def apply(self, **kwargs):
        for text in list(self.document.findall(nodes.Text)):
            if SPACE.search(text) and not isinstance(text.parent, LITERAL):
                text.parent.replace(text, nodes.Text(SPACE.sub("\N{NO-BREAK SPACE}", text)))
