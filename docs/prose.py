"""A lint of the build: British spelling, and constructions that readers parse twice, are warnings."""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

LIMIT = 2  # constructions on a page
CONSTRUCTIONS = (
    r"those (?:of|that|with|without|which|in|from|where|whose|by|at|on|for|before|after|below|above)\b",
    r"that (?:of|with|without)\b",
    r"(?:as|than|with|of|from|for|to|by) those\b(?! \w+s\b)",
    r"as (?:it|they) (?:is|are|was|were|came|comes)\b",
    r"where there (?:is|are|was|were)\b",
    r"stands? for\b",
    r"what (?:is|it|was|they|comes|came|follows|others|the|a|an|makes|helps|lets|each|every|one|remains)\b"
    r"(?![^.]*\?)",
    r"of which\b",
    r"whatever\b",
    r"however (?:many|few|large|small|long|extreme|deep|far)\b",
    r"so (?:many|few)\b",
    r"beside\b",
    r"one an? (?:row|sample|column|fold|member|class|level|step|call|fit|target)\b",
    r"but for\b",
    r"(?<!there )(?:is|are|was|were) no (?!longer\b|more\b|less\b)\w+",
    r"be it\b",
)
BRITISH = (
    r"\w*(?:standardis|normalis|summaris|optimis|generalis|regularis|parametris|initialis|randomis|recognis"
    r"|minimis|maximis|penalis|characteris|discretis|vectoris|winsoris|organis|realis)(?:e|es|ed|ing|ation"
    r"|ations|er|ers)\b",
    r"(?:behaviour|colour|neighbour|favour|centre|grey|labell|modell|travell|programme\b|learnt|analys(?:e|ed)\b"
    r"|licence|artefact|whilst|mould|fulfil\b|catalogue)\w*",
)
TWICE = re.compile(rf"(?<![\w`-])(?:{'|'.join(CONSTRUCTIONS)})")
SPELLING = re.compile(rf"\b(?:{'|'.join(BRITISH)})", re.IGNORECASE)
CODE = (nodes.literal, nodes.math)
logger = logging.getLogger(__name__)


def prose_of(document):
    """Return the paragraphs of a page, in which x replaces code."""
    paragraphs = [paragraph.findall(nodes.Text) for paragraph in document.findall(nodes.paragraph)]
    return "\n".join(
        "".join(" x " if isinstance(text.parent, CODE) else text.replace("\n", " ") for text in paragraph)
        for paragraph in paragraphs
    )


def faults(prose):
    """Return British words, and constructions if the page has more than a few."""
    found = [match.group() for match in TWICE.finditer(prose)]
    return [match.group() for match in SPELLING.finditer(prose)] + (found if len(found) > LIMIT else [])


class LanguageTransform(SphinxTransform):
    """A warning, which fails the build, on each page with faults."""

    default_priority = 890

    def apply(self, **kwargs):
        if found := faults(prose_of(self.document)):
            logger.warning("rewrite: %s", "; ".join(found), location=self.env.docname)
