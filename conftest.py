"""What every test and doctest needs before anything is imported."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

# Pictures are drawn without a screen.
os.environ["MPLBACKEND"] = "Agg"

pytest_plugins = ["tests.processor_time", "pytester"]

# Doctests that need an optional package which is not there cannot even be collected.
collect_ignore = [] if find_spec("gpytorch") else ["skuq/regressors/_sparse_gaussian_process.py"]
collect_ignore += [] if find_spec("optuna") else ["skuq/model_selection/_auto_uncertainty.py"]
collect_ignore += [
    f"skuq/integrations/{name}" for name in ("dask", "flaml", "mlflow", "tpot") if find_spec(name) is None
]
collect_ignore_glob = [] if find_spec("torch") and find_spec("skorch") else ["skuq/neural/*"]
collect_ignore_glob += ["tests/typing/*"]  # They are read by type checkers, and never imported.
collect_ignore_glob += [] if find_spec("jinja2") else ["skuq/report/*"]


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    """Close what a test or doctest drew, so that matplotlib does not warn of many open figures."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
