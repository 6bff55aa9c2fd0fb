from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("matplotlib") is None:  # an extra; nothing here can run without it
    collect_ignore_glob = ["test_*.py"]
else:
    import matplotlib as mpl

    mpl.use("agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture
def rows():
    """1200 heteroscedastic rows: loc, scale, y."""
    rng = np.random.default_rng(0)
    loc = rng.uniform(0.0, 10.0, size=1200)
    scale = 0.2 + 0.1 * loc
    return loc, scale, rng.normal(loc, scale)


@pytest.fixture
def loc(rows):
    return rows[0]


@pytest.fixture
def scale(rows):
    return rows[1]


@pytest.fixture
def y(rows):
    return rows[2]
