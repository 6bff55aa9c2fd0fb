"""The same parameter or attribute is described by the same words in all neural estimators."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict

import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from tests.neural.estimators import ESTIMATORS

OF_EACH = {"output", "last_layer"}
"""Parameters that mean something else in each class."""


def descriptions(estimator):
    """Return the first sentence of each parameter and attribute; what is special may follow it."""
    doc = inspect.cleandoc(estimator.__doc__)
    sections = doc[doc.index("Parameters\n") : doc.index("See Also\n")]
    entries = re.findall(r"^(\w+) : .*\n((?:    .*\n)+)", sections, re.MULTILINE)
    return {name: re.split(r"\.\s", " ".join(text.split()) + " ")[0] for name, text in entries}


def test_all_estimators_are_read():
    assert len(ESTIMATORS) >= 8
    for estimator in ESTIMATORS:
        assert set(inspect.signature(estimator).parameters) <= set(descriptions(estimator))


def test_the_same_parameter_has_the_same_words():
    texts = defaultdict(set)
    for estimator in ESTIMATORS:
        for name, text in descriptions(estimator).items():
            texts[name].add(text)
    assert {name: found for name, found in texts.items() if len(found) > 1 and name not in OF_EACH} == {}


def test_a_description_is_no_fragment():
    for estimator in ESTIMATORS:
        for name, text in descriptions(estimator).items():
            assert not re.match(r"(Of|What|How|At|Not|By) ", text), (estimator.__name__, name, text)
