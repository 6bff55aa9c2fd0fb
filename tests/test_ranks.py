"""Order statistics of weighted samples."""

from __future__ import annotations

import numpy as np
import pytest

from skuq._numeric import WeightedRanks

VALUES = np.array([4.0, 1.0, 3.0, 2.0])
WEIGHTS = np.array([1.0, 1.0, 1.0, 2.0])


def test_the_median_is_halfway_where_halves_meet():
    assert WeightedRanks(VALUES).median == 2.5
    assert WeightedRanks(VALUES, WEIGHTS).median == 2.0
    assert WeightedRanks(-VALUES, WEIGHTS).median == -2.0
    assert WeightedRanks(np.array([7.0])).median == 7.0


def test_values_are_reached_from_both_ends():
    ranks = WeightedRanks(VALUES, WEIGHTS)
    assert [float(ranks.quantile(weight)) for weight in (1, 1.5, 3, 4, 5, 5.5)] == [1, 2, 2, 3, 4, np.inf]
    assert [float(ranks.quantile_from_top(weight)) for weight in (1, 2, 4, 5, 5.5)] == [4, 3, 2, 1, -np.inf]


def test_weights_are_repetitions():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=30), rng.integers(0, 4, size=30).astype(float)
    weighted, repeated = WeightedRanks(values, weights), WeightedRanks(np.repeat(values, weights.astype(int)))
    assert weighted.total == repeated.total
    assert weighted.median == repeated.median
    for target in np.arange(1, repeated.total + 1):
        assert weighted.quantile(target) == repeated.quantile(target)
        assert weighted.quantile_from_top(target) == repeated.quantile_from_top(target)


@pytest.mark.parametrize("n", [9, 10, 59, 99])
def test_a_rank_that_is_whole_but_for_rounding_is_that_rank(n):
    ranks = WeightedRanks(np.arange(1.0, n + 1))
    for percent in range(1, 100):
        target = (n + 1) * (percent / 100)
        exact = -(-(n + 1) * percent // 100)
        assert ranks.quantile(target) == (exact if exact <= n else np.inf)


def test_further_values_give_the_ranks_of_all_values():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 9, 40).astype(float)
    for most in (None, 1, 4):  # None means that all weights are 1
        weights = np.ones(40)
        if most is not None:
            weights[10:] = rng.integers(0, most + 1, 30)
        ranks = WeightedRanks(values[:10], weights[:10])
        for part in (slice(10, 11), slice(11, 25), slice(25, 40)):
            ranks = ranks.followed_by(values[part], weights[part])
        expected, targets = WeightedRanks(values, weights), np.arange(ranks.total + 2)
        np.testing.assert_array_equal(ranks.values, expected.values)
        np.testing.assert_array_equal(ranks.quantile(targets), expected.quantile(targets))
        assert ranks.total == expected.total
