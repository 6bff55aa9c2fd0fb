"""The same parameter or attribute is described by the same words in all neural estimators."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict

import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")

from tests.neural.estimators import CLASSIFIERS, ESTIMATORS

OF_EACH = {"last_layer"}
"""Parameters that mean something else in each class."""
OF_NUMBERS = {"dtype", "keep_best", "validation_size"}
"""Parameters whose words name the target of regressors, their scores or their calibration."""
DEFAULTS = {"cv": 5, "learning_rate": 0.003, "keep_best": False, "n_draws": 200}
"""Defaults of siblings; the docstring of an exception says what was measured."""
EACH_KIND = pytest.mark.parametrize("estimators", [ESTIMATORS, CLASSIFIERS], ids=["numbers", "classes"])


def entries(estimator):
    """Return the text of each parameter and attribute."""
    doc = inspect.cleandoc(estimator.__doc__)
    sections = doc[doc.index("Parameters\n") : doc.index("See Also\n")]
    found = re.findall(r"^(\w+) : .*\n((?:    .*\n)+)", sections, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def descriptions(estimator):
    """Return the first sentence of each parameter and attribute; what is special may follow it."""
    return {name: re.split(r"\.\s", f"{text} ")[0] for name, text in entries(estimator).items()}


def test_all_estimators_are_read():
    assert len(ESTIMATORS) >= 8
    assert len(CLASSIFIERS) >= 3
    for estimator in [*ESTIMATORS, *CLASSIFIERS]:
        assert set(inspect.signature(estimator).parameters) <= set(descriptions(estimator))


def words(estimators):
    texts = defaultdict(set)
    for estimator in estimators:
        for name, text in descriptions(estimator).items():
            texts[name].add(text)
    return texts


@EACH_KIND
def test_the_same_parameter_has_the_same_words(estimators):
    texts = words(estimators)
    assert {name: found for name, found in texts.items() if len(found) > 1 and name not in OF_EACH} == {}


def test_classifiers_describe_parameters_as_regressors_do():
    texts, others = words(ESTIMATORS), words(CLASSIFIERS)
    special = OF_EACH | OF_NUMBERS
    differ = {name for name in texts.keys() & others if texts[name] != others[name] and name not in special}
    assert differ == set()


@EACH_KIND
def test_a_description_is_no_fragment(estimators):
    for estimator in estimators:
        for name, text in descriptions(estimator).items():
            assert not re.match(r"(Of|What|How|At|Not|By) ", text), (estimator.__name__, name, text)


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *CLASSIFIERS])
def test_a_default_of_its_own_is_measured(estimator):
    texts = entries(estimator)
    for name, parameter in inspect.signature(estimator).parameters.items():
        if name in DEFAULTS and parameter.default != DEFAULTS[name]:
            assert re.search("CRPS|log loss|as measured for", texts[name]), name
