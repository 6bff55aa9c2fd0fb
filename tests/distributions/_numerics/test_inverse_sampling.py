"""Samples by the quantile function."""

import numpy as np
import pytest

from skuq.distributions import Quantiles
from skuq.distributions._numerics import inverse_sampling


@pytest.mark.parametrize("n", [1, 3, 40])
@pytest.mark.parametrize("m", [1, 7, 100])
def test_samples_are_quantiles_at_uniform_levels(n, m, monkeypatch):
    monkeypatch.setattr(inverse_sampling, "_QUANTILES_AT_ONCE", 20)
    values = np.sort(np.random.default_rng(0).normal(size=(n, 3)), axis=1)
    dist = Quantiles([0.1, 0.5, 0.9], values)
    uniform = np.random.RandomState(0).uniform(size=(m, n))
    expected = np.stack([dist.ppf(levels) for levels in uniform], axis=1)
    np.testing.assert_array_equal(dist.sample(m, random_state=0), expected)


def test_many_draws_of_one_row_take_few_calls(monkeypatch):
    calls = []
    ppf = Quantiles._ppf
    monkeypatch.setattr(Quantiles, "_ppf", lambda self, p: calls.append(p.size) or ppf(self, p))
    Quantiles([0.1, 0.5, 0.9], [[0.0, 1.0, 3.0]]).sample(10_000, random_state=0)
    assert len(calls) <= 5
    assert sum(calls) == 10_000
