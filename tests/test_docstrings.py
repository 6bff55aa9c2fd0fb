"""The same parameter is described by the same words wherever it stands; what is special follows them.

Networks have more parameters in common: tests/neural/test_docstrings.py.
"""

import importlib
import inspect
import re
from pathlib import Path

import pytest

docscrape = pytest.importorskip("numpydoc.docscrape")

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "prediction",
    "regressors",
    "recalibration",
    "metrics",
    "model_selection",
    "simulation",
    "displays",
    "distributions",
    "integrations.dask",
    "integrations.flaml",
    "integrations.mlflow",
    "integrations.skore",
    "integrations.tpot",
    "classifiers",
)
FIRST_SENTENCES = {
    "y_true": "Observed targets.",
    "y_pred": "Forecast of every target.",
    "sample_weight": "Number of repetitions of each row.",
    "coverage": "Nominal coverage of the central interval.",
    "n_jobs": "Number of jobs that run in parallel.",
    "ax": "Axes to draw on. None makes a new figure.",
}
# Where the name means something else: point predictions of a display, what becomes a Distribution, the
# coverage of a set of classes.
OTHERS = {
    ("y_pred", "IntervalDisplay"),
    ("y_pred", "PredictionBandDisplay"),
    ("y_pred", "as_distribution"),
    ("coverage", "ConformalClassifier.predict_set"),
    ("coverage", "ConformalSurvivalRegressor"),
    ("coverage", "ConformalRegressor.predict_p"),
    ("coverage", "ConformalRegionRegressor.predict_interval"),
    ("coverage", "ConformalRegionRegressor.predict_region"),
    ("coverage", "predict_set"),
    ("coverage", "prediction_set"),
    ("coverage", "conditional_set_coverage"),
    ("coverage", "mean_set_size"),
    ("coverage", "set_coverage_error"),
    ("coverage", "set_coverage_score"),
}


def documented():
    """Yield the name and docstring of every public class, method and function."""
    for package in PACKAGES:
        module = importlib.import_module(f"skuq.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            yield name, inspect.getdoc(value)
            if inspect.isclass(value):
                for method in vars(value):
                    # scikit-learn writes the docstrings of set_fit_request and its like
                    if not re.match(r"_|set_.*_request", method) and callable(getattr(value, method)):
                        yield f"{name}.{method}", inspect.getdoc(getattr(value, method))


def descriptions(parameter):
    """Return the description of a parameter by the name of what takes it."""
    found = {}
    for name, doc in documented():
        for entry in docscrape.NumpyDocString(doc or "")["Parameters"]:
            if parameter in entry.name.split(", ") and (parameter, name) not in OTHERS:
                found[name] = " ".join(" ".join(entry.desc).split())
    return found


def test_code_is_no_person():
    """The words of CONTRIBUTING.md: statistics has nominal, evaluated and calibrated for these.

    ``study.ask`` is the name of a method of Optuna.
    """
    person = re.compile(
        r"\b(?<!study\.)(ask(s|ed)?|told|heard|judge[sd]?|judging|mend(s|ed|ing)?|cure[sd]?|honest|ignoran(t|ce)|luck"
        r"|promise[sd]?|needy)\b",
        re.IGNORECASE,
    )
    pages = [ROOT / "README.md", *(ROOT / "skuq").rglob("*.py"), *(ROOT / "docs").glob("*/*.rst")]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in pages
        if "auto_examples" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if person.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(("parameter", "sentence"), FIRST_SENTENCES.items())
def test_the_same_parameter_has_the_same_words(parameter, sentence):
    found = descriptions(parameter)
    assert len(found) >= 5
    assert {name: text for name, text in found.items() if not text.startswith(sentence)} == {}
