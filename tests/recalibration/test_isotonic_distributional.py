"""Isotonic distributional regression against its definition, and its interpolation between training rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom

from skuq.distributions import Empirical, Normal
from skuq.distributions._step_table import SharedSteps
from skuq.metrics import crps_loss
from skuq.recalibration import IsotonicDistributionalRecalibrator
from tests.few_rows import few_rows

pytestmark = few_rows

Y = np.array([1.0, 2, 4, 3, 7, 5, 8, 6])
X = np.array([1.5, 1, 3, 3.5, 5, 6, 6.5, 9])
WEIGHT = np.array([1.0, 2, 1, 1, 3, 1, 1, 2])
# In the order of X; rows of equal cdf follow each other in pairs.
CDFS = np.repeat(
    [
        [0.5, 1, 1, 1, 1, 1, 1, 1],
        [0, 0, 0.5, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 0.5, 0.5, 1, 1],
        [0, 0, 0, 0, 0, 0.5, 0.5, 1],
    ],
    2,
    axis=0,
)


def fitted(x, y, weight=None, **options):
    return IsotonicDistributionalRecalibrator(**options).fit(Normal(x, 1.0), y, sample_weight=weight)


def cdfs(dist, thresholds):
    return np.stack([dist.cdf(z) for z in thresholds], axis=1)


def by_definition(x, y, weight, thresholds):
    """Return the minimum over i <= k of the maximum over j >= k of the mean share in i..j, by loops."""
    knots = np.unique(x)
    total = np.array([weight[x == knot].sum() for knot in knots])
    out = np.empty((len(knots), len(thresholds)))
    for column, z in enumerate(thresholds):
        reached = np.array([weight[(x == knot) & (y <= z)].sum() for knot in knots])
        for k in range(len(knots)):
            out[k, column] = min(
                max(reached[i : j + 1].sum() / total[i : j + 1].sum() for j in range(k, len(knots)))
                for i in range(k + 1)
            )
    return out


def test_small_table():
    recalibrated = fitted(X, Y).transform(Normal(np.sort(X), 1.0))
    assert type(recalibrated) is SharedSteps
    assert_allclose(cdfs(recalibrated, range(1, 9)), CDFS, rtol=1e-15)
    assert_array_equal(recalibrated.cdf(0.999), 0.0)


def test_loss_on_the_training_rows():
    assert_allclose(fitted(X, Y).transform(Normal(X, 1.0)).crps(Y).mean(), 0.375, rtol=1e-14)
    weighted = fitted(X, Y, WEIGHT).transform(Normal(X, 1.0))
    assert_allclose(crps_loss(Y, weighted, sample_weight=WEIGHT), 0.358134920634921, rtol=1e-14)


def test_interpolation_between_and_beyond_the_training_rows():
    recalibrated = fitted(X, Y).transform(Normal([4.2, -100.0, 100.0], 1.0))
    share = (4.2 - 3.5) / (5 - 3.5)
    assert_allclose(cdfs(recalibrated, range(1, 9))[0], (1 - share) * CDFS[3] + share * CDFS[4], rtol=1e-14)
    assert_allclose(
        cdfs(recalibrated, range(1, 9))[0], [0, 0, 0.2667, 0.5333, 0.7667, 0.7667, 1, 1], atol=5e-5
    )
    assert_allclose(cdfs(recalibrated, range(1, 9))[1:], CDFS[[0, -1]])


def test_minimum_of_maxima_with_ties_and_weights():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 25))
        x = rng.integers(0, int(rng.integers(1, 30)), size=n).astype(float)
        y = np.round(x / 3 + rng.normal(scale=3.0, size=n), int(rng.integers(0, 3)))
        weight = rng.gamma(1.0, size=n) * 3 + 0.01 if seed % 2 else np.ones(n)
        recalibrator, thresholds = fitted(x, y, weight), np.unique(y)
        assert_array_equal(recalibrator.table_.thresholds, thresholds)
        assert_array_equal(recalibrator.predictions_, np.unique(x))
        recalibrated = recalibrator.transform(Normal(np.unique(x), 1.0))
        assert_allclose(cdfs(recalibrated, thresholds), by_definition(x, y, weight, thresholds), atol=1e-13)


def test_new_rows_of_a_target_with_few_values():
    rng = np.random.default_rng(0)
    p = rng.random(1600)
    dist, y = Normal(4 * p, 0.5), rng.binomial(4, p).astype(float)
    new, y_new = dist[800:], y[800:]
    after = IsotonicDistributionalRecalibrator().fit(dist[:800], y[:800]).transform(new)
    assert crps_loss(y_new, after) < 0.9 * crps_loss(y_new, new)
    truth = np.stack([binom.cdf(k, 4, p[800:]) for k in range(5)], axis=1)
    assert np.abs(cdfs(after, range(5)) - truth).mean() < 0.03


def test_intervals_of_few_rows_are_too_narrow(dist, y):
    after = IsotonicDistributionalRecalibrator().fit(dist[:400], y[:400]).transform(dist[400:])
    low, high = after.interval(0.9).T
    assert 0.82 < np.mean((low <= y[400:]) & (y[400:] <= high)) < 0.88


def test_order_by_the_median():
    dist = Empirical([[0.0, 0.0, 30.0], [1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])
    y = [0.0, 1.0, 2.0]
    by_median = IsotonicDistributionalRecalibrator(by="median").fit(dist, y)
    assert_array_equal(by_median.predictions_, [0.0, 2.0, 4.0])
    assert_array_equal(by_median.transform(dist).median(), y)
    by_mean = IsotonicDistributionalRecalibrator().fit(dist, y)
    assert_array_equal(by_mean.predictions_, [2.0, 4.0, 10.0])
    with pytest.raises(ValueError, match="`by` must be one of 'mean', 'median', got 'mode'"):
        IsotonicDistributionalRecalibrator(by="mode").fit(dist, y)


def test_constant_target_and_constant_prediction():
    constant = fitted(X, np.full(8, 3.0)).transform(Normal(X, 1.0))
    assert_array_equal(constant.mean(), 3.0)
    assert_array_equal(constant.std(), 0.0)
    marginal = fitted(np.zeros(8), Y).transform(Normal(X, 1.0))
    assert_allclose(marginal.crps(2.2), Empirical(np.tile(Y, (8, 1))).crps(2.2))
    one_row = fitted([1.0], [2.0]).transform(Normal([0.0, 5.0], 1.0))
    assert_array_equal(one_row.ppf(0.5), 2.0)
