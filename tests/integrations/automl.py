"""Data and packages of the tests of AutoML tools, which run with what is installed: `make test-automl`."""

import importlib
import warnings

import pytest
from sklearn.datasets import make_friedman1

X, Y = make_friedman1(200, noise=1.0, random_state=0)


def installed(name, target="make test-automl"):
    """Return a module of another package, or skip; what it warns of on import is not the subject."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} is not installed ({error}); `{target}`", allow_module_level=True)
