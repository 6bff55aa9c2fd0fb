"""The isotonic fits against linear programs, pool adjacent violators and repeated rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.isotonic import IsotonicRegression

from skuq._rounding import last_of_ties
from skuq.metrics._decomposition.isotonic import isotonic_means, isotonic_quantile_ranks


def sections(rng, s, n):
    forecast = np.sort(rng.integers(0, 5, size=(s, n)), axis=1).astype(float)
    return last_of_ties(forecast, 0.0), forecast, rng.integers(0, 6, size=(s, n)).astype(float)


def smallest_loss(x, y, weight, level):
    """Return the smallest mean pinball loss of increasing functions of x, by linear programming."""
    values, group = np.unique(x, return_inverse=True)
    k, n = len(values), len(y)
    equal = np.hstack([np.eye(k)[group], np.eye(n), -np.eye(n)])
    rising = np.hstack([np.eye(k)[:-1] - np.eye(k)[1:], np.zeros((k - 1, 2 * n))])
    cost = np.concatenate([np.zeros(k), weight * level, weight * (1 - level)])
    bounds = [(None, None)] * k + [(0, None)] * (2 * n)
    bound = {"A_ub": rising, "b_ub": np.zeros(k - 1)} if k > 1 else {}
    return linprog(cost, A_eq=equal, b_eq=y, bounds=bounds, **bound).fun / weight.sum()


def quantiles(y, last, level, weight):
    order = np.argsort(y, axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(y.shape[1])[np.newaxis], axis=1)
    fitted = isotonic_quantile_ranks(rank, last, level, weight)
    return np.take_along_axis(y, np.take_along_axis(order, fitted, axis=1), axis=1)


@pytest.mark.parametrize("seed", range(30))
def test_the_quantiles_have_the_smallest_pinball_loss(seed):
    rng = np.random.default_rng(seed)
    n, levels = int(rng.integers(1, 12)), np.array([0.1, 0.25, 0.5, 0.9])
    last, x, y = sections(rng, 4, n)
    weight = rng.integers(1, 4, size=(4, n)).astype(float)
    fitted = quantiles(y, last, levels, weight)
    for i, level in enumerate(levels):
        error = y[i] - fitted[i]
        loss = weight[i] @ np.maximum(level * error, (level - 1) * error) / weight[i].sum()
        assert loss == pytest.approx(smallest_loss(x[i], y[i], weight[i], level), abs=1e-12)
        assert (np.diff(fitted[i]) >= 0).all()
        assert all(np.ptp(fitted[i][x[i] == each]) == 0 for each in x[i])


@pytest.mark.parametrize("seed", range(20))
def test_the_means_are_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    last, x, y = sections(rng, 3, n)
    weight = rng.integers(1, 4, size=(3, n)).astype(float)
    fitted = isotonic_means(1e3 * y, last, weight)
    for i in range(3):
        expected = IsotonicRegression().fit(x[i], 1e3 * y[i], weight[i]).predict(x[i])
        assert_allclose(fitted[i], expected, atol=1e-9)


def test_rows_of_weight_zero_change_nothing():
    rng = np.random.default_rng(0)
    last, x, y = sections(rng, 1, 40)
    keep = rng.random(40) < 0.5
    weight = keep.astype(float)[np.newaxis]
    few = last_of_ties(x[:, keep], 0.0)
    assert_allclose(
        isotonic_means(y, last, weight)[:, keep], isotonic_means(y[:, keep], few, None), atol=1e-12
    )
    level = np.array([0.3])
    whole, part = quantiles(y, last, level, weight)[:, keep], quantiles(y[:, keep], few, level, None)
    losses = [np.maximum(0.3 * e, -0.7 * e).mean() for e in (y[:, keep] - whole, y[:, keep] - part)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)


def test_sections_do_not_depend_on_each_other():
    rng = np.random.default_rng(0)
    last, _, y = sections(rng, 5, 30)
    levels = np.linspace(0.1, 0.9, 5)
    each = [quantiles(y[[i]], last[[i]], levels[[i]], None)[0] for i in range(5)]
    assert_array_equal(quantiles(y, last, levels, None), each)
    assert_array_equal(
        isotonic_means(y, last, None), [isotonic_means(y[[i]], last[[i]], None)[0] for i in range(5)]
    )
