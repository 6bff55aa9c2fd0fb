import numpy as np
import pytest

from skuq.distributions import Normal


@pytest.fixture(scope="module")
def calibration_rows():
    """Gaussian predictions that are 1.6 times too narrow, and what was observed."""
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=800), 0.3 + rng.random(800)
    y = rng.normal(loc, scale)
    y.setflags(write=False)  # shared by all tests, and nothing may write into what it is given
    return Normal(loc, scale / 1.6), y


@pytest.fixture(scope="module")
def dist(calibration_rows):
    return calibration_rows[0]


@pytest.fixture(scope="module")
def y(calibration_rows):
    return calibration_rows[1]
