"""Data shared by the tests of the resolver."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def data():
    """60 rows, three features, a linear signal and noise; y is positive."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = 20.0 + X @ [2.0, -1.0, 0.5] + rng.normal(scale=0.8, size=60)
    X.setflags(write=False)  # shared by all tests, and nothing may write into what it is given
    y.setflags(write=False)
    return X, y
