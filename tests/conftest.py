"""Real data, clean figures and reproducible property tests for all of the suite."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings

from skuq.distributions import Normal
from skuq.exceptions import SmallSampleWarning

WANT_OF_DATA = "needs real data"

# A slow machine is no defect, so no deadline; in continuous integration the examples are always the same.
settings.register_profile("skuq", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("skuq")


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], pd.DataFrame]:
    """Return ``load(name)``, which reads ``$SKUQ_DATA/<name>.csv.gz`` (target last) or skips the test."""

    def load(name: str) -> pd.DataFrame:
        folder = os.environ.get("SKUQ_DATA")
        if not folder:
            pytest.skip(f"{WANT_OF_DATA}: set SKUQ_DATA to the folder that holds {name}.csv.gz")
        path = Path(folder) / f"{name}.csv.gz"
        if not path.is_file():
            pytest.skip(f"{WANT_OF_DATA}: no {name}.csv.gz in SKUQ_DATA")
        return (
            pd.read_csv(path, keep_default_na=False) if name == "other/metro_traffic" else pd.read_csv(path)
        )

    return load


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    """60 rows, three features, a linear signal and noise; y is positive."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = 20.0 + X @ [2.0, -1.0, 0.5] + rng.normal(scale=0.8, size=60)
    X.setflags(write=False)  # shared by all tests, and nothing may write into what it is given
    y.setflags(write=False)
    return X, y


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that take minutes an hour before they fail; all others have the limit of pyproject.toml.

    The longest test of all, a visit of every page of the documentation, comes first: at the end, one process
    would be busy with it and the others idle.
    """
    items.sort(key=lambda item: item.path.name != "test_site.py")
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3600))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests did not run because their data is not there."""
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum(WANT_OF_DATA in str(report.longrepr) for report in skipped)
    place = os.environ.get("SKUQ_DATA", "not set")
    terminalreporter.write_line(f"Tests skipped for want of data: {count} (SKUQ_DATA: {place})")


@pytest.fixture
def het100():
    """The heteroscedastic reference set, on which every metric has a value known to six digits."""
    rng = np.random.default_rng(0)
    mu = rng.normal(size=100)
    s = 0.3 + rng.random(100)
    return SimpleNamespace(y=mu + s * rng.normal(size=100), mu=mu, s=s)


@pytest.fixture
def forecast():
    """A target and a heteroscedastic, slightly wrong Normal forecast of 600 rows, sigmas tied in part."""
    rng = np.random.default_rng(1)
    loc = 3 * rng.normal(size=600)
    scale = np.round(np.exp(0.5 * rng.normal(size=600)), 1) + 0.1
    return loc + 1.2 * scale * rng.normal(size=600) + 0.1, Normal(loc, scale)


@pytest.fixture
def few_rows() -> Iterator[None]:
    """Allow few rows: for tests whose subject is not the warning about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        yield


@pytest.fixture(scope="session")
def neural() -> Any:
    """Return skuq.neural after a training, because torch loads much in the first one; skip without torch."""
    pytest.importorskip("torch")
    pytest.importorskip("skorch")
    from skuq import neural

    neural.PNNRegressor((2,), max_epochs=1, calibration=None).fit(np.zeros((20, 2)), np.arange(20.0))
    return neural


@pytest.fixture
def browser() -> Iterator[Any]:
    """Start Chromium without a window; Debian's chromium-headless-shell needs the least processor time."""
    playwright = pytest.importorskip("playwright.sync_api")
    executable = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if executable is None:
        pytest.skip("Chromium is not installed; on Debian: apt-get install chromium-headless-shell")
    with playwright.sync_playwright() as engine:
        # Chromium's sandbox does not work for root in a container.
        running = engine.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield running
        running.close()
