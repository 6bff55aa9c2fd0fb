"""Metrics need at most eight arrays of n numbers beyond their inputs, and isotonic regressions 18."""

import tracemalloc

import numpy as np
import pytest

from skuq.distributions import Normal
from tests.metrics.options import forecast_specs, required

N = 100_000


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=N), 0.3 + rng.random(N)
    return loc + scale * rng.normal(size=N), Normal(loc, scale), rng.integers(1, 4, N).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spec", forecast_specs().values(), ids=lambda spec: spec.abbreviation)
def test_peak_memory(spec, large, weighted):
    y, dist, weight = large
    options = required(spec) | ({"sample_weight": weight} if weighted else {})
    spec.function(y[:1000], dist[:1000], **required(spec))  # what is imported or cached on first use
    tracemalloc.start()
    try:
        spec.function(y, dist, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    arrays = 8 if spec.crps_part is None else 18  # isotonic regressions, one level at a time
    assert peak <= arrays * y.nbytes + 2_000_000
