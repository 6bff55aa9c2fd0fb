"""Forecasts that the tests of the metrics share."""

import warnings
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from skuq.distributions import Normal
from skuq.exceptions import SmallSampleWarning


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
