"""Limits on constructions that readers parse twice, per 10 000 words; `tests/language.py` lists them."""

from __future__ import annotations

import functools
import re

import pytest

from tests.language import ALL, ROOT, SPELLING, Text, findings, read

LIMIT = 8.0
SOURCES = {
    "skuq": ("docstring", "comment", "message"),
    "docs": ("docstring", "comment", "message", "page"),
    "examples": ("docstring", "comment", "message"),
    "README.md": ("page",),
    "CONTRIBUTING.md": ("page",),
    "CHANGELOG.md": ("page",),
}


@functools.cache
def all_texts(name: str) -> list[Text]:
    return read([ROOT / name])


def texts_of(name: str, kind: str) -> list[Text]:
    """Return the texts of one kind, without tables of sentences before and after."""
    texts = [text for text in all_texts(name) if text.kind == kind]
    if name != "CONTRIBUTING.md":
        return texts
    return [text._replace(prose=re.sub(r"^(?:\||before ).*$", "", text.prose, flags=re.M)) for text in texts]


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in SOURCES for kind in SOURCES[name]])
def test_few_constructions_are_read_twice(name, kind):
    found, words = findings(texts_of(name, kind))
    assert len(found) <= LIMIT * max(words, 1000) / 1e4, found


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in SOURCES for kind in SOURCES[name]])
def test_spelling_is_american(name, kind):
    assert findings(texts_of(name, kind), SPELLING)[0] == []


@pytest.mark.parametrize(
    ("prose", "number"),
    [
        ("Return those of the others, as it is.", 2),
        ("What is left of it, whatever it was.", 2),
        ("What is calibration? How is it measured?", 0),
        ("The mean of each row, without weights.", 0),
        ("The stack level ``as it is`` computed.", 0),
        ("One error a row, beside so many others.", 2),
    ],
)
def test_the_count(prose, number):
    assert len(findings([Text("", 1, "page", prose)], ALL)[0]) == number
