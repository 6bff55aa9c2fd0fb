import numpy as np
import pytest

from skuq.distributions import Normal


@pytest.fixture
def calibration_rows():
    """Gaussian predictions that are 1.6 times too narrow, and what was observed."""
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=800), 0.3 + rng.random(800)
    return Normal(loc, scale / 1.6), rng.normal(loc, scale)
